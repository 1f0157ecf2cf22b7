"""Rendering a changed skill as files: what an edit through a store does."""

from __future__ import annotations

from prowess.skill.forms.convert import as_in_files, is_unchanged, source_of
from prowess.skill.forms.folder import render_folder
from prowess.skill.model import Skill
from prowess.skill.package import Package


def rewrite(skill: Skill, package: Package | None = None) -> Package:
    """The skill as a native folder, with as little changed as can be.

    `package` holds the files that the skill was read from, in whatever form. Files of it that are not artifacts stay;
    the file of an artifact that did not change keeps its bytes, and the file of one that is gone goes. SKILL.md stays
    byte for byte where what it says did not change. A skill that did not change at all keeps all its files.
    """
    source = source_of(package, skill)
    if package is not None and is_unchanged(skill, source):
        return package
    skill = as_in_files(skill, source)
    name = skill.slug.rpartition(".")[2]
    return Package.written(name, render_folder(skill, source, standard_only=False))
