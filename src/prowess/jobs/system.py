"""The database in which DBOS records what is done: a file next to the account's database, or a schema of PostgreSQL."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event

from prowess.storage.database_url import sqlite_path
from prowess.storage.files.folder_lock import lock_folder
from prowess.storage.sqlite import create_private_file
from prowess.storage.transaction import close_returned

if TYPE_CHECKING:
    from dbos import DBOSConfig

SCHEMA = "prowess_jobs"
FILE = "jobs.db"
LISTEN_SECONDS = 0.5
"""How often DBOS looks for messages, which we do not send. Closing takes as long."""
MAX_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""As many as the pool of an event loop has, which DBOS replaces by its own. Without a limit, a server under load gets a
thread and a connection for every request, and all of them compete for the interpreter."""


class ClosingPool(sa.QueuePool):
    """Connections of DBOS, which closes them while its last threads still use some: those are closed when returned."""

    def dispose(self) -> None:
        """Close all idle connections, and from now on each other one as soon as it is returned."""
        event.listen(self, "checkin", close_returned)
        super().dispose()


class PostgresPool(ClosingPool):
    """The same for PostgreSQL. While it is away, DBOS waits, which it tells by the words of the error.

    psycopg has other words where a connection cannot even begin: the socket is gone, or the host is not found.
    """

    def __init__(self, creator: Callable[[Any], Any], **options: Any) -> None:
        from psycopg import OperationalError

        def connect(connection_record: Any = None) -> Any:
            try:
                return creator(connection_record)
            except OperationalError as error:
                raise OperationalError(f"connection failed: {error}") from error

        super().__init__(connect, **options)


class SystemDatabase:
    """The records of DBOS for an account's database, given by its URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine: sa.Engine | None = None
        self._folder: Path | None = None
        if path := sqlite_path(url):
            file = Path(path).with_name(FILE)
            self._url, self._engine, self._folder = f"sqlite:///{file}", _open_sqlite(file), file.parent

    def lock(self) -> AbstractContextManager[None]:
        """Exclude other processes while DBOS is launched: it creates tables in a SQLite file without its own lock."""
        return nullcontext() if self._folder is None else lock_folder(self._folder)

    def config(self, worker_id: str, version: str) -> DBOSConfig:
        """Return the configuration of DBOS for a worker."""
        from dbos import DBOSConfig, DBOSPortableJSONSerializer

        # Every cancelled workflow would be a warning, and one that another process cancels an error with a traceback.
        logger = logging.getLogger("dbos")
        logger.setLevel(logging.ERROR)
        logger.addFilter(_is_no_cancellation)
        # The handler of DBOS would keep the stderr of this moment, which may be closed when the next worker starts.
        if not logger.handlers and logging.lastResort is not None:
            logger.addHandler(logging.lastResort)
            logger.propagate = False
        config = DBOSConfig(
            name="prowess",
            executor_id=worker_id,
            application_version=version,
            # Never pickle: a person who can write to the database could run code.
            serializer=DBOSPortableJSONSerializer(),
            log_level="ERROR",
            enable_otlp=False,
            notification_listener_polling_interval_sec=LISTEN_SECONDS,
            system_database_url=self._url,
            max_executor_threads=MAX_THREADS,
        )
        if self._engine is not None:
            config["system_database_engine"] = self._engine
        else:
            config["dbos_system_schema"] = SCHEMA
            config["db_engine_kwargs"] = {"poolclass": PostgresPool}
        return config

    def share_older(self, queues: Sequence[str]) -> None:
        """Give unfinished workflows from before queues had shares one of them; workers take no others. Blocking."""
        workflows = sa.table(
            "workflow_status",
            *map(sa.column, ("queue_name", "queue_partition_key", "status")),
            schema=None if self._engine is not None else SCHEMA,
        )
        without = workflows.c.queue_partition_key.is_(None) & workflows.c.queue_name.in_(queues)
        unfinished = workflows.c.status.in_(("ENQUEUED", "PENDING"))
        engine = self._engine or sa.create_engine(self._url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.update(workflows).where(without, unfinished).values(queue_partition_key=""))

    def hand_back(self, worker_id: str) -> list[str]:
        """Hand the unfinished workflows of a worker that has stopped back to their queues; return their ids. Blocking."""
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        client = DBOSClient(
            system_database_url=self._url,
            system_database_engine=self._engine,
            dbos_system_schema=None if self._engine is not None else SCHEMA,
            serializer=DBOSPortableJSONSerializer(),
        )
        try:
            pending = client.list_workflows(
                status="PENDING", executor_id=worker_id, load_input=False, load_output=False
            )
            for queue, ids in by_queue(pending).items():
                client.resume_workflows(ids, queue_name=queue)
        finally:
            client.destroy()
        return [workflow.workflow_id for workflow in pending]

    def close(self) -> None:
        """Close all connections."""
        if self._engine is not None:
            self._engine.dispose()


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    from dbos import error

    return not (record.exc_info and isinstance(record.exc_info[1], error.DBOSAwaitedWorkflowCancelledError))


def by_queue(workflows: Sequence[Any]) -> dict[str, list[str]]:
    """Return the ids of workflows by their queue."""
    found: dict[str, list[str]] = defaultdict(list)
    for workflow in workflows:
        if workflow.queue_name:
            found[workflow.queue_name].append(workflow.workflow_id)
    return found


def _open_sqlite(file: Path) -> sa.Engine:
    """Return an engine for the file of DBOS, which does not turn on WAL itself: that makes each step ten times faster."""
    # The inputs and results of jobs are in it, so it is as private as the account's database.
    create_private_file(file)
    engine = sa.create_engine(f"sqlite:///{file}", poolclass=ClosingPool, connect_args={"check_same_thread": False})

    def configure(connection: Any, _: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", configure)
    return engine
