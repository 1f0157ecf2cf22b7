"""Matching through the engine, over real folders and databases."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import prowess.match.matcher
from prowess.catalog.catalog import Catalog
from prowess.engine.matcher import open_matcher, snapshot_folder
from prowess.match.index import Index
from prowess.match.matcher import Matcher
from prowess.match.ranking import rank
from prowess.open import Prowess
from prowess.settings import read_settings
from prowess.skill.package import Package

PLANTS = "water the balcony plants"
QUERIES = "why are these database queries so slow"
DESCRIPTIONS = {
    "plant-care": "Waters the plants of the balcony and keeps them alive.",
    "sql-tuner": "Explains slow database queries and proposes indexes.",
    "meeting-minutes": "Turns the transcript of a meeting into minutes with decisions.",
}


def skill_md(name: str, description: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description or DESCRIPTIONS[name]}\n---\n\n# {name}\n\nDo it.\n"


def write(root: Path, name: str, description: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(skill_md(name, description))
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one skill in a folder."""
    folder = tmp_path / "work"
    write(folder / ".agents/skills", "sql-tuner")
    return folder


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    """A skill that is not yet in any reach."""
    return write(tmp_path / "incoming", "plant-care")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of every matcher made from now on; it goes when it is told to."""
    now = [1000.0]
    monkeypatch.setitem(Matcher.__init__.__kwdefaults__, "clock", lambda: now[0])
    return now


def run(workspace: Path, work: Callable[[Prowess], Awaitable[Any]]) -> Any:
    """Do something with an engine that is opened for it and closed after."""

    async def session() -> Any:
        async with Prowess.open(workspace) as engine:
            return await work(engine)

    return asyncio.run(session())


def slugs(found: list[Any]) -> list[str]:
    return [one.slug for one in found]


def offered(workspace: Path, message: str) -> list[str]:
    """What a newcomer is offered, who has nothing but the disk."""
    with open_matcher(workspace) as matcher:
        return slugs(matcher.match(message))


def test_what_is_imported_matches_at_once_and_what_is_deleted_never_again(workspace, incoming, clock):
    async def work(engine: Prowess) -> None:
        assert await engine.match(PLANTS) == []
        await engine.skills.import_path(incoming)
        assert slugs(await engine.match(PLANTS)) == ["plant-care"]
        assert slugs(await engine.skills.search("plants")) == ["plant-care"]
        assert (await engine.skills.rank(PLANTS))[0].scope == "workspace"
        await engine.skills.delete("plant-care")
        assert await engine.match(PLANTS) == []
        assert slugs(await engine.match(QUERIES)) == ["sql-tuner"]

    run(workspace, work)


def test_what_matching_reads_is_given_without_holding_up_the_loop(workspace, monkeypatch):
    here = threading.get_ident()
    read = Catalog.documents

    def elsewhere(self, *asked: Any):
        for document in read(self, *asked):
            assert threading.get_ident() != here
            yield document

    async def work(engine: Prowess) -> None:
        monkeypatch.setattr(Catalog, "documents", elsewhere)
        [document] = await engine.skills.documents()
        assert (document.slug, document.description) == ("sql-tuner", DESCRIPTIONS["sql-tuner"])

    run(workspace, work)


def test_a_rollback_matches_at_once(workspace, incoming, clock):
    async def work(engine: Prowess) -> None:
        await engine.skills.import_path(incoming)
        assert slugs(await engine.match(PLANTS)) == ["plant-care"]
        await engine.skills.delete("plant-care")
        await engine.skills.rollback("plant-care", 1)
        assert slugs(await engine.match(PLANTS)) == ["plant-care"]

    run(workspace, work)


def test_an_edited_file_is_seen_by_newcomers_and_by_a_running_engine(workspace, clock):
    async def work(engine: Prowess) -> None:
        assert slugs(await engine.match(QUERIES)) == ["sql-tuner"]
        write(workspace / ".agents/skills", "sql-tuner", "Composes music for the clarinet in any key.")
        assert await asyncio.to_thread(offered, workspace, "music for the clarinet") == ["sql-tuner"]
        assert await asyncio.to_thread(offered, workspace, QUERIES) == []
        assert slugs(await engine.match(QUERIES)) == ["sql-tuner"]
        clock[0] += 2 * prowess.match.matcher.FRESHNESS_SECONDS
        assert await engine.match(QUERIES) == []
        assert slugs(await engine.match("music for the clarinet")) == ["sql-tuner"]

    run(workspace, work)


def test_skills_and_folders_that_come_and_go_are_seen(workspace, clock):
    with open_matcher(workspace) as matcher:
        assert matcher.match(PLANTS) == []
        write(workspace / ".claude/skills", "plant-care")
        clock[0] += 2
        assert slugs(matcher.match(PLANTS)) == ["plant-care"]
        (workspace / ".claude/skills/plant-care/SKILL.md").unlink()
        clock[0] += 2
        assert matcher.match(PLANTS) == []
        write(workspace / ".agents/skills", "plant-care")
        clock[0] += 2
        assert slugs(matcher.match(PLANTS)) == ["plant-care"]


def test_the_nearer_skill_is_recommended_and_the_hidden_one_when_that_is_gone(workspace, tmp_path, clock):
    far = write(tmp_path / "far", "plant-care", "Composes music for the clarinet in any key.")
    near = write(tmp_path / "near", "plant-care")

    async def work(engine: Prowess) -> None:
        await engine.skills.import_path(far, scope="account")
        assert [(one.slug, one.scope) for one in await engine.match("music for the clarinet")] == [
            ("plant-care", "account")
        ]
        await engine.skills.import_path(near, scope="workspace")
        assert await engine.match("music for the clarinet") == []
        assert [(one.slug, one.scope) for one in await engine.match(PLANTS)] == [("plant-care", "workspace")]
        await engine.skills.delete("workspace:plant-care")
        assert [one.scope for one in await engine.match("music for the clarinet")] == ["account"]
        assert {one.scope for one in await engine.skills.rank(PLANTS) if one.slug == "plant-care"} == {"account"}

    run(workspace, work)


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_matching_writes_nothing_below_the_workspace(workspace, home):
    before = below(workspace)
    assert offered(workspace, QUERIES) == ["sql-tuner"]
    assert offered(workspace, QUERIES) == ["sql-tuner"]
    assert below(workspace) == before
    assert list(home.rglob("*.segment"))


def test_each_workspace_has_an_index_of_its_own(workspace, tmp_path, home):
    other = tmp_path / "other"
    write(other / ".agents/skills", "plant-care")
    for _ in range(2):
        assert offered(workspace, QUERIES) == ["sql-tuner"]
        assert offered(other, QUERIES) == []
        assert offered(other, PLANTS) == ["plant-care"]
    assert len(list(home.rglob("*.segment"))) == 2


def test_a_workspace_cannot_bring_an_index_of_its_own(workspace, tmp_path, home):
    other = tmp_path / "other"
    write(other / ".agents/skills", "plant-care")
    assert offered(other, PLANTS) == ["plant-care"]
    made = snapshot_folder(read_settings(workspace=other))
    for place in (".prowess/cache/match", "cache/match", ".prowess"):
        target = workspace / place / made.name
        target.mkdir(parents=True, exist_ok=True)
        for path in made.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
    assert offered(workspace, PLANTS) == []


def test_a_home_that_cannot_be_written_only_costs_time(workspace, home, monkeypatch):
    (home / "file").write_text("here first")
    monkeypatch.setenv("PROWESS_HOME", str(home / "file"))
    for _ in range(2):
        assert offered(workspace, QUERIES) == ["sql-tuner"]
    assert list(home.rglob("*.segment")) == []


def test_skills_of_the_session_match_in_this_engine_alone(workspace, home, clock):
    async def work(engine: Prowess) -> None:
        session = next(store for store in engine.catalog.stores() if store.scope == "session")
        assert await engine.match(PLANTS) == []
        session.save(Package.of_texts("plant-care", {"SKILL.md": skill_md("plant-care")}))
        clock[0] += 2
        found = await engine.match(PLANTS)
        assert [(one.slug, one.scope) for one in found] == [("plant-care", "session")]
        assert await asyncio.to_thread(offered, workspace, PLANTS) == []
        assert slugs(await engine.match(PLANTS)) == ["plant-care"]
        session.delete_skill(session.get_skill_by_name("plant-care").id)
        clock[0] += 2
        assert await engine.match(PLANTS) == []

    run(workspace, work)


def test_skills_of_the_session_are_never_written_to_disk(workspace, home, clock):
    async def work(engine: Prowess) -> None:
        session = next(store for store in engine.catalog.stores() if store.scope == "session")
        session.save(Package.of_texts("plant-care", {"SKILL.md": skill_md("plant-care")}))
        assert slugs(await engine.match(PLANTS)) == ["plant-care"]

    run(workspace, work)
    kept = [path for path in (*home.rglob("*"), *workspace.rglob("*")) if path.is_file()]
    assert [path for path in kept if b"balcony" in path.read_bytes()] == []


def test_an_unchanged_catalog_is_not_read_again(workspace, incoming, clock, monkeypatch):
    read: list[object] = []
    listed: list[object] = []
    documents, served = Catalog.documents, Catalog.served

    def counting_documents(self, slugs=None, **more):
        read.append(slugs if slugs is None else sorted(slugs))
        return documents(self, slugs, **more)

    def counting_served(self):
        listed.append(1)
        return served(self)

    monkeypatch.setattr(Catalog, "documents", counting_documents)
    monkeypatch.setattr(Catalog, "served", counting_served)

    async def work(engine: Prowess) -> None:
        for _ in range(5):
            await engine.match(QUERIES)
            clock[0] += 2
        assert (read, listed) == ([None], [])
        await engine.skills.import_path(incoming, scope="account")
        for _ in range(5):
            await engine.match(PLANTS)
            clock[0] += 2

    run(workspace, work)
    # The account's database is new, so that all had to be compared, once; only what is new was read.
    assert read == [None, ["plant-care"]]
    assert len(listed) == 1


def test_the_answers_are_those_of_an_index_built_at_once(workspace, tmp_path, clock):
    for name, description in DESCRIPTIONS.items():
        write(tmp_path / "incoming", name, f"{description} Also for accounts.")

    async def work(engine: Prowess) -> None:
        await engine.match(QUERIES)
        await engine.skills.import_path(tmp_path / "incoming", scope="account")
        await engine.match(QUERIES)
        await engine.skills.delete("account:meeting-minutes")
        built = Index.build(engine.catalog.documents())
        for message in (QUERIES, PLANTS, "minutes of the meeting"):
            ranked = await engine.skills.rank(message)
            assert [replace(each, trust="") for each in ranked] == rank(built, message, limit=10)

    run(workspace, work)
    built = run(workspace, lambda engine: asyncio.to_thread(lambda: Index.build(engine.catalog.documents())))
    with open_matcher(workspace) as matcher:
        assert matcher.index().digest == built.digest
        assert matcher.rank(PLANTS) == rank(built, PLANTS, limit=10)


def test_many_questions_at_once_are_all_answered(workspace, incoming):
    async def work(engine: Prowess) -> None:
        await engine.skills.import_path(incoming)
        asked = [engine.match(PLANTS if number % 2 else QUERIES) for number in range(40)]
        found = await asyncio.gather(*asked)
        assert [slugs(one) for one in found] == [["sql-tuner"], ["plant-care"]] * 20

    run(workspace, work)


COLD = """
import sys
from prowess.engine.matcher import open_matcher
with open_matcher(sys.argv[1]) as matcher:
    assert [one.slug for one in matcher.match(sys.argv[2])] == sys.argv[3:], matcher.rank(sys.argv[2])
print(*sorted({"pydantic", "sqlalchemy", "asyncio", "yaml", "rich"} & set(sys.modules)))
"""


def cold(workspace: Path, message: str, *slugs: str) -> list[str]:
    """Match in a process of its own; which of the heavy modules that took."""
    command = [sys.executable, "-c", COLD, str(workspace), message, *slugs]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_a_later_process_needs_nothing_heavy_to_match_a_catalog_that_is_as_it_was(workspace, incoming):
    run(workspace, lambda engine: engine.skills.import_path(incoming))
    run(workspace, lambda engine: engine.skills.import_path(incoming, scope="account"))
    assert cold(workspace, QUERIES, "sql-tuner")
    # What was written a moment ago may be written again in the same tick of the clock, so it is read once more.
    for _ in range(5):
        if not cold(workspace, PLANTS, "plant-care"):
            break
    assert cold(workspace, QUERIES, "sql-tuner") == []
    assert cold(workspace, PLANTS, "plant-care") == []


@pytest.mark.long
def test_a_change_is_seen_by_the_next_process(workspace, incoming):
    cold(workspace, QUERIES, "sql-tuner")
    cold(workspace, PLANTS)
    run(workspace, lambda engine: engine.skills.import_path(incoming))
    cold(workspace, PLANTS, "plant-care")
    write(workspace / ".agents/skills", "sql-tuner", "Composes music for the clarinet in any key.")
    cold(workspace, QUERIES)
    cold(workspace, "music for the clarinet", "sql-tuner")
    run(workspace, lambda engine: engine.skills.delete("plant-care"))
    cold(workspace, PLANTS)
