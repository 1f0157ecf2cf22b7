"""The plan of an installation or update, as a person sees it before it happens.

A plan holds the exact bytes that were fetched. Installing it installs these bytes, and accepting it accepts their digests: nothing is
fetched again in between.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from prowess.catalog.store_rules import accepted_skill
from prowess.engine.context import Context
from prowess.engine.registry import list_used
from prowess.engine.trust import PreviewedSkill, describe_subject
from prowess.errors import Invalid, Problem, ProwessError
from prowess.policy.subject import HiddenSkill
from prowess.skill.filenames import find_skill_md
from prowess.skill.model import SCOPES, Scope
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.sources.discovery import declared_name
from prowess.sources.fetched import Fetched, FetchedSkill
from prowess.sources.install import Base, is_left_out, plan_places
from prowess.sources.installation import Installation
from prowess.sources.installed import KnownSkill, NewSkill, Obstacle
from prowess.sources.lock.folder_hash import hash_folder, hash_package
from prowess.sources.lock.prowess_lock import InstallMode, Pin, Signature
from prowess.sources.lock.skills_lock import locked_source
from prowess.sources.reference import SourceReference
from prowess.sources.signature import kind_of, verify
from prowess.storage.files.skill_packages import read_folder
from prowess.threads import check_cancelled

Change = Literal["new", "update", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSkill:
    """A skill that would be installed or updated."""

    new: NewSkill
    change: Change
    preview: PreviewedSkill
    """Its description and requests, its findings, and the trusted skills that it would hide."""
    diff: str = ""
    """The changes compared with the files that are installed now."""
    places: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Files of the source that are not installed."""
    obstacles: tuple[Obstacle, ...] = ()
    hidden_by: str = ""
    """The scope of a skill with the same name that would be used instead of this one."""
    signer: str = ""
    """The signer; '' if it is not signed."""
    problems: tuple[Problem, ...] = ()
    from_state: str = ""
    """The commit, or what stands for it, of the files that are installed now."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        preview = self.preview
        return {
            "name": self.new.name,
            "slug": preview.slug,
            "change": self.change,
            "digest": preview.digest,
            "source": self.new.pin.source,
            "path": self.new.pin.path,
            "state": self.new.pin.state,
            "from_state": self.from_state,
            "title": preview.title,
            "description": preview.description,
            "files": preview.files,
            "agents": list(self.new.agents),
            "mode": self.new.mode,
            "places": list(self.places),
            "requests": list(preview.requests),
            "reach": preview.reach,
            "sends_out": preview.sends_out,
            "findings": list(preview.findings),
            "hides": list(preview.hides),
            "hidden_by": self.hidden_by,
            "left_out": list(self.left_out),
            "obstacles": [{"path": str(obstacle.path), "state": obstacle.state} for obstacle in self.obstacles],
            "signer": self.signer,
            "problems": [problem.message for problem in self.problems],
            "diff": self.diff,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedSkill:
    """A skill of a source, or an installed one, that cannot be installed or updated, and why."""

    name: str
    error: ProwessError


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """Everything that one command would install, with warnings about the sources, gravest first."""

    source: str
    base: Base
    skills: tuple[PlannedSkill, ...] = ()
    skipped: tuple[SkippedSkill, ...] = ()
    warnings: tuple[Problem, ...] = ()
    gone: tuple[str, ...] = ()
    """Installed skills that their source no longer has."""

    @property
    def changes(self) -> tuple[PlannedSkill, ...]:
        """The skills that are new or other than those installed."""
        return tuple(skill for skill in self.skills if skill.change != "unchanged")

    def only(self, names: Sequence[str]) -> InstallPlan:
        """Return the plan for some of its skills."""
        return replace(self, skills=tuple(skill for skill in self.skills if skill.new.name in names))

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "source": self.source,
            "scope": "user" if self.base.is_user else "workspace",
            "skills": [skill.as_json() for skill in self.skills],
            "skipped": [
                {"name": skill.name, "error": skill.error.message, "hint": skill.error.hint} for skill in self.skipped
            ],
            "gone": list(self.gone),
            "warnings": [
                {"code": warning.code, "severity": warning.severity, "message": warning.message, "hint": warning.hint}
                for warning in self.warnings
            ],
        }


class Planner:
    """Plans what fetched skills would change at one base. Blocking."""

    def __init__(self, context: Context, installation: Installation) -> None:
        self._context = context
        self._installation = installation
        self._known = installation.known()

    @cached_property
    def _slugs(self) -> dict[Scope, set[str]]:
        """The slugs of each scope. Read once, because looking for a name that a folder does not have scans the folder."""
        found: dict[Scope, set[str]] = {}
        for store in self._context.catalog.stores():
            with suppress(ProwessError):  # a store that fails has nothing that could be hidden
                found.setdefault(store.scope, set()).update(card.slug for card in store.list_skills())
        return found

    @property
    def _scope(self) -> Scope:
        return "user" if self._installation.base.is_user else "workspace"

    def plan(
        self, reference: SourceReference, fetched: Fetched, agents: Sequence[str], mode: InstallMode | None
    ) -> InstallPlan:
        """Return what installing all skills of a fetch would do; without a mode, each keeps the one that it has."""
        skills: list[PlannedSkill] = []
        skipped = [
            SkippedSkill(name=broken_skill.path or "the skill", error=broken_skill.error)
            for broken_skill in fetched.unreadable
        ]
        folders: dict[str, str] = {}
        for skill in fetched.skills:
            check_cancelled()
            name = name_of(skill)
            try:
                planned = self._plan_skill(name, skill, reference, fetched, agents, mode)
                other = folders.setdefault(planned.new.folder, skill.path)
                if other != skill.path:
                    raise Invalid(
                        f"The source has a second skill {name!r}, in {skill.path!r}.",
                        hint=f"The one in {other!r} is offered. Add the path to the source for the other one.",
                    )
                skills.append(planned)
            except ProwessError as error:
                skipped.append(SkippedSkill(name=name, error=error))
        return InstallPlan(
            source=str(reference),
            base=self._installation.base,
            skills=tuple(skills),
            skipped=tuple(skipped),
            warnings=fetched.warnings,
        )

    def _plan_skill(
        self,
        name: str,
        fetched: FetchedSkill,
        reference: SourceReference,
        source: Fetched,
        agents: Sequence[str],
        mode: InstallMode | None,
    ) -> PlannedSkill:
        before = self._known.get(name)
        base = self._installation.base
        pin = make_pin(reference, source, fetched)
        signature, signer = _read_signature(fetched)
        chosen: InstallMode = mode or (before.mode if before else "symlink")
        everyone = (*(before.agents if before else ()), *agents)
        computed = _compute_hash(reference, fetched)
        new = NewSkill(
            name=name,
            package=fetched.package,
            pin=pin,
            locked=locked_source(pin, computed, user=base.is_user),
            computed_hash=computed,
            agents=tuple(sorted(set(everyone))),
            mode=chosen,
            signature=signature,
        )
        placed = new.placed
        preview, hidden_by, problems = self._describe(new, placed)
        problems = (*_compare_signers(before, new), *problems)
        now = self._read_installed(before)
        change: Change = "new" if before is None else "update"
        # One that was merely edited here is an update, too: the source has other files.
        if before is not None and now is not None and now.digest == placed.digest and _is_recorded(before, new):
            change = "unchanged"
        return PlannedSkill(
            new=new,
            change=change,
            preview=preview,
            diff=_diff(now, placed) if now is not None and now.digest != placed.digest else "",
            places=tuple(str(place.path) for place in plan_places(base, new.folder, new.agents, new.mode)),
            left_out=tuple(file.path for file in fetched.package.files if is_left_out(file.path)),
            obstacles=tuple(self._installation.obstacles(new, before)),
            hidden_by=hidden_by,
            signer=signer,
            problems=problems,
            from_state=before.entry.pin.state if before and before.entry else "",
        )

    def _read_installed(self, skill: KnownSkill | None) -> Package | None:
        if skill is None:
            return None
        for place in self._installation.places(skill):
            try:
                return read_folder(place.path)
            except ProwessError:
                continue
        return None

    def _describe(self, new: NewSkill, placed: Package) -> tuple[PreviewedSkill, str, tuple[Problem, ...]]:
        """Return the skill as a person sees it, what would hide it, and warnings about its form."""
        from prowess.run.runner import SkillFacts
        from prowess.session.text import Standing

        context = self._context
        reading = accept(placed, context.resources.limits)
        skill, _ = accepted_skill(reading)
        path = self._installation.base.shared / new.folder
        placed_skill = skill.kept_as(id="", scope=self._scope, location=str(path))
        hides, hidden_by = self._find_hidden(placed_skill.slug, placed.digest, path)
        facts = SkillFacts(placed_skill)
        standing = Standing(folder=str(path), hides=hides, findings=context.catalog.scans.of_package(placed))
        subject = replace(facts.subject(standing, ()), uses=list_used(context, placed_skill), manifest=placed.manifest)
        [resolved] = context.resources.gate.resolve(context.actor, [replace(subject, digest=placed.digest)])
        problems = tuple(problem for problem in reading.problems if problem.severity == "warning")
        return describe_subject(resolved, ""), hidden_by, problems

    def _find_hidden(self, slug: str, digest: str, path: Path) -> tuple[tuple[HiddenSkill, ...], str]:
        """Return the skills of the same slug that this one would hide, and the nearer scope that would hide it."""
        found: list[HiddenSkill] = []
        hidden_by = ""
        for scope in SCOPES:
            if slug not in self._slugs.get(scope, ()):
                continue
            try:
                store, outline = self._context.catalog.find_outline(f"{scope}:{slug}")
            except ProwessError:
                continue
            if outline.digest == digest or Path(outline.location) == path:
                continue
            if SCOPES.index(scope) < SCOPES.index(self._scope):
                hidden_by = hidden_by or scope
            else:
                folder = outline.location if store.folder else ""
                found.append(HiddenSkill(scope=scope, digest=outline.digest, folder=folder, frozen=store.frozen))
        return tuple(found), hidden_by


def name_of(skill: FetchedSkill) -> str:
    """Return the name under which lock files record a skill: the one in its SKILL.md, or of its folder."""
    document = find_skill_md(skill.package)
    name = declared_name(document.content) if document else ""
    if len(name) > 200 or not name.isprintable():
        name = ""
    return name or skill.package.name


def make_pin(reference: SourceReference, fetched: Fetched, skill: FetchedSkill) -> Pin:
    """Return which state of which source a fetched skill is from."""
    state, is_git = fetched.state, reference.is_git
    host = (urlsplit(reference.url).hostname or "").removeprefix("www.")
    return Pin(
        source=host if reference.kind == "well-known" and host else reference.source,
        type=reference.kind,
        reference=str(replace(reference, skill="")),
        url=reference.url,
        ref=reference.ref,
        path=skill.path,
        commit=state.revision if is_git else "",
        revision="" if is_git else state.revision,
        tree=skill.revision if is_git else "",
        etag=state.etag,
        sequence=state.sequence,
    )


def _compute_hash(reference: SourceReference, fetched: FetchedSkill) -> str:
    folder = Path(reference.url, fetched.path) if reference.kind == "local" else None
    if folder is not None and folder.is_dir():
        try:
            return hash_folder(folder)
        except (OSError, ProwessError):
            return hash_package(fetched.package)
    package = fetched.package
    if reference.kind == "well-known":
        # For these the skills CLI hashes what it has installed.
        package = replace(package, files=tuple(file for file in package.files if not is_left_out(file.path)))
    return hash_package(package)


def _read_signature(fetched: FetchedSkill) -> tuple[Signature | None, str]:
    """Return the signature of a skill after verifying it, and who signed; raise `Refused` for one that is wrong."""
    if not fetched.signature:
        return None, ""
    text = base64.b64encode(fetched.signature).decode()
    kind = kind_of(fetched.signature)
    signer = verify(fetched.package.digest, fetched.signature).identity if kind == "ed25519" else ""
    # A bundle proves who signed only together with the identity that is expected, which nobody has given here.
    return Signature(text=text, kind=kind, identity=signer), signer or "an unverified signer (Sigstore bundle)"


def _compare_signers(before: KnownSkill | None, new: NewSkill) -> tuple[Problem, ...]:
    """Return a warning if a skill that was signed is now signed by someone else, or by nobody."""
    old = before.entry.signature if before and before.entry else None
    now = new.signature.identity if new.signature else ""
    if old is None or not old.identity or old.identity == now:
        return ()
    message = f"It was signed by {old.identity}, and is now signed by {now or 'nobody who can be verified'}."
    hint = "Ask the publisher before you update."
    return (Problem(code="signer-changed", severity="warning", message=message, hint=hint),)


def _is_recorded(before: KnownSkill, new: NewSkill) -> bool:
    """Return True if the lock files need no change: the same files, from the same source, for the same agents."""
    entry = before.entry
    if entry is None or before.locked is None or entry.pending:
        return False
    same = entry.source_digest == new.package.digest and entry.pin.reference == new.pin.reference
    return same and entry.mode == new.mode and {*entry.agents} == {*new.agents}


def _diff(before: Package, after: Package) -> str:
    from prowess.session.text import format_diff

    return format_diff(before, after)
