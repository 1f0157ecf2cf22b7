"""Results of a registry for an actor: hits of a search, and the preview of one skill."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from prowess.engine.context import Context
from prowess.skill.filenames import document_text
from prowess.skill.needs import measure_reach
from prowess.skill.outline import SkillOutline
from prowess.skill.prompt_block import prompt_chars
from prowess.skill.validate import ValidationReport, validate
from prowess.sources.registries.registry import RegistryDetail, RegistryEntry

if TYPE_CHECKING:
    from prowess.skill.package import Package
    from prowess.sources.registries.ranking import RankedEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryHit(RegistryEntry):
    """A skill that a registry lists. Its texts are not accepted; an agent that would have to ask gets it without them."""

    installed: bool = False
    """True if an available skill was installed from this page."""
    score: float | None = None
    """Its place in the ranking of a search, from 0 to 1; None in other lists."""
    decision: str = ""
    why: str = ""
    trending: int | None = None
    """Its place among the trending skills, counted from 1; None if it is not among them."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**asdict(self), "warnings": list(self.warnings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPreview:
    """Everything that a person should know before a skill of a registry is fetched or installed.

    `digest` identifies exactly these files: pass it to the installation, which refuses any others.
    """

    entry: RegistryHit
    ok: bool
    """True if the files are a valid skill."""
    slug: str
    title: str
    description: str
    digest: str
    revision: str
    """The version or hash that the registry gives."""
    size: int
    """The bytes of all files."""
    content_length: int
    """The characters that it takes in a prompt."""
    kinds: tuple[str, ...]
    files: tuple[dict[str, Any], ...]
    requests: tuple[str, ...]
    """Its requests: tools, hosts, folders, programs."""
    reach: str
    """How far a run goes beyond the sandbox: '', `outside` or `machine`."""
    findings: tuple[dict[str, Any], ...]
    problems: tuple[dict[str, Any], ...]
    audits: tuple[dict[str, Any], ...]
    """Verdicts that the registry reports. They are advice."""
    installed: dict[str, Any] | None
    """The skill of this slug that is in reach: its scope, digest, source, and whether it has the same files."""
    content: str
    """The document, for a person to read."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self) | {"entry": self.entry.as_json()}


def make_hit(entry: RegistryEntry) -> RegistryHit:
    """Return an entry of a registry as a hit."""
    return RegistryHit(**asdict(entry))


def make_ranked_hit(one: RankedEntry) -> RegistryHit:
    """Return a ranked entry as a hit."""
    return replace(make_hit(one.entry), score=one.score, decision=one.decision, why=one.why, trending=one.trending)


def redact_hit(hit: RegistryHit) -> RegistryHit:
    """Return a hit without any text but its id."""
    return replace(hit, name="", description="", version="", why="")


def make_preview(context: Context, detail: RegistryDetail) -> RegistryPreview:
    """Check and scan the files of a skill, and compare them with what is installed. Blocking."""
    from prowess.scan import scan_package

    package = detail.skill.package
    report = validate(package, "prowess", context.resources.limits)
    skill = report.reading.skill
    hit = make_hit(detail.entry)
    installed = _find_installed(context, skill.slug, package) if skill else None
    if installed is not None and installed["source_url"] == hit.url:
        hit = replace(hit, installed=True)
    return RegistryPreview(
        entry=hit,
        ok=report.ok,
        slug=skill.slug if skill else "",
        title=skill.title if skill else "",
        description=skill.description if skill else "",
        digest=package.digest,
        revision=detail.skill.revision,
        size=sum(entry.size for entry in package.manifest),
        content_length=prompt_chars(skill, "session") if skill else 0,
        kinds=tuple(skill.kinds) if skill else (),
        files=tuple({"path": entry.path, "size": entry.size, "sha256": entry.sha256} for entry in package.manifest),
        requests=_requests(SkillOutline.of(skill)) if skill else (),
        reach=measure_reach(skill) if skill else "",
        findings=tuple(finding.as_json() for finding in scan_package(package)),
        problems=_problems(report, detail.entry),
        audits=tuple(asdict(audit) for audit in detail.audits),
        installed=installed,
        content=document_text(skill.form, package) or "" if skill else "",
    )


def _find_installed(context: Context, slug: str, package: Package) -> dict[str, Any] | None:
    outline = context.catalog.outline(slug)
    if outline is None:
        return None
    return {
        "slug": outline.slug,
        "scope": outline.scope,
        "digest": outline.digest,
        "source_url": outline.provenance.source_url,
        "same": outline.digest == package.digest,
    }


def _requests(outline: SkillOutline) -> tuple[str, ...]:
    from prowess.session.text import Standing, make_subject

    return make_subject(outline, Standing()).requests


def _problems(report: ValidationReport, entry: RegistryEntry) -> tuple[dict[str, Any], ...]:
    """Return the problems of the files, and a warning if they are called something else than the registry says."""
    problems = [asdict(problem) for problem in report.problems]
    skill = report.reading.skill
    if skill is not None and skill.name.casefold() != entry.skill_id.casefold():
        message = f"The registry calls it {entry.skill_id!r}, but its own files call it {skill.slug!r}."
        problems.append(
            {"code": "other-name", "severity": "warning", "message": message, "hint": "", "field": None, "line": None}
        )
    return tuple(problems)
