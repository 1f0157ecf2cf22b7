"""Optimise skills on a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prowess.client.decode import decode
from prowess.client.part import Part
from prowess.client.transport import segment
from prowess.errors import Invalid

if TYPE_CHECKING:
    from prowess.authoring.optimize.optimizations import ProposalDiff
    from prowess.authoring.optimize.proposal import OptimizationRequest, Proposal


class Optimizations(Part):
    """The optimisations of the caller; an administrator sees those of the whole organization. The server does them."""

    async def start(self, request: OptimizationRequest) -> Proposal:
        """Start an optimisation as a durable job, and return at once. Nothing changes before a person approves the result."""
        if not isinstance(request.model, str) or not isinstance(request.evaluation_model, str):
            raise Invalid("A server cannot use a model object.", hint="Pass the name of a model.")
        if request.cases:
            raise Invalid("A server cannot read an eval file of this machine.", hint="Put the cases into the skill.")
        body = {
            "skill_slug": request.skill,
            "artifact": request.artifact,
            "method": request.method,
            "metric": request.metric,
            "budget_usd": request.budget.usd,
            "max_calls": request.budget.calls,
            "minutes": request.budget.minutes,
            "repeats": request.repeats,
            "model": request.model,
            "evaluation_model": request.evaluation_model,
            "template": request.template,
            "traces": request.traces,
        }
        return _decode(await self._transport.post("/optimizations", body))

    async def list(self, *, skill: str = "", states: Sequence[str] = (), limit: int = 50) -> list[Proposal]:
        """Return optimisations, newest first."""
        given = {"skill": skill} if skill else {}
        given |= {"state": states[0]} if len(states) == 1 else {}
        most = None if len(states) > 1 else limit
        found = [_decode(one) async for one in self._transport.pages("/optimizations", most=most, **given)]
        return [one for one in found if not states or one.state in states][:limit]

    async def get(self, given: str) -> Proposal:
        """Return an optimisation by its id or at least four leading characters of it, or raise `NotFound`."""
        return _decode(await self._transport.get(_path(given)))

    async def diff(self, given: str) -> ProposalDiff:
        """Return what a candidate changes. Raise `Refused` for an agent, and `Conflict` if the skill has changed since."""
        from prowess.authoring.optimize.optimizations import ProposalDiff

        return decode(ProposalDiff, await self._transport.get(f"{_path(given)}/diff"))

    async def approve(self, given: str, *, digest: str, note: str = "") -> Proposal:
        """Make the candidate with this digest a new version of the skill. Raise `Refused` for an agent."""
        return _decode(await self._transport.post(f"{_path(given)}/approve", {"digest": digest, "note": note}))

    async def reject(self, given: str, *, note: str = "") -> Proposal:
        """Reject a proposal. Raise `Refused` for an agent."""
        return _decode(await self._transport.post(f"{_path(given)}/reject", {"note": note}))

    async def cancel(self, given: str) -> Proposal:
        """End the search of a running optimisation; the server tests the best so far."""
        return _decode(await self._transport.post(f"{_path(given)}/cancel", {}))


def _path(given: str) -> str:
    return f"/optimizations/{segment(given)}"


def _decode(value: Any) -> Proposal:
    from prowess.authoring.optimize.proposal import Proposal

    return decode(Proposal, value)
