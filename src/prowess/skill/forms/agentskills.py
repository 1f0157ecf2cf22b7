"""The plain Agent Skills form: a folder with SKILL.md, and whatever lies beside it."""

from __future__ import annotations

from prowess.skill.filenames import SKILL_MD
from prowess.skill.forms.draft import words
from prowess.skill.forms.frontmatter import frontmatter_extra, in_metadata, text_of, tools_text, write_document
from prowess.skill.forms.original import Original
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.text.fields import first_heading


def render(skill: Skill, original: Original) -> list[File]:
    """Write SKILL.md with the standard's fields; what they do not cover goes under `metadata` or stays as it came."""
    fields: JsonObject = {
        "name": skill.name,
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": tools_text(skill.allowed_tools),
        "metadata": in_metadata(skill, first_heading(text_of(skill)) or words(skill.slug)),
        **frontmatter_extra(skill, original),
    }
    return write_document("agentskills", skill, original, path=SKILL_MD, fields=fields)
