"""A migration that is killed, up or down, has happened completely or not at all."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from prowess.catalog.database_store import DatabaseStore
from prowess.skill.package import Package
from prowess.storage.database import HEAD_REVISION, connect_database, open_database
from prowess.storage.downgrade import read_status

ROUNDS = 8
OLDER = "0002"
MIGRATE = """
import sys
from prowess.storage.database import connect_database, open_database
from prowess.storage.downgrade import migrate_down
database = connect_database(sys.argv[1])
print("ready", flush=True)
while True:
    migrate_down(database, sys.argv[2], lose_data=True)
    open_database(sys.argv[1]).close()
"""


@pytest.mark.long
def test_whenever_a_migration_is_killed_the_tables_are_those_of_one_revision(
    database_url: str, pack: Callable[..., Package]
) -> None:
    database = open_database(database_url)
    store = DatabaseStore(database, scope="account")
    store.save_all([pack(f"skill-{number}") for number in range(50)])
    before = {card.slug: card.digest for card in store.list_skills()}
    database.close()
    chance = random.Random(7)
    met: set[str] = set()
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-c", MIGRATE, database_url, OLDER], stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout.readline() == "ready\n"
            with suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0.05, 1.5))
            running.kill()
        found = connect_database(database_url)
        met.add(read_status(found).revision)
        found.close()
        # Opening checks the tables of a SQLite file one by one.
        opened = open_database(database_url)
        cards = DatabaseStore(opened, scope="account").list_skills()
        assert {card.slug: card.digest for card in cards} == before
        opened.close()
    assert met <= {HEAD_REVISION, OLDER}
