"""What a caller is told where the prompt has no room: limit, use, need, and what to disable."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from prowess.session.session import Budget, EnabledSkill, Session, check_budget, find_skills_to_disable


def skills(*lengths: int) -> tuple[EnabledSkill, ...]:
    return tuple(
        EnabledSkill(
            slug=f"s{place}",
            title="",
            digest="d",
            scope="workspace",
            source_type="catalog",
            content_length=length,
            tokens=0,
            enabled_at="",
        )
        for place, length in enumerate(lengths)
    )


def session(limit: int, *lengths: int) -> Session:
    return Session(
        id="1",
        conversation="chat",
        organization="",
        user="",
        actor="ann",
        role="",
        model="",
        window=None,
        budget=Budget(limit=limit, used=sum(lengths)),
        enabled=skills(*lengths),
        created_at="",
        updated_at="",
    )


def test_what_fits_is_no_error_to_the_last_character():
    assert check_budget("new", 40, 10, session(100, 60)) is None
    assert check_budget("new", 41, 10, session(100, 60)) is not None


def test_the_error_names_limit_use_need_and_what_makes_room():
    error = check_budget("new", 50, 13, session(100, 30, 60))
    assert error is not None
    assert (error.limit, error.used, error.need, error.room) == (100, 90, 50, ("s1",))
    assert (
        error.message == "The skill 'new' needs 50 characters (about 13 tokens); 90 of 100 are in use, so 10 are left."
    )
    assert error.hint.startswith("Disable 's1' to make room, or raise the budget: `prowess sessions open ")


def test_the_smallest_skill_that_is_large_enough_is_named_alone():
    assert find_skills_to_disable(30, Budget(limit=100, used=100), skills(10, 60, 30)) == ("s2",)


def test_where_none_is_large_enough_the_fewest_are_named_together():
    error = check_budget("new", 70, 18, session(100, 20, 45, 35))
    assert error is not None
    assert error.room == ("s1", "s2")
    assert "'s1' and 's2'" in error.hint


def test_what_is_larger_than_the_whole_budget_is_said_never_to_fit():
    error = check_budget("new", 101, 26, session(100, 60))
    assert error is not None
    assert error.room == ()
    assert "--budget 161" in error.hint


def test_a_skill_with_other_text_makes_way_for_itself_and_is_not_named():
    assert check_budget("s0", 90, 23, session(100, 80, 10)) is None
    error = check_budget("s0", 95, 24, session(100, 80, 10))
    assert error is not None
    assert (error.used, error.room) == (10, ("s1",))


def test_a_text_that_does_not_grow_fits_also_where_the_budget_was_lowered():
    assert check_budget("s0", 80, 20, session(10, 80, 10)) is None
    error = check_budget("s0", 81, 21, session(10, 80, 10))
    assert error is not None
    assert error.hint


@given(lengths=st.lists(st.integers(0, 50), max_size=8), limit=st.integers(0, 200), need=st.integers(0, 200))
def test_disabling_what_is_named_makes_room(lengths: Sequence[int], limit: int, need: int):
    budget = Budget(limit=limit, used=sum(lengths))
    enabled = skills(*lengths)
    room = find_skills_to_disable(need, budget, enabled)
    freed = sum(skill.content_length for skill in enabled if skill.slug in room)
    fits = budget.used + need <= limit
    possible = need <= limit and not fits
    assert bool(room) == possible
    assert fits or not possible or budget.used - freed + need <= limit
