"""SQLite without SQLAlchemy: the prepared texts, and transactions in which SQLAlchemy takes over."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import cast

import pytest
import sqlalchemy as sa

from prowess.errors import Conflict
from prowess.storage import sql
from prowess.storage.database import Database, open_database
from prowess.storage.org_settings import get_settings
from prowess.storage.rows import SQLITE_TEXTS, fetch
from prowess.storage.sqlite_driver import DriverConnection, real_connection

ADD = "INSERT INTO org_settings (organization_id, name, value, updated_at, updated_by) VALUES ('', ?, 'true', '', '')"
ADD_MORE = sa.text(ADD.replace("?", "'more'"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_database(tmp_path / "agents.db")
    yield database
    database.close()


def settings(database: Database) -> set[str]:
    with database.read() as connection:
        return set(get_settings(connection, ""))


def test_the_prepared_texts_are_those_that_sqlalchemy_compiles() -> None:
    script = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/schema.py"))
    assert script["make_texts"]() == SQLITE_TEXTS.read_text(), "Run `python scripts/schema.py`."


def test_sqlalchemy_goes_on_in_the_transaction_that_the_driver_began(database: Database) -> None:
    with database.write() as connection:
        assert isinstance(connection, DriverConnection)
        fetch(connection, ADD, ["first"])
        assert connection.execute(sa.text("SELECT name FROM org_settings")).scalars().all() == ["first"]
        connection.execute(ADD_MORE)
        assert settings(database) == set()  # nothing is committed yet

    assert settings(database) == {"first", "more"}


def test_both_parts_of_a_transaction_are_undone_together(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            fetch(connection, ADD, ["first"])
            connection.execute(ADD_MORE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.write() as connection:
        fetch(connection, ADD, ["second"])
        connection.rollback()

    assert settings(database) == set()


def test_a_statement_that_fails_after_sqlalchemy_took_over_undoes_the_transaction(database: Database) -> None:
    def add_twice() -> None:
        with database.write() as connection:
            fetch(connection, ADD, ["more"])
            connection.execute(ADD_MORE)

    with pytest.raises(Conflict):
        add_twice()

    assert settings(database) == set()


def test_a_read_keeps_its_state_when_sqlalchemy_takes_over(database: Database) -> None:
    with database.read() as reading:
        assert get_settings(reading, "") == {}
        with database.write() as writing:
            fetch(writing, ADD, ["first"])
        assert reading.execute(sa.text("SELECT count(*) FROM org_settings")).scalar_one() == 0

    assert settings(database) == {"first"}


def test_later_transactions_begin_with_the_driver_too_and_share_the_view_of_sqlalchemy(database: Database) -> None:
    with database.read() as first:
        engine, driver = real_connection(first).engine, first.connection.dbapi_connection
    with database.read() as second:
        assert type(cast("object", second)) is DriverConnection
        assert second.connection.dbapi_connection is driver
        assert real_connection(second).engine is engine


IMPORT_EACH = """
import os
import sqlalchemy as sa
import sys
from importlib import import_module

def check(*_, **__):
    os._exit("UnmappedClassError" not in vars(sys.modules["sqlalchemy.orm.exc"]))

sa.select = sa.bindparam = sa.insert = sa.update = sa.delete = check
for name in sys.argv[1:]:
    if (child := os.fork()) == 0:
        try:
            import_module(f"prowess.storage.sql.{name}")
        finally:
            os._exit(2)  # it raised, or made no statement
    if os.waitpid(child, 0)[1]:
        print(name)
"""


@pytest.mark.long
def test_all_of_sqlalchemy_is_imported_before_the_first_statement_is_made() -> None:
    modules = sorted(found.name for found in iter_modules(sql.__path__))
    # Each module in a process of its own, all of them forks of one that has imported only the core of SQLAlchemy.
    command = [sys.executable, "-c", IMPORT_EACH, *modules]
    failed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (len(modules) > 10, failed) == (True, "")
