"""How trigger queries are judged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.recommendation import Decision, Evidence, Recommendation
from prowess.match.trigger_eval import evaluate_triggers
from prowess.skill.evals import TriggerCase


def found(slug: str, decision: Decision = "offer", score: float = 0.9, terms: tuple[str, ...] = ()) -> Recommendation:
    evidence = (
        Evidence(field="description", count=len(terms), terms=terms),
        Evidence(field="body", count=1, terms=("secret",)),
    )
    return Recommendation(
        slug=slug, title="", description="", tags=(), scope="workspace", digest="", score=score,
        decision=decision, evidence=evidence,
    )  # fmt: skip


@dataclass
class Scripted:
    """Answers each message with what was written down for it."""

    answers: dict[str, list[Recommendation]] = field(default_factory=dict)

    def rank(
        self,
        message: str,
        *,
        limit: int = 10,
        tags: Collection[str] = (),  # noqa: ARG002
        context: str = "",  # noqa: ARG002
    ) -> list[Recommendation]:
        return self.answers.get(message, [])[:limit]


def case(query: str, should_trigger: bool = True) -> TriggerCase:
    return TriggerCase(query=query, should_trigger=should_trigger, file="evals/triggers.json")


GREET = SearchDocument(
    slug="greet", title="Greeting", description="Says hello to people.", triggers=("wave at someone",)
)


def test_precision_and_recall_count_what_triggered():
    ranker = Scripted(
        {"hello": [found("greet")], "people": [found("greet", "maybe")], "noise": [found("greet")], "missed": []}
    )
    cases = [case("hello"), case("people"), case("missed"), case("noise", False), case("quiet", False)]
    report = evaluate_triggers(ranker, GREET, cases)
    assert report.hits == 2
    assert report.precision == pytest.approx(2 / 3)
    assert report.recall == pytest.approx(2 / 3)
    assert report.f1 == pytest.approx(2 / 3)
    assert [outcome.case.query for outcome in report.missed] == ["missed"]
    assert [outcome.case.query for outcome in report.false_triggers] == ["noise"]


@pytest.mark.parametrize(("at", "decision", "triggered"), [
    ("maybe", "maybe", True), ("offer", "maybe", False), ("offer", "offer", True), ("maybe", "no", False),
])  # fmt: skip
def test_the_least_decision_that_counts_can_be_chosen(at, decision, triggered):
    report = evaluate_triggers(Scripted({"q": [found("greet", decision)]}), GREET, [case("q")], at=at)
    assert report.outcomes[0].triggered is triggered


def test_a_skill_must_be_among_the_first():
    ranker = Scripted({"q": [found("other"), found("third"), found("greet")]})
    assert evaluate_triggers(ranker, GREET, [case("q")], limit=3).recall == 1
    report = evaluate_triggers(ranker, GREET, [case("q")], limit=2)
    assert report.recall == 0
    assert report.outcomes[0].place == 3
    assert report.outcomes[0].instead == ("other", "third")


def test_confusions_count_who_took_the_missed_queries():
    ranker = Scripted(
        {"a": [found("other")], "b": [found("other"), found("third")], "c": [found("third")], "d": [found("x", "no")]}
    )
    report = evaluate_triggers(ranker, GREET, [case(query) for query in "abcd"])
    assert report.confusions == {"other": 2, "third": 1}
    assert "nothing was offered" in report.outcomes[3].verdict


def test_the_words_to_add_are_those_the_skill_never_says():
    report = evaluate_triggers(
        Scripted(), GREET, [case("salute the people"), case("saluting a colleague"), case("wave")]
    )
    words = dict(report.add)
    assert next(iter(words)) in ("salute", "saluting")
    assert words["salute"] == 2
    assert "colleague" in words
    assert not {"people", "wave", "the"} & set(words)


def test_the_words_to_drop_are_those_that_drew_it_in():
    ranker = Scripted({"a": [found("greet", terms=("hello", "people"))], "b": [found("greet", terms=("Hello",))]})
    report = evaluate_triggers(ranker, GREET, [case("a", False), case("b", False)])
    assert report.drop == (("hello", 2), ("people", 1))


def test_nothing_asked_is_nothing_wrong():
    report = evaluate_triggers(Scripted(), GREET, [])
    assert (report.precision, report.recall, report.f1) == (1, 1, 1)
