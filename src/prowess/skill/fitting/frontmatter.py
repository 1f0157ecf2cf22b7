"""Writing a frontmatter that the strictest readers take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from prowess.skill.forms.frontmatter import compose
from prowess.skill.package import File
from prowess.skill.profiles import rules
from prowess.skill.text.document import Document
from prowess.skill.text.yaml import YamlRefused, dump, load

_DASH = re.compile(r"-(?=--)")
_STAND_IN = "\x7f"


def skill_md(fields: Mapping[str, Any], body: str) -> File:
    """A SKILL.md with these fields, without those that are empty, and this body.

    No three dashes stand in a row inside the frontmatter, because some readers end it there.
    """
    stated = {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}
    return File(path="SKILL.md", content=compose(_without_rules(stated), body))


def _without_rules(fields: dict[str, Any]) -> str:
    """The YAML of the fields, three dashes in a row written as an escape."""
    written = dump(fields)
    if "---" not in written:
        return written
    # The stand-in makes the writer choose double quotes, the one style that has escapes.
    return dump(_masked(fields)).replace("\\x7F", "\\x2D")


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _DASH.sub(_STAND_IN, value.replace(_STAND_IN, ""))
    mapping, items = rules.as_mapping(value), rules.as_items(value)
    if mapping is not None:
        return {_masked(key): _masked(part) for key, part in mapping.items()}
    return [_masked(part) for part in items] if items is not None else value


def typed_fields(document: Document) -> dict[str, Any]:
    """The fields of a document with flags and numbers as such, where the frontmatter is YAML."""
    try:
        loaded = load(document.raw or "", typed=True)
    except YamlRefused:
        return dict(document.fields)
    return rules.as_mapping(loaded.value) or {}


def flat_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as text to text, as the standard has it: structures as JSON."""
    return {str(key): _as_text(value) for key, value in metadata.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
