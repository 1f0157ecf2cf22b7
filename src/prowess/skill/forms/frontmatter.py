"""Writing a markdown document: tidy frontmatter, the body as it is, and the author's own frontmatter where it still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from prowess.skill.forms.data import same
from prowess.skill.forms.draft import BUCKETS, DEFAULT_VERSION, SKILL_MD
from prowess.skill.forms.source import Source, content_of
from prowess.skill.kinds import FILE_KINDS, Artifact, JsonObject
from prowess.skill.model import FormName, Skill
from prowess.skill.package import File, Package
from prowess.skill.text.fields import as_list, as_tools
from prowess.skill.text.yaml import dump

Reader = Callable[[Package], Skill | None]

_MARKER = "---"


def compose(raw: str | None, body: str) -> bytes:
    """A document with this frontmatter and body."""
    if raw is None:
        return body.encode()
    newline = "\r\n" if "\r\n" in raw else "\n"
    closed = raw if not raw or raw.endswith(("\n", "\r")) else raw + newline
    return f"{_MARKER}{newline}{closed}{_MARKER}{newline}{body}".encode()


def block(fields: JsonObject) -> str:
    """Frontmatter with these fields, without those that are empty."""
    stated = {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}
    return dump(stated) if stated else ""


def listed(values: Iterable[str]) -> list[str]:
    """Values as a list for YAML."""
    return list(values)


def text_of(skill: Skill) -> str:
    """The text of a skill that is one document: its instructions, or else its description artifact."""
    held = [
        artifact for kind in ("instructions", "description") for artifact in skill.artifacts if artifact.kind == kind
    ]
    return held[0].content if held else ""


def tools_text(tools: tuple[str, ...]) -> str | list[str]:
    """Tools as the standard writes them, or as a list where that would read otherwise."""
    text = " ".join(tools)
    return text if as_tools(text) == tools else list(tools)


def in_metadata(skill: Skill, title: str) -> JsonObject:
    """The metadata with what the standard has no field for: under the names by which it is found there."""
    metadata = dict(skill.metadata)
    texts: dict[str, Any] = {
        "author": skill.author,
        "version": None if skill.version == DEFAULT_VERSION else skill.version,
        "slug": skill.slug if "." in skill.slug else None,
        "title": None if skill.title == title else skill.title,
        "when_to_use": skill.when_to_use,
        "tags": _joined(skill.tags),
        "keywords": _joined(skill.keywords),
        "triggers": _joined(skill.trigger_phrases),
        "intent_patterns": _joined(skill.intent_patterns),
    }
    for key, value in texts.items():
        if value and key not in metadata:
            metadata[key] = value
    return metadata


def _joined(values: tuple[str, ...]) -> str | list[str]:
    text = ", ".join(values)
    return text if as_list(text) == values else list(values)


def write_document(
    form: FormName, skill: Skill, source: Source, *, path: str, fields: JsonObject, read: Reader
) -> list[File]:
    """All files of a skill in a form that is one document and files beside it.

    The frontmatter is the author's own where it says all that a fresh one would, and fresh otherwise.
    """
    body = text_of(skill)
    beside = [*_bucket_files(skill, source), *source.others]
    fresh = File(path=path, content=compose(block(fields), body))
    for raw in _own_frontmatter(form, source):
        own = File(path=path, content=compose(raw, body))
        mine, theirs = (read(Package.written(source.package.name, [file, *beside])) for file in (own, fresh))
        if _says_as_much(mine, theirs, skill):
            return [own, *beside]
    return [fresh, *beside]


def _own_frontmatter(form: FormName, source: Source) -> list[str | None]:
    """What the author wrote, in the source's first form and in the one it has now; None for a bare body."""
    found: list[str | None] = []
    origin = source.origin
    if origin is not None and origin.form == form and (origin.frontmatter is not None or origin.bare):
        found.append(origin.frontmatter)
    if source.reading.document is not None and source.reading.document.raw is not None:
        found.append(source.reading.document.raw)
    return found


def _says_as_much(mine: Skill | None, theirs: Skill | None, skill: Skill) -> bool:
    """Whether the one says everything of the skill that the other says."""
    if mine is None:
        return False
    if theirs is None:
        return True
    wanted, old, new = content_of(skill), content_of(mine), content_of(theirs)
    return all(same(old[field], value) or not same(new[field], value) for field, value in wanted.items())


def _bucket_files(skill: Skill, source: Source) -> list[File]:
    """The files of references, scripts and assets, in the folder that says which they are."""
    files: list[File] = []
    for artifact in skill.artifacts:
        if artifact.kind in FILE_KINDS:
            files += bucket_file(artifact, source)
    return files


def bucket_file(artifact: Artifact, source: Source) -> list[File]:
    """The file of one such artifact; none where the package does not have it."""
    bucket = next(name for name, kind in BUCKETS.items() if kind == artifact.kind)
    before = source.package.get(artifact.path or "")
    if before is None and not artifact.content:
        return []
    kept = artifact.path is not None and artifact.path.startswith(bucket + "/")
    path = cast("str", artifact.path) if kept else f"{bucket}/{artifact.name}"
    content = artifact.content.encode() if artifact.content or before is None else before.content
    return [File(path=path, content=content, mode=before.mode if before else "0644")]


def default_path(skill: Skill, source: Source) -> str:
    """SKILL.md, or a file called by the slug where the skill is one document only."""
    alone = not source.others and all(artifact.kind not in FILE_KINDS for artifact in skill.artifacts)
    return f"{skill.slug}.md" if alone else SKILL_MD


def frontmatter_extra(skill: Skill, source: Source) -> JsonObject:
    """The fields without a meaning here that stood in frontmatter; those of data forms have no place in one."""
    if source.origin is not None and source.origin.form in ("inklings", "devai", "agentlayerrules"):
        return {}
    return skill.extra
