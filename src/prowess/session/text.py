"""The text of a skill as it enters a prompt, and what the gate needs to know about the same bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from prowess.catalog.catalog import Catalog
from prowess.catalog.collisions import Hidden
from prowess.catalog.scans import FindingRow
from prowess.catalog.store import Store
from prowess.catalog.store_rules import accepted_skill
from prowess.errors import Conflict, Invalid, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.policy.actor import Actor
from prowess.policy.subject import HiddenSkill, Subject
from prowess.skill.edit import diff_packages
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.limits import Limits
from prowess.skill.model import Provenance
from prowess.skill.needs import can_send_out
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package
from prowess.skill.profiles.permissions import describe_needs, summarize_permissions
from prowess.skill.prompt_block import describe_origin, inserted_kinds, join_texts, skill_block
from prowess.skill.validate import accept

_READ_ATTEMPTS = 5

_FOLDER = lazy_pattern(r"(?:\{\{baseDir\}\}|(?<!\$)\{baseDir\}|\$\{(?:CLAUDE_|HERMES_)?SKILL_DIR\})(/?)")
"""What OpenClaw, Claude Code, Hermes and pydantic-ai-skills replace by the folder of a skill."""
_OWN_VARIABLE = lazy_pattern(r"\bSKILL_DIR=")
_PLUGIN_ROOT = "${CLAUDE_PLUGIN_ROOT}"
_PLUGIN_DEPTH = 4
"""How far above its skills the root of a plugin is looked for. Usually it is two folders above: `PLUGIN/skills/NAME`."""
_PLAIN_PATH = lazy_pattern(r"[\w.@+~:/ -]{1,1000}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillText:
    """The text of a skill that is inserted, and what the gate needs to know about it; all of the same bytes."""

    outline: SkillOutline
    subject: Subject
    body: str
    block: str
    entry: Package | None = None
    """What a connector lists of a skill that it serves, under which other files of it may be read later."""


def read_skill_text(catalog: Catalog, slug: str, actor: Actor) -> SkillText:
    """Return the text of a skill as its block; raise `Invalid` if it has none.

    Only an actor at this machine is told the folder of the skill.
    """
    # Outline and artifacts are two reads; if the skill changes in between, both are read again.
    for _ in range(_READ_ATTEMPTS):
        text = compose_skill_text(catalog, *catalog.find_outline(slug), actor)
        if text is not None:
            return text
    raise Conflict(f"The skill {slug[:80]!r} changed while it was being read.", hint="Try again.")


def compose_skill_text(
    catalog: Catalog, store: Store, outline: SkillOutline, actor: Actor, hidden: Hidden | None = None
) -> SkillText | None:
    """Return the text of a skill whose outline was read; None if it has changed since.

    `hidden` is what the catalog knows of the skills that it hides, if that was read already.
    """
    artifacts = store.get_artifacts(outline.id, _inserted_kinds(outline))
    # The gate decides about the outline's digest, so texts of another revision must not be combined with it.
    if not artifacts or any(artifact.revision != outline.digest for artifact in artifacts):
        return None
    standing = read_standing(catalog, store, outline, hidden)
    return compose_text(outline, artifacts, standing, folder=standing.folder if actor.can_use_paths else "")


def read_fetched_text(package: Package, *, origin: str, limits: Limits) -> SkillText:
    """Return the text of a skill that no store keeps; raise `Invalid`, with every problem, if a store would not accept it."""
    skill, _ = accepted_skill(accept(package, limits))
    # A skill cannot vouch for itself: whatever it says about its origin is replaced by where it was fetched.
    provenance = Provenance(source="community", source_type="marketplace", source_url=origin)
    outline = SkillOutline.of(skill.kept_as(id="", scope="session", provenance=provenance))
    kinds = _inserted_kinds(outline)
    inserted = [artifact for artifact in skill.artifacts if artifact.kind in kinds]
    from prowess.scan import scan_package

    findings = tuple(finding.as_json() for finding in scan_package(package))
    return compose_text(outline, inserted, Standing(findings=findings), live=True)


def compose_text(
    outline: SkillOutline, artifacts: Sequence[Artifact], standing: Standing, *, folder: str = "", live: bool = False
) -> SkillText:
    """Compose the text of the default variants, instructions first, for a reader who can use the files in `folder`."""
    written = join_texts(artifacts)
    body = _fill_folder(written, folder)
    origin = describe_origin(outline.scope, outline.provenance)
    block = skill_block(outline.title, body, slug=outline.slug, origin=origin, digest=outline.digest)
    subject = make_subject(outline, standing, body=written, chars=len(block), live=live)
    return SkillText(outline=outline, subject=subject, body=body, block=block)


def _fill_folder(text: str, folder: str) -> str:
    """Return a text with the folder of its skill filled in. Without one, paths are those of the skill: `scripts/run.py`."""
    # Nobody accepted the name of a folder. One like `$(rm -r x)` would become part of a command.
    folder = folder if _PLAIN_PATH.fullmatch(folder) else ""
    if folder and _PLUGIN_ROOT in text:
        text = text.replace(_PLUGIN_ROOT, _find_plugin_root(Path(folder)) or _PLUGIN_ROOT)
    is_set = _OWN_VARIABLE.search(text) is not None  # a variable of its commands, not a placeholder

    def fill(found: re.Match[str]) -> str:
        if (is_set and found[0].startswith("${SKILL_DIR}")) or not (folder or found[1]):
            return found[0]
        return folder + found[1] if folder else ""

    return _FOLDER.sub(fill, text)


def _find_plugin_root(folder: Path) -> str:
    """Return the folder of the Claude Code plugin that a skill belongs to; '' if there is none."""
    above = [folder, *folder.parents][: _PLUGIN_DEPTH + 1]
    return next((str(root) for root in above if (root / ".claude-plugin" / "plugin.json").is_file()), "")


def _inserted_kinds(outline: SkillOutline) -> tuple[Kind, ...]:
    kinds = inserted_kinds(part.kind for part in outline.parts)
    if kinds:
        return kinds
    raise Invalid(
        f"The skill {outline.slug!r} has no text for a prompt.",
        hint=f"It contains: {', '.join(sorted({part.kind for part in outline.parts})) or 'nothing'}.",
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """A store's statements about a skill, whatever its files say: who wrote it, where it lies, which skills it hides.

    The default is a skill about which nothing is known.
    """

    written_by: str = ""
    folder: str = ""
    frozen: bool = False
    hides: tuple[HiddenSkill, ...] = ()
    findings: tuple[FindingRow, ...] = field(default=(), compare=False)
    """Findings of the security scan. They follow from the digest, so they do not affect equality."""


def read_standing(
    catalog: Catalog,
    store: Store,
    outline: SkillOutline,
    hidden: Hidden | None = None,
    *,
    scan: bool = True,
    findings: tuple[FindingRow, ...] | None = None,
) -> Standing:
    """Return what a store states about the skill of an outline that was read from it, with its findings or the given ones.

    Without `scan`, findings are only those that are remembered: for many skills at once, before one of them is used.
    """
    last = store.last_version(outline.slug)
    return Standing(
        # Someone may have edited the files since the last recorded version; then its author did not write these bytes.
        written_by=last.actor if last and last.digest == outline.digest else "",
        folder=_folder_of(store, outline),
        frozen=store.frozen,
        hides=tuple(
            HiddenSkill(
                scope=hidden_outline.scope,
                digest=hidden_outline.digest,
                folder=_folder_of(other, hidden_outline),
                frozen=other.frozen,
            )
            for other, hidden_outline in (catalog.hidden_by(store, outline) if hidden is None else hidden)
        ),
        findings=_find_dangers(catalog, store, outline, scan=scan) if findings is None else findings,
    )


def _find_dangers(catalog: Catalog, store: Store, outline: SkillOutline, *, scan: bool) -> tuple[FindingRow, ...]:
    # What comes with Prowess or an installed package has passed as code already.
    if store.frozen:
        return ()
    return catalog.scans.of(store, outline) if scan else catalog.scans.remembered(outline.digest) or ()


def _folder_of(store: Store, outline: SkillOutline) -> str:
    return outline.location if store.folder else ""


def read_subject(catalog: Catalog, store: Store, outline: SkillOutline, hidden: Hidden | None = None) -> Subject:
    """Return what the gate decides about, without reading any text."""
    return make_subject(outline, read_standing(catalog, store, outline, hidden))


def make_subject(
    outline: SkillOutline, standing: Standing, *, body: str = "", chars: int = 0, live: bool = False
) -> Subject:
    """Return what the gate decides about."""
    paths = [entry.path for entry in outline.manifest]
    kinds: list[Kind] = [part.kind for part in outline.parts]
    return Subject(
        slug=outline.slug,
        digest=outline.digest,
        title=outline.title,
        description=outline.description,
        tags=outline.tags,
        scope=outline.scope,
        source=outline.provenance.source,
        source_type=outline.provenance.source_type,
        origin=outline.provenance.source_url or f"{outline.scope}: {outline.location}",
        written_by=standing.written_by,
        folder=standing.folder,
        frozen=standing.frozen,
        hides=standing.hides,
        findings=standing.findings,
        people_only=outline.people_only,
        sends_out=can_send_out(outline.needs, kinds),
        live=live,
        text=body if live else "",
        chars=chars,
        manifest=outline.manifest,
        requests=(*describe_needs(outline.needs, kinds), *summarize_permissions(outline.allowed_tools, paths, body)),
    )


def diff_since(catalog: Catalog, outline: SkillOutline, digest: str) -> str:
    """Return the differences to the version of that digest as text; '' if that version is no longer kept."""
    try:
        store, _ = catalog.find_outline(f"{outline.scope}:{outline.slug}")
        then = next((version for version in reversed(store.versions(outline.slug)) if version.digest == digest), None)
        now = store.get_package(outline.id)
        if then is None or now is None:
            return ""
        return format_diff(store.version_package(outline.slug, then.number), now)
    except ProwessError:
        return ""


def format_diff(before: Package, after: Package) -> str:
    """Return the differences between two packages as text for a person."""
    changes = diff_packages(before, after)
    return "\n".join(f"{change.change} {change.path}\n{change.text}" for change in changes)
