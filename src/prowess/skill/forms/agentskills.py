"""The plain Agent Skills form: a folder with SKILL.md and other files."""

from __future__ import annotations

from prowess.skill.filenames import SKILL_MD
from prowess.skill.forms import markdown_reader
from prowess.skill.forms.form import Candidate, Reading
from prowess.skill.forms.frontmatter_fields import title_from_slug
from prowess.skill.forms.markdown_writer import (
    body_text,
    format_tools,
    frontmatter_extra,
    metadata_fields,
    write_document,
)
from prowess.skill.forms.origin import Original
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.text.fields import find_title

origin, controls = markdown_reader.origin, markdown_reader.controls


def recognises(candidate: Candidate) -> bool:
    """Return True for every package with a SKILL.md: this form is tried after the more specific ones."""
    return candidate.skill_md is not None


def read(candidate: Candidate) -> Reading:
    """Read the document and the files next to it."""
    return markdown_reader.read("agentskills", candidate)


def render(skill: Skill, original: Original) -> list[File]:
    """Write SKILL.md with the fields of the standard. Other fields go under `metadata`, or stay as they were."""
    fields: JsonObject = {
        "name": skill.name,
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": format_tools(skill.allowed_tools),
        "metadata": metadata_fields(skill, find_title(body_text(skill)) or title_from_slug(skill.slug)),
        **frontmatter_extra(skill, original),
    }
    return write_document("agentskills", skill, original, path=SKILL_MD, fields=fields)
