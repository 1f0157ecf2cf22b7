"""Agentcy markdown: one document whose `name` is a title and whose `slug` has a namespace."""

from __future__ import annotations

from prowess.skill.forms.draft import SKILL_MD
from prowess.skill.forms.form import Reading
from prowess.skill.forms.frontmatter import default_path, frontmatter_extra, listed, tools_text, write_document
from prowess.skill.forms.markdown import (
    controls,
    document_of,
    document_origin,
    document_path,
    find_skill_md,
    read_skill,
)
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.source import Source
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document

__all__ = ["claims", "controls", "is_lone", "origin", "read", "recognises", "render"]


def claims(document: Document) -> bool:
    """A document is Agentcy's if it gives a slug."""
    return isinstance(document.fields.get("slug"), str)


def is_lone(package: Package) -> bool:
    """Whether the package is nothing but one markdown file that is not called SKILL.md."""
    if len(package.files) != 1 or find_skill_md(package) is not None:
        return False
    return package.files[0].path.lower().endswith((".md", ".markdown"))


def recognises(package: Package) -> bool:
    """A SKILL.md with a slug, or a lone markdown file."""
    path = find_skill_md(package)
    if path is None:
        return is_lone(package)
    document = document_of(package, path)
    return isinstance(document, Document) and claims(document)


def read(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read the document."""
    path = document_path(package)
    document = document_of(package, path, limits)
    if not isinstance(document, Document):
        return Reading(form="agentcy", package=package, skill=None, problems=(document,))
    return read_skill("agentcy", package, path, document, limits)


def origin(reading: Reading) -> Origin:
    """What only this form needs: the frontmatter as its author wrote it, and the file's name."""
    return document_origin(reading)


def render(skill: Skill, source: Source) -> list[File]:
    """Write one document, or a folder where the skill has files."""
    fields: JsonObject = {
        "name": skill.title,
        "slug": skill.slug,
        "description": skill.description,
        "version": skill.version,
        "author": skill.author,
        "tags": listed(skill.tags),
        "when_to_use": skill.when_to_use,
        "triggers": listed(skill.trigger_phrases),
        "intent_patterns": listed(skill.intent_patterns),
        "keywords": listed(skill.keywords),
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": tools_text(skill.allowed_tools),
        "metadata": skill.metadata,
        **frontmatter_extra(skill, source),
    }
    path = default_path(skill, source)
    if path != SKILL_MD and source.origin is not None and source.origin.form == "agentcy":
        path = source.origin.path or SKILL_MD
    return write_document("agentcy", skill, source, path=path, fields=fields, read=lambda package: read(package).skill)
