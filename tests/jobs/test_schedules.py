"""Work that is due at certain times: sources are synced, and jobs that ended long ago are deleted."""

from __future__ import annotations

import sys
from contextlib import aclosing

import pytest
import sqlalchemy as sa

from prowess import Prowess
from prowess.errors import NotFound, Unavailable
from prowess.jobs import worker, workflows
from prowess.settings import read_settings
from prowess.skill.package import Package
from prowess.sources.scripted import ScriptedFetcher, make_fetched
from prowess.storage.jobs import jobs as job_table
from prowess.storage.spend import reserve, spent

from .station import skill_files

pytestmark = pytest.mark.anyio

REPOSITORY = "https://github.com/acme/runbooks.git"
SKILL = "---\nname: restart-db\ndescription: Restarts the database safely.\n---\n\nDrain it first.\n"


async def test_a_worker_syncs_the_sources_that_are_due(place, monkeypatch):
    monkeypatch.setattr(workflows, "SCHEDULES", (("sources", "* * * * * *"),))
    packages = {"skills/restart-db": Package.of_texts("restart-db", {"SKILL.md": SKILL})}
    fetcher = ScriptedFetcher({REPOSITORY: make_fetched(REPOSITORY, packages)})
    settings = read_settings(place.environment, workspace=place.workspace)
    async with Prowess.open(settings=settings, fetcher=fetcher) as prowess:
        config = {"repo": "acme/runbooks", "path": "skills"}
        automatic = await prowess.sources.create("Automatic", "github", {**config, "sync_policy": "auto"})
        manual = await prowess.sources.create("Manual", "github", {**config, "repo": "acme/other"})
        await prowess.jobs.work(scheduled=True)
        async with aclosing(prowess.events.follow(after=0, names=["source_synced"])) as events:
            await anext(events)
        source = await prowess.sources.get(automatic.id)
        found = (await prowess.skills.get("restart-db")).provenance
        untouched = await prowess.sources.get(manual.id)
    assert source.last_sync_error is None
    assert (found.source_type, found.source_id) == ("github", automatic.id)
    assert untouched.last_sync_at is None


@pytest.mark.long
async def test_a_job_is_deleted_with_its_spending_some_time_after_its_end(place, line, station):
    place.write("line", skill_files())
    async with place.open() as prowess:
        old = await prowess.jobs.start_run(line("one", inputs={"n": 1}), name="old-run")
        new = await prowess.jobs.start_run(line("one", inputs={"n": 2}), name="new-run")
        for job in (old, new):
            await prowess.jobs.wait(job.id)
        doing = prowess.jobs._worker  # nothing public ends a job a month ago
        with doing.records().write() as connection:
            long_ago = {"finished_at": "2020-01-01T00:00:00Z"}
            connection.execute(sa.update(job_table).where(job_table.c.id == old.id).values(long_ago))
            assert reserve(connection, "", {f"job:{job.id}": 1.0 for job in (old, new)}, 0.5) is None
        await workflows.prune(doing)
        with pytest.raises(NotFound):
            await prowess.jobs.get(old.id)
        assert (await prowess.jobs.get(new.id)).state == "succeeded"
        with doing.records().read() as connection:
            assert [spent(connection, "", f"job:{job.id}") for job in (old, new)] == [0.0, 0.5]


async def test_without_the_extra_a_job_says_how_to_install_it(place, line, monkeypatch):
    monkeypatch.setattr(worker, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "dbos", None)
    async with place.open() as prowess:
        with pytest.raises(Unavailable) as raised:
            await prowess.jobs.start_run(line("one"))
        assert await prowess.jobs.list() == []
    assert raised.value.hint == "Install them: pip install 'prowess[jobs]'"
