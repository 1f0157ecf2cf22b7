"""What was acknowledged survives the death of the writer; what was not leaves no trace."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.catalog.database_store import DatabaseStore
from prowess.skill.package import compute_digest
from prowess.storage.database import Database, open_database
from prowess.storage.tables import skill_artifacts, skill_versions, skills

WRITER = Path(__file__).with_name("writer.py")
ROUNDS = 3
WORKERS = 2


@pytest.mark.long
def test_acknowledged_writes_survive_kill_and_unacknowledged_ones_leave_nothing_half_done(database_url: str) -> None:
    chance = random.Random(7)
    acknowledged: list[tuple[str, str]] = []
    open_database(database_url).close()
    for _ in range(ROUNDS):
        acknowledged += killed_after(database_url, [chance.randint(1, 9) for _ in range(WORKERS)])

        database = open_database(database_url)
        check_integrity(database)
        check_whole(database)
        check_kept(database, acknowledged)
        database.close()
    assert len(acknowledged) >= ROUNDS * WORKERS


def killed_after(url: str, lines: list[int]) -> list[tuple[str, str]]:
    """What writers acknowledged, each killed at some moment after so many acknowledgements."""
    writers = [
        subprocess.Popen([sys.executable, str(WRITER), url, str(worker)], stdout=subprocess.PIPE, text=True)
        for worker in range(WORKERS)
    ]
    said: list[str] = []
    for writer, number in zip(writers, lines, strict=True):
        assert writer.stdout is not None
        said += [writer.stdout.readline() for _ in range(number)]
        writer.kill()
        said += writer.stdout.readlines()
        writer.stdout.close()
        assert writer.wait() == -signal.SIGKILL
    return [(slug, digest) for slug, digest in (line.split() for line in said if line.endswith("\n"))]


def check_integrity(database: Database) -> None:
    if database.location.startswith("postgresql"):
        return
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []


def check_whole(database: Database) -> None:
    """Every skill has its artifacts, its files and a last version that says the same."""
    store = DatabaseStore(database, scope="workspace")
    for card in store.list_skills():
        skill = store.get_skill_by_name(card.slug)
        assert skill is not None
        package = store.get_package(skill.id)
        assert package is not None
        assert package.digest == skill.digest == compute_digest(skill.manifest)
        assert [artifact.kind for artifact in skill.artifacts] == ["instructions", "reference"]
        versions = store.versions(card.slug)
        assert [version.number for version in versions] == list(range(1, len(versions) + 1))
        assert versions[-1].digest == skill.digest
    with database.read() as connection:
        orphans = sa.select(skill_artifacts.c.id).where(skill_artifacts.c.skill_id.not_in(sa.select(skills.c.id)))
        assert connection.execute(orphans).all() == []
        strays = sa.select(skill_versions.c.slug).where(skill_versions.c.slug.not_in(sa.select(skills.c.slug)))
        assert connection.execute(strays).all() == []


def check_kept(database: Database, acknowledged: list[tuple[str, str]]) -> None:
    store = DatabaseStore(database, scope="workspace")
    for slug in {slug for slug, _ in acknowledged}:
        versions = store.versions(slug)
        later = iter(version.digest for version in versions)
        assert all(digest in later for name, digest in acknowledged if name == slug)
        assert all(store.version_package(slug, v.number).digest == v.digest for v in versions)
