"""Many writers in several processes, and a listener that is killed meanwhile: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import psycopg
import pytest

WRITING = Path(__file__).with_name("writing.py")
PROCESSES, THREADS, EVENTS = 2, 4, 25
TOTAL = PROCESSES * THREADS * EVENTS


@pytest.mark.few(1)
@pytest.mark.usefixtures("only_rings")
def test_every_event_of_every_writer_arrives_once_in_one_order(database_url, feed, listeners, until):
    async def follow(kill):
        found = []
        async with aclosing(feed.follow(0)) as events:
            while len(found) < TOTAL:
                found.append(await anext(events))
                if kill and len(found) == TOTAL // 4:
                    await asyncio.to_thread(end_listeners)
        return found

    def end_listeners():
        """Kill every connection for wake-ups, of those who follow and of those who write."""
        if database_url.startswith("postgresql"):
            with psycopg.connect(database_url, autocommit=True) as connection:
                for pid in until(lambda: listeners(database_url)):
                    connection.execute("SELECT pg_terminate_backend(%s)", (pid,))

    async def work():
        async with asyncio.timeout(120):
            return await asyncio.gather(follow(kill=True), follow(kill=False), follow(kill=False))

    writers = [
        subprocess.Popen([sys.executable, WRITING, database_url, "acme", str(process), str(THREADS), str(EVENTS)])
        for process in range(PROCESSES)
    ]
    try:
        seen = asyncio.run(work())
        assert [writer.wait(60) for writer in writers] == [0] * PROCESSES
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()

    assert [event.number for event in seen[0]] == list(range(1, TOTAL + 1))
    assert seen[1:] == [seen[0]] * 2
    notes = [tuple(event.data["note"]) for event in seen[0]]
    assert len(set(notes)) == TOTAL
    for writer in {note[:2] for note in notes}:
        assert [note[2] for note in notes if note[:2] == writer] == list(range(EVENTS))
    assert feed.last() == TOTAL
