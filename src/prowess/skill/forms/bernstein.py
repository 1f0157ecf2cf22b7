"""Bernstein packs: a SKILL.md that declares its trigger keywords and the files in its three folders."""

from __future__ import annotations

from typing import Any

from prowess.skill.forms.draft import BUCKETS, DEFAULT_VERSION, SKILL_MD
from prowess.skill.forms.form import Reading
from prowess.skill.forms.frontmatter import listed, write_document
from prowess.skill.forms.markdown import controls, document_of, document_origin, find_skill_md, read_skill
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.source import Source
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document

__all__ = ["FIELDS", "claims", "controls", "origin", "read", "recognises", "render"]

FIELDS = ("name", "description", "trigger_keywords", "references", "scripts", "assets", "version", "author")
"""All the fields that a pack may have."""


def claims(document: Document) -> bool:
    """A document is a pack's if it declares keywords or lists files."""
    fields = document.fields
    if "trigger_keywords" in fields:
        return True
    return not BUCKETS.keys().isdisjoint(fields) and any(isinstance(fields.get(bucket), list) for bucket in BUCKETS)


def recognises(package: Package) -> bool:
    """A SKILL.md that declares keywords or files."""
    path = find_skill_md(package)
    if path is None:
        return False
    document = document_of(package, path)
    return isinstance(document, Document) and claims(document)


def read(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read the pack leniently; the profile `bernstein` is strict."""
    path = find_skill_md(package) or SKILL_MD
    document = document_of(package, path, limits)
    if not isinstance(document, Document):
        return Reading(form="bernstein", package=package, skill=None, problems=(document,))
    return read_skill("bernstein", package, path, document, limits)


def origin(reading: Reading) -> Origin:
    """What only this form needs: the frontmatter as its author wrote it."""
    return document_origin(reading)


def render(skill: Skill, source: Source) -> list[File]:
    """Write the pack with the fields of its schema and no others."""
    files: dict[str, Any] = {
        bucket: sorted(
            (artifact.path or artifact.name).removeprefix(bucket + "/")
            for artifact in skill.artifacts
            if artifact.kind == kind
        )
        for bucket, kind in BUCKETS.items()
    }
    fields: JsonObject = {
        "name": skill.slug.rpartition(".")[2],
        "description": skill.description,
        "trigger_keywords": listed(skill.keywords),
        **files,
        "version": None if skill.version == DEFAULT_VERSION else skill.version,
        "author": skill.author,
    }
    return write_document(
        "bernstein", skill, source, path=SKILL_MD, fields=fields, read=lambda package: read(package).skill
    )
