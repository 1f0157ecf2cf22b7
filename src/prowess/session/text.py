"""The text of a skill that enters a prompt, read lazily: its outline, then only the parts that are inserted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prowess.catalog.catalog import Catalog
from prowess.catalog.decide import accepted
from prowess.catalog.store import Store
from prowess.errors import Conflict, Invalid
from prowess.policy.subject import Subject
from prowess.session.render import skill_block
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.limits import Limits
from prowess.skill.outline import Outline
from prowess.skill.package import Package
from prowess.skill.profiles.requests import asked_for, needed
from prowess.skill.validate import accept

_INSERTED: tuple[tuple[Kind, ...], ...] = (("instructions", "approach"), ("description",))
"""The kinds that are inserted: those of the first row that the skill has any of."""

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillText:
    """What of a skill is inserted, and what the gate needs to know about it; all of the same bytes."""

    outline: Outline
    subject: Subject
    body: str
    block: str


def read_text(catalog: Catalog, slug: str) -> SkillText:
    """The text of a skill as its block; `Invalid` for a skill that has none."""
    for _ in range(_ATTEMPTS):
        text = text_of(*catalog.find_outline(slug))
        if text is not None:
            return text
    raise Conflict(f"The skill {slug[:80]!r} is being changed right now.", hint="Try again when that is done.")


def text_of(store: Store, outline: Outline) -> SkillText | None:
    """The same, of a skill whose outline was read; None where it changed since."""
    artifacts = store.get_artifacts(outline.id, _kinds(outline))
    if not artifacts or any(artifact.revision != outline.digest for artifact in artifacts):
        return None
    last = store.last_version(outline.slug)
    return inserted(outline, artifacts, written_by=last.actor if last and last.digest == outline.digest else "")


def fetched_text(package: Package, *, origin: str, limits: Limits) -> SkillText:
    """The text of a skill that no store keeps; `Invalid`, with every problem, for one that could not be kept."""
    skill, _ = accepted(accept(package, limits))
    provenance = skill.provenance.model_copy(update={"source": "community", "source_url": origin})
    outline = Outline.of(skill.kept_as(id="", scope="session").model_copy(update={"provenance": provenance}))
    kinds = _kinds(outline)
    return inserted(outline, [artifact for artifact in skill.artifacts if artifact.kind in kinds], live=True)


def inserted(outline: Outline, artifacts: Sequence[Artifact], *, written_by: str = "", live: bool = False) -> SkillText:
    """What of these artifacts is inserted: the default variants, instructions first."""
    chosen = [artifact for artifact in artifacts if artifact.variant is None] or list(artifacts)
    in_order = sorted(chosen, key=lambda artifact: artifact.kind != "instructions")
    body = "\n\n".join(artifact.content.strip("\n") for artifact in in_order)
    block = skill_block(outline.title, body, slug=outline.slug, origin=origin_of(outline), digest=outline.digest)
    subject = _subject(outline, written_by, body=body, chars=len(block), live=live)
    return SkillText(outline=outline, subject=subject, body=body, block=block)


def _kinds(outline: Outline) -> tuple[Kind, ...]:
    for kinds in _INSERTED:
        if any(part.kind in kinds for part in outline.parts):
            return kinds
    raise Invalid(
        f"The skill {outline.slug!r} has no text that could enter a prompt.",
        hint=f"It has: {', '.join(sorted({part.kind for part in outline.parts})) or 'nothing'}.",
    )


def origin_of(outline: Outline) -> str:
    """Where a skill is from, as a model and a person are told: its scope, and its address where it came from elsewhere."""
    address = outline.provenance.source_url
    return f"{outline.scope}, from {address}" if address else outline.scope


def subject_of(store: Store, outline: Outline) -> Subject:
    """What the gate asks about, where none of the text has been read."""
    last = store.last_version(outline.slug)
    return _subject(outline, last.actor if last and last.digest == outline.digest else "")


def _subject(outline: Outline, written_by: str, *, body: str = "", chars: int = 0, live: bool = False) -> Subject:
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
        written_by=written_by,
        live=live,
        chars=chars,
        manifest=outline.manifest,
        requests=(*asked_for(outline.allowed_tools, paths, body), *needed(outline.needs, kinds)),
    )
