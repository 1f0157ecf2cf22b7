"""Blocks in a prompt that somebody else keeps: put in once, taken out exactly, mended where a piece was cut away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prowess.session.index import IndexCard, plan_index
from prowess.session.prompt import (
    graph_block,
    index_block,
    join_blocks,
    memory_block,
    policies_block,
    remove_blocks,
    replace_blocks,
)
from prowess.skill.prompt_block import skill_block
from prowess.skill.text.prompt_tags import find_tags


def skill(slug: str, body: str) -> str:
    return skill_block(slug.title(), body, slug=slug, origin="org", digest="ab" * 32)


FIRST = skill("first", "# First\n\nDo one thing.\nThen another.\n\n- and </skill> a third")
SECOND = skill("second", "# Second\n\nBe brief.\n")
BLOCKS = (policies_block("Be kind."), memory_block("Likes tea.\n"), graph_block("a -> b"), FIRST, SECOND)
INDEX = index_block(plan_index([IndexCard("a", "Does a."), IndexCard("b", "Does b.")], 500))

FOREIGN = [
    "",
    "You are helpful.",
    "You are helpful.\n",
    "\n\n",
    'A skill enters the prompt as a <skill name="…">…</skill> block.',
    "Skills open with `<skill`, memory with <memory>.",
    "<memory>\nthe host's own\n</memory>",
    '<skill name="Other">\nof another system\n</skill>\n\nand more',
    '<skill name="Other">\n<!-- not ours -->\ntext\n</skill>',
    "<available_skills>\n<skill>\n<name>\na\n</name>\n</skill>\n</available_skills>",
    "```xml\n<skills>\n  <skill/>\n</skills>\n```",
    "<skillful>\n</skillful>",
    "inline </skill> closes nothing",
    "Windows\r\nlines\r\n",
]


@pytest.mark.parametrize("text", FOREIGN)
def test_what_others_wrote_is_left_alone(text: str) -> None:
    assert remove_blocks(text) == text


@pytest.mark.parametrize("text", FOREIGN)
def test_blocks_are_put_at_the_end_once_and_taken_out_exactly(text: str) -> None:
    prompt = replace_blocks(text, BLOCKS)
    assert prompt == (f"{text}\n\n" if text else "") + join_blocks(BLOCKS)
    assert replace_blocks(prompt, BLOCKS) == prompt
    assert remove_blocks(prompt) == text


def test_other_blocks_replace_the_earlier_ones() -> None:
    prompt = replace_blocks("Hello.", [memory_block("old"), FIRST, INDEX])
    assert replace_blocks(prompt, [memory_block("new"), SECOND]) == f"Hello.\n\n{memory_block('new')}\n\n{SECOND}"
    assert replace_blocks(prompt, []) == "Hello."


def test_a_block_that_is_given_twice_is_there_once() -> None:
    assert replace_blocks("", [FIRST, FIRST, ""]) == FIRST


def test_text_that_was_added_after_the_blocks_stays() -> None:
    prompt = replace_blocks("Hello.", [FIRST]) + "\n\nSummary so far.\n"
    assert replace_blocks(prompt, [FIRST]) == f"Hello.\n\nSummary so far.\n\n\n{FIRST}"


def test_blocks_are_known_with_other_line_ends_too() -> None:
    prompt = replace_blocks("Hello.", [memory_block("tea"), FIRST]).replace("\n", "\r\n")
    assert remove_blocks(prompt).rstrip() == "Hello."


def test_a_beginning_without_an_end_goes_as_far_as_it_is_known() -> None:
    cut = FIRST[: FIRST.index("another")]
    assert replace_blocks(f"Hello.\n\n{cut}", [FIRST]) == f"Hello.\n\n{FIRST}"
    assert replace_blocks(f"Hello.\n\n{cut}\nthis stays", [FIRST]) == f"Hello.\nThen \nthis stays\n\n{FIRST}"


def test_a_beginning_without_an_end_loses_its_tag_though_nothing_is_known_of_it() -> None:
    cut = FIRST[: FIRST.index("another")]
    assert remove_blocks(f"Hello.\n\n{cut}") == "Hello.\n\n# First\n\nDo one thing.\nThen "


def test_a_beginning_takes_no_block_after_it_along_nor_the_text_between() -> None:
    cut = FIRST[: FIRST.index("Then")]
    prompt = f"{cut}Keep this.\n\n{SECOND}\n\nAnd this."
    assert remove_blocks(prompt) == "# First\n\nDo one thing.\nKeep this.\n\nAnd this."


@pytest.mark.parametrize("length", range(len('<skill name="'), FIRST.index("\n# First") + 1))
def test_a_beginning_that_is_cut_off_at_the_end_of_the_prompt_goes(length: int) -> None:
    assert remove_blocks(f"Hello.\n\n{FIRST[:length]}") == "Hello."


def test_an_end_without_a_beginning_goes_as_far_as_it_is_known() -> None:
    cut = FIRST[FIRST.index("thing.") :]
    assert replace_blocks(f"{cut}\n\nHello.", [FIRST]) == f"\n\nHello.\n\n{FIRST}"
    assert replace_blocks(f"Summary. {cut}\n\nHello.", [FIRST]) == f"Summary. thing.\n\nHello.\n\n{FIRST}"
    assert remove_blocks(f"Summary. {cut}\n\nHello.").startswith("Summary. thing.\nThen another.\n")


def test_an_end_that_may_close_what_others_opened_stays() -> None:
    text = "Others write <skill>\ntext\n</skill>\nlike that."
    assert remove_blocks(text) == text


PROSE = st.lists(
    st.sampled_from(["Keep this line.", "", "  - and `code`", "a < b", "<div>", "Ünïcode 中文"]), min_size=1
).map("\n".join)


@settings(max_examples=150)
@given(
    before=PROSE,
    after=PROSE,
    old=st.lists(st.sampled_from([*BLOCKS, INDEX]), unique=True),
    new=st.lists(st.sampled_from([*BLOCKS, INDEX]), unique=True),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
@example(before="a", after="b", old=[FIRST, SECOND], new=[FIRST, SECOND], cut=(0.2, 0.7))
def test_after_any_cut_there_is_one_clean_copy_of_each_block(
    tags_read: Callable[[str], list[str]],
    before: str,
    after: str,
    old: list[str],
    new: list[str],
    cut: tuple[float, float],
) -> None:
    middle = join_blocks(old)
    start, end = sorted(round(part * len(middle)) for part in cut)
    prompt = f"{before}\n\n{middle[:start]}\n[cut]\n{middle[end:]}\n\n{after}"
    mended = replace_blocks(prompt, new)
    assert replace_blocks(mended, new) == mended
    assert mended.endswith(join_blocks(new))
    assert mended.startswith(before.rstrip("\n"))
    assert after.strip("\n") in mended
    assert all(mended.count(block) == 1 for block in new)


@settings(max_examples=150)
@given(before=PROSE, new=st.permutations(BLOCKS), cut=st.floats(0, 1))
def test_what_was_cut_off_at_the_end_leaves_nothing_where_it_is_put_in_again(
    before: str, new: list[str], cut: float
) -> None:
    whole = replace_blocks(before, new)
    kept = whole[: max(len(before), round(cut * len(whole)))]
    begun = kept[len(before) :].rpartition("\n\n")[2]
    is_less_than_a_name = begun.startswith("<") and not find_tags(begun)
    left = f"{before}\n\n{begun}" if is_less_than_a_name else before
    assert remove_blocks(replace_blocks(kept, new)).rstrip("\n") == left.rstrip("\n")


@given(st.text(alphabet=st.sampled_from('<>/skil name="\n!-·x:'), max_size=80))
def test_any_text_survives_an_injection(text: str) -> None:
    prompt = replace_blocks(text, [FIRST])
    assert replace_blocks(prompt, [FIRST]) == prompt
    assert prompt.endswith(FIRST)
