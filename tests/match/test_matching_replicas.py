"""Several engines on one PostgreSQL database: each keeps an index of its own and catches up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from prowess.engine.matcher import open_matcher
from prowess.match.matcher import Matcher
from prowess.open import Prowess
from prowess.settings import Settings, read_settings
from prowess.skill.package import Package

PLANTS = "water the balcony plants"
QUERIES = "why are these database queries so slow"
MUSIC = "music for the clarinet"
DESCRIPTIONS = {
    "plant-care": "Waters the plants of the balcony and keeps them alive.",
    "sql-tuner": "Explains slow database queries and proposes indexes.",
    "composer": "Composes music for the clarinet in any key.",
}


def written(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {DESCRIPTIONS[name]}\n---\n\nDo it.\n")
    return folder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of every matcher; it goes when it is told to."""
    now = [1000.0]
    monkeypatch.setitem(Matcher.__init__.__kwdefaults__, "clock", lambda: now[0])
    return now


@pytest.fixture
def replica(tmp_path: Path, postgres_url: str) -> Callable[[str], Settings]:
    """The settings of a machine of its own on the same database; `sql-tuner` lies in its workspace."""

    def made(name: str) -> Settings:
        home, workspace = tmp_path / name / "home", tmp_path / name / "work"
        home.mkdir(parents=True)
        written(workspace / ".agents/skills", "sql-tuner")
        environment = {"HOME": str(home), "PROWESS_DATABASE_URL": postgres_url}
        return read_settings(environment, workspace=workspace)

    return made


def slugs(found: list[Any]) -> list[str]:
    return [one.slug for one in found]


def test_each_of_two_engines_sees_what_the_other_imports_and_deletes(replica, clock, tmp_path):
    async def work() -> None:
        async with (
            Prowess.open(settings=replica("one")) as one,
            Prowess.open(settings=replica("two")) as two,
        ):
            for engine in (one, two):
                assert await engine.match(PLANTS) == []
            await one.skills.import_path(written(tmp_path / "incoming", "plant-care"), scope="account")
            await two.skills.import_path(written(tmp_path / "incoming", "composer"), scope="account")
            clock[0] += 10
            for engine in (one, two):
                assert slugs(await engine.match(PLANTS)) == ["plant-care"]
                assert slugs(await engine.match(MUSIC)) == ["composer"]
                assert slugs(await engine.match(QUERIES)) == ["sql-tuner"]
            assert await one.skills.rank(PLANTS) == await two.skills.rank(PLANTS)
            await two.skills.delete("plant-care")
            assert await two.match(PLANTS) == []
            clock[0] += 10
            assert await one.match(PLANTS) == []

    asyncio.run(work())


def test_a_later_start_catches_up_from_where_its_index_stood(replica, clock, tmp_path):
    settings = replica("one")
    with open_matcher(settings=settings) as matcher:
        assert matcher.match(PLANTS) == []
    store_packages(settings, "plant-care", "composer")
    with open_matcher(settings=settings) as matcher:
        assert slugs(matcher.match(PLANTS)) == ["plant-care"]
        assert slugs(matcher.match(MUSIC)) == ["composer"]
    assert len(list(settings.home.rglob("current"))) == 1


def store_packages(settings: Settings, *names: str) -> None:
    from prowess.engine.stores import Stores

    stores = Stores(settings)
    try:
        for name in names:
            text = f"---\nname: {name}\ndescription: {DESCRIPTIONS[name]}\n---\n\nDo it.\n"
            stores.writable("account").save(Package.of_texts(name, {"SKILL.md": text}))
    finally:
        stores.close()


@contextmanager
def closed(server: str, url: str) -> Iterator[None]:
    """A database that ends all connections and lets nobody in."""
    name = url.partition("?")[0].rpartition("/")[2]

    def allow(yes: bool) -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            change = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
            connection.execute(change.format(sql.Identifier(name), sql.SQL("true" if yes else "false")))
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    allow(False)
    try:
        yield
    finally:
        allow(True)


def test_while_the_database_is_away_the_folders_match_and_then_all_does_again(
    replica, clock, postgres_server, postgres_url
):
    settings = replica("one")
    store_packages(settings, "plant-care")
    with open_matcher(settings=settings) as matcher, ExitStack() as shut:
        assert slugs(matcher.match(PLANTS)) == ["plant-care"]
        shut.enter_context(closed(postgres_server, postgres_url))
        clock[0] += 10
        assert slugs(matcher.match(QUERIES)) == ["sql-tuner"]
        assert matcher.match(PLANTS) == []
        with open_matcher(settings=settings) as newcomer:
            assert slugs(newcomer.match(QUERIES)) == ["sql-tuner"]
            assert newcomer.match(PLANTS) == []
        shut.close()
        clock[0] += 100
        assert slugs(matcher.match(PLANTS)) == ["plant-care"]
        with open_matcher(settings=settings) as newcomer:
            assert slugs(newcomer.match(PLANTS)) == ["plant-care"]
