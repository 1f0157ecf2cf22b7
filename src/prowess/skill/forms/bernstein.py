"""Bernstein packs: a SKILL.md that declares its trigger keywords and the files in its three folders."""

from __future__ import annotations

from typing import Any

from prowess.skill.filenames import SKILL_MD, STANDARD_FOLDERS
from prowess.skill.forms import markdown_reader
from prowess.skill.forms.form import Candidate, Reading
from prowess.skill.forms.frontmatter_fields import DEFAULT_VERSION
from prowess.skill.forms.markdown_writer import write_document
from prowess.skill.forms.origin import Original
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.text.document import Document

origin, controls = markdown_reader.origin, markdown_reader.controls


def claims(document: Document) -> bool:
    """Return True if the document declares keywords or lists files."""
    fields = document.fields
    if "trigger_keywords" in fields:
        return True
    return not STANDARD_FOLDERS.keys().isdisjoint(fields) and any(
        isinstance(fields.get(bucket), list) for bucket in STANDARD_FOLDERS
    )


def recognises(candidate: Candidate) -> bool:
    """Return True for a SKILL.md that declares keywords or lists files."""
    return candidate.claims(claims)


def read(candidate: Candidate) -> Reading:
    """Read the document and the files next to it."""
    return markdown_reader.read("bernstein", candidate)


def render(skill: Skill, original: Original) -> list[File]:
    """Write the pack with exactly the fields of its schema."""
    files: dict[str, Any] = {
        bucket: sorted(
            (artifact.path or artifact.name).removeprefix(bucket + "/")
            for artifact in skill.artifacts
            if artifact.kind == kind
        )
        for bucket, kind in STANDARD_FOLDERS.items()
    }
    fields: JsonObject = {
        "name": skill.name,
        "description": skill.description,
        "trigger_keywords": list(skill.keywords),
        **files,
        "version": None if skill.version == DEFAULT_VERSION else skill.version,
        "author": skill.author,
    }
    return write_document("bernstein", skill, original, path=SKILL_MD, fields=fields)
