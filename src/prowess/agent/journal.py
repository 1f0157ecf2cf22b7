"""The journal of a turn: its messages, stored step by step under the lease of the conversation.

What a turn does is stored before it continues, so another process can continue after a crash: a call whose result is missing
was not made, was interrupted, or waits for an approval, which is stored with its id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prowess.errors import Conflict, ProwessError
from prowess.llm.model import ToolCall, Usage
from prowess.storage import conversations
from prowess.storage.clock import now
from prowess.storage.conversations import LEASE_SECONDS, ConversationRow, ConversationState, MessageRole, MessageRow
from prowess.storage.database import Connections
from prowess.threads import offload_to_completion

_ERROR_FIELDS = ("code", "message", "hint")
_ERROR_CHARS = 2_000
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Journal:
    """The messages of a conversation while a turn runs. Safe for tasks that write at the same time."""

    records: Connections
    row: ConversationRow
    """The conversation as it was stored last."""
    holder: str
    messages: list[MessageRow]
    redact: Callable[[Any], Any] = field(repr=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _noted: MessageRow | None = field(default=None, init=False)

    @property
    def turn(self) -> list[MessageRow]:
        """The messages of the current turn."""
        return [message for message in self.messages if message.turn == self.row.turn]

    @property
    def question(self) -> MessageRow:
        """The person's message that the turn answers."""
        return next(message for message in reversed(self.messages) if message.role == "user")

    @property
    def steps(self) -> list[MessageRow]:
        """The model's answers in this turn."""
        return [row for row in self.turn if row.role == "assistant" and not row.detail.get("research")]

    @property
    def is_held(self) -> bool:
        """True until the turn has ended."""
        return self.row.lease != ""

    @property
    def pending(self) -> dict[str, str]:
        """The ids of approvals that calls wait for, by the id of the call."""
        return self.row.pending

    def open_calls(self) -> list[ToolCall]:
        """Return the calls of the model's last answer that have no result."""
        return open_calls(self.messages)

    def note_detail(self, detail: dict[str, Any]) -> None:
        """Keep what is known about the person's message, such as the decision. It is stored with the next change."""
        index = self.messages.index(self.question)
        self.messages[index] = self._noted = replace(self.question, detail=detail)

    async def add_answer(self, text: str, calls: list[ToolCall], usage: Usage, cost: float | None, model: str) -> None:
        """Store an answer of the model, and add up what it cost. An answer without calls ends the turn."""
        row = self.row
        total = row.cost if cost is None else (row.cost or 0.0) + cost
        spent = {
            "input_tokens": row.input_tokens + usage.input_tokens,
            "output_tokens": row.output_tokens + usage.output_tokens,
            "cost": total,
        }
        detail = {
            "model": model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": cost,
        }
        # In the same transaction: most turns have one answer, and each transaction takes longer than all its statements.
        end = {} if calls else {"state": "idle", "lease": "", "updated_at": now()}
        call_rows = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
        await self._add("assistant", text, calls=call_rows, detail=detail, changes={**spent, **end})

    async def add_lookups(self, calls: list[ToolCall]) -> None:
        """Store calls that are made before the model is asked, as if it had asked for them."""
        call_rows = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
        await self._add("assistant", "", calls=call_rows, detail={"research": True}, changes={})

    async def add_result(self, call: ToolCall, text: str, *, ok: bool) -> None:
        """Store the result of a call. It no longer waits for an approval."""
        left = {key: value for key, value in self.pending.items() if key != call.id}
        changes = {"pending": left} if left != self.pending else {}
        await self._add("tool", text, call_id=call.id, name=call.name, detail={"ok": ok}, changes=changes)

    async def add_spent(self, input_tokens: int, output_tokens: int, cost: float | None) -> None:
        """Add what was spent for the conversation elsewhere."""
        async with self._lock:
            row = self.row
            total = row.cost if cost is None else (row.cost or 0.0) + cost
            tokens = {
                "input_tokens": row.input_tokens + input_tokens,
                "output_tokens": row.output_tokens + output_tokens,
            }
            await self._write([], {**tokens, "cost": total})

    async def suspend(self, call: ToolCall, approval_id: str) -> None:
        """Store that a call waits for an approval."""
        async with self._lock:
            await self._write([], {"pending": {**self.pending, call.id: approval_id}})

    async def end(self, state: ConversationState, *, error: Mapping[str, Any] | None = None) -> None:
        """End the turn and let others work on the conversation, unless the last answer did.

        The error that ended it is stored with the person's message, until the turn continues.
        """
        async with self._lock:
            if not self.is_held:
                return
            if error is not None:
                error_fields = {
                    name: storable(self.redact(str(error[name] or "")))[:_ERROR_CHARS] for name in _ERROR_FIELDS
                }
                self.note_detail({**self.question.detail, "error": error_fields})
            await self._write([], {"state": state, "lease": "", "updated_at": now()})

    async def keep(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                async with self._lock:
                    if self.is_held:
                        await self._write([], {})
            except ProwessError as error:
                # The next message that is stored fails, too, if the lease is lost.
                _log.warning("The lease of a conversation could not be renewed: %s", error.message)

    async def _add(
        self,
        role: MessageRole,
        text: str,
        *,
        calls: list[dict[str, Any]] | None = None,
        call_id: str = "",
        name: str = "",
        detail: dict[str, Any],
        changes: dict[str, Any],
    ) -> None:
        async with self._lock:
            message = MessageRow(
                conversation_id=self.row.id,
                number=self.messages[-1].number + 1,
                organization_id=self.row.organization_id,
                turn=self.row.turn,
                role=role,
                call_id=call_id,
                name=name,
                calls=self.redact(calls or []),
                detail=detail,
                text=storable(self.redact(text)),
            )
            await self._write([message], changes)
            self.messages.append(message)

    async def _write(self, messages: list[MessageRow], changes: dict[str, Any]) -> None:
        noted = self._noted

        def write() -> None:
            with self.records.write() as connection:
                if not conversations.hold_lease(connection, self.row.id, self.holder, changes):
                    raise Conflict(
                        "Another process has taken over this conversation.",
                        hint="Reload it, and send the message again if it has no answer.",
                    )
                if noted is not None:
                    conversations.set_detail(connection, noted)
                conversations.add_messages(connection, messages)

        # To its end, so that the list here and the table stay the same if the caller is cancelled.
        await offload_to_completion(write)
        self._noted = None
        self.row = replace(self.row, **changes)


def open_calls(messages: list[MessageRow]) -> list[ToolCall]:
    """Return the calls of the last answer that have no result, if nothing but results follows it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "user":
            break
        if message.role == "assistant":
            calls = [ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"]) for call in message.calls]
            return [call for call in calls if call.id not in answered]
        answered.add(message.call_id)
    return []


def storable(text: str) -> str:
    """Return a text that every database stores: without NUL and halves of surrogate pairs."""
    if "\0" not in text and (text.isascii() or text.isprintable()):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
