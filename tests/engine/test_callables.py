"""Looking for callable skills in a large catalog is not repeated at once, unless this process has changed something."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, repeat

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.engine.callables import SLOW_LOOK_SECONDS, CallableIndex
from prowess.skill.kinds import Function
from prowess.skill.model import Skill


def ticking(seconds: float) -> Iterator[float]:
    """Yield times, each so many seconds after the one before."""
    return accumulate(repeat(seconds))


def make_index(seconds: float) -> tuple[MemoryStore, CallableIndex]:
    """Return a store and an index over it, whose clocks are this much later each time that they are read."""
    store, times = MemoryStore(scope="session"), ticking(seconds)
    return store, CallableIndex(Catalog([store]), clock=lambda: next(times), cpu=lambda: next(times))


def function(slug: str) -> Skill:
    code = "def execute(args, ctx):\n    return 1\n"
    return Skill(
        slug=slug,
        title=slug,
        description="Counts.",
        artifacts=(Function(name="execute", content=code, language="python"),),
    )


def names(index: CallableIndex) -> list[str]:
    return [one.slug for one in index.look().functions]


def test_a_quick_look_is_repeated_every_time():
    store, index = make_index(SLOW_LOOK_SECONDS / 10)
    assert names(index) == names(index) == []
    store.create_skill(function("one"))
    assert names(index) == ["one"]


def test_a_slow_look_is_used_again_for_a_while_and_until_this_process_changes_a_skill():
    store, index = make_index(SLOW_LOOK_SECONDS * 2)
    assert names(index) == names(index) == []
    store.create_skill(function("one"))
    assert names(index) == []
    index.look_again()
    assert names(index) == names(index) == ["one"]
    store.create_skill(function("two"))
    assert {tuple(names(index)) for _ in range(10)} == {("one",)}
    for _ in range(20):
        index.look()
    assert names(index) == ["one", "two"]


def test_a_caller_who_accepts_a_recent_look_gets_it_until_this_process_changes_a_skill():
    store, index = make_index(SLOW_LOOK_SECONDS / 10)
    assert index.look(recent=1.0).functions == ()
    store.create_skill(function("one"))
    assert index.look(recent=1.0).functions == ()
    index.look_again()
    assert [one.slug for one in index.look(recent=1.0).functions] == ["one"]
    store.create_skill(function("two"))
    assert [one.slug for one in index.look(recent=1e-9).functions] == ["one", "two"]
