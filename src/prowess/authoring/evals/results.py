"""The results of an evaluation: what was compared, the result of each case, and the run as a whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from prowess.skill.kinds import JsonObject
from prowess.storage.clock import is_recent
from prowess.storage.driver_errors import reading
from prowess.storage.evals import EvalRunRow, RunState
from prowess.storage.rows import convert_row

BEAT_SECONDS = 5.0
"""How often the process of a run shows that it is alive, and stores how far it is."""

DEAD_SECONDS = 30.0
"""A run whose process has not updated it for this long was interrupted."""

ArmKind = Literal["skill", "without", "version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One side of an evaluation: the skill as it is, an older version of it, or no skill, with one model."""

    kind: ArmKind
    model: str
    """'' if no model is configured, and the cases need none."""
    digest: str = ""
    """The digest of the skill; '' without it."""
    version: int | None = None

    @property
    def name(self) -> str:
        """The name without the model."""
        names = {"skill": "with skill", "without": "without skill", "version": f"version {self.version}"}
        return names[self.kind]

    @property
    def label(self) -> str:
        """The name together with the model."""
        return f"{self.name} · {self.model}" if self.model else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of one case in one arm.

    `passed` is None if the case could not be run or graded: an error is neither a pass nor a failure.
    """

    case: str
    title: str
    digest: str
    """Of the case."""
    arm: int
    """The position of the arm."""
    repeat: int
    """Counted from 1."""
    passed: bool | None
    score: float | None
    output: str = ""
    verdicts: tuple[JsonObject, ...] = ()
    error: str = ""
    error_code: str = ""
    cost: float | None = None
    """The cost of the answer, in US dollars."""
    judge_cost: float | None = None
    seconds: float = 0.0
    tokens: int | None = None
    traces: tuple[str, ...] = ()
    cached: bool = False
    """True if an earlier run gave this result."""

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return asdict(self)

    @classmethod
    def of(cls, row: JsonObject) -> CaseResult:
        """Return a stored result. Fields of a newer version are ignored."""
        known = {one.name for one in fields(cls)}
        fields_of_row: dict[str, Any] = {name: value for name, value in row.items() if name in known}
        fields_of_row["verdicts"], fields_of_row["traces"] = (
            tuple(fields_of_row.get("verdicts", ())),
            tuple(fields_of_row.get("traces", ())),
        )
        return cls(**fields_of_row)

    @property
    def whole_cost(self) -> float | None:
        """The cost of the answer and its grading; None if no price is known."""
        known = [one for one in (self.cost, self.judge_cost) if one is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRun:
    """One run of an evaluation. `summary` is as `summary.summarize` returns it; None until it has ended."""

    id: str
    skill: str
    digest: str
    state: RunState
    user: str
    created_at: str
    finished_at: str | None
    total: int
    done: int
    failed: int
    errors: int
    cost_usd: float | None
    arms: tuple[Arm, ...]
    summary: JsonObject | None = None
    results: tuple[CaseResult, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """True if every case passed with the skill as it is."""
        own = [result for result in self.results if self.arms[result.arm].kind == "skill"]
        return self.state == "done" and bool(own) and all(result.passed for result in own)

    def label(self, position: int) -> str:
        """Return what an arm is called, by its position: with its model only if there are several."""
        arm = self.arms[position]
        return arm.label if len({one.model for one in self.arms}) > 1 else arm.name

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        data = {one.name: getattr(self, one.name) for one in fields(self)}
        data["arms"] = [{**asdict(arm), "name": arm.name, "label": arm.label} for arm in self.arms]
        data["results"] = [result.as_json() for result in self.results]
        return {**data, "ok": self.ok}


def state_of(row: EvalRunRow) -> RunState:
    """Return the state of a stored run: one that runs only according to its row was interrupted."""
    if row.state == "running" and not is_recent(row.finished_at or row.created_at, DEAD_SECONDS):
        return "interrupted"
    return row.state


def to_run(row: EvalRunRow, results: tuple[CaseResult, ...] = ()) -> EvalRun:
    """Return a stored run."""
    state = state_of(row)
    with reading(f"The evaluation {row.id}"):
        arms = tuple(Arm(**fields) for fields in row.arms)
    return convert_row(
        row,
        EvalRun,
        skill=row.skill_slug,
        digest=row.skill_digest,
        state=state,
        user=row.user_id,
        finished_at=None if state == "running" else row.finished_at,
        cost_usd=row.cost,
        arms=arms,
        results=results,
    )
