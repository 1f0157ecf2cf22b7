"""List, answer, revoke and expire approvals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prowess.errors import Conflict, NotFound, ProwessError
from prowess.policy.acceptance import accept_approved, answers_request, revoke_approved
from prowess.policy.actor import Actor, is_single_use
from prowess.policy.card import NO_ACTOR, add_answer, make_end_entries
from prowess.policy.configuration import read_policy
from prowess.policy.gate import admit
from prowess.policy.organization import OrgPolicy
from prowess.policy.text import clean_text
from prowess.storage import approvals
from prowess.storage.approvals import ApprovalRow, ApprovalState
from prowess.storage.database import Connections
from prowess.storage.ledger import append
from prowess.storage.trust import Acceptance

if TYPE_CHECKING:
    import sqlalchemy as sa

Approval = ApprovalRow
"""One request about a skill's exact content, and its outcome; `detail` is the card that a person sees."""

APPLICATION_PROOF = "confirmed by the application"
"""The proof of an answer given in Python. The embedding application has asked the person, and has full access anyway."""

_LIST_LIMIT = 1_000
_EndStep = Callable[["sa.Connection", Approval, OrgPolicy], Approval | None]


class Approvals:
    """The approvals of all organizations in one database. Blocking; safe to use from many threads and processes.

    People see and answer requests made in their own name; administrators those of their whole organization; agents see
    their own requests. An approval that the actor may not see gives the same error as an unknown one. `wake` notifies the
    subscribers of an organization after a write.
    """

    def __init__(self, database: Connections, *, wake: Callable[[str], None] = lambda _: None) -> None:
        self._database = database
        self._wake = wake

    def list(self, actor: Actor, states: Sequence[ApprovalState] = ("pending",)) -> list[Approval]:
        """Return the approvals in these states that the actor may see, newest first, at most 1,000.

        If a person asks, overdue requests are marked as expired first.
        """
        actor.require("skills.read")
        if actor.is_person:
            self.expire(actor.organization)
        with self._database.read() as connection:
            rows = approvals.list_approvals(
                connection, actor.organization, states=states, limit=_LIST_LIMIT, user_id=actor.visible_user
            )
        return [_view(actor, row) for row in rows if _may_see(actor, row)]

    def get(self, actor: Actor, approval_id: str) -> Approval:
        """Return one approval in any state, or raise `NotFound`."""
        actor.require("skills.read")
        with self._database.read() as connection:
            found = approvals.get_approval(connection, actor.organization, approval_id)
        if found is None or not _may_see(actor, found):
            raise _not_found_error(approval_id)
        return _view(actor, found)

    def resolve(
        self,
        actor: Actor,
        approval_id: str,
        *,
        approved: bool,
        note: str = "",
        proof: str = APPLICATION_PROOF,
        shown: str = "",
    ) -> Approval:
        """Approve or deny a request, once and for all.

        `proof` says how it is known that a person answers, such as "typed at a terminal", and `shown` is the text that the
        person saw. Both are stored with the answer; the audit has the proof and the hash of the text. Approving the use of
        a skill that was merely found accepts exactly its bytes, for the user whose request it was.

        Raise `Refused` for an agent and for a person without `approvals.resolve`, `NotFound` for what the actor may not see,
        and `Conflict` if it was answered, revoked or expired. The answer, its audit entry and its event are written
        together or not at all.
        """

        def answer(connection: sa.Connection, row: Approval, policy: OrgPolicy) -> Approval | None:
            resolved = approvals.resolve(
                connection,
                actor.organization,
                row.id,
                # A truthy value that came through JSON, such as the text "false", must not approve anything.
                approved=approved is True,
                resolver=actor.label,
                note=clean_text(note),
                lifetime_seconds=_approval_seconds(row, policy),
                detail=add_answer(row.detail, channel=actor.channel, proof=proof, shown=shown),
            )
            if resolved is not None and resolved.state == "approved":
                accept_approved(connection, resolved, actor, proof=clean_text(proof))
            return resolved

        return self._end(actor, approval_id, answer)

    def revoke(self, actor: Actor, approval_id: str, *, note: str = "") -> Approval:
        """Withdraw a pending or approved request, and the acceptance that it gave, under the same conditions."""

        def withdraw(connection: sa.Connection, row: Approval, _: OrgPolicy) -> Approval | None:
            revoked = approvals.revoke(connection, actor.organization, row.id, actor.label, note=clean_text(note))
            if revoked is not None:
                revoke_approved(connection, revoked, actor.label)
            return revoked

        return self._end(actor, approval_id, withdraw)

    def expire(self, organization: str = "") -> list[Approval]:
        """Mark overdue requests of an organization as expired, and return them. Each is returned once."""
        with self._database.read() as connection:
            # Lists are read often and seldom find anything overdue, so a write transaction is opened only if needed.
            if not approvals.is_any_overdue(connection, organization):
                return []
        with self._database.write() as connection:
            overdue = approvals.expire(connection, organization)
            _append_ends(connection, organization, overdue, by=NO_ACTOR)
        self._wake(organization)
        return overdue

    def _end(self, actor: Actor, approval_id: str, step: _EndStep) -> Approval:
        """End an approval. Log entries are kept even if this ends in an error."""
        with self._database.write() as connection:
            policy = read_policy(connection, actor.organization)
            admission = admit(connection, actor, "approve", None, policy=policy, reason=f"approval {approval_id[:80]}")
            if admission.error is not None:
                append(connection, actor.organization, audits=admission.audits)
                outcome: Approval | ProwessError = admission.error
            else:
                outcome = _end_approval(connection, actor, approval_id, step, policy)
        self._wake(actor.organization)
        if isinstance(outcome, ProwessError):
            raise outcome
        return outcome


def _end_approval(
    connection: sa.Connection, actor: Actor, approval_id: str, step: _EndStep, policy: OrgPolicy
) -> Approval | ProwessError:
    overdue = approvals.expire(connection, actor.organization)
    found = approvals.get_approval(connection, actor.organization, approval_id)
    # Overdue requests were expired first, so that none is answered after its time.
    seen = found if found is not None and _may_see(actor, found) else None
    ended = step(connection, seen, policy) if seen else None
    _append_ends(connection, actor.organization, overdue, by=NO_ACTOR)
    if ended is not None:
        _append_ends(connection, actor.organization, [ended], by=actor.label, channel=actor.channel)
        return ended
    if seen is None:
        return _not_found_error(approval_id)
    now_there = approvals.get_approval(connection, actor.organization, approval_id)
    return _too_late_error(now_there or seen)


def settle_accepted(connection: sa.Connection, actor: Actor, accepted: Sequence[Acceptance]) -> None:
    """Approve the pending requests that asked only for what was accepted, so that nobody is asked for it twice.

    Their approval has ended as soon as it is given: what they asked for is allowed by the acceptance, while that is in
    force, and whatever else a policy asks about is asked.
    """
    pending = approvals.list_approvals(
        connection, actor.organization, states=("pending",), limit=_LIST_LIMIT, user_id=actor.user
    )
    settled: list[Approval] = []
    for row in pending:
        acceptance = next((candidate for candidate in accepted if answers_request(candidate, row)), None)
        resolved = acceptance and approvals.resolve(
            connection,
            actor.organization,
            row.id,
            approved=True,
            resolver=actor.label,
            note="The skill was accepted with `prowess trust`.",
            lifetime_seconds=0,
            detail=add_answer(row.detail, channel=actor.channel, proof=acceptance.proof, shown=""),
        )
        settled += [resolved] if resolved else []
    _append_ends(connection, actor.organization, settled, by=actor.label, channel=actor.channel)


def _append_ends(
    connection: sa.Connection, organization: str, rows: Sequence[Approval], *, by: str, channel: str = ""
) -> None:
    entries = [make_end_entries(row, by=by, channel=channel) for row in rows]
    audits, events = [audit for audit, _ in entries], [event for _, event in entries]
    append(connection, organization, audits=audits, events=events)


_SHOWN_TO_AGENTS = ("trust", "rule", "why", "reach")


def _view(actor: Actor, row: Approval) -> Approval:
    """Return an approval as the actor may see it: an agent gets no text of a skill that nobody has accepted yet."""
    if actor.is_person:
        return row
    return replace(row, detail={name: row.detail[name] for name in _SHOWN_TO_AGENTS if name in row.detail})


def _may_see(actor: Actor, row: Approval) -> bool:
    if row.organization_id != actor.organization:
        return False
    if not actor.is_person:
        return row.user_id == actor.user and row.requester == actor.label
    return actor.admin or row.user_id == actor.user


def _approval_seconds(row: Approval, policy: OrgPolicy) -> int:
    """Return how long an approval is valid once it is given."""
    return policy.approval_minutes * 60 if is_single_use(row.action) else policy.approval_days * 24 * 60 * 60


def _not_found_error(approval_id: str) -> NotFound:
    return NotFound(
        f"Approval {approval_id[:80]!r} not found.", hint="Run `prowess approvals` to list pending requests."
    )


def _too_late_error(row: Approval) -> Conflict:
    by = f" by {row.resolver}" if row.resolver else ""
    state = {"denied": "refused", "pending": "changed just now"}.get(row.state, row.state)
    return Conflict(
        f"Approval {row.id[:8]} can no longer be answered: it is {state}{by}.",
        hint="A request is answered once. Repeat the action to create a new request.",
    )
