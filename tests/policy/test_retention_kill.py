"""A pruning that is killed at any moment loses no count, and leaves an audit that can be proved."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.feed.metrics import Metrics
from prowess.policy.retention import Retention
from prowess.storage import ledger, org_settings
from prowess.storage.audit_chain import verify_audit
from prowess.storage.database import open_database
from prowess.storage.seals import Seals
from prowess.storage.sql.ledger import audit, events

ROUNDS = 10
LATER = "2999-01-01T00:00:00.000000Z"
PRUNE = f"""
import sys
from pathlib import Path
from prowess.policy.retention import Retention
from prowess.storage.database import open_database
from prowess.storage.seals import Seals
database = open_database(sys.argv[1], Seals.of_home(Path(sys.argv[2])))
print("ready", flush=True)
Retention(database, moment=lambda: {LATER!r}).prune()
"""


@pytest.mark.long
def test_whenever_a_pruning_is_killed_nothing_is_counted_twice_or_lost(database_url: str, tmp_path: Path) -> None:
    database = open_database(database_url, Seals.of_home(tmp_path))
    load = ledger.EventEntry(name="skill_loaded", data={}, subject="one", source="org", seconds=0.004)
    decision = ledger.AuditEntry(actor="ann", action="enable", outcome="allowed")
    with database.write() as connection:
        org_settings.set_setting(connection, "", "audit_days", 90, "ann")
    chance = random.Random(7)
    written = 0
    for _ in range(ROUNDS):
        with database.write() as connection:
            ledger.append(connection, "", events=[load] * 1_500, audits=[decision] * 1_500)
        written += 1_500
        with subprocess.Popen(
            [sys.executable, "-c", PRUNE, database_url, tmp_path], stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout.readline() == "ready\n"
            with suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0, 0.4))
            running.kill()
        with database.read() as connection:
            verdict = verify_audit(connection, "")
        assert verdict.ok, verdict.problem
        figures = Metrics(database).exposition().decode()
        assert f'skill_load_total{{name="one",source="org"}} {written}.0' in figures
        assert f'skill_gate_total{{action="enable",outcome="allowed"}} {written}.0' in figures

    Retention(database, moment=lambda: LATER).prune()

    with database.read() as connection:
        left = [connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() for table in (events, audit)]
        assert verify_audit(connection, "").ok
    assert left[0] == 1
    assert left[1] <= 3
    database.close()
