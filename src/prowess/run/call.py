"""One run of one artifact: what it is given, what is noted about it while it runs, and what it returns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from prowess.llm.model import Model, Request, Usage
from prowess.policy.actor import Actor
from prowess.policy.subject import Trust
from prowess.redaction.known import REDACTED, KnownValues
from prowess.redaction.redactor import find_secrets
from prowess.run.allowance import QuestionLimit, SpendLimit
from prowess.skill.assertion_specs import AssertionSeverity
from prowess.skill.kinds import Artifact, JsonObject, Kind
from prowess.skill.model import Skill
from prowess.skill.needs import Needs

ResourceKind = Literal["hosts", "env", "read", "written", "skills", "binaries", "packages", "pages", "models"]

MAX_NAMES = 100
"""So many different names of one sort are kept; the others are counted together."""
OTHERS = "others"
_NAME_CHARS = 200


class Receipt:
    """Kept while an artifact runs, by those who let it touch something; a skill cannot write to it."""

    def __init__(self, needs: Needs | None = None) -> None:
        self.needs = needs or Needs()
        self.hide: Callable[[str], str] = str
        """Removes from a name what must not be told."""
        self._touched: dict[ResourceKind, Counter[str]] = {}
        self._refused: dict[ResourceKind, Counter[str]] = {}

    def touch(self, sort: ResourceKind, name: str) -> None:
        """Note that something was used."""
        _count(self._touched, sort, self.hide(name))

    def refuse(self, sort: ResourceKind, name: str) -> None:
        """Note that something was asked for and not given."""
        _count(self._refused, sort, self.hide(name))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell: nothing declared, nothing touched, nothing refused."""
        return not (self._touched or self._refused or self.needs.as_json())

    def as_json(self) -> JsonObject:
        """What was declared, and how often each thing was touched or refused."""
        return {
            "declared": self.needs.as_json(),
            "touched": {sort: dict(names) for sort, names in self._touched.items()},
            "refused": {sort: dict(names) for sort, names in self._refused.items()},
        }


def _count(kept: dict[ResourceKind, Counter[str]], sort: ResourceKind, name: str) -> None:
    names, short = kept.setdefault(sort, Counter()), name[:_NAME_CHARS]
    known = short in names or len(names) < MAX_NAMES
    names[short if known else OTHERS] += 1


class SecretFilter:
    """Removes the values of an environment from what is told about a run, however they are written, and its secrets from data.

    A value whose name does not say that it is secret, such as the name of a model, may be in a result.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env = dict(env or {})
        self._values = KnownValues(self.env.values())
        self._secrets = KnownValues(find_secrets(self.env))

    def together_with(self, env: Mapping[str, str]) -> SecretFilter:
        """One that hides these values, too."""
        return SecretFilter({**self.env, **env}) if env else self

    def text(self, text: str) -> str:
        """A text about the run, without any of the values."""
        return self._values.redact(text) if self.env else text

    def told(self, value: Any) -> Any:
        """JSON about the run, such as its inputs, without any of the values."""
        return self._without(value, self._values)

    def data(self, value: Any) -> Any:
        """A JSON value without the secrets."""
        return self._without(value, self._secrets)

    def _without(self, value: Any, known: KnownValues) -> Any:
        if not self.env or not known.found_in(json.dumps(value, ensure_ascii=False, default=str)):
            return value
        return _redact_value(value, known)


def _redact_value(value: Any, known: KnownValues) -> Any:
    if isinstance(value, str):
        return known.redact(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {known.redact(name): _redact_value(inner, known) for name, inner in members}
    if isinstance(value, list | tuple):
        return [_redact_value(inner, known) for inner in cast("list[Any]", value)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return REDACTED if is_number and known.has_number(value) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One sign of progress: a `state` that the run is in by now, or a piece of `text` as a model writes it."""

    artifact: str
    state: str = ""
    text: str = ""
    detail: JsonObject = field(default_factory=dict[str, Any])


class DryRunEnded(Exception):
    """A dry run has come to where something would be sent or run; it ends here."""


ProgressListener = Callable[[Step], None]


def ignore_progress(step: Step) -> None:
    """Let progress pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A request as it goes, or would go, to a model."""

    model: str
    request: Request
    purpose: Literal["answer", "evaluation"] = "answer"


@dataclass(slots=True, kw_only=True)
class Notes:
    """What is written down about a run while it goes on; its trace has it, whatever becomes of the run."""

    rendered: str = ""
    """What the model was, or the handler is, given: the template with its values in place."""
    raw: str = ""
    """What the model answered, word for word."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    """In US dollars; None where no price is known."""
    detail: JsonObject = field(default_factory=dict[str, Any])
    """What else is worth keeping, such as timings."""
    artifact: Artifact | None = None
    """The variant that ran, where the artifact has several."""
    sent: list[SentRequest] = field(default_factory=list[SentRequest])
    receipt: Receipt = field(default_factory=Receipt)
    """What the run touched outside itself."""
    hiding: SecretFilter = field(default_factory=SecretFilter)
    """What the run, and those that started it, were given in confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One artifact to be run. `inputs` are plain JSON; the outputs of artifacts that ran before it are among them."""

    id: str
    skill: Skill
    artifact: Artifact
    inputs: Mapping[str, Any]
    handed_on: frozenset[str] = frozenset()
    """The names of those inputs that earlier artifacts of the run gave."""
    actor: Actor
    session: str = ""
    """The id of the session that it belongs to."""
    model: Model | str = ""
    """The model that the caller chose; '' for none."""
    session_model: str = ""
    evaluation_model: Model | str = ""
    """The model that the caller chose for judging; '' for none."""
    spare: Model | None = None
    """The model that is asked where nobody chose one and none is configured."""
    purse: SpendLimit = field(default_factory=SpendLimit)
    """What the run, this artifact and the others, may cost."""
    questions: QuestionLimit = field(default_factory=QuestionLimit)
    trust: Trust = "synced"
    """How far the origin of the skill is trusted."""
    outermost: str = ""
    """Identifies the run that a person or an agent wanted, of which it is, or which started it."""
    is_inner: bool = False
    """Whether the code of another run started it."""
    resumes: str = ""
    """The trace of the run that it goes on with from its last checkpoint; '' for a run from the beginning."""
    following: tuple[str, ...] = ()
    """The names of the artifacts that are to run after it."""
    dry: bool = False
    """Whether nothing is to be sent: the run ends where it would first ask a model."""
    watch: ProgressListener = ignore_progress
    announce: ProgressListener = ignore_progress
    """Told of the states alone."""
    notes: Notes = field(default_factory=Notes)

    def enter(self, state: str, **detail: Any) -> None:
        """Tell which state the run is in by now."""
        step = Step(artifact=self.artifact.name, state=state, detail=self.notes.hiding.told(detail))
        self.announce(step)
        self.watch(step)

    def about_to(self, rendered: str) -> None:
        """Note what is about to be sent or run; a dry run ends here."""
        self.notes.rendered = rendered
        if self.dry:
            raise DryRunEnded

    def confide(self, env: Mapping[str, str]) -> None:
        """Have values kept out of all that is said about the run from now on."""
        self.notes.hiding = self.notes.hiding.together_with(env)
        self.notes.receipt.hide = self.notes.hiding.text

    @property
    def watched(self) -> bool:
        """Whether somebody wants to see the text as it comes."""
        return self.watch is not ignore_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an artifact gave: a text, or data for kinds that give data, with `text` as its words."""

    kind: Kind
    text: str = ""
    data: Any = None
    result: JsonObject = field(default_factory=dict[str, Any])
    """What else the kind says about it, such as a GenerationResult or a ReviewResult."""

    @property
    def value(self) -> Any:
        """What the next artifact is given: the data, or the text where there is none; a function gives data, also none."""
        return self.text if self.data is None and self.kind != "function" else self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one assertion says about one output. Where it could not be evaluated it has not passed."""

    type: str
    description: str
    passed: bool
    severity: AssertionSeverity = "hard"
    explanation: str = ""
