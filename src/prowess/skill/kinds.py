"""The kinds of artifact that a skill can hold: one model and one row of `KINDS` for each.

`content` is the artifact's text exactly as its author wrote it. Kinds that stand for a file of the package
(`reference`, `script`, `asset`) leave it empty; the bytes are read from the package by `path`.
Settings of an artifact that no field here stands for are kept in `metadata`.

Code that has to know something about a kind asks its row (`kind_info`), never its own list: a plugin adds a kind by
adding a row (`add_kind`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, field_validator

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.json_values import json_object, json_value
from prowess.skill.reader_version import add_reader_extension

Kind = str
"""The name of a kind: one of the built-in ones, or a plugin's, which has a namespace: `acme.sql-query`."""

JsonObject = dict[str, Any]


class FrozenModel(BaseModel):
    """A value that never changes; a change is a new value."""

    # Validators are built at first use: most processes touch few models, and building all of them was about a third of the import.
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True, defer_build=True)


Model = TypeVar("Model", bound=BaseModel)

_set = object.__setattr__


def construct(model: type[Model], values: dict[str, Any], fields_set: set[str]) -> Model:
    """Construct a model from values for all its fields, which have exactly their types; `fields_set` are not defaults."""
    # What pydantic's `model_construct` does, without looking up aliases and defaults for every field.
    instance = model.__new__(model)
    _set(instance, "__dict__", values)
    _set(instance, "__pydantic_fields_set__", fields_set)
    _set(instance, "__pydantic_extra__", None)
    _set(instance, "__pydantic_private__", None)
    return instance


class Artifact(FrozenModel):
    """The fields of every artifact, whatever its kind.

    `name` with `variant` is unique in a skill; an empty variant is the default one. `fallback` names another artifact of
    the same skill. `path` is the file of the package that holds the artifact, where it has one of its own.
    `id`, `skill_id` and `revision` (the skill's digest when it was read) are set by the store that keeps it.
    """

    kind: Kind
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

    @field_validator("kind")
    @classmethod
    def _is_own_kind(cls, kind: Kind) -> Kind:
        own = cls.model_fields["kind"]
        if not own.is_required() and kind != own.default:
            raise ValueError(f"the kind of {cls.__name__} must be {own.default!r}")
        return kind


class Description(Artifact):
    """The purpose of the skill and when to use it; informs activation."""

    kind: Kind = "description"


class Instructions(Artifact):
    """The playbook that enters the prompt: the body of SKILL.md."""

    kind: Kind = "instructions"


class Approach(Artifact):
    """Strategy or method that joins the system prompt."""

    kind: Kind = "approach"


class Example(Artifact):
    """An example that becomes a few-shot turn."""

    kind: Kind = "example"


class FileArtifact(Artifact):
    """An artifact that is a file of the package; its bytes stay there."""

    path: str | None = Field(min_length=1)


class Reference(FileArtifact):
    """A document to load on demand."""

    kind: Kind = "reference"


class Script(FileArtifact):
    """A program to load, or to run through the gate."""

    kind: Kind = "script"


class Asset(FileArtifact):
    """Any other file that the skill uses."""

    kind: Kind = "asset"


class PromptTemplate(Artifact):
    """A template that is rendered and sent to a model; `variant` names the model family it is written for."""

    kind: Kind = "prompt_template"
    syntax: Literal["jinja", "mustache"] = "jinja"
    version: str | None = None
    vars_schema: JsonObject | None = None
    output_schema: JsonObject | None = None


class JsonGeneration(Artifact):
    """A prompt of the registry whose answer must satisfy a schema; one retry with the errors."""

    kind: Kind = "json_generation"
    prompt_id: str
    prompt_version: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    retry_on_validation_failure: bool = True
    output_schema: JsonObject | None = None


class Review(Artifact):
    """A judgement by rubric, criterion by criterion; `content` is the rubric's text if the skill includes it."""

    kind: Kind = "review"
    rubric_id: str
    rubric_version: str | None = None
    evaluation_model: str | None = None
    include_criteria_details: bool = True
    output_schema: JsonObject | None = None


class CodeTemplate(Artifact):
    """A Python script for the sandbox."""

    kind: Kind = "code_template"


class Function(Artifact):
    """A function `execute(args, ctx)` that agents call as a tool."""

    kind: Kind = "function"
    language: Literal["python", "typescript", "javascript"] = "python"
    handler: str = "execute"
    timeout_seconds: float = 30.0


class HttpCall(Artifact):
    """A declared request; `handler` says where it goes."""

    kind: Kind = "http_call"
    handler: str


class CliCommand(Artifact):
    """A declared command; `handler` says which."""

    kind: Kind = "cli_command"
    handler: str


class DspyModule(Artifact):
    """A known module template with its optimized state, never code.

    `content` is JSON with `template_id` and parameters; `state` is the JSON text of the saved state.
    """

    kind: Kind = "dspy_module"
    state: str | None = None

    @property
    def settings(self) -> JsonObject:
        """The parsed content; empty when it is not a JSON object."""
        return json_object(json_value(self.content))


class UnknownArtifact(Artifact):
    """An artifact of a plugin's kind while that plugin is not installed: every setting is kept, but it cannot run."""

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInfo:
    """One row of `KINDS`: everything that the rest of Prowess has to know about a kind."""

    name: Kind
    model: type[Artifact]
    folder: str
    """The folder of a native skill that its files are written to."""
    reads: tuple[str, ...]
    """How the name of a file in `folder` ends that is read as this kind; `("",)` for every file, `()` for none."""
    writes: str
    """The default suffix of its file."""
    root_files: tuple[str, ...]
    """Files outside `folder`, next to SKILL.md, that are of this kind."""
    is_file: bool
    """True if the artifact stands for a file, whose bytes stay in the package; `content` is empty."""
    in_prompt: bool
    """True if its text enters the prompt of a session in which the skill is enabled."""
    in_run: Literal["work", "context", ""]
    """Its part in a run of the whole skill: `work` runs; `context` runs first and says what the skill is about; '' is skipped."""
    is_tool: bool
    """True if agents can call it as a tool by the name of its skill."""
    reaches: Literal["nothing", "model", "declared", "network", "machine"]
    """How far a run reaches: `declared` is what the skill declares as its needs, `machine` a process of this machine."""
    runs_code: bool
    """True if code of the skill runs, which can print, and call models, pages and other skills."""
    gives: Literal["text", "data", "either"]
    """The type of its output: `data` may be None; with `either`, it is text if there is no data."""
    describes_dry_run: bool
    """True if its handler ends a dry run itself, at the point where it would first send or run something."""


_DATA_FILES = (".json", ".yaml", ".yml")
_PROMPT_FILES = (".j2", ".jinja", ".md", ".mustache", *_DATA_FILES)
_EXECUTE_FILES = ("execute.ts", "execute.js", "execute.py")

# fmt: off
_BUILT_IN = (
    KindInfo(name="description", model=Description, folder="descriptions", reads=(), writes=".md", root_files=(),
             is_file=False, in_prompt=True, in_run="context", is_tool=False, reaches="nothing", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="instructions", model=Instructions, folder="instructions", reads=(), writes=".md", root_files=(),
             is_file=False, in_prompt=True, in_run="", is_tool=False, reaches="nothing", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="approach", model=Approach, folder="approaches", reads=(), writes=".md", root_files=("approach.md",),
             is_file=False, in_prompt=True, in_run="", is_tool=False, reaches="nothing", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="example", model=Example, folder="examples", reads=("",), writes="", root_files=(),
             is_file=False, in_prompt=False, in_run="", is_tool=False, reaches="nothing", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="reference", model=Reference, folder="references", reads=("",), writes="", root_files=(),
             is_file=True, in_prompt=False, in_run="", is_tool=False, reaches="nothing", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="script", model=Script, folder="scripts", reads=("",), writes="", root_files=(),
             is_file=True, in_prompt=False, in_run="", is_tool=False, reaches="machine", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="asset", model=Asset, folder="assets", reads=("",), writes="", root_files=(),
             is_file=True, in_prompt=False, in_run="", is_tool=False, reaches="nothing", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="prompt_template", model=PromptTemplate, folder="prompts", reads=_PROMPT_FILES, writes=".j2",
             root_files=(), is_file=False, in_prompt=False, in_run="work", is_tool=False, reaches="model", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="json_generation", model=JsonGeneration, folder="generations", reads=(), writes="", root_files=(),
             is_file=False, in_prompt=False, in_run="work", is_tool=False, reaches="model", runs_code=False,
             gives="either", describes_dry_run=True),
    KindInfo(name="review", model=Review, folder="rubrics", reads=_DATA_FILES, writes=".json", root_files=(),
             is_file=False, in_prompt=False, in_run="work", is_tool=False, reaches="model", runs_code=False,
             gives="text", describes_dry_run=True),
    KindInfo(name="code_template", model=CodeTemplate, folder="code", reads=(".py",), writes=".py", root_files=(),
             is_file=False, in_prompt=False, in_run="work", is_tool=False, reaches="nothing", runs_code=True,
             gives="either", describes_dry_run=True),
    KindInfo(name="function", model=Function, folder="functions", reads=(), writes="", root_files=_EXECUTE_FILES,
             is_file=False, in_prompt=False, in_run="work", is_tool=True, reaches="declared", runs_code=True,
             gives="data", describes_dry_run=True),
    KindInfo(name="http_call", model=HttpCall, folder="calls", reads=(), writes="", root_files=(),
             is_file=False, in_prompt=False, in_run="work", is_tool=True, reaches="network", runs_code=False,
             gives="either", describes_dry_run=True),
    KindInfo(name="cli_command", model=CliCommand, folder="calls", reads=(), writes="", root_files=(),
             is_file=False, in_prompt=False, in_run="work", is_tool=True, reaches="machine", runs_code=False,
             gives="either", describes_dry_run=True),
    KindInfo(name="dspy_module", model=DspyModule, folder="dspy", reads=(".json",), writes=".json", root_files=(),
             is_file=False, in_prompt=False, in_run="work", is_tool=False, reaches="model", runs_code=False,
             gives="either", describes_dry_run=False),
)
# fmt: on

KINDS: dict[Kind, KindInfo] = {row.name: row for row in _BUILT_IN}
"""All kinds in the order in which artifacts of a folder are read: the built-in ones, then those of plugins."""

_UNKNOWN = KindInfo(
    name="",
    model=UnknownArtifact,
    folder="",
    reads=(),
    writes="",
    root_files=(),
    is_file=False,
    in_prompt=False,
    # Selected for a run, so that the run fails because no handler is there instead of leaving a part out silently.
    in_run="work",
    is_tool=False,
    reaches="nothing",
    runs_code=False,
    gives="either",
    describes_dry_run=False,
)

_PLUGIN_KIND = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+", re.ASCII)
_FOLDER = lazy_pattern(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
# `agents/` holds the sidecar and `evals/` the queries of a skill.
_RESERVED_FOLDERS = frozenset({"agents", "evals"})
_MAX_KIND_CHARS = 100


def kind_info(kind: Kind) -> KindInfo:
    """Return the row of a kind; an empty row for a kind whose plugin is not installed."""
    return KINDS.get(kind, _UNKNOWN)


def select_kinds(test: Callable[[KindInfo], bool]) -> frozenset[Kind]:
    """Return the names of the kinds that pass a test of their row."""
    return frozenset(row.name for row in KINDS.values() if test(row))


def is_plugin_kind(kind: str) -> bool:
    """Return True for a name with a namespace, as the kinds of plugins have."""
    return len(kind) <= _MAX_KIND_CHARS and _PLUGIN_KIND.fullmatch(kind) is not None


def add_kind(row: KindInfo) -> None:
    """Add a plugin's kind to `KINDS` for the whole process. Raise `ValueError` if it is not valid."""
    if not is_plugin_kind(row.name):
        raise ValueError(f"the kind {row.name[:_MAX_KIND_CHARS]!r} needs a namespace, as in 'acme.sql-query'")
    fields = row.model.model_fields
    if not issubclass(row.model, Artifact) or fields["kind"].default != row.name:
        raise ValueError(f"the model of {row.name} must be an Artifact with that kind as its default")
    if "state" in fields:
        raise ValueError(f"the model of {row.name} has a field 'state', which is reserved for dspy_module")
    if not _FOLDER.fullmatch(row.folder) or row.folder in _RESERVED_FOLDERS:
        raise ValueError(f"the folder {row.folder[:64]!r} of {row.name} must be a plain folder name")
    other = next((info for info in KINDS.values() if info.folder == row.folder and info.name != row.name), None)
    if other is not None:
        raise ValueError(f"the folder {row.folder!r} of {row.name} belongs to {other.name}")
    if row.root_files:
        raise ValueError(f"{row.name} claims files outside its folder")
    if KINDS.setdefault(row.name, row) != row:
        raise ValueError(f"the kind {row.name} is already registered")
    add_reader_extension(row.name)


def parse_artifact(values: Any) -> Any:
    """Return the artifact that these settings describe, validated by the model of its kind.

    A value that is an artifact already, or not an object, is returned as it is.
    """
    if isinstance(values, Artifact) or not isinstance(values, dict):
        return cast("Any", values)
    kind = cast("JsonObject", values).get("kind")
    if not isinstance(kind, str) or (kind not in KINDS and not is_plugin_kind(kind)):
        raise ValueError(f"unknown kind {str(kind)[:_MAX_KIND_CHARS]!r}")
    return kind_info(kind).model.model_validate(values)


AnyArtifact = Annotated[SerializeAsAny[Artifact], BeforeValidator(parse_artifact)]
"""An artifact as a field of another model: read by the model of its kind, and written with all its fields."""
