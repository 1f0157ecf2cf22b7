"""Traces that tell whether anything in a folder or a database file can have changed, without opening a file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from prowess.storage.files import freshness
from prowess.storage.files.freshness import fingerprint_folders, fingerprint_sqlite, first_difference

HOUR = 3_600_000_000_000


def fingerprint_matches(trace: bytes) -> bool:
    return first_difference(trace) is None


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later by the clock, so that what was written just now is settled."""
    now = time.time_ns
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + HOUR)  # the module is the same for all


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    for name in ("one", "two", "category/three"):
        (folder / name / "references").mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(name)
        (folder / name / "references/guide.md").write_text(name)
    (folder / "lone.md").write_text("lone")
    return folder


def touch_nothing(root: Path) -> None:
    (root / "one/SKILL.md").read_text()
    list(root.iterdir())


def put_aside(root: Path) -> None:
    """What is written while a skill is kept, or lies beside its files."""
    for folder in (root / ".prowess-tmp-1", root / "one/.git"):
        folder.mkdir(exist_ok=True)
        (folder / "HEAD").write_text("x")
        (folder / "new").mkdir(exist_ok=True)
    (root / "one/x.pyc").write_text("x")


@pytest.mark.usefixtures("later")
def test_what_is_no_part_of_a_skill_does_not_count(root: Path) -> None:
    put_aside(root)
    made = fingerprint_folders([str(root)])
    put_aside(root)
    assert fingerprint_matches(made)
    assert fingerprint_folders([str(root)]) == made != b""


def rewrite(root: Path) -> None:
    (root / "one/SKILL.md").write_text("ONE")


def restore_the_date(root: Path) -> None:
    file = root / "one/SKILL.md"
    old = file.stat()
    file.write_text("ONE")
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))


def replace_by_rename(root: Path) -> None:
    (root.parent / "new").write_text("one")
    (root.parent / "new").rename(root / "one/references/guide.md")


def swap(root: Path) -> None:
    (root / "one").rename(root / "other")
    (root / "two").rename(root / "one")
    (root / "other").rename(root / "two")


CHANGES = [
    rewrite,
    restore_the_date,
    replace_by_rename,
    swap,
    lambda root: (root / "one/new.md").write_text("x"),
    lambda root: (root / "four").mkdir(),
    lambda root: (root / "lone.md").unlink(),
    lambda root: (root / "one").rename(root / "category/one"),
    lambda root: (root / "one/SKILL.md").chmod(0o755),
    lambda root: (root / "alias").symlink_to("one"),
]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", CHANGES)
def test_a_trace_holds_until_something_changes(root: Path, change) -> None:
    (root.parent / "link").symlink_to(root)
    (root / "loop").symlink_to(root)
    traces = [fingerprint_folders([str(root)]), fingerprint_folders([str(root.parent / "link"), str(root / "one")])]
    touch_nothing(root)
    assert [fingerprint_matches(one) for one in traces] == [True, True]
    change(root)
    assert [fingerprint_matches(one) for one in traces] == [False, False]
    again = fingerprint_folders([str(root)])
    assert again not in (traces[0], b"")
    assert fingerprint_matches(again)


@pytest.mark.usefixtures("later")
def test_what_is_no_trace_does_not_hold(root: Path) -> None:
    made = fingerprint_folders([str(root)])
    for other in (
        b"",
        b"x",
        b"5:",
        b":",
        b"-1:",
        made[:-1],
        made[:-8],
        made + b"12345678",
        b"9" + made,
        made[:40],
    ):
        assert not fingerprint_matches(other)
    assert fingerprint_matches(fingerprint_folders([]))


@pytest.mark.usefixtures("later")
def test_there_is_no_trace_of_what_is_not_there(root: Path) -> None:
    assert fingerprint_folders([str(root), str(root / "none")]) == b""


def test_what_changed_just_now_cannot_be_told(root: Path) -> None:
    assert fingerprint_folders([str(root)]) == b""


@pytest.mark.usefixtures("later")
def test_a_link_to_a_folder_is_looked_through_until_it_leads_elsewhere(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    link = tmp_path / "link"
    link.symlink_to(root)
    made = fingerprint_folders([str(link)])
    assert fingerprint_matches(made)
    link.unlink()
    link.symlink_to(tmp_path / "copy")
    assert not fingerprint_matches(made)


@pytest.mark.usefixtures("later")
def test_too_much_to_look_at_cannot_be_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "MAX_ENTRIES", 5)
    assert fingerprint_folders([str(root)]) == b""


@pytest.mark.usefixtures("later")
def test_a_folder_that_may_not_be_listed_counts_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.scandir

    def scandir(folder: str):
        if folder.endswith("/two"):
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(freshness.os, "scandir", scandir)
    made = fingerprint_folders([str(root)])
    assert fingerprint_matches(made)
    (root / "two").chmod(0o700)
    assert not fingerprint_matches(made)


# SQLite


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "agents.db"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    return file


@pytest.mark.usefixtures("later")
def test_reading_a_database_leaves_its_trace_as_it_is(database: Path) -> None:
    before = fingerprint_sqlite(str(database))
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    assert connection.execute("SELECT * FROM t").fetchall() == []
    assert before == fingerprint_sqlite(str(database)) != ""
    connection.close()
    assert before == fingerprint_sqlite(str(database))


@pytest.mark.usefixtures("later")
def test_writing_to_a_database_gives_another_trace_at_each_commit(database: Path) -> None:
    link = database.parent / "link.db"
    link.symlink_to(database)
    traces = [fingerprint_sqlite(str(link))]
    connection = sqlite3.connect(link, isolation_level=None)
    for _ in range(3):
        connection.execute("INSERT INTO t VALUES (1)")
        traces.append(fingerprint_sqlite(str(link)))
    connection.close()
    assert len(set(traces)) == 4
    assert "" not in traces


def test_a_database_that_changed_just_now_or_is_not_there_cannot_be_told(database: Path) -> None:
    assert fingerprint_sqlite(str(database)) == ""
    assert fingerprint_sqlite(str(database.parent / "none.db")) == ""
