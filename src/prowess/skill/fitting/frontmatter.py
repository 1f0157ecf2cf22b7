"""Writing a frontmatter that the strictest readers take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prowess.skill.filenames import SKILL_MD
from prowess.skill.forms.frontmatter import compose, stated
from prowess.skill.limits import Limits
from prowess.skill.package import File
from prowess.skill.profiles import rules
from prowess.skill.text.document import Document
from prowess.skill.text.yaml import YamlRefused, dump, load


def skill_md(fields: Mapping[str, Any], body: str) -> File:
    """A SKILL.md with these fields, without those that are empty, and this body.

    No three dashes stand in a row inside the frontmatter, because some readers end it there.
    """
    return File(path=SKILL_MD, content=compose(dump(stated(fields), three_dashes=False), body))


def typed_fields(document: Document, limits: Limits) -> dict[str, Any]:
    """The fields of a document with flags and numbers as such, where the frontmatter is YAML."""
    try:
        loaded = load(document.raw or "", typed=True, limits=limits)
    except YamlRefused:
        return dict(document.fields)
    return rules.as_mapping(loaded.value) or {}


def flat_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as text to text, as the standard has it: structures as JSON."""
    return {str(key): _as_text(value) for key, value in metadata.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
