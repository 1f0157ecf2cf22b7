"""A request to run a skill: the one value that travels from every interface to the handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Model
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill

if TYPE_CHECKING:
    from prowess.run.call import Call
    from prowess.run.result import RunPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A sign of progress: the `state` that a run has entered, or a piece of `text` as a model writes it."""

    artifact: str
    state: str = ""
    text: str = ""
    detail: JsonObject = field(default_factory=dict[str, Any])


StepListener = Callable[[Step], None]

StepJournal = Callable[[str, Callable[[], Awaitable[JsonObject]]], Awaitable[JsonObject]]
"""Does the work of one artifact, by its name, and stores the result; returns a stored one instead if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSpendLimit:
    """A spending limit that several runs share: its name, which is unique in the organization, and US dollars."""

    name: str
    limit: float
    hint: str
    """What to do when it is used up."""


Inputs = Mapping[str, Any] | Callable[[Skill], Mapping[str, Any]]
"""The inputs of a run, or a function that makes them once the skill has been read, from its parameters for example."""


def list_names(artifacts: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of artifacts, given as one name or several; raise `Invalid` if they are not strings."""
    listed = (artifacts,) if isinstance(artifacts, str) else artifacts
    names = tuple(name for name in listed if name) if isinstance(listed, Iterable) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise Invalid("Artifacts are given by name, as one string or several.", hint='For example `artifacts="greet"`.')
    return cast("tuple[str, ...]", names)


def ignore_step(step: Step) -> None:
    """Ignore progress."""


def ignore_part(part: RunPart) -> None:
    """Ignore a part that has ended."""


def ignore_message(message: str) -> None:
    """Ignore a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to run, and how. Nothing in it has been checked yet; who runs it is bound to the engine."""

    slug: str
    artifacts: tuple[str, ...] = ()
    """Names of artifacts; empty for the whole skill."""
    inputs: Inputs = field(default_factory=dict[str, Any])
    session: str = ""
    """The id or conversation of a session; '' for a run outside any."""
    model: Model | str = ""
    """The model to ask; '' to choose by artifact, session and settings."""
    evaluation_model: Model | str = ""
    """The model that judges in reviews and assertions."""
    fallback_model: Model | None = None
    """The model to ask if nobody chose one and none is configured, such as the one of an MCP client."""
    timeout: float | None = None
    """Seconds that each artifact may take; a skill's own limit may be lower."""
    resume: str = ""
    """The trace of an interrupted run to resume from its last checkpoint."""
    dry_run: bool = False
    """Send and execute nothing; report what would be sent or executed."""
    chosen: bool = False
    """True if a person chose this skill by its name, so that an agent acting for them may use one that only people start."""
    on_step: StepListener = ignore_step
    on_part: Callable[[RunPart], None] = ignore_part
    """Receives each part as soon as it has ended."""
    on_setup: Callable[[str], None] = ignore_message
    """Receives messages about slow preparations, such as building the sandbox's interpreter."""
    run_id: str = ""
    """The id of the run, for one that may be started again after a crash; '' for a new id."""
    digest: str = ""
    """The digest that the skill must have; '' for any."""
    journal: StepJournal | None = None
    """Stores the result of each artifact; None for a run that is not durable."""
    spend_limit: SharedSpendLimit | None = None
    """A spending limit besides those of the organization and the skill."""
    evaluation: str = ""
    """The evaluation that the run is part of, such as `eval:ID`. Its trace has it instead of a session."""
    started_by: Call | None = None
    """The call whose code started this run; None if a person or an agent did. Both runs share spending and limits."""
