"""Trust: show which skills nobody has accepted, accept them by their exact bytes, and revoke that."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prowess.engine.context import Part, check_type
from prowess.engine.registry import list_used
from prowess.engine.reviewed_files import diff_files, find_files, list_files
from prowess.errors import Invalid, NotFound, ProwessError, Refused, Unavailable
from prowess.paths import expand_user
from prowess.policy.subject import Subject, shown_path
from prowess.policy.text import clean_text
from prowess.threads import check_cancelled, offload, offload_cancellable

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.policy.actor import Actor
    from prowess.skill.package import Package
    from prowess.storage.ledger import AuditEntry
    from prowess.storage.trust import Acceptance, TrustedFolder

T = TypeVar("T")
DEFAULT_PROOF = "the application that opened Prowess"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedSkill:
    """A skill as a person sees it before accepting it.

    `requests` is what it asks for and `hides` the scopes of trusted skills that it takes the place of. `accepted` is the
    digest of the bytes that were accepted last, if these are others.
    """

    slug: str
    digest: str
    title: str
    description: str
    scope: str
    location: str
    trust: str
    requests: tuple[str, ...] = ()
    reach: str = ""
    sends_out: bool = False
    hides: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    """The keys of the prompts and rubrics that it uses; `requests` describes them."""
    written_by: str = ""
    files: int = 0
    accepted: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    """Findings of the security scan, most severe first. A skill with dangerous findings needs another approval when it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPreview:
    """The skills that a person is about to accept, exactly as they were when they were shown."""

    target: str
    skills: tuple[PreviewedSkill, ...] = ()
    already: int = 0
    """How many other skills of the target are trusted already."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"target": self.target, "skills": [asdict(skill) for skill in self.skills], "already": self.already}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOutcome:
    """The slugs that were accepted, and those that were not because their bytes have changed since they were shown."""

    accepted: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"accepted": list(self.accepted), "changed": list(self.changed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustList:
    """Everything that counts as accepted for the actor: skills by their bytes, and folders."""

    skills: tuple[Acceptance, ...] = ()
    folders: tuple[TrustedFolder, ...] = ()
    operator_folders: tuple[str, ...] = ()
    """The folders of the setting `trusted_folders`."""


class Trust(Part):
    """Trusted skills. Only a person with `approvals.resolve` can change them."""

    async def preview(self, target: str | Path = "") -> TrustPreview:
        """Return the skills that nobody has accepted: all of them, those in a folder, or one by its slug.

        A single skill is always returned, unless there is nothing left to accept. Raise `NotFound` for an
        unknown slug and for a folder without skills in reach.
        """
        return await offload_cancellable(lambda: self._preview(str(target)))

    async def accept(
        self, preview: TrustPreview, *, proof: str = DEFAULT_PROOF, shown: Mapping[str, str] | None = None
    ) -> TrustOutcome:
        """Accept exactly the bytes that a preview showed. Skills that have changed since are left out and reported.

        `proof` says how the application knows that a person decided; `shown` is the text that the person saw about each skill.
        The accepted files are kept, to show later what changed. Pending requests of the person and their agents for this content are approved.
        """
        check_type(preview, TrustPreview, "Pass what `trust.preview` returned, once a person has seen it.")
        return await offload_cancellable(lambda: self._accept(preview, proof, shown or {}))

    async def package(self, skill: PreviewedSkill) -> Package | None:
        """Return the files of a skill that was previewed, or None if it has changed since."""
        return await offload(lambda: find_files(self._context, skill.slug, skill.digest, scope=skill.scope))

    async def diff(self, skill: PreviewedSkill) -> str:
        """Return what changed in a skill since it was last accepted, as text; '' if it never was."""
        return await offload(lambda: diff_files(self._context, skill.slug, skill.digest, scope=skill.scope))

    async def add_folder(self, folder: str | Path, *, proof: str = DEFAULT_PROOF) -> TrustedFolder:
        """Accept every skill in a folder, now and after changes: for a folder that the person edits themselves."""
        return await offload(self._add_folder, Path(folder), proof)

    async def list(self) -> TrustList:
        """Return everything that is accepted."""
        return await offload(self._list)

    async def revoke(self, target: str | Path) -> int:
        """Revoke the acceptances of a slug, a digest or a folder, and return how many there were.

        A skill that is enabled in a session is removed from its prompt at the next turn. Raise `NotFound` if nothing was accepted.
        """
        return await offload(self._revoke, str(target))

    def _preview(self, target: str) -> TrustPreview:
        self._context.actor.require("skills.read")
        read, settled = self._subjects_of(target)
        subjects = self._context.resources.gate.resolve(self._context.actor, read)
        alone = bool(target) and len(subjects) == 1 and not target.startswith(("/", "~", "."))
        unaccepted = [one for one in subjects if one.trust == "found" or one.unaccepted or (alone and _is_open(one))]
        last = self._last_accepted()
        skills = tuple(describe_subject(subject, last.get(subject.slug, "")) for subject in unaccepted)
        return TrustPreview(target=target, skills=skills, already=settled + len(subjects) - len(skills))

    def _subjects_of(self, target: str) -> tuple[list[Subject], int]:
        """Return what is known about skills, and how many more there are with nothing left to accept."""
        from prowess.run.runner import subject_of_run

        catalog = self._context.catalog
        folder = _as_folder(target)

        def look(slug: str) -> Subject:
            check_cancelled()
            store, skill = catalog.find(slug)
            return replace(subject_of_run(catalog, store, skill), uses=list_used(self._context, skill))

        if target and folder is None:
            return [look(target)], 0
        subjects: list[Subject] = []
        cards = listed = catalog.all_cards()
        if folder is None:
            cards = self._context.visibility.unsettled(listed)
        for card in cards:
            try:
                subject = look(f"{card.scope}:{card.slug}")
            except Unavailable:
                raise
            # One that is being changed right now is not shown, so it is not accepted either.
            except (ProwessError, OSError):
                continue
            if folder is None or self._lies_in(subject, folder):
                subjects.append(subject)
        if folder is not None and not subjects:
            raise NotFound(
                f"No skills found in {target!r}.",
                hint=f"If it is another workspace, run `prowess -w {target} trust`.",
            )
        return subjects, len(listed) - len(cards)

    def _lies_in(self, subject: Subject, folder: str) -> bool:
        place = subject.folder or (self._context.resources.workspace if subject.scope == "workspace" else "")
        return bool(place) and Path(os.path.realpath(place)).is_relative_to(folder)

    def _last_accepted(self) -> dict[str, str]:
        """Return the digests that were accepted last, by slug."""
        if not self._context.resources.has_records():
            return {}
        from prowess.storage.trust import list_acceptances

        with self._context.resources.records().read() as connection:
            acceptances = list_acceptances(connection, self._context.actor.owner)
        # Newest first, so the last one that is put in is the oldest; reversed, it is the newest.
        return {acceptance.slug: acceptance.digest for acceptance in reversed(acceptances)}

    def _accept(self, preview: TrustPreview, proof: str, texts: Mapping[str, str]) -> TrustOutcome:
        from prowess.policy.approvals import settle_accepted
        from prowess.policy.card import add_answer
        from prowess.storage.blobs import put_blobs
        from prowess.storage.trust import Acceptance, insert_acceptances

        actor = self._context.actor
        # Read again and hashed: what has changed since it was shown was not accepted.
        found = [
            (shown, find_files(self._context, shown.slug, shown.digest, scope=shown.scope)) for shown in preview.skills
        ]
        unchanged = [(skill, package) for skill, package in found if package is not None]
        changed = tuple(skill.slug for skill, package in found if package is None)
        accepted = [
            Acceptance(
                organization_id=actor.organization,
                user_id=actor.user,
                slug=skill.slug,
                digest=skill.digest,
                how="trusted",
                actor=actor.label,
                origin=clean_text(f"{skill.scope}: {shown_path(actor, skill.location)}"),
                hides=skill.hides,
                sends_out=skill.sends_out,
                channel=actor.channel,
                proof=clean_text(proof),
                detail=add_answer(
                    {
                        "target": preview.target,
                        "requests": list(skill.requests),
                        "reach": skill.reach,
                        "uses": list(skill.uses),
                        "files": list_files(package),
                    },
                    channel=actor.channel,
                    proof=proof,
                    shown=texts.get(skill.slug, ""),
                ),
            )
            for skill, package in unchanged
        ]

        def write(connection: sa.Connection) -> tuple[TrustOutcome, list[AuditEntry]]:
            put_blobs(connection, [package for _, package in unchanged])
            insert_acceptances(connection, accepted)
            settle_accepted(connection, actor, accepted)
            entries = [
                _entry(
                    actor,
                    "accepted",
                    acceptance.slug,
                    acceptance.digest,
                    proof=acceptance.proof,
                    hides=list(acceptance.hides),
                    shown_sha256=acceptance.detail["answer"].get("shown_sha256", ""),
                )
                for acceptance in accepted
            ]
            return TrustOutcome(accepted=tuple(acceptance.slug for acceptance in accepted), changed=changed), entries

        return self._write(f"trust {len(accepted)} skills", write)

    def _add_folder(self, folder: Path, proof: str) -> TrustedFolder:
        from prowess.storage.trust import TrustedFolder, insert_folder

        actor = self._context.actor
        real = os.path.realpath(expand_user(folder))
        if not os.path.isdir(real):  # noqa: PTH112
            raise NotFound(f"Folder {str(folder)!r} not found.", hint="Run `prowess trust FOLDER --always`.")
        # Everything that any program installs lies in one of these.
        if real in ("/", os.path.realpath(self._context.resources.user_home)):
            raise Invalid(
                f"{real!r} is too broad to trust: installed programs write there too.",
                hint="Pass the folder of the skills that you edit yourself.",
            )
        rule = TrustedFolder(
            organization_id=actor.organization,
            user_id=actor.user,
            folder=real,
            actor=actor.label,
            channel=actor.channel,
            proof=clean_text(proof),
        )

        def write(connection: sa.Connection) -> tuple[TrustedFolder, list[AuditEntry]]:
            return insert_folder(connection, rule), [_entry(actor, "folder-added", folder=real, proof=rule.proof)]

        return self._write(f"trust the folder {real[:200]}", write)

    def _list(self) -> TrustList:
        from prowess.storage.trust import list_acceptances, list_folders

        context = self._context
        context.actor.require("skills.read")
        operator = context.resources.trusted_folders
        if not context.resources.has_records():
            return TrustList(operator_folders=operator)
        with context.resources.records().read() as connection:
            skills = list_acceptances(connection, context.actor.owner)
            folders = list_folders(connection, context.actor.owner)
        return TrustList(skills=tuple(skills), folders=tuple(folders), operator_folders=operator)

    def _revoke(self, target: str) -> int:
        from prowess.storage.trust import list_acceptances, list_folders, revoke_acceptances, revoke_folders

        actor = self._context.actor
        real = os.path.realpath(expand_user(target)) if os.sep in target else ""
        slug = target.rpartition(":")[2]

        def write(connection: sa.Connection) -> tuple[int, list[AuditEntry]]:
            acceptances = list_acceptances(connection, actor.owner)
            skills = [skill for skill in acceptances if target and (skill.slug == slug or skill.digest == target)]
            folders = [folder for folder in list_folders(connection, actor.owner) if folder.folder in (target, real)]
            if any(one.user_id != actor.user for one in (*skills, *folders)) and not actor.admin:
                raise Refused(
                    f"{target[:200]!r} was accepted for the whole organization, so only an administrator can stop trusting it.",
                    hint="Ask an administrator to revoke it.",
                )
            revoke_acceptances(connection, [skill.id for skill in skills], actor.label)
            revoke_folders(connection, [folder.id for folder in folders], actor.label)
            entries = [_entry(actor, "revoked", skill.slug, skill.digest) for skill in skills]
            entries += [_entry(actor, "folder-revoked", folder=folder.folder) for folder in folders]
            return len(skills) + len(folders), entries

        revoked = self._write(f"revoke {target[:200]}", write) if self._context.resources.has_records() else 0
        if not revoked:
            raise NotFound(f"{target[:200]!r} was never accepted.", hint="See `prowess trust list`.")
        return revoked

    def _write(self, reason: str, write: Callable[[sa.Connection], tuple[T, list[AuditEntry]]]) -> T:
        """Write as a person who may approve. The change and its audit entries are written together; so is a refusal."""
        from prowess.policy.configuration import read_policy
        from prowess.policy.gate import admit
        from prowess.storage.ledger import append, catalog_events

        actor, resources = self._context.actor, self._context.resources
        with resources.records().write() as connection:
            policy = read_policy(connection, actor.organization)
            admission = admit(connection, actor, "approve", None, policy=policy, reason=reason)
            outcome = write(connection) if admission.error is None else None
            audits, count = (outcome[1], len(outcome[1])) if outcome else (admission.audits, 0)
            append(connection, actor.organization, audits=audits, events=catalog_events("trust", count))
        resources.wake(actor.organization)
        if outcome is None:
            raise admission.error or Refused("Only a person may do this.")
        return outcome[0]


def _entry(actor: Actor, outcome: str, slug: str = "", digest: str = "", **detail: Any) -> AuditEntry:
    from prowess.storage.ledger import AuditEntry

    return AuditEntry(
        actor=actor.label,
        channel=actor.channel,
        action="trust",
        slug=slug,
        digest=digest,
        outcome=outcome,
        detail={name: value for name, value in detail.items() if value},
    )


def _is_open(subject: Subject) -> bool:
    """Return True if something about a skill that is not merely found is left to accept."""
    asks = bool(subject.hides_trusted or subject.unaccepted) or (subject.sends_out and not subject.may_send_out)
    return subject.trust != "live" and (subject.trust != "local" or asks)


def describe_subject(subject: Subject, accepted: str) -> PreviewedSkill:
    """Return a subject as a person sees it; `accepted` is the digest that was accepted last."""
    return PreviewedSkill(
        slug=subject.slug,
        digest=subject.digest,
        title=clean_text(subject.title),
        description=clean_text(subject.description),
        scope=subject.scope,
        location=subject.folder or subject.origin.partition(": ")[2] or subject.origin,
        trust=subject.trust,
        requests=tuple(
            clean_text(request, limit=len(request))
            for request in (*subject.requests, *(entry.description for entry in subject.uses))
        ),
        uses=tuple(entry.key for entry in subject.uses),
        reach=subject.reach,
        sends_out=subject.sends_out,
        hides=subject.hides_trusted,
        written_by=subject.written_by,
        files=len(subject.manifest),
        accepted="" if accepted == subject.digest else accepted,
        findings=tuple(finding for finding in subject.findings if finding.get("severity") != "info"),
    )


def _as_folder(target: str) -> str | None:
    """Return the real path if the target is a folder; a slug has no slash."""
    if not target or (os.sep not in target and target not in (".", "..") and not target.startswith("~")):
        return None
    real = os.path.realpath(expand_user(target))
    return real if os.path.isdir(real) else None  # noqa: PTH112
