"""Sessions over HTTP: what is enabled in them, and their prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prowess.client.part import Part, decode, session_name
from prowess.client.transport import read_json, segment
from prowess.errors import ApprovalRequired, NotFound, ProwessError

if TYPE_CHECKING:
    from prowess.session.session import Session


class Sessions(Part):
    """The caller's sessions. Methods take a `Session`, its id or its conversation."""

    async def open(
        self,
        conversation: str = "",
        *,
        role: str = "",
        model: str = "",
        window: int | None = None,
        budget: int | None = None,
    ) -> Session:
        """Return the open session of a conversation, or create it. Without a name, always create one."""
        body = {"conversation": conversation, "role": role, "model": model, "window": window, "budget": budget}
        return decode_session(await self._transport.post("/sessions", body))

    async def create(
        self, *, role: str = "", model: str = "", window: int | None = None, budget: int | None = None
    ) -> Session:
        """Create a session without a named conversation."""
        return await self.open(role=role, model=model, window=window, budget=budget)

    async def list(self) -> list[Session]:
        """Return the open sessions, last changed first."""
        return [decode_session(row) async for row in self._transport.pages("/sessions")]

    async def get(self, session: Session | str) -> Session:
        """Return a session as it is now, or raise `NotFound`."""
        return decode_session(await self._transport.get(session_path(session)))

    async def find(self, conversation: str) -> Session | None:
        """Return the open session of a conversation, or None. Create nothing."""
        try:
            return await self.get(conversation)
        except NotFound:
            return None

    async def change(
        self,
        session: Session | str,
        *,
        budget: int | None = None,
        model: str | None = None,
        window: int | None = None,
    ) -> Session:
        """Change the budget, the model or the context window. A budget below the current use does not remove skills."""
        values = {"budget": budget, "model": model, "window": window}
        body = {name: value for name, value in values.items() if value is not None}
        return decode_session(read_json(await self._transport.send("PATCH", session_path(session), json=body)))

    async def close(self, session: Session | str) -> None:
        """End a session and disable everything in it."""
        await self._transport.send("DELETE", session_path(session))

    async def blocks(
        self, session: Session | str, *, policies: str = "", memory: str = "", graph_context: str = ""
    ) -> tuple[str, ...]:
        """Return the system blocks of a turn in order: policies, memory, graph context, then the enabled skills."""
        body = {"policies": policies, "memory": memory, "graph_context": graph_context}
        return tuple((await self._transport.post(session_path(session, "prompt"), body))["blocks"])


def session_path(session: Session | str, action: str = "") -> str:
    """Return the path of a session, or of something below it."""
    return f"/sessions/{segment(session_name(session))}" + (f"/{action}" if action else "")


def decode_session(value: dict[str, Any]) -> Session:
    """Return a session from its JSON."""
    from prowess.session.session import Budget, EnabledSkill, Session

    return Session(
        id=value["id"],
        conversation=value["conversation"],
        organization=value["organization_id"],
        user=value["user_id"],
        actor=value["actor"],
        role=value["role"],
        model=value["model"],
        window=value["window"],
        budget=Budget(limit=value["budget_max_chars"], used=value["budget_used_chars"]),
        enabled=tuple(
            decode(EnabledSkill, {**skill, "title": skill["name"], "approval": skill["approval_id"] or ""})
            for skill in value["enabled_skills"]
        ),
        created_at=value["created_at"],
        updated_at=value["updated_at"],
    )


def load_error(slug: str, error: ProwessError) -> dict[str, Any]:
    """Return the answer to a load that failed, as the engine gives it."""
    from prowess.session.load import LoadResult

    approval = error.approval_id if isinstance(error, ApprovalRequired) else None
    return LoadResult(name=slug, error=error.message, hint=error.hint or None, approval_id=approval).as_json()
