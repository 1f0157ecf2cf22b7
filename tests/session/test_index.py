"""The list of skills under a budget: never over it, nothing dropped in silence, the same for the same skills."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.session.index import (
    SHORTEST_DESCRIPTION,
    IndexCard,
    IndexPlan,
    default_budget,
    format_omitted,
    plan_index,
)

SLUGS = st.integers(0, 9999).map(lambda number: f"s{number}" if number % 2 else f"team.skill-{number}")
DESCRIPTIONS = st.one_of(
    st.text(max_size=120),
    st.lists(
        st.sampled_from(["Use", "when", "slow", "<skillful>", "<skill>", "</ｓｋｉｌｌ>", "中文", "a\nb"]), max_size=30
    ).map(" ".join),
)
CARDS = st.lists(
    st.builds(
        IndexCard,
        slug=SLUGS,
        description=DESCRIPTIONS,
        relevance=st.one_of(st.just(0.0), st.floats(allow_nan=True)),
        uses=st.integers(0, 3),
        nearness=st.one_of(st.just(0.0), st.floats(allow_nan=True)),
    ),
    max_size=12,
    unique_by=lambda card: card.slug,
)
BUDGETS = st.integers(0, 1500)


def forms(made: IndexPlan) -> dict[str, str]:
    return {entry.slug: entry.form for entry in made.entries}


def test_all_descriptions_are_there_if_they_fit() -> None:
    made = plan_index([IndexCard("b", "Does b."), IndexCard("a", "Does\n a."), IndexCard("c", "")], 100)
    assert made.text == "- a: Does a.\n- b: Does b.\n- c"
    assert forms(made) == {"a": "full", "b": "full", "c": "name"}
    assert (made.chars, made.omitted) == (len(made.text), 0)


def test_the_order_is_by_relevance_then_use_then_slug() -> None:
    cards = [
        IndexCard("d", "", 0.0, 0),
        IndexCard("c", "", 0.0, 0),
        IndexCard("b", "", 0.0, 7),
        IndexCard("a", "", 0.5, 0),
        IndexCard("z", "", 0.5, 1),
        IndexCard("y", "", 0.9, 0),
    ]
    assert [entry.slug for entry in plan_index(cards, 100).entries] == ["y", "z", "a", "b", "c", "d"]


def test_what_is_relevant_or_used_keeps_its_description_and_the_rest_share_evenly() -> None:
    text = "x" * 100
    cards = [IndexCard(slug, text) for slug in "efgh"]
    cards += [IndexCard("a", text, relevance=0.4), IndexCard("b", text, uses=3)]
    made = plan_index(cards, 400)
    assert [len(entry.text) for entry in made.entries] == [105, 105, 47, 46, 46, 46]
    assert made.entries[2].text == f"- e: {'x' * 41}…"
    assert made.chars == 400


def test_a_share_that_says_nothing_is_given_to_those_before_instead() -> None:
    made = plan_index(
        [IndexCard(f"s{number}", "x" * 100) for number in range(9)], 9 * 5 + 2 * (SHORTEST_DESCRIPTION + 2)
    )
    assert [entry.form for entry in made.entries] == ["short"] * 2 + ["name"] * 7


def test_names_spread_over_the_catalog_are_listed_if_nothing_is_known_and_the_rest_is_counted() -> None:
    made = plan_index([IndexCard(f"skill-{number:03d}", "Does it.") for number in range(500)], 120)
    shown = [entry.slug for entry in made.shown]
    assert shown == ["skill-000", "skill-128", "skill-256", "skill-384"]
    assert made.text == "".join(f"- {slug}\n" for slug in shown) + format_omitted(496)
    assert made.chars <= 120


def test_what_is_relevant_is_described_though_not_every_name_fits() -> None:
    cards = [IndexCard(f"skill-{number:03d}", "Does it.", relevance=float(number == 77)) for number in range(500)]
    assert plan_index(cards, 160).text == f"- skill-077: Does it.\n{format_omitted(499)}"


def test_what_is_used_and_what_is_near_is_listed_before_the_alphabet() -> None:
    cards = [IndexCard(f"skill-{number:03d}", "Does it.") for number in range(500)]
    cards[300] = cards[300]._replace(relevance=0.9, nearness=0.9)
    cards[400] = cards[400]._replace(uses=7)
    cards[490] = cards[490]._replace(nearness=0.2)
    made = plan_index(cards, 200)
    lines = ["- skill-300: Does it.", "- skill-400: Does it.", "- skill-490", format_omitted(497)]
    assert made.text.splitlines() == lines


def test_a_cut_leaves_no_tag_behind() -> None:
    description = "Describes how to be most <skillful> with anything that there is at all"
    budget = len("- a: ") + description.index("ful>") + 1
    assert plan_index([IndexCard("a", description)], budget).text == "- a: Describes how to be most…"


def test_a_budget_without_room_for_the_count_gives_no_text() -> None:
    made = plan_index([IndexCard("a", "Does a.")], 2)
    assert (made.text, made.chars, made.omitted, forms(made)) == ("", 0, 1, {"a": "omitted"})


@pytest.mark.parametrize(("window", "budget"), [(None, 8_000), (0, 8_000), (200_000, 16_000), (8_000, 640)])
def test_the_budget_is_a_share_of_the_window(window: int | None, budget: int) -> None:
    assert default_budget(window) == budget


@settings(max_examples=150)
@given(CARDS, BUDGETS)
def test_the_text_is_never_over_budget_and_never_silent(cards: list[IndexCard], budget: int) -> None:
    made = plan_index(cards, budget)
    lines = [entry.text for entry in made.entries if entry.form != "omitted"]
    assert made.chars == len(made.text) <= budget
    assert made.omitted == sum(entry.form == "omitted" for entry in made.entries) == len(cards) - len(lines)
    assert len(made.entries) == len(cards)
    if made.omitted and budget >= len(format_omitted(len(cards))):
        lines.append(format_omitted(made.omitted))
    assert made.text == "\n".join(lines)
    assert len(made.text.splitlines()) == len(lines)


@settings(max_examples=100)
@given(CARDS.flatmap(lambda cards: st.tuples(st.just(cards), st.permutations(cards))), BUDGETS)
def test_the_order_of_the_cards_makes_no_difference(both: tuple[list[IndexCard], list[IndexCard]], budget: int) -> None:
    assert plan_index(both[0], budget) == plan_index(both[1], budget)


@settings(max_examples=150)
@given(CARDS, BUDGETS)
def test_every_line_is_what_its_form_says(
    tags_read: Callable[[str], list[str]], cards: list[IndexCard], budget: int
) -> None:
    made = plan_index(cards, budget)
    whole = {entry.slug: entry.text for entry in plan_index(cards, 1_000_000).entries}
    for slug, form, text in made.entries:
        name = f"- {slug}"
        if form == "full":
            assert text == whole[slug]
        elif form == "short":
            assert text.endswith("…")
            assert whole[slug].startswith(text[:-1])
            assert len(text) > len(f"{name}: …")
        else:
            assert text == (name if form == "name" else "")
    assert tags_read(made.text) == []


@given(CARDS, BUDGETS)
def test_with_more_room_no_fewer_skills_are_named(cards: list[IndexCard], budget: int) -> None:
    unspoken = [card._replace(relevance=0.0, uses=0, nearness=0.0) for card in cards]
    assert plan_index(unspoken, budget + 50).omitted <= plan_index(unspoken, budget).omitted


def test_the_line_with_the_count_names_the_tool_that_finds_the_rest() -> None:
    assert re.fullmatch(r"… and 1200 more; call search_skills with a few words to find them", format_omitted(1200))
