"""BootstrapFewShot, MIPROv2, SIMBA and GEPA."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError

from prowess_dspy.channel import JsonObject, Session, encode
from prowess_dspy.engine import Metric
from prowess_dspy.errors import InvalidOptions, Stopped
from prowess_dspy.options import Option
from prowess_dspy.state import dump_state

MAX_FAILURES = 8
"""How many calls in a row may fail."""
_PROGRESS_EVERY = 5


@dataclass(slots=True, kw_only=True)
class Optimization:
    """A program with the rows, the metric and the options to optimize it with."""

    session: Session
    program: dspy.Module
    model: dspy.LM
    metric: Metric
    training: list[dspy.Example]
    validation: list[dspy.Example]
    """Empty if the request has no validation rows."""
    options: dict[str, Any]
    seed: int
    candidates: Candidates = field(init=False)

    @property
    def decisive(self) -> list[dspy.Example]:
        """Return the rows by which an optimizer chooses between candidates."""
        return self.validation or self.training

    def judge(self, row: dspy.Example, prediction: Any) -> tuple[float, str | None]:
        """Return the score and the feedback for a prediction, which is None if the program failed."""
        if not isinstance(prediction, dspy.Prediction):
            return 0.0, "The program failed before it had an answer."
        inputs, expected = dict(row.inputs()), dict(row.labels())
        score, feedback = self.metric.score(inputs, expected, prediction)
        self.candidates.record(row, score)
        return score, feedback

    def score(self, row: dspy.Example, prediction: Any, _trace: Any = None) -> float:
        """Return the score alone."""
        return self.judge(row, prediction)[0]

    def score_with_feedback(
        self, row: dspy.Example, prediction: Any, _trace: Any = None, _name: Any = None, _part: Any = None
    ) -> dspy.Prediction:
        """Return the score and the feedback as GEPA reads them."""
        score, feedback = self.judge(row, prediction)
        return dspy.Prediction(score=score, feedback=feedback or f"The score is {score:.2f}.")


Compile = Callable[[Optimization], dspy.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """An optimizer of DSPy."""

    description: str
    compile: Compile
    options: dict[str, Option]
    by_batches: bool = False
    """True if it chooses by batches of training rows, without validation rows."""


def bootstrap_few_shot(run: Optimization) -> dspy.Module:
    """Return the program with demos: its own answers that scored well, and training rows."""
    training = list(run.training)
    if run.seed:
        random.Random(run.seed).shuffle(training)  # which rows become demos is otherwise their order
    optimizer = dspy.BootstrapFewShot(
        metric=run.score,
        metric_threshold=run.options["metric_threshold"],
        max_bootstrapped_demos=run.options["max_bootstrapped_demos"],
        max_labeled_demos=run.options["max_labeled_demos"],
        max_rounds=run.options["max_rounds"],
    )
    try:
        return optimizer.compile(run.program, trainset=training)
    except Stopped:
        # Keep the demos that were found until now. The session remains stopped, so that the result is not complete.
        traces: dict[str, list[Any]] = getattr(optimizer, "name2traces", {})
        if not any(traces.values()):
            raise
        partial = run.program.deepcopy()
        for name, predictor in partial.named_predictors():
            predictor.demos = traces.get(name, [])[: run.options["max_bootstrapped_demos"]]
        return partial


def mipro_v2(run: Optimization) -> dspy.Module:
    """Return the program with the best pair of instructions and demos."""
    batch = run.options["minibatch_size"]
    minibatch = 0 < batch < len(run.decisive)
    return dspy.MIPROv2(
        metric=run.score,
        auto=None,
        num_candidates=run.options["num_candidates"],
        max_bootstrapped_demos=run.options["max_bootstrapped_demos"],
        max_labeled_demos=run.options["max_labeled_demos"],
        metric_threshold=run.options["metric_threshold"],
        num_threads=run.options["threads"],
        seed=run.seed,
    ).compile(
        run.program,
        trainset=run.training,
        valset=run.decisive,
        num_trials=run.options["num_trials"],
        minibatch=minibatch,
        minibatch_size=batch if minibatch else len(run.decisive),
    )


def simba(run: Optimization) -> dspy.Module:
    """Return the program with rules and demos from the rows where its attempts differ most."""
    return dspy.SIMBA(
        metric=run.score,
        bsize=min(run.options["bsize"], len(run.training)),
        num_candidates=run.options["num_candidates"],
        max_steps=run.options["max_steps"],
        max_demos=run.options["max_demos"],
        num_threads=run.options["threads"],
        prompt_model=run.model,
    ).compile(run.program, trainset=run.training, seed=run.seed)


def gepa(run: Optimization) -> dspy.Module:
    """Return the program with instructions rewritten from the feedback on its answers."""
    return dspy.GEPA(
        metric=run.score_with_feedback,
        max_metric_calls=run.options["budget"],
        reflection_minibatch_size=run.options["reflection_minibatch_size"],
        reflection_lm=run.model.copy(temperature=1.0),
        num_threads=run.options["threads"],
        seed=run.seed,
    ).compile(run.program, trainset=run.training, valset=run.decisive)


LIMITS = {
    "max_llm_calls": Option(0, "How many model calls are made at most. 0 is no limit."),
    "max_metric_calls": Option(0, "How many outputs are scored at most. 0 is no limit."),
}
THREADS = {"threads": Option(4, "How many rows are run at the same time.", least=1, greatest=32)}
DEMOS = {
    "max_bootstrapped_demos": Option(4, "How many of the program's own answers become demos at most.", greatest=50),
    "max_labeled_demos": Option(4, "How many training rows become demos at most.", greatest=50),
    "metric_threshold": Option(0.8, "The score from which an answer may become a demo.", greatest=1),
}

OPTIMIZERS: dict[str, Optimizer] = {
    "bootstrap_few_shot": Optimizer(
        description="Adds demos: answers of the program that scored well, and training rows. Needs few calls.",
        compile=bootstrap_few_shot,
        options={
            **LIMITS,
            **THREADS,
            **DEMOS,
            "max_rounds": Option(1, "How often each row is tried.", least=1, greatest=10),
        },
    ),
    "mipro_v2": Optimizer(
        description="Proposes instructions and sets of demos, and searches for the best pair.",
        compile=mipro_v2,
        options={
            **LIMITS,
            **THREADS,
            **DEMOS,
            "num_candidates": Option(6, "How many instructions are proposed.", least=2, greatest=50),
            "num_trials": Option(10, "How many pairs are tried.", least=1, greatest=500),
            "minibatch_size": Option(0, "How many validation rows a trial uses. 0 is all."),
        },
    ),
    "simba": Optimizer(
        description="Adds rules and demos from the rows where attempts differ most.",
        compile=simba,
        by_batches=True,
        options={
            **LIMITS,
            **THREADS,
            "bsize": Option(16, "How many rows a step uses.", least=2, greatest=1000),
            "num_candidates": Option(4, "How many candidates a step makes.", least=2, greatest=50),
            "max_steps": Option(4, "How many steps are made.", least=1, greatest=100),
            "max_demos": Option(4, "How many demos a predictor has at most.", greatest=50),
        },
    ),
    "gepa": Optimizer(
        description="Rewrites instructions from the metric's feedback.",
        compile=gepa,
        options={
            **LIMITS,
            **THREADS,
            "budget": Option(150, "After how many scores no further rewrite is tried.", least=10),
            "reflection_minibatch_size": Option(3, "How many rows a rewrite looks at.", least=1, greatest=50),
        },
    ),
}


def optimize(run: Optimization, optimizer: Optimizer) -> JsonObject:
    """Return the optimized state. A run that is stopped returns the best state so far, or None."""
    for name in ("llm_calls", "metric_calls"):
        if limit := run.options[f"max_{name}"]:
            run.session.limits[name] = limit
    # Without this, optimizers continue with a score of 0 for every row when the parent's limit of spending is reached.
    run.session.limits["failures"] = MAX_FAILURES
    rows = run.training if optimizer.by_batches else run.decisive
    enough = min(run.options["bsize"], len(rows)) if optimizer.by_batches else len(rows)
    run.candidates = Candidates(run.session, run.program, rows, enough)
    state: JsonObject | None = None
    score: float | None = None
    stopped: str | None = None
    settings = {"lm": run.model, "trace": [], "disable_history": True, "callbacks": [run.candidates]}
    # A row that fails has the score 0, however many do: small models often give answers that cannot be parsed.
    with dspy.context(**settings, max_errors=1_000_000):
        try:
            program = optimizer.compile(run)
            state = dump_state(program, run.program)
            score = _validate(run, program)
        except Stopped as stop:
            stopped = stop.reason
    best = run.candidates.best
    if state is None and best is not None:
        state = best.state
        score = best.mean() if run.validation and not optimizer.by_batches else None
    stopped = stopped or run.session.stopped
    result: JsonObject = {
        "state_blob": state,
        "dspy": dspy.__version__,
        "score": score,
        "complete": stopped is None,
        "stopped": stopped,
        "usage": dict(run.session.usage),
    }
    error = run.session.last_error
    if stopped == "failed" and error is not None:
        if state is None:
            raise error
        result["error"] = {"type": error.type, "message": str(error)}
    return result


def _validate(run: Optimization, program: dspy.Module) -> float | None:
    if not run.validation:
        return None
    known = run.candidates.mean(program, run.validation)
    if known is not None:
        return known
    result = dspy.Evaluate(
        devset=run.validation,
        metric=run.score,
        num_threads=run.options["threads"],
        display_progress=False,
    )(program)
    return sum(float(score) for _, _, score in result.results) / len(run.validation)


def find_optimizer(name: Any) -> Optimizer:
    """Return the optimizer with this name. Raises `InvalidOptions`."""
    optimizer = OPTIMIZERS.get(name) if isinstance(name, str) else None
    if optimizer is None:
        raise InvalidOptions(f"Unknown optimizer {str(name)[:80]!r}. There are {', '.join(OPTIMIZERS)}.")
    return optimizer


@dataclass(slots=True)
class Candidate:
    """A state that was tried, with its score for each row."""

    state: JsonObject
    scores: dict[int, float] = field(default_factory=dict[int, float])

    def mean(self) -> float:
        """Return the mean score."""
        return sum(self.scores.values()) / len(self.scores)


class Candidates(BaseCallback):
    """Scores by state. Optimizers copy programs freely, so a candidate is known by its instructions and demos.

    DSPy tells a metric which row was answered, but not by which program. As a callback of DSPy this sees the program
    start; the metric is called after it in the same thread.
    """

    def __init__(self, session: Session, program: dspy.Module, rows: list[dspy.Example], enough: int) -> None:
        self.best: Candidate | None = None
        self._session = session
        self._original = program
        self._rows = {id(row) for row in rows}
        self._rows_by_inputs = {encode(dict(row.inputs()), sort=True): row for row in rows}
        self._enough = enough
        self._candidates: dict[bytes, Candidate] = {}
        self._lock = threading.Lock()
        self._current = threading.local()
        self._recorded = 0

    def on_module_start(self, *, call_id: str, instance: Any, inputs: JsonObject) -> None:
        """Remember the program that starts in this thread."""
        if type(instance) is type(self._original) and not dspy.settings.caller_modules:
            self._current.program, self._current.call, self._current.inputs = instance, call_id, inputs

    def on_module_end(self, *, call_id: str, exception: BaseException | None, **_outputs: Any) -> None:
        """Score 0 for a program whose model gave an answer that cannot be parsed: it reaches no metric."""
        if isinstance(exception, AdapterParseError) and call_id == getattr(self._current, "call", None):
            row = self._rows_by_inputs.get(encode(self._current.inputs.get("kwargs"), sort=True))
            if row is not None:
                self.record(row, 0.0)

    def record(self, row: dspy.Example, score: float) -> None:
        """Add the score of the program that ran last in this thread, and report progress."""
        program: dspy.Module | None = getattr(self._current, "program", None)
        improved: JsonObject = {}
        with self._lock:
            self._recorded += 1
            report = self._recorded % _PROGRESS_EVERY == 0
        if program is not None and id(row) in self._rows:
            state = dump_state(program, self._original)
            with self._lock:
                candidate = self._candidates.setdefault(_key(state), Candidate(state))
                candidate.scores[id(row)] = score
                if len(candidate.scores) >= self._enough and self._is_best(candidate):
                    self.best = candidate
                    improved = {"best_state": candidate.state}
        if improved or report:
            usage = self._session.usage
            self._session.progress(
                metric_calls=usage["metric_calls"],
                llm_calls=usage["llm_calls"],
                best_score=self.best.mean() if self.best else None,
                **improved,
            )

    def _is_best(self, candidate: Candidate) -> bool:
        return candidate is not self.best and (self.best is None or candidate.mean() > self.best.mean())

    def mean(self, program: dspy.Module, rows: list[dspy.Example]) -> float | None:
        """Return the mean score of a program if every one of these rows was scored with it."""
        candidate = self._candidates.get(_key(dump_state(program, self._original)))
        if candidate is None or not all(id(row) in candidate.scores for row in rows):
            return None
        return sum(candidate.scores[id(row)] for row in rows) / len(rows)


def _key(state: JsonObject) -> bytes:
    parts = {name: part for name, part in state.items() if isinstance(part, dict) and "signature" in part}
    return encode([[part["signature"], part["demos"]] for part in (parts or {"self": state}).values()], sort=True)
