"""The prompts and rubrics that a skill brings itself, as entries of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prowess.errors import Problem
from prowess.skill.forms.registry import is_data, read_rubric, text_of
from prowess.skill.kinds import Kind, PromptTemplate, Review
from prowess.skill.model import Skill
from prowess.templates.prompt import prompt_of
from prowess.templates.rubric import rubric_of
from prowess.templates.shelves import Entry, EntryKind

ARTIFACT_KINDS: Mapping[EntryKind, Kind] = {"prompt": "prompt_template", "rubric": "review"}
"""Which kind of artifact holds entries of a kind."""

SKILL = "skill:"
"""How the origin of such an entry begins."""


def entries_of(skill: Skill, kind: EntryKind) -> list[Entry]:
    """The skill's own entries; of a prompt's variants, the one for any model."""
    return _prompts(skill) if kind == "prompt" else _rubrics(skill)


def _prompts(skill: Skill) -> list[Entry]:
    found: dict[tuple[str, str], Entry] = {}
    templates = [artifact for artifact in skill.artifacts if isinstance(artifact, PromptTemplate)]
    for artifact in sorted(templates, key=lambda one: (one.variant not in (None, "default"), one.ordinal)):
        prompt = prompt_of(artifact, f"{SKILL}{skill.slug}")
        entry = Entry(
            kind="prompt",
            id=prompt.id,
            version=prompt.version,
            origin=prompt.origin,
            location=artifact.path or "",
            value=prompt,
        )
        found.setdefault((prompt.id, prompt.version), entry)
    return list(found.values())


def _rubrics(skill: Skill) -> list[Entry]:
    found: dict[tuple[str, str], Entry] = {}
    for artifact in skill.artifacts:
        if isinstance(artifact, Review) and artifact.content:
            entry = _rubric(artifact, f"{SKILL}{skill.slug}")
            found.setdefault((entry.id, entry.version), entry)
    return list(found.values())


def _rubric(artifact: Review, origin: str) -> Entry:
    """The rubric in a review's text, under the id by which the skill knows it."""
    problems: list[Problem] = []
    ending = ".json" if artifact.content.lstrip("\ufeff \t\r\n").startswith("{") else ".yaml"
    path = artifact.path if artifact.path and is_data(artifact.path) else f"{artifact.rubric_id}{ending}"
    document = read_rubric(path, artifact.content.encode(), problems).object or {}
    entry = Entry(
        kind="rubric",
        id=artifact.rubric_id,
        version=text_of(document.get("version")),
        origin=origin,
        location=artifact.path or "",
        value=None,
        problems=tuple(problems),
    )
    if not document or any(problem.severity == "error" for problem in problems):
        return entry
    return replace(entry, value=rubric_of(document, entry.id, entry.version, origin))
