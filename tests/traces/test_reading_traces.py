"""Traces are read by those who may see them, whole or in short, and found by the beginning of their id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prowess.errors import Invalid, NotFound, Refused
from prowess.open import Prowess
from prowess.policy.actor import Actor
from prowess.storage import traces as rows
from prowess.storage.clock import seconds_from_now
from prowess.storage.database import open_database
from prowess.storage.traces import Trace

ADMIN = Actor(name="root", organization="acme", user="root")
ANN = Actor(name="ann", organization="acme", user="ann", permissions=frozenset({"skills.read"}))
BOB = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}))
STRANGER = Actor(name="eve", organization="globex", user="ann")
NOBODY = Actor(name="nobody", organization="acme", user="ann", permissions=frozenset())


def trace(id: str, *, ago: float = 60, **values: Any) -> Trace:
    given: dict[str, Any] = {
        "id": id,
        "run_id": f"run of {id}",
        "organization_id": "acme",
        "user_id": "ann",
        "skill_id": "1",
        "skill_slug": "checker",
        "artifact_id": "2",
        "artifact_name": "check",
        "artifact_kind": "prompt_template",
        "status": "ok",
        "started_at": seconds_from_now(-ago),
        "deadline_at": seconds_from_now(60),
        "duration_ms": 10,
        "created_at": seconds_from_now(-ago),
        "inputs": {"entity": "Mara"},
        "rendered_input": "Claims about Mara",
        "raw_output": "None contradict.",
    }
    return Trace(**{**given, **values})


@pytest.fixture
def keep(each_place):
    """Write traces into the records, as other processes do."""
    home = each_place.environment["PROWESS_HOME"]
    url = each_place.environment["PROWESS_DATABASE_URL"] or f"sqlite:///{home}/agents.db"
    opened = open_database(url)

    def write(*kept: Trace) -> None:
        with opened.write() as connection:
            rows.finish_many(connection, [rows.to_values(one) for one in kept])

    yield write
    opened.close()


def ask(place, question):
    async def work() -> Any:
        async with place.open() as prowess:
            return await question(prowess)

    return asyncio.run(work())


def test_the_last_begun_stands_first_without_its_texts(each_place, keep):
    keep(trace("a", ago=30), trace("b", ago=10), trace("c", ago=20))
    found = ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.list())
    assert [one.id for one in found] == ["b", "c", "a"]
    assert (found[0].inputs, found[0].rendered_input, found[0].raw_output) == ({}, None, None)
    assert [one.id for one in ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.list(limit=1))] == ["b"]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"skill": "writer"}, ["b"]),
        ({"artifact": "draft"}, ["b"]),
        ({"status": "failed"}, ["c"]),
        ({"session": "s1"}, ["d"]),
        ({"run": "run of a"}, ["a"]),
        ({"model": "m"}, ["d"]),
        ({"days": 1}, ["d", "c", "b"]),
        ({"skill": "nothing"}, []),
    ],
)
def test_what_is_wanted_is_all_that_is_given(each_place, keep, wanted, ids):
    keep(
        trace("a", ago=3 * 86_400),
        trace("b", ago=30, skill_slug="writer", artifact_name="draft"),
        trace("c", ago=20, status="failed"),
        trace("d", ago=10, session_id="s1", model_id="m"),
    )
    assert [one.id for one in ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.list(**wanted))] == ids


def test_an_actor_sees_its_own_user_and_an_administrator_the_organization(each_place, keep):
    keep(trace("aaaa1"), trace("bbbb1", user_id="bob", ago=50), trace("cccc1", organization_id="globex"))

    def seen(actor: Actor) -> tuple[list[str], int, int]:
        async def all_doors(prowess: Prowess) -> tuple[list[str], int, int]:
            listed = [one.id for one in await prowess.as_actor(actor).traces.list()]
            exported = [row async for row in prowess.as_actor(actor).traces.export()]
            return listed, (await prowess.as_actor(actor).traces.stats()).total.runs, len(exported)

        return ask(each_place, all_doors)

    assert seen(ANN) == (["aaaa1"], 1, 1)
    assert seen(BOB) == (["bbbb1"], 1, 1)
    assert seen(ADMIN) == (["bbbb1", "aaaa1"], 2, 2)
    assert seen(STRANGER) == (["cccc1"], 1, 1)
    with pytest.raises(Refused):
        seen(NOBODY)


def test_the_id_of_another_answers_as_an_unknown_one(each_place, keep):
    keep(trace("aaaa1"), trace("bbbb1", user_id="bob"), trace("cccc1", organization_id="globex"))

    def told(id: str) -> str:
        with pytest.raises(NotFound) as failed:
            ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.get(id))
        return failed.value.message.replace(id, "ID")

    assert told("bbbb1") == told("bbbb") == told("cccc1") == told("nobody has this") == told("bb") == told("%")
    assert ask(each_place, lambda prowess: prowess.as_actor(ADMIN).traces.get("bbbb1")).user_id == "bob"


def test_a_trace_is_found_by_the_beginning_of_its_id_if_no_other_begins_so(each_place, keep):
    keep(trace("abcd-1"), trace("abcd-2"), trace("abcd-2%"), trace("efgh-1", user_id="bob"), trace("efgh-2"))
    whole = ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.get("ABCD-1"))
    assert (whole.id, whole.raw_output, whole.inputs) == ("abcd-1", "None contradict.", {"entity": "Mara"})
    assert ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.get("efgh")).id == "efgh-2"
    assert ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.get("abcd-2")).id == "abcd-2"
    for start in ("abcd", "efgh"):
        with pytest.raises(Invalid, match="Several traces"):
            ask(each_place, lambda prowess, start=start: prowess.as_actor(ADMIN).traces.get(start))
    with pytest.raises(NotFound):
        ask(each_place, lambda prowess: prowess.as_actor(ANN).traces.get("abc"))


def test_without_records_there_is_nothing_and_nothing_is_made(place, home):
    async def everything(prowess: Prowess) -> list[Any]:
        rows = [row async for row in prowess.traces.export("dspy")]
        return [await prowess.traces.list(), (await prowess.traces.stats("day")).rows, rows]

    assert ask(place, everything) == [[], (), []]
    with pytest.raises(NotFound):
        ask(place, lambda prowess: prowess.traces.get("some"))
    assert not (home / ".prowess/agents.db").exists()


def test_what_there_are_no_figures_or_formats_for_is_refused(place):
    async def export(prowess: Prowess) -> None:
        async for _ in prowess.traces.export("xml"):
            pass

    with pytest.raises(Invalid, match="week"):
        ask(place, lambda prowess: prowess.traces.stats("week"))
    with pytest.raises(Invalid, match="xml"):
        ask(place, export)


def test_every_trace_is_exported_once_in_order_also_where_many_began_at_once(each_place, keep):
    moment = seconds_from_now(-10)
    keep(*(trace(f"id-{number:04}", started_at=moment) for number in range(120)), trace("first", ago=100))

    async def ids(prowess: Prowess) -> list[str]:
        return [row["id"] async for row in prowess.as_actor(ANN).traces.export()]

    assert ask(each_place, ids) == ["first", *(f"id-{number:04}" for number in range(120))]


class Looks:
    """Stands between the looks of a follower: each time the next of some deeds is done; after the last it ends."""

    class Over(Exception):
        pass

    def __init__(self, *deeds) -> None:
        self._deeds = iter(deeds)

    async def __call__(self) -> None:
        deed = next(self._deeds, None)
        if deed is None:
            raise Looks.Over
        deed()


def followed(place, *deeds, **wanted: Any) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []

    async def follow(prowess: Prowess) -> None:
        async for one in prowess.as_actor(ANN).traces.follow(pause=Looks(*deeds), **wanted):
            told.append((one.id, one.status))  # noqa: PERF401  (it ends with an exception, and what was told stays)

    with pytest.raises(Looks.Over):
        ask(place, follow)
    return told


def test_a_run_is_told_once_when_it_is_over(each_place, keep):
    keep(trace("before"))
    began = seconds_from_now(0.5)
    told = followed(
        each_place,
        lambda: keep(trace("slow", started_at=began, status="running"), trace("quick", ago=-1)),
        lambda: keep(trace("other", ago=-1, user_id="bob")),
        lambda: keep(trace("slow", started_at=began, status="timed_out"), trace("late", started_at=began)),
        lambda: None,
    )
    assert told == [("quick", "ok"), ("late", "ok"), ("slow", "timed_out")]


def test_a_run_that_goes_on_for_long_is_told_all_the_same(each_place, keep):
    began = seconds_from_now(0.5)
    told = followed(
        each_place,
        lambda: keep(trace("slow", started_at=began, status="running")),
        lambda: keep(trace("next", started_at=seconds_from_now(3_600))),
        lambda: keep(trace("slow", started_at=began, status="interrupted")),
        lambda: None,
        lambda: None,
    )
    assert told == [("next", "ok"), ("slow", "interrupted")]


def test_of_what_is_followed_only_the_wanted_is_told(each_place, keep):
    deeds = (
        lambda: keep(trace("a", ago=-1, status="running"), trace("b", ago=-1)),
        lambda: keep(trace("a", ago=-1, status="failed"), trace("c", ago=-1, skill_slug="x", status="failed")),
    )
    assert followed(each_place, *deeds, status="failed", skill="checker") == [("a", "failed")]
