"""The programs that an optimizer tries, and the best of them so far."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError

from prowess_dspy.channel import JsonObject, Session, encode
from prowess_dspy.state import dump_state

PROGRESS_EVERY = 5


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
            report = self._recorded % PROGRESS_EVERY == 0
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
