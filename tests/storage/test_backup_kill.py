"""A backup that is killed leaves no half file under its name, and the database as it was."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from prowess.storage import ledger
from prowess.storage.backup import examine
from prowess.storage.database import open_database
from prowess.storage.schema_check import check_integrity
from prowess.storage.seals import Seals

ROUNDS = 25
BACK_UP = """
import sys
from pathlib import Path
from prowess.storage.backup import back_up
from prowess.storage.seals import Seals
print("ready", flush=True)
back_up(Path(sys.argv[1]), Path(sys.argv[2]), Seals.of_home(Path(sys.argv[3])), replace=True)
print("done", flush=True)
"""


@pytest.mark.long
def test_whenever_a_backup_is_killed_its_file_is_whole_or_the_one_before(tmp_path: Path) -> None:
    path, copy, home = tmp_path / "agents.db", tmp_path / "copy.db", tmp_path / "home"
    seals = Seals.of_home(home)
    database = open_database(path, seals)
    row = ledger.AuditEntry(actor="ann", action="run", outcome="x" * 4_000)
    with database.write() as connection:
        ledger.append(connection, "", audits=[row] * 4_000)
    ended, backing_up = threading.Event(), threading.Event()

    def write() -> None:
        """Write while a backup runs. In between, rows would only make the next checks longer."""
        while backing_up.wait() and not ended.is_set():
            with database.write() as connection:
                ledger.append(connection, "", audits=[row])

    writer = threading.Thread(target=write)
    writer.start()
    chance = random.Random(7)
    try:
        for _ in range(ROUNDS):
            with subprocess.Popen(
                [sys.executable, "-c", BACK_UP, path, copy, home], stdout=subprocess.PIPE, text=True
            ) as running:
                assert running.stdout.readline() == "ready\n"
                backing_up.set()
                # Anywhere in the copy, in the check, or after both.
                with suppress(subprocess.TimeoutExpired):
                    running.wait(chance.uniform(0, 0.25))
                running.kill()
            backing_up.clear()
            if copy.exists():
                contents = examine(copy, seals, whole=True)
                assert contents.audits[""].ok
                assert contents.rows["audit"] >= 4_000
    finally:
        ended.set()
        backing_up.set()
        writer.join()
    with database.read() as connection:
        assert check_integrity(connection) == ""
    database.close()
