"""Draft skills with a model on a server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prowess.client.decode import decode
from prowess.client.part import Part
from prowess.client.transport import segment
from prowess.errors import Refused

if TYPE_CHECKING:
    from prowess.authoring.compose.composition import Composition, Round
    from prowess.skill.model import Scope, Skill
    from prowess.storage.compositions import CompositionState

JsonObject = dict[str, Any]


class Composer(Part):
    """Drafts skills, refines them after feedback, and saves those that a person approves. Models are those of the server.

    It is for people: an agent, which may not see a draft, uses the tools of the server.
    """

    async def start(self, request: str, *, skill: str = "", model: str = "") -> Composition:
        """Draft a skill, or a change of one.

        Raise `OutputInvalid` if the model wrote no usable draft. The composition stays, and `refine` without feedback tries
        again.
        """
        body = {"request": request, "skill": skill, "model": model}
        return _decode(await self._transport.post("/compositions", body))

    async def refine(self, composition: str, feedback: str = "", *, model: str = "") -> Composition:
        """Write the next round after feedback. Raise `Conflict` if somebody else made a round in the meantime."""
        return _decode(
            await self._transport.post(f"{_path(composition)}/refine", {"feedback": feedback, "model": model})
        )

    async def show(self, composition: str, *, round: int | None = None) -> Composition:
        """Return a composition with its current round, or another one."""
        return _decode(await self._transport.get(_path(composition), round=round))

    async def list(self, *, state: CompositionState | None = None, limit: int = 100) -> list[Composition]:
        """Return compositions without their rounds, the last changed first."""
        given = {"state": state} if state else {}
        return [_decode(one) async for one in self._transport.pages("/compositions", most=limit, **given)]

    async def rounds(self, composition: str) -> list[Round]:
        """Return all rounds, oldest first."""
        return [_round(one) for one in await self._transport.get(f"{_path(composition)}/rounds")]

    async def diff(self, composition: str, *, round: int | None = None) -> str:
        """Return what a round changed, as a unified diff."""
        return (await self._transport.get(f"{_path(composition)}/files", round=round))["diff"]

    async def back(self, composition: str, round: int) -> Composition:
        """Make an earlier round the current one. Later rounds are kept."""
        return _decode(await self._transport.post(f"{_path(composition)}/back", {"round": round}))

    async def approve(
        self, composition: str, *, digest: str, scope: Scope | None = None, allow_collision: bool = False
    ) -> Skill:
        """Save the current round as a skill if it has exactly the files with this digest.

        Raise `Refused` for an agent, `Invalid` if the round has errors, and `Conflict` if the round or the changed skill is
        another one now.
        """
        from prowess.client.skills import Skills

        body = {"digest": digest, "scope": scope, "allow_collision": allow_collision}
        saved = await self._transport.post(f"{_path(composition)}/approve", body)
        return await Skills(self._transport).get(f"{saved['scope']}:{saved['slug']}")

    async def discard(self, composition: str) -> Composition:
        """End a composition without saving anything."""
        return _decode(await self._transport.post(f"{_path(composition)}/discard", {}))


def _path(composition: str) -> str:
    return f"/compositions/{segment(composition)}"


def _decode(value: Any) -> Composition:
    from prowess.authoring.compose.composition import Composition

    told: JsonObject = dict(value)
    if "request" not in told:
        # The server leaves out every text that a model wrote; an agent that speaks HTTP itself can use the rest.
        raise Refused("Only a person can see a draft.", hint="Use the token of a person, or the tools for agents.")
    shown, number = told.pop("round"), told.pop("current_round")
    composition = decode(Composition, {**told, "number": number})
    return composition if shown is None else replace(composition, round=_round(shown))


def _round(value: Any) -> Round:
    from prowess.authoring.compose.checks import Checks
    from prowess.authoring.compose.composition import Round
    from prowess.authoring.compose.draft import Draft

    told: JsonObject = dict(value)
    return Round(
        number=told["number"],
        previous=told["previous"],
        feedback=told["feedback"],
        actor=told["actor"],
        model=told["model"],
        cost_usd=told["cost_usd"],
        digest=told["digest"],
        draft=decode(Draft, told["draft"]),
        files=tuple((one["path"], one["size"]) for one in told["files"]),
        checks=Checks.from_json(told),
        created_at=told["created_at"],
    )
