"""Evaluate triggers: check that a skill is chosen for the messages it is meant for and for no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prowess.match.collisions import count_matched_terms, find_missing_words
from prowess.match.recommendation import DECISIONS, Decision, Recommendation

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.skill.evals import TriggerCase

RANKING_DEPTH = 20
"""How far down the ranking a skill that did not trigger is searched for."""


class Ranker(Protocol):
    """The part of a matcher that an evaluation needs: the whole ranking, including skills that do not fit."""

    def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the best skills for a message, best first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """The result of one query. `place` is the skill's place in the ranking, None if it is not near the top.

    `decision` is "no" if the skill is not among the first. `instead` are the skills offered before it, best first, and
    `top` are the first five, whatever their decisions.
    """

    case: TriggerCase
    triggered: bool
    decision: Decision
    place: int | None
    result: Recommendation | None
    instead: tuple[str, ...]
    top: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if the result is as expected."""
        return self.triggered == self.case.should_trigger

    @property
    def verdict(self) -> str:
        """The result in one line."""
        result = self.result
        where = f"at place {self.place} ({result.decision}, {result.score:.2f})" if result else "not near the top"
        if self.ok:
            return f"As expected: {where}."
        if self.triggered:
            return f"Triggered {where} and should not."
        taken = f"instead: {', '.join(self.instead)}" if self.instead else "nothing was offered before it"
        return f"Should trigger, but was {where}; {taken}."


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerReport:
    """All results of one skill, with figures and advice."""

    slug: str
    outcomes: tuple[QueryOutcome, ...]
    add: tuple[tuple[str, int], ...]
    """Words of missed queries that the skill does not use, with the number of queries."""
    drop: tuple[tuple[str, int], ...]
    """Words by which it was found for messages that it is not for."""

    @property
    def missed(self) -> tuple[QueryOutcome, ...]:
        """The queries that should have triggered it."""
        return tuple(outcome for outcome in self.outcomes if outcome.case.should_trigger and not outcome.triggered)

    @property
    def false_triggers(self) -> tuple[QueryOutcome, ...]:
        """The queries that should not have triggered it."""
        return tuple(outcome for outcome in self.outcomes if outcome.triggered and not outcome.case.should_trigger)

    @property
    def hits(self) -> int:
        """The number of queries that triggered it correctly."""
        return sum(outcome.triggered and outcome.case.should_trigger for outcome in self.outcomes)

    @property
    def precision(self) -> float:
        """The share of its triggers that were correct; 1 if it never triggered."""
        return _ratio(self.hits, len(self.false_triggers))

    @property
    def recall(self) -> float:
        """The share of its queries that triggered it; 1 if there are none."""
        return _ratio(self.hits, len(self.missed))

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = 2 * self.hits + len(self.missed) + len(self.false_triggers)
        return 2 * self.hits / total if total else 1.0

    @property
    def confusions(self) -> dict[str, int]:
        """The other skills that got the missed queries, most often first."""
        counts = Counter(outcome.instead[0] for outcome in self.missed if outcome.instead)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _ratio(right: int, wrong: int) -> float:
    return right / (right + wrong) if right + wrong else 1.0


def evaluate_triggers(
    ranker: Ranker, document: SearchDocument, cases: Sequence[TriggerCase], *, limit: int = 5, at: Decision = "maybe"
) -> TriggerReport:
    """Run every query. The skill triggers if it is among the first `limit` with the decision `at` or better."""
    outcomes = tuple(run_query(ranker, document.slug, case, limit, at) for case in cases)
    missed = [one.case.query for one in outcomes if one.case.should_trigger and not one.triggered]
    drawn = [one.result for one in outcomes if one.result and one.triggered and not one.case.should_trigger]
    return TriggerReport(
        slug=document.slug,
        outcomes=outcomes,
        add=tuple(find_missing_words(document, missed)),
        drop=tuple(count_matched_terms(drawn)),
    )


def run_query(ranker: Ranker, slug: str, case: TriggerCase, limit: int, at: Decision) -> QueryOutcome:
    """Run one query. The skill triggers if it is among the first `limit` with the decision `at` or better."""
    results = ranker.rank(case.query, limit=max(limit, RANKING_DEPTH))
    place = next((number for number, result in enumerate(results, start=1) if result.slug == slug), None)
    result = results[place - 1] if place else None
    decision = result.decision if result and place and place <= limit else "no"
    good = DECISIONS[: DECISIONS.index(at) + 1]
    before = results[: place - 1 if place else limit]
    return QueryOutcome(
        case=case,
        triggered=decision in good,
        decision=decision,
        place=place,
        result=result,
        instead=tuple(other.slug for other in before if other.decision in good)[:3],
        top=tuple(other.slug for other in results[:5]),
    )
