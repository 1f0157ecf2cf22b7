"""A program for the kill tests: enables skills in one session without end, each with its event and its audit row.

Says after each commit what was enabled. Asked to `stall`, it stops once inside its first transaction, after the
reservation, and waits there to be killed.
"""

from __future__ import annotations

import itertools
import os
import sys

from prowess.storage import ledger, sessions
from prowess.storage.database import open_database
from prowess.storage.ledger import AuditEntry, EventEntry

_, url, session_id, worker, stall = sys.argv
database = open_database(url)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


for number in itertools.count():
    slug = f"skill-{worker}-{os.getpid()}-{number}"
    row = sessions.EnabledRow(slug=slug, title=slug, digest="d1", scope="account", source_type="catalog", origin="here")
    with database.write() as connection:
        if sessions.reserve(connection, session_id, row, "x" * (900 + number)) != "done":
            raise SystemExit("the budget of this test is too small")
        ledger.append(
            connection,
            "acme",
            audits=[AuditEntry(actor=worker, action="enable", slug=slug, digest="d1", outcome="allowed")],
            events=[EventEntry(name="skills_state_changed", data={"slug": slug}, session_id=session_id)],
        )
        if stall == "stall":
            say("inside")
            sys.stdin.read()
    say(slug)
