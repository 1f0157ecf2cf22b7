"""Conversations with the agent of a server: send messages, follow the turns, and read what was said."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

from prowess.agent.updates import UPDATE_KINDS, TurnEnded, Update
from prowess.client.part import JsonObject, Part, decode
from prowess.client.problems import make_error
from prowess.client.runs import SILENCE_SECONDS
from prowess.client.sessions import session_path
from prowess.client.transport import read_json, segment
from prowess.errors import TryLater

if TYPE_CHECKING:
    from prowess.agent.conversation import Conversation, ConversationFormat
    from prowess.llm.models import ModelChoice


class Agent(Part):
    """Conversations of the caller. The server asks the model and makes the tool calls."""

    async def start(self, *, conversation: str = "", model: str = "", role: str = "") -> Conversation:
        """Return the conversation with this name, or a new one. Its first message becomes its title."""
        from prowess.agent.conversation import Conversation

        body = {"conversation": conversation, "model": model, "role": role}
        session = await self._transport.post("/sessions", body)
        skills = tuple(skill["slug"] for skill in session["enabled_skills"])
        known = {name: session[name] for name in ("id", "role", "model", "created_at", "updated_at")}
        return Conversation(name=session["conversation"], skills=skills, **known)

    def send(self, conversation: str, message: str, *, model: str = "") -> AsyncGenerator[Update]:
        """Answer a message: yield each update of the turn as it happens, and `TurnEnded` last.

        If the caller stops listening, the turn stops. Raise `TryLater` if the connection is lost, which does the same.
        """
        return self._follow(session_path(conversation, "messages"), {"message": message, "model": model})

    def resume(self, conversation: str, *, model: str = "") -> AsyncGenerator[Update]:
        """Continue the last turn after an approval, an error, or a lost connection."""
        return self._follow(session_path(conversation, "messages/resume"), {"model": model})

    async def list(self, *, limit: int = 200) -> list[Conversation]:
        """Return conversations without their messages, the last active first."""
        return [_decode(row) async for row in self._transport.pages("/conversations", most=limit)]

    async def get(self, conversation: str) -> Conversation:
        """Return a conversation with its messages, or raise `NotFound`."""
        found = await self._transport.get(f"/conversations/{segment(conversation)}")
        path = session_path(conversation, "messages")
        return _decode({**found, "messages": [message async for message in self._transport.pages(path)]})

    async def rename(self, conversation: str, title: str) -> Conversation:
        """Give a conversation another title. Later messages do not replace it."""
        return await self._change(conversation, title=title)

    async def choose_model(self, conversation: str, model: str) -> Conversation:
        """Use this model in the conversation from the next turn on; '' for the default."""
        return await self._change(conversation, model=model)

    async def models(self) -> list[ModelChoice]:
        """Return the models that are configured or on the server's machine, the default first."""
        from prowess.llm.models import ModelChoice

        return [decode(ModelChoice, one) for one in (await self._transport.get("/models"))["items"]]

    async def export(self, conversation: str, *, format: ConversationFormat = "json") -> str:
        """Return a conversation as a document: `json` with everything, or `markdown` to read."""
        path = session_path(conversation, "messages/export")
        return (await self._transport.send("GET", path, params={"format": format})).text

    async def delete(self, conversation: str) -> Conversation:
        """Delete a conversation with its messages, and close its session."""
        found = await self._transport.get(f"/conversations/{segment(conversation)}")
        await self._transport.send("DELETE", session_path(conversation, "messages"))
        return _decode(found)

    async def _change(self, conversation: str, **values: str) -> Conversation:
        path = f"/conversations/{segment(conversation)}"
        return _decode(read_json(await self._transport.send("PATCH", path, json=values)))

    async def _follow(self, path: str, body: JsonObject) -> AsyncGenerator[Update]:
        async with self._transport.stream("POST", path, json=body, silence=SILENCE_SECONDS) as stream:
            async for event in stream:
                data = cast("JsonObject", event.json()) if event.data else {}
                if event.event == "error":
                    raise make_error(data, status=int(data.get("status") or 0))
                update = _decode_update(data)
                if update is not None:
                    yield update
                if isinstance(update, TurnEnded):
                    return
        raise TryLater("The connection ended before the turn did.", hint="Resume the turn, or send the message again.")


def _decode(value: JsonObject) -> Conversation:
    from prowess.agent.conversation import Conversation

    return decode(Conversation, value)


def _decode_update(data: JsonObject) -> Update | None:
    """Return an update from its JSON; None for a kind that this version does not know."""
    kind = UPDATE_KINDS.get(str(data.get("kind")))
    return decode(kind, data) if kind else None
