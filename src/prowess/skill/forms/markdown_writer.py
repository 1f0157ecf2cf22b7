"""Write the forms that are one Markdown document with files next to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from prowess.patterns import lazy_pattern
from prowess.skill.filenames import SKILL_MD, STANDARD_FOLDERS
from prowess.skill.form_info import FormName, form_info
from prowess.skill.forms.data import same_json
from prowess.skill.forms.form import Candidate
from prowess.skill.forms.frontmatter_fields import DEFAULT_VERSION
from prowess.skill.forms.markdown_reader import read
from prowess.skill.forms.origin import Original, dump_content
from prowess.skill.kinds import Artifact, JsonObject, kind_info
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.text.fields import as_list, as_tools
from prowess.skill.text.yaml import YamlRefused, load
from prowess.skill.text.yaml_writer import dump

_MARKER = "---"
_LINE_END = lazy_pattern(r"\r\n?|\n")
_ROW = lazy_pattern(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_BETWEEN = lazy_pattern(r"#|[ \t]*[\r\n]")
"""A line that belongs to the key below it: blank, or a comment."""


def line_ending(text: str) -> str:
    """Return the line ending of a text: that of its first line."""
    found = _LINE_END.search(text)
    return found[0] if found else "\n"


def compose_document(raw: str | None, body: str) -> bytes:
    """Return a document with this frontmatter and body."""
    if raw is None:
        return body.encode()
    newline = line_ending(raw)
    closed = raw if not raw or raw.endswith(("\n", "\r")) else raw + newline
    return f"{_MARKER}{newline}{closed}{_MARKER}{newline}{body}".encode()


def replace_fields(raw: str, changes: Mapping[str, Any], limits: Limits) -> str | None:
    """Return the frontmatter with these keys changed, or removed if their value is empty. All other lines stay.

    Return None if the keys are not on their own lines.
    """
    starts = sorted((line, key) for key, line in load(raw, limits=limits).lines.items())
    rows = _ROW.findall(raw)
    # `{a: 1, b: 2}` has several keys in one line.
    if len({line for line, _ in starts}) < len(starts):
        return None
    ends = [line - 1 for line, _ in starts[1:]] + [len(rows)]
    # From the bottom up: replacing rows moves all rows below them.
    for (line, key), end in reversed(list(zip(starts, ends, strict=True))):
        if key in changes:
            # Blank lines and comments at the end belong to the key below and stay.
            last = next(row for row in range(end, line - 1, -1) if row == line or not _BETWEEN.match(rows[row - 1]))
            rows[line - 1 : last] = [dump_fields({key: changes[key]}).replace("\n", line_ending(raw))]
    return "".join(rows)


def drop_empty(fields: Mapping[str, Any]) -> JsonObject:
    """Return the fields without the empty ones."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}


def dump_fields(fields: Mapping[str, Any]) -> str:
    """Return frontmatter with these fields, without the empty ones."""
    there = drop_empty(fields)
    return dump(there) if there else ""


def body_artifact(skill: Skill) -> Artifact | None:
    """Return the artifact that is the body of the document: the instructions, else the description, else None."""
    for kind in ("instructions", "description"):
        for artifact in skill.artifacts:
            if artifact.kind == kind and artifact.content:
                return artifact
    return None


def body_text(skill: Skill) -> str:
    """Return the body of the document."""
    holder = body_artifact(skill)
    return holder.content if holder is not None else ""


def format_tools(tools: tuple[str, ...]) -> str | list[str]:
    """Return tools in the notation of the standard, or as a list if that would be read differently."""
    text = " ".join(tools)
    # A tool with a space outside brackets would be read back as two.
    return text if as_tools(text) == tools else list(tools)


def metadata_fields(skill: Skill, title: str) -> JsonObject:
    """Return the metadata, including fields that the standard does not have, under the names that readers look for."""
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


def write_document(form: FormName, skill: Skill, original: Original, *, path: str, fields: JsonObject) -> list[File]:
    """Return all files of a skill in a form that is one document with files next to it.

    The author's frontmatter is kept if it contains everything that a new one would. In the same form, only the lines of
    changed fields are replaced.
    """
    body = body_text(skill)
    beside = [*_bucket_files(skill, original), *original.others]
    fresh = File(path=path, content=compose_document(dump_fields(fields), body))
    for raw in (*_own_frontmatter(form, original), *_edited_frontmatter(form, original, fields)):
        own = File(path=path, content=compose_document(raw, body))
        packages = (Package.written(original.package.name, [file, *beside]) for file in (own, fresh))
        own_skill, fresh_skill = (read(form, Candidate(package, original.limits)).skill for package in packages)
        if _covers(own_skill, fresh_skill, skill):
            return [own, *beside]
    return [fresh, *beside]


def _own_frontmatter(form: FormName, original: Original) -> list[str | None]:
    """Return the author's frontmatter as candidates: of the first form, then the current one. None is a bare body."""
    found: list[str | None] = []
    origin = original.origin
    if origin is not None and origin.form == form and (origin.frontmatter is not None or origin.bare):
        found.append(origin.frontmatter)
    if original.reading.document is not None and original.reading.document.raw is not None:
        found.append(original.reading.document.raw)
    return found


def _edited_frontmatter(form: FormName, original: Original, fields: JsonObject) -> list[str]:
    """Return the author's frontmatter with the lines of changed fields replaced, and new fields at its end.

    It is empty if the files have another form, or if the frontmatter is not plain YAML with one key in each line.
    """
    document = original.reading.document
    if original.reading.form != form or document is None or document.raw is None or document.how != "yaml":
        return []
    there = document.fields
    changed = {key: value for key, value in fields.items() if key in there and _differs(value, there[key])}
    try:
        raw = replace_fields(document.raw, changed, original.limits)
    except YamlRefused:
        return []
    if raw is None:
        return []
    default = {"version"} if fields.get("version") == DEFAULT_VERSION else set[str]()
    new = dump_fields({key: value for key, value in fields.items() if key not in there and key not in default})
    newline = line_ending(raw)
    separator = "" if not raw or raw.endswith(("\n", "\r")) else newline
    return [raw + separator + new.replace("\n", newline)]


def _differs(value: Any, there: Any) -> bool:
    if isinstance(value, list):
        return tuple(cast("list[Any]", value)) != as_list(there)
    return not same_json(value or None, there or None)


def _covers(own_skill: Skill | None, fresh_skill: Skill | None, skill: Skill) -> bool:
    """Return True if the first contains everything about the skill that the second does."""
    if own_skill is None:
        return False
    if fresh_skill is None:
        return True
    expected, old, new = dump_content(skill), dump_content(own_skill), dump_content(fresh_skill)
    # A field counts only if new frontmatter would say it: what the form cannot express at all is no reason to give up
    # the author's own text.
    return all(same_json(old[field], value) or not same_json(new[field], value) for field, value in expected.items())


def _bucket_files(skill: Skill, original: Original) -> list[File]:
    """Return the files of references, scripts and assets, in the folder of their kind."""
    files: list[File] = []
    for artifact in skill.artifacts:
        if artifact.kind in STANDARD_FOLDERS.values():
            files += bucket_file(artifact, original)
    return files


def bucket_file(artifact: Artifact, original: Original) -> list[File]:
    """Return the file of such an artifact as a list, empty if the package does not have it."""
    bucket = next(name for name, kind in STANDARD_FOLDERS.items() if kind == artifact.kind)
    before = original.package.get(artifact.path or "")
    if before is None and not artifact.content:
        return []
    in_bucket = artifact.path is not None and artifact.path.startswith(bucket + "/")
    path = cast("str", artifact.path) if in_bucket else f"{bucket}/{artifact.name}"
    content = artifact.content.encode() if artifact.content or before is None else before.content
    return [File(path=path, content=content, mode=before.mode if before else "0644")]


def default_path(skill: Skill, original: Original) -> str:
    """Return SKILL.md, or a file named after the slug if the skill is a single document."""
    alone = not original.others and all(not kind_info(artifact.kind).is_file for artifact in skill.artifacts)
    return f"{skill.slug}.md" if alone else SKILL_MD


def frontmatter_extra(skill: Skill, original: Original) -> JsonObject:
    """Return unknown fields that came from frontmatter. Those of data forms do not belong there."""
    if original.origin is not None and form_info(original.origin.form).is_data:
        return {}
    return skill.extra
