"""Retries of jobs whose workflow exists already: it goes on, or the job was restored from a backup."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .station import broken

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("state", ["failed", "queued"])
async def test_a_job_that_was_restored_from_a_backup_is_retried(place, line, station, state):
    station.told = lambda name, _: broken() if name == "two" else None
    async with place.open() as prowess:
        job = await prowess.jobs.start_run(line(inputs={"n": 7}), name="steps")
        await prowess.jobs.wait(job.id)
        with closing(sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db"))) as account, account:
            before = account.execute("SELECT attempt, finished_at, queued_at FROM jobs").fetchone()
        station.told = lambda *_: None
        await prowess.jobs.retry("steps")
        await prowess.jobs.wait(job.id)
        # What DBOS has recorded is not part of a backup.
        with closing(sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db"))) as account, account:
            account.execute("UPDATE jobs SET state = ?, attempt = ?, finished_at = ?, queued_at = ?", (state, *before))
        await prowess.jobs.retry("steps")
        ended = await prowess.jobs.wait(job.id)
    assert (ended.state, ended.attempt) == ("succeeded", 3)
    assert station.lines() == ["one 7", "two 7", "three 7"]
