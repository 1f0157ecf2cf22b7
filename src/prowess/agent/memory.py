"""Memory: facts that are remembered for a user, and the Protocol behind which any other memory or graph can stand."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Sequence
from typing import Protocol

from prowess.agent.conversation import RememberedFact, to_fact
from prowess.engine.context import Part
from prowess.errors import Invalid, NotFound, Refused
from prowess.policy.text import clean_text
from prowess.session.session import Session
from prowess.storage import conversations
from prowess.storage.conversations import MemoryRow
from prowess.threads import offload

MAX_FACT_CHARS = 2_000
MAX_FACTS = 1_000
RECALL_CHARS = 4_000
"""The most characters of facts that enter a prompt."""
RECALL_SECONDS = 5.0
"""How long a turn waits for a memory or graph."""

_WORD = re.compile(r"\w{3,}")
_log = logging.getLogger(__name__)


class Memory(Protocol):
    """Finds what is known about a message. Its text enters the prompt as a `<memory>` or `<graph_context>` block.

    The session says whose conversation it is. An error, or an answer that takes too long, leaves the block out.
    """

    async def recall(self, message: str, *, session: Session) -> str:
        """Return what to know before answering; '' for nothing."""
        ...


class FactMemory(Part):
    """The facts that a person had remembered, stored in the database. A turn reads them when it starts."""

    async def remember(self, text: str) -> RememberedFact:
        """Store a fact for the actor's user. Raise `Refused` for an agent, or without the permission to run."""
        self._check_may_change()
        fact = clean_text(text.strip(), limit=MAX_FACT_CHARS + 1)
        if not fact or len(fact) > MAX_FACT_CHARS:
            raise Invalid(
                "A fact must have text." if not fact else f"A fact may have at most {MAX_FACT_CHARS:,} characters.",
                hint='Write one short sentence, for example "Our production database is PostgreSQL 16."',
            )
        actor = self._context.actor
        row = MemoryRow(id=str(uuid.uuid4()), **actor.owner.columns, created_by=actor.label, text=fact)

        def store() -> None:
            with self._context.resources.records().write() as connection:
                if len(conversations.list_memories(connection, actor.owner, limit=MAX_FACTS)) >= MAX_FACTS:
                    raise Invalid(f"{MAX_FACTS:,} facts are remembered already.", hint="Forget some of them first.")
                conversations.add_memory(connection, row)

        await offload(store)
        return to_fact(row)

    async def list(self) -> list[RememberedFact]:
        """Return the facts of the actor's user, the newest first."""
        return [to_fact(row) for row in await offload(self._read)]

    async def forget(self, fact: str) -> RememberedFact:
        """Delete a fact by its id or the start of it, and return it. Raise `NotFound`, or `Refused` as `remember` does."""
        self._check_may_change()

        def delete() -> MemoryRow:
            actor = self._context.actor
            found = [row for row in self._read() if fact and row.id.startswith(fact)]
            if len(found) != 1:
                problem = "ambiguous" if found else "unknown"
                raise NotFound(f"The id {fact[:80]!r} is {problem}.", hint="Use the id of one remembered fact.")
            with self._context.resources.records().write() as connection:
                conversations.delete_memories(connection, actor.owner, [found[0].id])
            return found[0]

        return to_fact(await offload(delete))

    def _read(self) -> list[MemoryRow]:
        self._context.actor.require("skills.read")
        with self._context.resources.records().read() as connection:
            return conversations.list_memories(connection, self._context.actor.owner, limit=MAX_FACTS)

    def _check_may_change(self) -> None:
        # What is remembered is in every later prompt, so a model must not write it, nor a token that may only read.
        self._context.actor.require("skills.run")
        if not self._context.actor.is_person:
            raise Refused("Only a person can change what is remembered.", hint="Ask the person to do it.")


def choose_facts(message: str, facts: Sequence[str]) -> str:
    """Return facts, newest first given, as lines of `RECALL_CHARS` in all: those with most words of the message first."""
    if not facts:
        return ""
    words = set(_WORD.findall(message.casefold()))
    ranked = sorted(facts, key=lambda fact: -len(words.intersection(_WORD.findall(fact.casefold()))))
    chosen: list[str] = []
    room = RECALL_CHARS
    for fact in ranked:
        line = f"- {' '.join(fact.split())}"
        room -= len(line) + 1
        if room < 0:
            break
        chosen.append(line)
    return "\n".join(chosen)


async def recall(memory: Memory | None, message: str, session: Session) -> str:
    """Return what a memory knows about a message; '' if there is none, or it fails."""
    if memory is None:
        return ""
    try:
        async with asyncio.timeout(RECALL_SECONDS):
            return (await memory.recall(message, session=session))[: 4 * RECALL_CHARS]
    # A turn must not fail because of a memory, which may be anything that an application passes.
    except Exception:  # noqa: BLE001
        _log.warning("The memory %s failed; the turn continues without it.", type(memory).__name__, exc_info=True)
        return ""
