"""Rendering a changed skill as files: what an edit through a store does."""

from __future__ import annotations

from prowess.skill.forms.convert import as_in_files, is_unchanged, source_of
from prowess.skill.forms.folder import render_folder
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package


def rewrite(skill: Skill, package: Package | None = None, limits: Limits = DEFAULT_LIMITS) -> Package:
    """The skill as a native folder, with as little changed as can be.

    `package` holds the files that the skill was read from, in whatever form. Files of it that are not artifacts stay;
    the file of an artifact that did not change keeps its bytes, and the file of one that is gone goes. SKILL.md stays
    byte for byte where what it says did not change; where only its text did, the frontmatter stays as it is, and where
    a field did, the other lines stay. A skill that did not change at all keeps all its files.
    """
    original = source_of(package, skill, limits)
    if package is not None and is_unchanged(skill, original):
        return package
    skill = as_in_files(skill, original)
    return Package.written(skill.name, render_folder(skill, original, standard_only=False))
