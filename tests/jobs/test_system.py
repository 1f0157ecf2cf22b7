"""The database in which DBOS records what is done."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOS
from dbos._utils import retriable_postgres_exception

from prowess.jobs.system import FILE, SystemDatabase
from prowess.jobs.worker import POLL_SECONDS


def test_only_the_owner_can_read_the_records_of_jobs(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    SystemDatabase(f"sqlite:///{tmp_path / 'agents.db'}")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_connection_that_a_thread_returns_after_the_end_is_closed(database_url: str) -> None:
    system = SystemDatabase(database_url)
    dbos = DBOS(config=system.config("worker-1", "1"))
    DBOS.launch()
    used = dbos._sys_db.engine.raw_connection()  # as a thread of DBOS uses it
    closed = []
    sa.event.listen(dbos._sys_db.engine, "close", lambda connection, _: closed.append(connection))
    DBOS.destroy()
    system.close()
    connection = used.dbapi_connection
    assert connection not in closed
    used.close()
    assert connection in closed


@pytest.mark.parametrize("place", ["/x?host=/no/such/folder", "127.0.0.1:9/x", "database.invalid/x"])
def test_a_job_waits_for_a_database_that_is_away_wherever_it_is(place: str) -> None:
    url = f"postgresql+psycopg://{place}"
    engine = sa.create_engine(url, **SystemDatabase(url).config("worker-1", "1")["db_engine_kwargs"])
    with pytest.raises(sa.exc.OperationalError) as raised:
        engine.connect()
    assert retriable_postgres_exception(raised.value)


def test_an_idle_worker_looks_at_each_queue_once_a_second() -> None:
    # More often costs CPU time in every process of every server; less often makes jobs start late.
    assert POLL_SECONDS == 1.0
