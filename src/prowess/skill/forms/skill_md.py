"""Write the SKILL.md of a native folder: the author's own as far as it still applies, else a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import (
    MAX_COMPATIBILITY_CHARS,
    MAX_DESCRIPTION_CHARS,
    SKILL_MD,
    STANDARD_KEYS,
    find_skill_md,
)
from prowess.skill.forms.data import same_json
from prowess.skill.forms.frontmatter_fields import field_for_key, read_fields
from prowess.skill.forms.markdown_writer import body_text, compose_document, dump_fields, format_tools, replace_fields
from prowess.skill.forms.origin import Original, dump_content
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document
from prowess.skill.text.yaml import YamlRefused, load

_LIMITS = {"description": MAX_DESCRIPTION_CHARS, "compatibility": MAX_COMPATIBILITY_CHARS}
# Frontmatter is limited to 16 KiB in all. What is longer goes to the sidecar, which has more room.
_FIELD_LIMIT = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillMd:
    """A written SKILL.md and its content. `own` means that the frontmatter is the author's, at most with changed lines."""

    file: File
    document: Document
    own: bool


def write_skill_md(skill: Skill, original: Original, *, standard_only: bool) -> SkillMd:
    """Return the SKILL.md that matches the skill and differs least from the current one.

    With `standard_only`, it has only the fields of the standard, so that every client can read it.
    """
    body = body_text(skill)
    for file in _own_files(skill, original, body, standard_only):
        document = read_document(file.content, limits=original.limits)
        if (
            document.body == body
            and _is_as_readable(document, original)
            and _still_holds(skill, original, file.path, document, standard_only)
        ):
            return SkillMd(file=file, document=document, own=True)
    return _new_skill_md(skill, {} if standard_only else _extra_fields(skill, original), body, original)


def _own_files(skill: Skill, original: Original, body: str, standard_only: bool) -> Iterator[File]:
    """Yield the current file, then with the new body, then with the lines of changed fields replaced."""
    before, document = find_skill_md(original.package), original.reading.document
    if before is None or document is None:
        return
    path = SKILL_MD if standard_only else before.path
    if document.body == body:
        yield File(path=path, content=before.content, mode=before.mode)
    yield File(path=path, content=compose_document(document.raw, body), mode=before.mode)
    edited = None if standard_only else _edited(skill, original, before.path, document)
    if edited is not None:
        yield File(path=path, content=compose_document(edited, body), mode=before.mode)


def _is_as_readable(document: Document, original: Original) -> bool:
    """Return True if the document is read in the same way as before, for example without repairs."""
    before = original.reading.document
    return before is not None and document.how == before.how


def _new_skill_md(skill: Skill, extra: JsonObject, body: str, original: Original) -> SkillMd:
    """Return a new SKILL.md, without the body if no document can hold it."""
    standard = standard_fields(skill)
    fresh, document = _written({**standard, **extra}, body, original)
    if document.how != "yaml":
        fresh, document = _written(standard, body, original)
    if document.body != body:
        fresh, document = _written(standard, "", original)
    before = find_skill_md(original.package)
    return SkillMd(
        file=File(path=SKILL_MD, content=fresh, mode=before.mode if before else "0644"), document=document, own=False
    )


def _written(fields: JsonObject, body: str, original: Original) -> tuple[bytes, Document]:
    content = compose_document(dump_fields(fields), body)
    return content, read_document(content, limits=original.limits)


def standard_fields(skill: Skill) -> JsonObject:
    """Return the fields of the open standard, as far as the values fit."""
    description = skill.description
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = description[: MAX_DESCRIPTION_CHARS - 1].rstrip() + "…"
    tools = format_tools(skill.allowed_tools)
    compatibility = skill.compatibility or ""
    return {
        "name": skill.name,
        "description": description,
        "license": skill.license if len(skill.license or "") <= _FIELD_LIMIT else None,
        "compatibility": compatibility if len(compatibility) <= MAX_COMPATIBILITY_CHARS else None,
        "allowed-tools": tools if isinstance(tools, str) and len(tools) <= _FIELD_LIMIT else None,
        "metadata": skill.metadata if _is_plain(skill.metadata) else None,
    }


def _is_plain(metadata: JsonObject) -> bool:
    """Return True if frontmatter can hold the metadata: text values, not too many."""
    texts = all(isinstance(value, str) for value in metadata.values())
    return texts and sum(len(key) + len(str(value)) for key, value in metadata.items()) <= _FIELD_LIMIT


def _is_standard(document: Document, original: Original) -> bool:
    """Return True if a strict reader of the standard accepts the frontmatter."""
    fields = document.fields
    if document.how != "yaml" or document.problems or not set(fields) <= set(STANDARD_KEYS):
        return False
    if not all(isinstance(value, str) for key, value in fields.items() if key != "metadata"):
        return False
    too_long = any(len(fields.get(key, "")) > limit for key, limit in _LIMITS.items())
    return not too_long and not load(document.raw or "", limits=original.limits).styles


def _still_holds(skill: Skill, original: Original, path: str, document: Document, standard_only: bool) -> bool:
    """Return True if SKILL.md matches the skill."""
    fields = document.fields
    if standard_only and not (_is_standard(document, original) and fields.get("name") == skill.name):
        return False
    written = read_fields("native", original.package, path, document, [])
    if written is None:
        return False
    metadata = cast("JsonObject", written.get("metadata", {}))
    # These two come from defaults if the document does not state them, so they say nothing that could be wrong.
    if "version" not in fields and "version" not in metadata:
        del written["version"]
    if "title" not in fields and "title" not in metadata and written["slug"] == fields.get("name"):
        del written["title"]
    if written.pop("slug") not in (skill.slug, skill.name):
        return False
    # A document without a description does not hold one that was given elsewhere.
    if written.pop("described", True) != skill.described:
        return False
    # A description that was shortened to the limit of the standard is still true; the sidecar has the full one.
    if written["description"] == standard_fields(skill)["description"]:
        del written["description"]
    current = dump_content(skill)
    extra = cast("JsonObject", written.pop("extra", {}))
    covered = all(key in skill.extra and same_json(skill.extra[key], value) for key, value in extra.items())
    return covered and all(same_json(current[field], value) for field, value in written.items())


def _extra_fields(skill: Skill, original: Original) -> JsonObject:
    """Return the unknown fields from the frontmatter: other clients look for them there."""
    document = original.reading.document
    if document is None:
        return {}
    typed = _typed_fields(document, original)
    extra: JsonObject = {}
    for key, value in skill.extra.items():
        if key in document.fields and key not in STANDARD_KEYS and _is_text(value):
            extra[key] = typed.get(key, value) if same_json(document.fields[key], value) else value
    return extra


def _typed_fields(document: Document, original: Original) -> JsonObject:
    """Return the fields with flags and numbers as such, if the frontmatter is YAML: a quoted flag means something else."""
    try:
        value = load(document.raw or "", typed=True, limits=original.limits).value
    except YamlRefused:
        return {}
    return json_object(value)


def _is_text(value: Any) -> bool:
    """Return True if frontmatter returns the value unchanged: text, and lists and mappings of text."""
    if isinstance(value, dict):
        return all(_is_text(part) for part in cast("JsonObject", value).values())
    if isinstance(value, list):
        return all(_is_text(part) for part in cast("list[Any]", value))
    return isinstance(value, str)


def _edited(skill: Skill, original: Original, path: str, document: Document) -> str | None:
    """Return the author's frontmatter with changed lines, or None if its structure does not allow that."""
    written = read_fields("native", original.package, path, document, [])
    # Lines can only be replaced where plain YAML says which lines belong to a key. Repaired frontmatter is written
    # anew.
    if written is None or document.raw is None or document.how != "yaml":
        return None
    try:
        return replace_fields(document.raw, _changes(skill, document, written), original.limits)
    except YamlRefused:
        return None


def _changes(skill: Skill, document: Document, written: JsonObject) -> JsonObject:
    """Return the new value of each frontmatter key that must change; None to remove it."""
    extra = cast("JsonObject", written.get("extra", {}))
    standard = standard_fields(skill)
    found: JsonObject = {}
    for key, value in document.fields.items():
        if key in extra:
            now = skill.extra.get(key)
            if key not in skill.extra or not same_json(now, value):
                found[key] = now if _is_text(now) else None
            continue
        field = field_for_key(key)
        if field == "name":
            if "slug" not in document.fields and written["slug"] not in (skill.slug, skill.name):
                found[key] = skill.name
        elif field in Skill.model_fields and _differs(written.get(field), getattr(skill, field), standard.get(key)):
            found[key] = standard[key] if key in standard else _plain(getattr(skill, field))
    return found


def _differs(written: Any, now: Any, standard: Any) -> bool:
    return not same_json(written or None, now or None) and not same_json(written, standard)


def _plain(value: Any) -> Any:
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
