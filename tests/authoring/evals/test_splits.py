"""Cases are split by their inputs: stable, near duplicates together, and held-out cases out of an optimizer's reach."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.authoring.evals.case import Check, EvalCase
from prowess.authoring.evals.splits import (
    OptimizerCases,
    Shares,
    assign_splits,
    digest_cases,
    held_out_cases,
    optimizer_cases,
)
from prowess.errors import Invalid


def case(number: int, **changes) -> EvalCase:
    return replace(EvalCase(id=str(number), inputs={"text": f"message {number}"}), **changes)


CASES = [case(number) for number in range(500)]


def test_each_case_is_in_exactly_one_set_in_about_the_usual_shares() -> None:
    seen, held = optimizer_cases(CASES), held_out_cases(CASES)
    assert sorted(one.id for one in (*seen.train, *seen.validation, *held.cases)) == sorted(one.id for one in CASES)
    assert 250 < len(seen.train) < 350
    assert 70 < len(seen.validation) < 130
    assert 70 < len(held.cases) < 130


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 400), min_size=1, max_size=40), st.sets(st.integers(401, 900), max_size=40), st.randoms())
def test_a_case_stays_where_it_is_when_others_come_and_go(first: set[int], more: set[int], random) -> None:
    some = [case(number) for number in first]
    all_of_them = some + [case(number) for number in more]
    random.shuffle(all_of_them)
    before = dict(zip((one.id for one in some), assign_splits(some), strict=True))
    after = dict(zip((one.id for one in all_of_them), assign_splits(all_of_them), strict=True))
    assert {name: after[name] for name in before} == before


def test_a_case_stays_where_it_is_when_its_checks_change() -> None:
    changed = [replace(one, checks=(Check(type="equals"),), expected="x", threshold=0.5) for one in CASES]
    assert assign_splits(changed) == assign_splits(CASES)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["  MESSAGE   {} ", "message\n{}", "Message {}\t"]))
def test_near_duplicates_stay_together(number: int, form: str) -> None:
    other = case(number, id="other", inputs={"text": form.format(number)})
    first, second = assign_splits([case(number), other])
    assert first == second


def test_the_choice_of_an_author_applies_to_near_duplicates() -> None:
    cases = [case(1, split="held_out"), case(2), case(1, id="twin", inputs={"text": "MESSAGE 1"}, split="train")]
    held = held_out_cases(cases)
    assert {"1", "twin"} <= {one.id for one in held.cases}
    assert not {"1", "twin"} & {one.id for one in (*optimizer_cases(cases).train, *optimizer_cases(cases).validation)}


def test_two_cases_with_the_same_id_are_split_one_by_one() -> None:
    cases = [case(1, split="held_out"), case(2, id="1", split="train")]
    assert assign_splits(cases) == ["held_out", "train"]
    assert [one.inputs for one in optimizer_cases(cases).train] == [{"text": "message 2"}]


def test_an_optimiser_knows_of_held_out_cases_only_their_number_and_digest() -> None:
    seen, held = optimizer_cases(CASES), held_out_cases(CASES)
    assert (seen.held_out_count, seen.held_out_digest) == (len(held.cases), held.digest)
    kept = {one.digest for one in held.cases}
    reachable = [
        one for field in fields(seen) if isinstance(value := getattr(seen, field.name), tuple) for one in value
    ]
    assert not kept & {one.digest for one in reachable}


def test_cases_for_an_optimiser_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError, match="optimizer_cases"):
        OptimizerCases(train=(), validation=(), held_out_count=0, held_out_digest="", _made=object())


def test_the_digest_of_a_set_does_not_depend_on_the_order() -> None:
    assert digest_cases(CASES) == digest_cases(reversed(CASES))
    assert digest_cases(CASES) != digest_cases(CASES[1:])


def test_labels_without_held_out_cases_are_named() -> None:
    cases = [case(1, label="rare", split="train"), case(2, label="common", split="held_out")]
    assert held_out_cases(cases).missing_labels == ("rare",)


@pytest.mark.parametrize("shares", [{"train": 0.9}, {"train": -0.2, "validation": 1.0}])
def test_shares_must_add_up_to_one(shares: dict) -> None:
    with pytest.raises(Invalid, match="add up to 1"):
        Shares(**shares)


def test_all_cases_can_be_held_out() -> None:
    assert len(held_out_cases(CASES, Shares(train=0, validation=0, held_out=1)).cases) == len(CASES)
