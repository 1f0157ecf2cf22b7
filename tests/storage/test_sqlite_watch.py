"""A watch over a SQLite file notices every commit, and another file in its place."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from prowess.storage.sqlite_watch import SqliteWatch


def make_file(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE one (value)")
        connection.commit()
    return path


def test_the_mark_changes_with_every_commit_and_only_then(tmp_path):
    path = make_file(tmp_path / "a.db")
    watch = SqliteWatch(str(path))
    with closing(sqlite3.connect(path)) as connection:
        before = watch.mark()
        assert before is not None
        connection.execute("INSERT INTO one VALUES (1)")
        assert watch.mark() == before
        connection.commit()
        after = watch.mark()
        assert after not in (None, before)
        assert watch.mark() == after
    watch.close()


def test_another_file_in_its_place_and_a_missing_one_are_noticed(tmp_path):
    path = make_file(tmp_path / "a.db")
    watch = SqliteWatch(str(path))
    marks = [watch.mark()]

    make_file(tmp_path / "b.db").replace(path)
    marks.append(watch.mark())
    path.unlink()
    assert watch.mark() is None
    make_file(path)
    marks.append(watch.mark())

    assert None not in marks
    assert len(set(marks)) == 3
    watch.close()
