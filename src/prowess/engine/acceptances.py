"""What persons accept by writing or importing skills, or by approving what an agent writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prowess.catalog.importer import ImportResult
from prowess.policy.acceptance import make_acceptance
from prowess.policy.actor import Actor
from prowess.policy.gate import Admission
from prowess.skill.model import Scope
from prowess.storage.trust import Acceptance


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
