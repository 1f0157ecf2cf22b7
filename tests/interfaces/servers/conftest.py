"""Deployments: a database with an organization in it, for servers in processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from prowess import Prowess
from prowess.settings import read_settings

from .replicas import Deployment, Forks


async def _add_people(deployment: Deployment) -> dict[str, str]:
    """Add an organization with an admin and an approver, who has an agent. Return their tokens."""
    settings = read_settings(deployment.environment(), workspace=deployment.home)
    async with Prowess.open(settings=settings) as operator:
        await operator.organizations.create("acme")
        await operator.users.add("ann", organization="acme", admin=True)
        await operator.users.add("bob", organization="acme")
        ann = await operator.tokens.create(organization="acme", user="ann")
        bob = await operator.tokens.create(organization="acme", user="bob")
        agent = await operator.tokens.create(organization="acme", user="bob", agent="builder")
    return {"ann": ann.secret, "bob": bob.secret, "agent": agent.secret}


@pytest.fixture
def deploy(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Deployment]:
    """Return a function that prepares a deployment on SQLite, on PostgreSQL or on the database of a URL."""

    def prepare(kind: str = "postgres", url: str = "") -> Deployment:
        if not url:
            url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/served.db"
        deployment = Deployment(home=tmp_path, database=url)
        deployment.tokens.update(asyncio.run(_add_people(deployment)))
        return deployment

    return prepare


@pytest.fixture(scope="package")
def prepared_forks() -> Generator[Forks]:
    """Prepare to start servers quickly."""
    prepared = Forks()
    yield prepared
    prepared.close()


@pytest.fixture
def forks(prepared_forks: Forks) -> Generator[Forks]:
    """Start servers for one test, and kill them after it: they would look for a database that is gone all the time."""
    yield prepared_forks
    prepared_forks.kill_all()
