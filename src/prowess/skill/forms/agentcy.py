"""Agentcy markdown: one document whose `name` is a title and whose `slug` has a namespace."""

from __future__ import annotations

from prowess.skill.filenames import SKILL_MD, find_skill_md
from prowess.skill.forms import markdown_reader
from prowess.skill.forms.form import Candidate, Reading
from prowess.skill.forms.markdown_writer import default_path, format_tools, frontmatter_extra, write_document
from prowess.skill.forms.origin import Original
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document

origin, controls = markdown_reader.origin, markdown_reader.controls


def claims(document: Document) -> bool:
    """Return True if the document has a slug."""
    return isinstance(document.fields.get("slug"), str)


def is_single_file(package: Package) -> bool:
    """Return True if the package is one Markdown file that is not SKILL.md."""
    if len(package.files) != 1 or find_skill_md(package) is not None:
        return False
    return package.files[0].path.lower().endswith((".md", ".markdown"))


def recognises(candidate: Candidate) -> bool:
    """Return True for a SKILL.md with a slug, and for a package of one other Markdown file."""
    return candidate.claims(claims) or is_single_file(candidate.package)


def read(candidate: Candidate) -> Reading:
    """Read the document and the files next to it."""
    return markdown_reader.read("agentcy", candidate)


def render(skill: Skill, original: Original) -> list[File]:
    """Write one document, or a folder if the skill has files."""
    fields: JsonObject = {
        "name": skill.title,
        "slug": skill.slug,
        "description": skill.description,
        "version": skill.version,
        "author": skill.author,
        "tags": list(skill.tags),
        "when_to_use": skill.when_to_use,
        "triggers": list(skill.trigger_phrases),
        "intent_patterns": list(skill.intent_patterns),
        "keywords": list(skill.keywords),
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": format_tools(skill.allowed_tools),
        "metadata": skill.metadata,
        **frontmatter_extra(skill, original),
    }
    path = default_path(skill, original)
    if path != SKILL_MD and original.origin is not None and original.origin.form == "agentcy":
        path = original.path_in("agentcy", SKILL_MD)
    return write_document("agentcy", skill, original, path=path, fields=fields)
