"""The journal of a run: what was answered once is not asked again, as long as the script goes the same way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Refused
from prowess.run.checkpoints import Journal

NAMES = ("search", "llm_query", "checkpoint")
CALLS = st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.integers(0, 3), max_size=2)), max_size=12)


class Host:
    """Answers each call with its number, and remembers what it was asked."""

    def __init__(self, refuses: str = "") -> None:
        self.asked: list[tuple[str, list[int]]] = []
        self.refuses = refuses

    def functions(self) -> dict[str, Any]:
        return {name: self._function(name) for name in NAMES}

    def _function(self, name: str) -> Any:
        async def answer(*args: int) -> Any:
            self.asked.append((name, list(args)))
            if name == self.refuses:
                raise Refused("No.")
            return {"answer": len(self.asked)}

        return answer


async def nothing() -> None:
    """What happens at a checkpoint that nobody keeps."""


def go(journal: Journal, host: Host, calls: list[tuple[str, list[int]]], reached: Any = nothing) -> list[Any]:
    async def work() -> list[Any]:
        functions = journal.over(host.functions(), reached)
        answers: list[Any] = []
        for name, args in calls:
            try:
                answers.append(await functions[name](*args))
            except Refused as error:
                answers.append(error.message)
        return answers

    return asyncio.run(work())


@given(CALLS, CALLS)
def test_the_same_calls_have_the_same_answers_and_only_what_follows_is_asked(before, after):
    first = Journal(seed="1")
    answers = go(first, Host(), before)
    host = Host()
    second = Journal(seed="1", known=first.entries)
    assert go(second, host, before + after)[: len(before)] == answers
    assert host.asked == after
    assert second.replayed == len(before)
    assert [entry.name for entry in second.entries] == [name for name, _ in before + after]


@given(CALLS, CALLS)
def test_a_script_that_goes_another_way_is_answered_anew_from_there_on(before, other):
    first = Journal(seed="1")
    go(first, Host(), before)
    host = Host()
    go(Journal(seed="1", known=first.entries), host, other)
    same = next(
        (n for n, (a, b) in enumerate(zip(before, other, strict=False)) if a != b), min(len(before), len(other))
    )
    assert host.asked == other[same:]


def test_what_was_refused_is_asked_again():
    first = Journal(seed="1")
    assert go(first, Host(refuses="llm_query"), [("search", [1]), ("llm_query", [2]), ("search", [3])])[1] == "No."
    host = Host()
    second = Journal(seed="1", known=first.entries)
    answers = go(second, host, [("search", [1]), ("llm_query", [2]), ("search", [3])])
    assert host.asked == [("llm_query", [2])]
    assert answers[1] == {"answer": 1}


@pytest.mark.parametrize("again", [False, True])
def test_a_checkpoint_is_reached_once(again):
    reached: list[int] = []

    async def keep() -> None:
        reached.append(len(journal.entries))

    journal = Journal(seed="1")
    calls = [("search", [1]), ("checkpoint", [2]), ("search", [3])]
    go(journal, Host(), calls, keep)
    if again:
        journal = Journal(seed="1", known=journal.entries)
        go(journal, Host(), calls, keep)
    assert reached == [2]
