"""Which variant suits a model: the family's own, else the default, else the first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import NotFound
from prowess.prompts.prompt import choose_variant
from prowess.skill.kinds import PromptTemplate

FAMILIES = ["anthropic", "openai", "google", "meta"]


def variant(family: str | None, ordinal: int = 0) -> PromptTemplate:
    return PromptTemplate(name="check", variant=family, ordinal=ordinal, content=str(family))


def test_a_variant_for_the_family_comes_first():
    candidates = [variant(None), variant("openai"), variant("anthropic", 9)]

    assert choose_variant(candidates, "anthropic") is candidates[2]


@pytest.mark.parametrize("default", [None, "default", "Default", ""])
def test_without_one_the_default_serves(default):
    candidates = [variant("openai"), variant(default, 5)]

    assert choose_variant(candidates, "anthropic") is candidates[1]


def test_without_a_default_the_first_by_ordinal_serves():
    candidates = [variant("openai", 3), variant("google", 1), variant("meta", 2)]

    assert choose_variant(candidates, "anthropic") is candidates[1]


def test_families_are_told_apart_without_regard_to_letters():
    assert choose_variant([variant(None), variant("Anthropic")], "anthropic").variant == "Anthropic"


def test_nothing_to_choose_from_is_told():
    with pytest.raises(NotFound):
        choose_variant([], "anthropic")


@given(
    rows=st.lists(st.tuples(st.sampled_from([None, "default", *FAMILIES]), st.integers(0, 5)), min_size=1),
    family=st.sampled_from(FAMILIES),
)
def test_the_choice_is_always_the_best_class_that_there_is_and_the_first_of_it(rows, family):
    candidates = [variant(name, ordinal) for name, ordinal in rows]

    chosen = choose_variant(candidates, family)

    ranks = [0 if one.variant == family else 1 if one.variant in {None, "default"} else 2 for one in candidates]
    rank = ranks[next(place for place, one in enumerate(candidates) if one is chosen)]
    peers = [one for one, other in zip(candidates, ranks, strict=True) if other == rank]
    assert rank == min(ranks)
    assert chosen is min(peers, key=lambda one: one.ordinal)
