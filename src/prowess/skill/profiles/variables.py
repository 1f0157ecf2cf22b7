"""Prompt templates that cannot be rendered, or that use inputs which nothing declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from prowess.errors import Invalid, Problem
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Artifact, JsonObject, Kind, PromptTemplate
from prowess.skill.limits import MIB
from prowess.skill.model import Skill
from prowess.skill.profiles import rules
from prowess.skill.template_variables import variables_of
from prowess.skill.text.hidden import shown_source

TEMPLATES_BYTES = 2 * MIB
"""How much text the templates of a skill may have together."""

_GIVE_DATA: frozenset[Kind] = frozenset(
    {"cli_command", "code_template", "dspy_module", "function", "http_call", "json_generation"}
)
_WORDS = re.compile(r"[^a-z0-9]+")


def undeclared_variables(reading: Reading) -> Iterator[Problem]:
    """An error for each template that cannot be read, and a warning for each name that a template uses undeclared.

    Only a template whose skill or artifact declares inputs is asked for declarations, and only as far as it can be told
    what artifacts that run before it give.
    """
    skill, room = reading.skill, TEMPLATES_BYTES
    for artifact in skill.artifacts if skill else ():
        if not isinstance(artifact, PromptTemplate) or not skill:
            continue
        room -= len(artifact.content)
        if room < 0:
            message = f"The templates have more than {TEMPLATES_BYTES:,} characters together."
            yield rules.error("template-long", message, "Shorten them, or make two skills of this one.")
            return
        yield from _problems(reading, skill, artifact)


def _problems(reading: Reading, skill: Skill, template: PromptTemplate) -> Iterator[Problem]:
    try:
        used = variables_of(template.content, template.syntax)
    except Invalid as fault:
        own_file = _is_whole_file(reading, template)
        for problem in fault.problems:
            yield replace(problem, field=_field(template), line=problem.line if own_file else None)
        return
    declared = _declared(skill, template)
    for name in sorted(used - declared) if declared is not None else ():
        yield Problem(
            code="template-undeclared",
            severity="warning",
            message=f"The template uses {shown_source(name)}, which is not among the declared inputs.",
            hint="Declare it under the parameters of the skill or in the template's vars_schema, or correct its name.",
            field=_field(template),
        )


def _declared(skill: Skill, template: PromptTemplate) -> frozenset[str] | None:
    """What a template can count on; None where nothing is declared, or where that cannot be told."""
    schemas = [schema for schema in (skill.parameters, template.vars_schema) if schema is not None]
    if not schemas:
        return None
    earlier = [one for one in skill.artifacts if one.ordinal < template.ordinal]
    if any(one.kind in _GIVE_DATA and _given(one) is None for one in earlier):
        return None
    schemas += [schema for schema in map(_given, earlier) if schema is not None]
    named = [_names(schema) for schema in schemas]
    if None in named:
        return None
    outputs = {"previous", *(_WORDS.sub("_", one.name.lower()).strip("_") for one in earlier)}
    return frozenset(outputs).union(*(names for names in named if names))


def _given(artifact: Artifact) -> JsonObject | None:
    """The schema of what an artifact gives, where it has one."""
    return getattr(artifact, "output_schema", None)


def _names(schema: JsonObject) -> frozenset[str] | None:
    """The properties that a schema declares; None where they may be declared elsewhere."""
    if schema.keys() & {"$dynamicRef", "$ref", "allOf", "anyOf", "if", "oneOf", "patternProperties"}:
        return None
    properties = schema.get("properties")
    return frozenset(cast("JsonObject", properties)) if isinstance(properties, dict) else frozenset()


def _field(template: PromptTemplate) -> str:
    return template.path or template.name


def _is_whole_file(reading: Reading, template: PromptTemplate) -> bool:
    """Whether lines of the template are lines of its file."""
    file = reading.package.get(template.path) if template.path else None
    return file is not None and file.content == template.content.encode(errors="replace")
