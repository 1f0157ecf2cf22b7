"""A run of a skill, the call of one of its artifacts, what is noted about the call, and what it returns."""

from __future__ import annotations

import logging
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from prowess.errors import Refused, TimedOut, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Request, Usage
from prowess.policy.actor import Actor
from prowess.policy.organization import OrgPolicy
from prowess.policy.subject import Trust, UsedEntry
from prowess.run.allowance import Allowance, QuestionLimit, SpendLimit
from prowess.run.receipt import NO_SECRETS, Receipt, SecretFilter
from prowess.run.request import RunRequest, Step, StepListener, ignore_step
from prowess.skill.assertion_specs import AssertionSeverity
from prowess.skill.kinds import Artifact, JsonObject, Kind, kind_info
from prowess.skill.model import Skill
from prowess.skill.needs import Needs
from prowess.storage.traces import RunStatus

if TYPE_CHECKING:
    from prowess.run.result import RunPart

log = logging.getLogger(__name__)


class DryRunEnded(Exception):
    """A dry run has reached the point where something would be sent or executed."""


_STATUSES: tuple[tuple[type[BaseException], RunStatus], ...] = (
    (DryRunEnded, "ok"),
    (TimedOut, "timed_out"),
    (Refused, "refused"),
    (Unavailable, "unavailable"),
    (CancelledError, "cancelled"),
)


def status_of(error: BaseException | None) -> RunStatus:
    """Return the status of a call that ended with this error, or with none."""
    if error is None:
        return "ok"
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A request as it goes, or would go, to a model."""

    model: str
    request: Request
    purpose: Literal["answer", "evaluation"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an artifact returned: a text, or data together with its text form."""

    kind: Kind
    text: str = ""
    data: Any = None
    result: JsonObject = field(default_factory=dict[str, Any])
    """What else the kind reports, such as a GenerationResult or a ReviewResult."""

    @property
    def value(self) -> Any:
        """The value for the next artifact: the data, or the text if there is none. A function returns data, even None."""
        return self.text if self.data is None and kind_info(self.kind).gives != "data" else self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one assertion decided about one output. An assertion that could not be evaluated has not passed."""

    type: str
    description: str
    passed: bool
    severity: AssertionSeverity = "hard"
    explanation: str = ""
    undecided: bool = False
    """True if the evaluation model failed, so that the verdict says nothing about the output."""


@dataclass(slots=True, kw_only=True)
class Notes:
    """What is known about a call so far. Its trace gets all of it, however the call ends."""

    rendered: str = ""
    """The input of the model or the program: the template with its values in place."""
    raw: str = ""
    """The model's answer, unchanged."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    """In US dollars; None if no price is known."""
    detail: JsonObject = field(default_factory=dict[str, Any])
    """Everything else worth keeping, such as timings."""
    artifact: Artifact | None = None
    """The variant that ran, if the artifact has several."""
    sent: list[SentRequest] = field(default_factory=list[SentRequest])
    """In a dry run, the requests that would be sent."""
    output: Output | None = None
    """The output, which may still fail an assertion."""
    verdicts: tuple[Verdict, ...] = ()
    receipt: Receipt = field(default_factory=Receipt)
    secrets: SecretFilter = NO_SECRETS
    """The values that the call, and those that started it, were granted."""
    traced: bool = False
    """True once the row of the trace is durable."""
    on_state: Callable[[Call, Step], None] | None = None
    """Publishes the states that the call enters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A request that passed the gate, with everything that was looked up for it once. All its calls share it."""

    id: str
    request: RunRequest
    skill: Skill
    artifacts: tuple[str, ...]
    """The names of the artifacts to run; empty for the whole skill."""
    inputs: JsonObject
    """Plain JSON, and a copy that nobody else changes."""
    actor: Actor
    """Who runs it, in the role of the session."""
    policy: OrgPolicy
    """The organization's policy when the run started; a change applies to the next run."""
    needs: Needs
    declared: JsonObject
    """The needs as JSON; empty if the skill needs nothing outside the sandbox."""
    limits: Allowance
    trust: Trust
    """How far the skill's origin is trusted."""
    session: str
    """The id of the session; '' for none."""
    session_model: str
    resumes: str
    """The trace of the interrupted call that the first call resumes; '' for none."""
    on_step: StepListener
    spend: SpendLimit
    questions: QuestionLimit
    uses: tuple[UsedEntry, ...] | None
    """The prompts and rubrics with which it passed the gate; None for a run without a gate."""
    root: str
    """The id of the run that a person or an agent started: this one, or the one whose code started it."""
    parts: list[RunPart] = field(default_factory=list["RunPart"])
    """The parts that have ended so far."""

    @property
    def is_nested(self) -> bool:
        """True if the code of another run started it."""
        return self.request.started_by is not None


def start_run(
    request: RunRequest,
    skill: Skill,
    *,
    artifacts: tuple[str, ...],
    inputs: JsonObject,
    limits: Allowance,
    needs: Needs,
    actor: Actor,
    policy: OrgPolicy | None = None,
    trust: Trust = "found",
    session: str = "",
    session_model: str = "",
    resumes: str = "",
    uses: tuple[UsedEntry, ...] | None = None,
) -> Run:
    """Return a new run. What it spends and asks also counts for the run that started it."""
    outer = request.started_by.run if request.started_by else None
    run_id = request.run_id or str(uuid.uuid4())
    return Run(
        id=run_id,
        request=request,
        skill=skill,
        artifacts=artifacts,
        inputs=inputs,
        actor=actor,
        policy=policy or OrgPolicy(),
        needs=needs,
        declared=needs.as_json(),
        limits=limits,
        trust=trust,
        session=session,
        session_model=session_model,
        resumes=resumes,
        uses=uses,
        on_step=_guard_listener(request.on_step),
        spend=SpendLimit(limit=limits.max_cost, outer=outer.spend if outer else None),
        # The same object, so that questions of inner runs count for the outer one.
        questions=outer.questions if outer else QuestionLimit(),
        root=outer.root if outer else run_id,
    )


def _guard_listener(listener: StepListener) -> StepListener:
    """Return a listener that never raises: after its first error it receives nothing more, and the run continues."""
    # Unwrapped, because `Call.is_watched` recognizes a run without a listener by this object.
    if listener is ignore_step:
        return listener
    has_failed = False

    def receive(step: Step) -> None:
        nonlocal has_failed
        if has_failed:
            return
        try:
            listener(step)
        except Exception as error:
            has_failed = True
            # A command whose reader has gone, as in `prowess run … | head`, gets an OSError here.
            level = logging.DEBUG if isinstance(error, OSError) else logging.WARNING
            log.log(level, "The listener of a run failed and receives nothing more.", exc_info=error)

    return receive


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One artifact of a run. `inputs` are plain JSON, with the outputs of earlier artifacts among them."""

    id: str
    run: Run
    artifact: Artifact
    inputs: Mapping[str, Any]
    handed_on: frozenset[str] = frozenset()
    """The names of the inputs that are outputs of earlier artifacts."""
    following: tuple[str, ...] = ()
    """The names of the artifacts that run after this one."""
    resumes: str = ""
    """The trace of the interrupted call that this one resumes; '' to start from the beginning."""
    replaces: Call | None = None
    """The unavailable call that this one is the fallback of."""
    notes: Notes

    @property
    def skill(self) -> Skill:
        """The skill of the run."""
        return self.run.skill

    @property
    def actor(self) -> Actor:
        """The actor of the run."""
        return self.run.actor

    @property
    def request(self) -> RunRequest:
        """The request that the run serves."""
        return self.run.request

    @property
    def is_watched(self) -> bool:
        """True if someone wants to see a model's text as it is written."""
        return self.run.on_step is not ignore_step

    def enter(self, state: str, **detail: Any) -> None:
        """Report that the call has entered a state."""
        # Code passes any value to `checkpoint`, also one that it was granted.
        step = Step(artifact=self.artifact.name, state=state, detail=self.notes.secrets.redact_json(detail))
        if self.notes.on_state is not None:
            self.notes.on_state(self, step)
        self.run.on_step(step)

    def plan(self, text: str) -> None:
        """Note what is about to be sent or executed. A dry run ends here."""
        self.notes.rendered = text
        if self.request.dry_run:
            raise DryRunEnded

    def add_secrets(self, env: Mapping[str, str]) -> None:
        """Keep these values out of everything that is reported about the call from now on."""
        self.notes.secrets = self.notes.secrets.extended(env)
        self.notes.receipt.redact = self.notes.secrets.redact_text


def make_call(
    run: Run,
    artifact: Artifact,
    inputs: Mapping[str, Any],
    *,
    handed_on: frozenset[str] = frozenset(),
    following: tuple[str, ...] = (),
    resumes: str = "",
    replaces: Call | None = None,
) -> Call:
    """Return a call of an artifact, with empty notes and the secrets of the call that it replaces or is started by."""
    call = Call(
        id=str(uuid.uuid4()),
        run=run,
        artifact=artifact,
        inputs=inputs,
        handed_on=handed_on,
        following=following,
        resumes=resumes,
        replaces=replaces,
        notes=Notes(receipt=Receipt(run.declared)),
    )
    # The outer call may have passed on values that it was granted, as inputs for example.
    outer = replaces or run.request.started_by
    if outer is not None:
        call.add_secrets(outer.notes.secrets.env)
    return call
