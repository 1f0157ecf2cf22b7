"""One run of one artifact: what it is given, what is noted about it, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prowess.llm.model import Model, Request, Usage
from prowess.policy.actor import Actor
from prowess.policy.subject import Trust
from prowess.run.hiding import Hiding
from prowess.run.purse import Purse, Questions
from prowess.run.receipt import Receipt
from prowess.skill.assertion_specs import AssertionSeverity
from prowess.skill.kinds import Artifact, JsonObject, Kind
from prowess.skill.model import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One sign of progress: a `state` that the run is in by now, or a piece of `text` as a model writes it."""

    artifact: str
    state: str = ""
    text: str = ""
    detail: JsonObject = field(default_factory=dict[str, Any])


class Foreseen(Exception):
    """A dry run has come to where something would be sent or run; it ends here."""


Watch = Callable[[Step], None]


def unwatched(step: Step) -> None:
    """Let progress pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
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
    sent: list[Sent] = field(default_factory=list[Sent])
    receipt: Receipt = field(default_factory=Receipt)
    """What the run touched outside itself."""
    hiding: Hiding = field(default_factory=Hiding)
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
    purse: Purse = field(default_factory=Purse)
    """What the run, this artifact and the others, may cost."""
    questions: Questions = field(default_factory=Questions)
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
    watch: Watch = unwatched
    announce: Watch = unwatched
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
            raise Foreseen

    def confide(self, env: Mapping[str, str]) -> None:
        """Have values kept out of all that is said about the run from now on."""
        self.notes.hiding = self.notes.hiding.together_with(env)
        self.notes.receipt.hide = self.notes.hiding.text

    @property
    def watched(self) -> bool:
        """Whether somebody wants to see the text as it comes."""
        return self.watch is not unwatched


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
