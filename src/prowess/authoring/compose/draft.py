"""A draft: what a model writes of a skill, the schema of its answer, and the files that follow from it.

A model never writes files. It fills in the fields below, and the files are made from them here. A dspy_module, for
example, is the id of a shipped template and a signature of the prompt's variables; no model writes code for it.
"""

from __future__ import annotations

from typing import Any, Literal

from prowess.skill.assertion_specs import ASSERTION_CHECKS
from prowess.skill.json_values import json_value
from prowess.skill.kinds import FrozenModel, JsonObject

InputType = Literal["string", "integer", "number", "boolean", "array", "object"]
TEMPLATES = ("predict", "chain_of_thought", "best_of_n", "refine", "multi_chain_comparison")
"""The shipped templates of the sidecar that need nothing but a signature. The others need tools or code."""
PYTHON_TYPES: dict[str, str] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
"""The types of inputs, with those of signatures."""


class DraftInput(FrozenModel):
    """One input of the skill. `example` is its value in the dry run, as text or JSON."""

    name: str
    type: InputType = "string"
    description: str = ""
    required: bool = True
    example: str = ""


class DraftQuery(FrozenModel):
    """A message, and whether the skill should be chosen for it."""

    query: str
    should_trigger: bool


class DraftEval(FrozenModel):
    """A message to run the skill with, and what a good answer has."""

    prompt: str
    expected: str


class Draft(FrozenModel):
    """Everything that a model decides about a skill. An empty text means that the skill does not have that part."""

    slug: str
    title: str
    description: str
    instructions: str = ""
    trigger_phrases: tuple[str, ...] = ()
    inputs: tuple[DraftInput, ...] = ()
    prompt_template: str = ""
    code_template: str = ""
    dspy_template: str = ""
    assertions: tuple[JsonObject, ...] = ()
    queries: tuple[DraftQuery, ...] = ()
    evals: tuple[DraftEval, ...] = ()
    note: str = ""
    """The changes of this round, in one sentence."""

    @property
    def example_inputs(self) -> JsonObject:
        """The inputs of a dry run."""
        return {field.name: _example(field) for field in self.inputs}


def _text(most: int, description: str = "", least: int = 1) -> JsonObject:
    return {"type": "string", "minLength": least, "maxLength": most, "description": description}


def _object(properties: JsonObject, *optional: str) -> JsonObject:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: JsonObject, least: int, most: int, description: str = "") -> JsonObject:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, "description": description}


_ASSERTION_SETTINGS: JsonObject = {
    "pattern": _text(1_000),
    "min": {"type": "integer"},
    "max": {"type": "integer"},
    "fields": _list(_text(200), 1, 50),
    "format": _text(40),
    "prompt": _text(4_000),
    "expected": _text(200),
}
DRAFT_SCHEMA: JsonObject = _object(
    {
        "slug": {**_text(64, "Lowercase letters, digits and hyphens."), "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "title": _text(100),
        "description": _text(1_024, "What the skill does and when to use it. Skills are found by this."),
        "instructions": _text(20_000, "Markdown for an agent: when to run the skill, and how to use its result."),
        "trigger_phrases": _list(_text(200), 1, 20, "Short phrases of people who need the skill."),
        "inputs": _list(
            _object(
                {
                    "name": {**_text(60), "pattern": "^[a-z_][a-z0-9_]*$"},
                    "type": {"enum": list(PYTHON_TYPES)},
                    "description": _text(500),
                    "required": {"type": "boolean"},
                    "example": _text(4_000, "A realistic value, as text; JSON for arrays and objects.", 0),
                }
            ),
            0,
            20,
        ),
        "prompt_template": _text(50_000, "A Jinja template that uses every input as {{ name }}."),
        "code_template": _text(
            50_000, "Python for the sandbox, or an empty string, which is usual. It ends with submit(result).", 0
        ),
        "dspy_template": {
            "enum": ["", *TEMPLATES],
            "description": "A module that runs the prompt, only if it was asked for; else an empty string.",
        },
        "assertions": _list(
            _object(
                {
                    "type": {"enum": [name for name in ASSERTION_CHECKS if "." not in name]},
                    "check": _text(40),
                    "description": _text(200),
                    **_ASSERTION_SETTINGS,
                },
                *_ASSERTION_SETTINGS,
            ),
            0,
            10,
            "Checks of the answer to the prompt.",
        ),
        "queries": _list(
            _object({"query": _text(500), "should_trigger": {"type": "boolean"}}),
            4,
            40,
            "Messages of people: some that need the skill, others that only sound similar.",
        ),
        "evals": _list(_object({"prompt": _text(4_000), "expected": _text(2_000)}), 1, 20),
        "note": _text(500, "What you wrote or changed, in one sentence."),
    }
)
"""The schema of a model's answer."""


def _example(one: DraftInput) -> Any:
    """Return an example of an input in its type."""
    if one.type == "string":
        return one.example or f"An example of {one.name}."
    value = json_value(one.example)
    kinds: dict[str, tuple[type, Any]] = {
        "integer": (int, 1),
        "number": (float, 1.0),
        "boolean": (bool, True),
        "array": (list, ["An example."]),
        "object": (dict, {"example": "An example."}),
    }
    kind, default = kinds[one.type]
    return value if isinstance(value, kind) or (kind is float and isinstance(value, int)) else default
