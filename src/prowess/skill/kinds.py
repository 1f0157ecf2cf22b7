"""The kinds of artifact a skill can hold: one model per kind, told apart by `kind`.

`content` is the artifact's text exactly as its author wrote it. Kinds that stand for a file of the package
(`reference`, `script`, `asset`) leave it empty; the bytes are read from the package by `path`.
Whatever a source says about an artifact that no field here stands for is kept in `metadata`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Kind = Literal[
    "description",
    "instructions",
    "approach",
    "example",
    "reference",
    "script",
    "asset",
    "prompt_template",
    "json_generation",
    "review",
    "code_template",
    "function",
    "http_call",
    "cli_command",
    "dspy_module",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
FILE_KINDS: frozenset[Kind] = frozenset({"reference", "script", "asset"})

JsonObject = dict[str, Any]


class FrozenModel(BaseModel):
    """A value that never changes; a change is a new value."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class ArtifactFields(FrozenModel):
    """What every artifact has, whatever its kind.

    `name` with `variant` is unique in a skill; no variant is the default one. `fallback` names another artifact of
    the same skill. `path` is the file of the package that holds the artifact, where it has one of its own.
    `id`, `skill_id` and `revision` (the skill's digest when it was read) are set by the store that keeps it.
    """

    name: str = Field(min_length=1, max_length=200)
    ordinal: int = 0
    content: str = ""
    path: str | None = None
    variant: str | None = None
    fallback: str | None = None
    assertions: tuple[JsonObject, ...] = ()
    metadata: JsonObject = Field(default_factory=dict)
    id: str = ""
    skill_id: str = ""
    revision: str = ""


class Description(ArtifactFields):
    """What the skill is for and when to use it; informs activation."""

    kind: Literal["description"] = "description"


class Instructions(ArtifactFields):
    """The playbook that enters the prompt: the body of SKILL.md."""

    kind: Literal["instructions"] = "instructions"


class Approach(ArtifactFields):
    """Strategy or method that joins the system prompt."""

    kind: Literal["approach"] = "approach"


class Example(ArtifactFields):
    """An example that becomes a few-shot turn."""

    kind: Literal["example"] = "example"


class FileArtifact(ArtifactFields):
    """An artifact that is a file of the package; its bytes stay there."""

    path: str | None = Field(min_length=1)


class Reference(FileArtifact):
    """A document to load on demand."""

    kind: Literal["reference"] = "reference"


class Script(FileArtifact):
    """A program to load, or to run through the gate."""

    kind: Literal["script"] = "script"


class Asset(FileArtifact):
    """Any other file that the skill uses."""

    kind: Literal["asset"] = "asset"


class PromptTemplate(ArtifactFields):
    """A template that is rendered and sent to a model; `variant` names the model family it is written for."""

    kind: Literal["prompt_template"] = "prompt_template"
    syntax: Literal["jinja", "mustache"] = "jinja"
    version: str | None = None
    vars_schema: JsonObject | None = None
    output_schema: JsonObject | None = None


class JsonGeneration(ArtifactFields):
    """A prompt of the registry whose answer must satisfy a schema; one retry with the errors."""

    kind: Literal["json_generation"] = "json_generation"
    prompt_id: str
    prompt_version: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    retry_on_validation_failure: bool = True
    output_schema: JsonObject | None = None


class Review(ArtifactFields):
    """A judgement by rubric, criterion by criterion; `content` is the rubric's text where the skill brings it."""

    kind: Literal["review"] = "review"
    rubric_id: str
    rubric_version: str | None = None
    evaluation_model: str | None = None
    include_criteria_details: bool = True
    output_schema: JsonObject | None = None


class CodeTemplate(ArtifactFields):
    """A Python script for the sandbox."""

    kind: Literal["code_template"] = "code_template"


class Function(ArtifactFields):
    """A function `execute(args, ctx)` that agents call as a tool."""

    kind: Literal["function"] = "function"
    language: Literal["python", "typescript", "javascript"] = "python"
    handler: str = "execute"
    timeout_seconds: float = 30.0


class HttpCall(ArtifactFields):
    """A declared request; `handler` says where it goes."""

    kind: Literal["http_call"] = "http_call"
    handler: str


class CliCommand(ArtifactFields):
    """A declared command; `handler` says which."""

    kind: Literal["cli_command"] = "cli_command"
    handler: str


class DspyModule(ArtifactFields):
    """A known module template with its optimised state, never code.

    `content` is JSON with `template_id` and parameters; `state` is the JSON text of the saved state.
    """

    kind: Literal["dspy_module"] = "dspy_module"
    state: str | None = None

    @property
    def settings(self) -> JsonObject:
        """The parsed content; empty when it is not a JSON object."""
        try:
            parsed = json.loads(self.content)
        except (ValueError, RecursionError):
            return {}
        return cast("JsonObject", parsed) if isinstance(parsed, dict) else {}


Artifact = Annotated[
    Description
    | Instructions
    | Approach
    | Example
    | Reference
    | Script
    | Asset
    | PromptTemplate
    | JsonGeneration
    | Review
    | CodeTemplate
    | Function
    | HttpCall
    | CliCommand
    | DspyModule,
    Field(discriminator="kind"),
]

ARTIFACT_ADAPTER: TypeAdapter[Artifact] = TypeAdapter(Artifact)
