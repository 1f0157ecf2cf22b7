"""What tests of traces share: a trace of a run that has just begun, and what is kept of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.redaction import Redactor
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.database import Database
from prowess.storage.sql.traces import traces
from prowess.storage.traces import Trace, TraceFilter, read_oldest
from prowess.traces.cleanup import process_identity
from prowess.traces.trace_recorder import TraceRecorder


@pytest.fixture
def begun() -> Callable[..., Trace]:
    """A run that has begun, with whatever else is said of it."""

    def make(**more: Any) -> Trace:
        trace = Trace(
            id=str(uuid.uuid4()),
            run_id="run",
            organization_id="acme",
            user_id="ada",
            skill_id="skill",
            skill_slug="review",
            artifact_id="artifact",
            artifact_name="Check",
            artifact_kind="prompt_template",
            started_at=now(),
            deadline_at=seconds_from_now(30),
            process=process_identity(),
        )
        return replace(trace, **more)

    return make


@pytest.fixture
def keep(database: Database) -> Callable[..., None]:
    """Stores traces."""

    def write(*kept: Trace) -> None:
        with database.write() as connection:
            connection.execute(sa.insert(traces), [asdict(one) for one in kept])

    return write


@pytest.fixture
def kept(database: Database) -> Callable[[], list[Trace]]:
    """All that the database has, oldest first."""

    def read() -> list[Trace]:
        with database.read() as connection:
            return read_oldest(connection, TraceFilter(organization_id="acme", user_id=None), limit=100_000, whole=True)

    return read


@pytest.fixture
def recorder(database: Database) -> Iterator[TraceRecorder]:
    """A recorder over each kind of database that knows one secret."""
    made = TraceRecorder(database, Redactor(["canary-4711-value"]))
    yield made
    made.close()
