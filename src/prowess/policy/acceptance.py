"""Read what is accepted of skills, and record acceptances: of what a person wrote, imported, trusted or approved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from prowess.policy.actor import Actor
from prowess.policy.subject import Subject
from prowess.policy.text import clean_text
from prowess.policy.trust import NEEDS_ACCEPTANCE, TrustRecords, asks_for_acceptance, conclude
from prowess.skill.model import Scope
from prowess.storage import trust
from prowess.storage.approvals import ApprovalRow
from prowess.storage.owner import Owner
from prowess.storage.trust import Acceptance, AcceptedHow

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.catalog.importer import ImportResult
    from prowess.policy.gate import Admission

_USES = frozenset({"enable", "run"})


def read_records(connection: sa.Connection, owner: Owner, slugs: Sequence[str], folders: Sequence[str]) -> TrustRecords:
    """Return what is recorded about these skills, together with the folders that the operator trusts."""
    accepted = trust.read_accepted(connection, owner, slugs)
    return TrustRecords(accepted=accepted, folders=(*folders, *trust.read_folders(connection, owner)))


def resolve(
    connection: sa.Connection, owner: Owner, subjects: Sequence[Subject], folders: Sequence[str]
) -> list[Subject]:
    """Return the subjects with the conclusions about their trust drawn from the records as they are now.

    `folders` are those that the operator trusts.
    """
    slugs = list(dict.fromkeys(subject.slug for subject in subjects))
    known = read_records(connection, owner, slugs, folders)
    for subject in subjects:
        # Few skills use entries that someone has to accept, so this is not part of the query for all of them.
        if any(entry.location for entry in subject.uses):
            acceptances = trust.list_acceptances(connection, owner, slug=subject.slug, digest=subject.digest)
            keys = {
                str(key)
                for acceptance in acceptances
                for key in cast("list[object]", acceptance.detail.get("uses") or [])
            }
            known.uses[subject.slug, subject.digest] = frozenset(keys)
    return [conclude(subject, known) for subject in subjects]


def accept_approved(connection: sa.Connection, row: ApprovalRow, actor: Actor, *, proof: str = "") -> list[Acceptance]:
    """Record the acceptance that approving a request means, with what its card showed; nothing for other requests."""
    card = row.detail
    # Agreeing that an agent deletes or changes a skill does not accept it.
    if row.action not in _USES or not asks_for_acceptance(str(card.get("trust", "")), str(card.get("rule", ""))):
        return []
    hides = cast("list[object]", card.get("hides") or [])
    facts = {name: card[name] for name in ("title", "files", "requests", "reach", "rule", "uses") if name in card}
    accepted = Acceptance(
        organization_id=row.organization_id,
        user_id=row.user_id,
        slug=row.slug,
        digest=row.digest,
        how="approved",
        actor=actor.label,
        origin=str(card.get("origin", "")),
        hides=tuple(str(scope) for scope in hides),
        sends_out=card.get("sends_out") is True,
        channel=actor.channel,
        proof=proof,
        detail={"approval_id": row.id, **facts},
    )
    return trust.insert_acceptances(connection, [accepted])


def answers_request(accepted: Acceptance, row: ApprovalRow) -> bool:
    """Return True if an acceptance gives all that a request asks for."""
    card = row.detail
    uses, hides = set(cast("list[str]", card.get("uses") or ())), set(cast("list[str]", card.get("hides") or ()))
    return (
        (row.slug, row.digest) == (accepted.slug, accepted.digest)
        and row.action in _USES
        and card.get("rule") in NEEDS_ACCEPTANCE
        and (accepted.sends_out or not card.get("sends_out"))
        and uses <= set(cast("list[str]", accepted.detail.get("uses") or ()))
        and hides <= set(accepted.hides)
    )


def revoke_approved(connection: sa.Connection, row: ApprovalRow, by: str) -> int:
    """Revoke the acceptance that an approval has given, if it has given one."""
    owner = Owner(organization_id=row.organization_id, user_id=row.user_id)
    acceptances = trust.list_acceptances(connection, owner, slug=row.slug, digest=row.digest)
    ids = [acceptance.id for acceptance in acceptances if acceptance.detail.get("approval_id") == row.id]
    return trust.revoke_acceptances(connection, ids, by)


def make_acceptance(
    actor: Actor, subject: Subject, how: AcceptedHow, *, everyone: bool = False, approver: str = ""
) -> Acceptance:
    """Return a person's acceptance of a skill with exactly the subject's bytes, hiding what it hides.

    What is written into a store that the organization shares counts for everyone in it. `approver` is the person who
    approved what someone else wrote.
    """
    return Acceptance(
        organization_id=actor.organization,
        user_id="" if everyone else actor.user,
        slug=subject.slug,
        digest=subject.digest,
        how=how,
        actor=approver or actor.label,
        origin=clean_text(subject.for_actor(actor).origin),
        hides=tuple(sorted({hidden.scope for hidden in subject.hides})),
        channel=actor.channel,
    )


def accept_written(actor: Actor, admission: Admission, digest: str) -> tuple[Acceptance, ...]:
    """Return the acceptance of what was written: by the person who wrote it, or who approved an agent's change.

    The approver of a change saw the difference to the bytes before, so these must have been accepted; the approver of a
    draft saw all of it. A skill that only its user sees is accepted for that user alone.
    """
    subject, approval = admission.subject, admission.approval
    if subject is None or (not actor.is_person and subject.digest != digest):
        return ()
    everyone = subject.scope != "user"
    if actor.is_person:
        return (make_acceptance(actor, replace(subject, digest=digest), "written", everyone=everyone),)
    if approval is None or (subject.trust != "local" and not subject.drafted):
        return ()
    approver = approval.resolver or ""
    return (make_acceptance(actor, subject, "approved", everyone=everyone, approver=approver),)


def accept_import(actor: Actor, slug: str, digest: str, scope: Scope, origin: str) -> Acceptance:
    """Return a person's acceptance of an imported skill. It may not hide a trusted one before a person has agreed."""
    return Acceptance(
        organization_id=actor.organization,
        user_id=actor.user if scope == "user" else "",
        slug=slug,
        digest=digest,
        how="imported",
        actor=actor.label,
        origin=f"{scope}: {origin}",
        channel=actor.channel,
    )


def accept_imported(actor: Actor, results: Sequence[ImportResult], scope: Scope, origin: str) -> list[Acceptance]:
    """Return a person's acceptance of each imported skill."""
    return [
        accept_import(actor, result.slug, result.digest, scope, origin or str(result.path))
        for result in results
        if result.slug and result.digest
    ]
