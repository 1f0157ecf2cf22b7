"""Migrations: the same on both databases, run once whoever opens first, never run backwards."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import Invalid, Unavailable
from prowess.skill.package import Package
from prowess.storage import ledger, sessions, sql, tables
from prowess.storage.database import HEAD_REVISION, MIGRATIONS_FOLDER, Database, open_database
from prowess.storage.owner import Owner
from prowess.storage.sqlite_driver import real_connection

metadata = tables.metadata
for module in iter_modules(sql.__path__):
    import_module(f"{sql.__name__}.{module.name}")  # registers its tables
for name in ("compositions", "connectors", "conversations", "evals", "jobs", "people", "proposals"):
    import_module(f"prowess.storage.{name}")

OPEN = """
import sys
from prowess.storage.database import open_database
open_database(sys.argv[1]).close()
print("alembic" in sys.modules)
"""


CHECK = """
import sys
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
config = Config()
config.set_main_option("script_location", sys.argv[1])
with sa.create_engine(sys.argv[2]).connect() as connection:
    config.attributes["connection"] = connection
    command.check(config)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/new/agents.db"


@pytest.fixture
def script() -> ScriptDirectory:
    return ScriptDirectory(str(MIGRATIONS_FOLDER))


def revision(database: Database) -> str:
    with database.read() as connection:
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()


def test_the_constant_is_the_newest_revision(script: ScriptDirectory) -> None:
    assert script.get_heads() == [HEAD_REVISION]


def test_revisions_are_numbered_without_gaps(script: ScriptDirectory) -> None:
    numbers = sorted(revision.revision for revision in script.walk_revisions())

    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index")
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_the_migrations_give_exactly_the_tables_of_the_code(empty_url: str) -> None:
    database = open_database(empty_url)

    with database.read() as connection:
        context = MigrationContext.configure(
            real_connection(connection), opts={"compare_type": True, "render_as_batch": True}
        )
        differences = compare_metadata(context, metadata)

    assert differences == []
    database.close()


def test_alembic_by_itself_knows_every_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    open_database(url).close()

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK, str(MIGRATIONS_FOLDER), url],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_both_databases_have_the_same_unique_indexes(empty_url: str) -> None:
    database = open_database(empty_url)
    catalog = {
        "sqlite": "SELECT name, sql AS text FROM sqlite_master WHERE type = 'index' AND name LIKE 'uq_%'",
        "postgresql": "SELECT indexname AS name, indexdef AS text FROM pg_indexes WHERE indexname LIKE 'uq_%'",
    }

    with database.read() as connection:
        rows = connection.execute(sa.text(catalog[connection.dialect.name])).all()

    assert sorted(row.name for row in rows) == [
        "uq_jobs_name",
        "uq_sessions_actor_conversation",
        "uq_skill_artifacts_name_variant",
        "uq_skill_versions_tenant_slug_number",
        "uq_skills_tenant_slug",
    ]
    assert all("UNIQUE" in row.text for row in rows)
    assert all("coalesce" in row.text.lower() for row in rows if row.name.startswith("uq_skill"))
    database.close()


def test_migrating_down_and_up_again_gives_the_same_tables(empty_url: str) -> None:
    database = open_database(empty_url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    with database.read() as connection:
        assert sa.inspect(real_connection(connection)).get_table_names() == ["alembic_version"]

    database.migrate()

    with database.read() as connection:
        assert set(sa.inspect(real_connection(connection)).get_table_names()) == {*metadata.tables, "alembic_version"}
    database.close()


@pytest.mark.few(1)
def test_versions_from_before_the_feed_are_older_than_any_position(
    empty_url: str, pack: Callable[..., Package]
) -> None:
    database = open_database(empty_url)
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("one"), pack("two")])
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")

    database.migrate()

    position = store.changes().position
    assert store.changes(position).slugs == frozenset()
    store.save(pack("three"))
    store.delete_skill(store.get_skill_by_name("one").id)
    assert store.changes(position).slugs == {"three", "one"}
    assert [version.change for version in store.versions("one")] == ["create", "delete"]
    database.close()


def test_skills_from_before_the_sessions_are_kept_whole_on_the_way_up_and_down(
    empty_url: str, pack: Callable[..., Package]
) -> None:
    database = open_database(empty_url)
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("one"), pack("two")])
    store.delete_skill(store.get_skill_by_name("two").id)
    downgraded(database, "0002")
    before = contents(database)
    assert "sessions" not in before
    assert len(before["skill_versions"]) == 3

    database.migrate()

    read_by_nobody_knows = [(*row, "0", "", False) for row in before["skills"]]
    assert contents(database) == {
        **before,
        **{name: [] for name in NEW},
        "skills": read_by_nobody_knows,
        "alembic_version": [(HEAD_REVISION,)],
    }
    use_sessions(database)
    downgraded(database, "0002")
    assert contents(database) == before
    database.close()


def test_the_default_conversation_that_all_folders_shared_gets_a_name_of_its_own(empty_url: str) -> None:
    database = open_database(empty_url)
    viewer = sessions.SessionViewer(owner=Owner(), actor="ann", kind="person")
    given = {"role": "", "model": "", "context_window": None, "budget_max": 16_000}
    downgraded(database, "0009")
    with database.write() as connection:
        old = sessions.open_session(connection, viewer, conversation_id="default", **given)
        other = sessions.open_session(connection, viewer, conversation_id="mine", **given)

    database.migrate()

    with database.read() as connection:
        found = {row.id: row.conversation_id for row in sessions.list_sessions(connection, viewer, limit=9)}
    assert found == {old.id: "default:shared", other.id: "mine"}
    database.close()


NEW = (
    *("compositions", "composition_rounds"),
    *("conversations", "conversation_messages", "memories"),
    *("connectors", "connector_grants"),
    *("sessions", "session_skills", "approvals", "audit", "events", "org_settings"),
    *("skill_execution_traces", "run_checkpoints", "spend", "registry_entries"),
    *("installation", "skill_acceptances", "trusted_folders"),
    *("organizations", "users", "memberships", "identities", "tokens", "sign_in_codes", "web_sessions"),
    *(
        "pruned_counts",
        "skill_sources",
        "skill_source_items",
        "jobs",
        "job_items",
        "job_workers",
        "optimizer_proposals",
        "eval_runs",
        "eval_results",
        "eval_scores",
    ),
)


def downgraded(database: Database, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def contents(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    with database.read() as connection:
        names = sa.inspect(real_connection(connection)).get_table_names()
        return {
            name: sorted((tuple(row) for row in connection.execute(sa.text(f"SELECT * FROM {name}"))), key=repr)
            for name in names
        }


def use_sessions(database: Database) -> None:
    viewer = sessions.SessionViewer(owner=Owner(), actor="a", kind="agent")
    given = {"role": "", "model": "", "context_window": None, "budget_max": 9}
    row = sessions.EnabledRow(slug="one", title="One", digest="d", scope="account", source_type="catalog", origin="")
    with database.write() as connection:
        opened = sessions.open_session(connection, viewer, conversation_id="chat", **given)
        assert sessions.reserve(connection, opened.id, row, "x") == "done"
        ledger.append(connection, "", events=[ledger.EventEntry(name="skill_loaded", data={})])


@pytest.mark.few(1)
def test_programs_that_open_a_new_database_at_once_all_succeed(empty_url: str) -> None:
    openers = [
        subprocess.Popen([sys.executable, "-c", OPEN, empty_url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(4)
    ]
    outputs = [opener.communicate()[0].decode() for opener in openers]

    assert [opener.returncode for opener in openers] == [0] * 4, outputs
    database = open_database(empty_url)
    assert revision(database) == HEAD_REVISION
    database.close()


@pytest.mark.few(1)
def test_an_up_to_date_database_is_opened_without_alembic(empty_url: str) -> None:
    open_database(empty_url).close()

    opened = subprocess.run([sys.executable, "-c", OPEN, empty_url], capture_output=True, text=True, check=True)

    assert opened.stdout.strip() == "False"


def test_a_newer_database_is_refused_and_left_as_it_is(database_url: str, pack: Callable[..., Package]) -> None:
    database = open_database(database_url)
    DatabaseStore(database, scope="account").save(pack("release-notes"))
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(Unavailable, match="newer") as caught:
        open_database(database_url)

    assert "pip install -U prowess" in caught.value.hint
    assert revision(database) == "9999"
    database.close()


def test_a_database_of_another_program_is_refused(database_url: str) -> None:
    database = open_database(database_url)
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'ae1027a6acf'"))
    database.close()

    with pytest.raises(Invalid, match="another program"):
        open_database(database_url)


def test_a_migration_that_fails_leaves_nothing_behind(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS_FOLDER, broken, ignore=shutil.ignore_patterns("__pycache__"))
    (broken / "versions" / "9999_broken.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f"revision, down_revision, branch_labels, depends_on = '9999', '{HEAD_REVISION}', None, None\n\n\n"
        "def upgrade():\n"
        "    op.create_table('half_done', sa.Column('id', sa.Text))\n"
        "    op.execute('SELECT * FROM nothing_by_that_name')\n"
    )
    monkeypatch.setattr("prowess.storage.database.MIGRATIONS_FOLDER", broken)
    monkeypatch.setattr("prowess.storage.database.HEAD_REVISION", "9999")

    with pytest.raises(Unavailable):
        open_database(empty_url)

    monkeypatch.undo()
    database = open_database(empty_url)
    with database.read() as connection:
        assert set(sa.inspect(real_connection(connection)).get_table_names()) == {*metadata.tables, "alembic_version"}
    assert revision(database) == HEAD_REVISION
    database.close()


def test_the_migrations_are_part_of_the_package() -> None:
    names = {path.name for path in MIGRATIONS_FOLDER.rglob("*") if path.suffix in (".py", ".mako")}

    assert {"env.py", "script.py.mako", "0001_skills.py"} <= names
