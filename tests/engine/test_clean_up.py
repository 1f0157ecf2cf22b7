"""Cleaning up deletes what is no longer kept, and a session that is in use is kept."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time

import pytest

pytestmark = pytest.mark.anyio


OLD = "2001-01-01T00:00:00.000000Z"


def age(place, table: str, column: str) -> None:
    with sqlite3.connect(f"{place.environment['PROWESS_HOME']}/agents.db") as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (OLD,))
    connection.close()


async def test_an_engine_cleans_up_for_a_server(place):
    place.skill("one")
    async with place.open() as prowess:
        await prowess.sessions.open("unused")
        await prowess.load("one")
        await prowess.load("one")
    age(place, "sessions", "updated_at")
    age(place, "events", "at")

    async with place.open() as prowess:
        await prowess.clean_up()
        assert await prowess.sessions.list() == []
        assert [event.number for event in await prowess.events.list()] == [2]
        assert await prowess.events.first() == 2
        assert (await prowess.audit.rows())[-1].actor == "retention"
        assert (await prowess.skills.usage(days=1)).loads == 0


async def test_a_session_that_builds_prompts_is_not_idle_although_nothing_in_it_changes(place):
    place.skill("one")
    async with place.open() as prowess:
        session = await prowess.sessions.open("used")
        await prowess.enable("one", session=session)
    age(place, "sessions", "updated_at")

    async with place.open() as prowess:
        await prowess.prompt(session="used")
        await prowess.clean_up()
        assert [one.conversation for one in await prowess.sessions.list()] == ["used"]


async def test_an_engine_without_records_makes_none_to_clean_up(place, home):
    async with place.open() as prowess:
        await prowess.clean_up()
    assert not (home / ".prowess" / "agents.db").exists()


async def run_and_list(place) -> set[str]:
    """Run a skill, and return the ids of all traces after that."""
    async with place.open() as prowess:
        await prowess.run("counts")
        for thread in threading.enumerate():
            if thread.name == "prowess-cleanup":
                await asyncio.to_thread(thread.join)
    async with place.open() as prowess:
        return {trace.id for trace in await prowess.traces.list()}


def write_counts(place) -> None:
    document = {"id": "counts", "name": "Counts", "description": "Counts."}
    code = "def execute(args, ctx):\n    return {'success': True, 'result': 1}"
    place.write("counts", {"skill.json": json.dumps(document), "execute.py": code})


async def test_of_many_short_processes_one_an_hour_looks_for_old_traces(sandboxed, home):
    write_counts(sandboxed)
    first = await run_and_list(sandboxed)
    age(sandboxed, "skill_execution_traces", "started_at")

    assert first < await run_and_list(sandboxed)
    [mark] = (home / ".prowess" / "cache").glob("pruned-*")
    os.utime(mark, (1, 1))
    assert not first & await run_and_list(sandboxed)


async def test_what_no_process_took_the_time_for_is_deleted_after_a_day(sandboxed, home):
    write_counts(sandboxed)
    async with sandboxed.open() as prowess:
        await prowess.run("counts")
    [mark] = (home / ".prowess" / "cache").glob("pruned-*")
    age(sandboxed, "skill_execution_traces", "started_at")

    day_ago = time.time() - 25 * 3_600
    os.utime(mark, (day_ago, day_ago))
    async with sandboxed.open() as prowess:
        newest = await prowess.run("counts")
    async with sandboxed.open() as prowess:
        assert [trace.id for trace in await prowess.traces.list()] == [part.trace for part in newest.parts]
    assert mark.stat().st_mtime > day_ago
