"""Which inputs that its parameters do not declare a skill may use all the same."""

from __future__ import annotations

import json
import re

from prowess.errors import Invalid
from prowess.run.schema_checks import declared_inputs
from prowess.run.selection import to_input_name
from prowess.skill.kinds import Artifact, JsonGeneration, PromptTemplate, Review, kind_info
from prowess.skill.model import Skill

ASSET_INPUTS = ("asset", "content", "text", "output")
"""The inputs that a review judges, the first that is there."""


def may_use(skill: Skill, name: str) -> bool:
    """Return True if an artifact of the skill may use an input of this name.

    That is so for a variable of a template, a name that occurs in code or in a declared call, the output of an earlier
    artifact, and the text that a review judges. A generation whose prompt is not in the skill may use every name.
    """
    return any(_artifact_may_use(skill, one, name) for one in skill.artifacts)


def _artifact_may_use(skill: Skill, artifact: Artifact, name: str) -> bool:
    if name == to_input_name(artifact.name):
        return True
    if isinstance(artifact, JsonGeneration):
        return artifact.prompt_id not in {one.name.partition("@")[0] for one in skill.artifacts}
    if isinstance(artifact, PromptTemplate):
        return name in declared_inputs(artifact.vars_schema or {}) or _is_variable(artifact, name)
    if isinstance(artifact, Review) and name in ASSET_INPUTS:
        return True
    if kind_info(artifact.kind).in_run != "work":
        return False
    # Code may read its inputs in any way, so every mention of the name counts.
    return _mentions(json.dumps(artifact.model_dump(mode="json"), ensure_ascii=False), name)


def _is_variable(template: PromptTemplate, name: str) -> bool:
    # The items of a section may have a name, or else the inputs: only the text shows that it is used.
    if template.syntax == "mustache":
        return _mentions(template.content, name)
    from prowess.skill.template import find_variables  # imports minijinja

    try:
        return name in find_variables(template.content)
    except Invalid:  # rendering says what is wrong with the template
        return True


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
