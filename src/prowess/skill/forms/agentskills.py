"""The plain Agent Skills form: a folder with SKILL.md, and whatever lies beside it."""

from __future__ import annotations

from prowess.skill.forms.draft import SKILL_MD, words
from prowess.skill.forms.form import Reading
from prowess.skill.forms.frontmatter import frontmatter_extra, in_metadata, text_of, tools_text, write_document
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
from prowess.skill.text.fields import first_heading

__all__ = ["controls", "document_path", "origin", "read", "recognises", "render"]


def recognises(package: Package) -> bool:
    """Any folder with a SKILL.md; the forms that ask for more are asked first."""
    return find_skill_md(package) is not None


def read(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read SKILL.md and the files in the standard's three folders."""
    path = find_skill_md(package) or SKILL_MD
    document = document_of(package, path, limits)
    if not isinstance(document, Document):
        return Reading(form="agentskills", package=package, skill=None, problems=(document,))
    return read_skill("agentskills", package, path, document, limits)


def origin(reading: Reading) -> Origin:
    """What only this form needs: the frontmatter as its author wrote it."""
    return document_origin(reading)


def render(skill: Skill, source: Source) -> list[File]:
    """Write SKILL.md with the standard's fields; what they do not cover goes under `metadata` or stays as it came."""
    fields: JsonObject = {
        "name": skill.slug.rpartition(".")[2],
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": tools_text(skill.allowed_tools),
        "metadata": in_metadata(skill, first_heading(text_of(skill)) or words(skill.slug)),
        **frontmatter_extra(skill, source),
    }
    return write_document(
        "agentskills", skill, source, path=SKILL_MD, fields=fields, read=lambda package: read(package).skill
    )
