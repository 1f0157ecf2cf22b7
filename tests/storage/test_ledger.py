"""The logs: numbers without a gap in the order of commit, and events that come back as they were written."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.errors import Invalid
from prowess.events import Event
from prowess.storage import ledger, org_settings
from prowess.storage.audit_chain import verify_audit
from prowess.storage.database import Database, open_database
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.sql.ledger import events as table

ALLOWED = AuditEntry(actor="ann", action="enable", slug="one", digest="d1", outcome="allowed")


def loaded(number: int = 0, **more: Any) -> EventEntry:
    return EventEntry(name="skill_loaded", data={"n": number}, **more)


def appended(database: Database, organization: str = "acme", **entries: Any) -> list[int]:
    with database.write() as connection:
        return ledger.append(connection, organization, **entries)


def read(database: Database, organization: str = "acme", **options: Any) -> list[Event]:
    with database.read() as connection:
        return ledger.read_events(connection, organization, **{"after": 0, "limit": 10_000, **options})


def test_events_are_read_as_they_were_given(database: Database) -> None:
    data = {"z": 1, "a": {"y": None, "b": [1.5, True, "ä", "\u2028", "\ud800", "\x00"]}, "": "", "big": 2**70}
    made = appended(database, events=[EventEntry(name="skill_loaded", data=data, session_id="s1", user_id="ann")])

    (event,) = read(database)

    assert [event.number] == made
    assert event.data == data
    assert list(event.data) == ["z", "a", "", "big"]
    assert (event.number, event.session, event.user) == (1, "s1", "ann")
    assert event.id


def test_what_json_changes_is_changed_in_what_is_read(database: Database) -> None:
    appended(database, events=[EventEntry(name="skill_loaded", data={"pair": (1, 2), 3: "three"})])

    assert read(database)[0].data == {"pair": [1, 2], "3": "three"}


@pytest.mark.parametrize("value", [float("nan"), object(), b"bytes"], ids=["not a number", "an object", "bytes"])
def test_what_is_not_json_is_refused_and_nothing_is_appended(database: Database, value: object) -> None:
    with pytest.raises(Invalid):
        appended(database, events=[loaded(), EventEntry(name="skill_loaded", data={"value": value})])
    with pytest.raises(Invalid):
        appended(database, audits=[AuditEntry(actor="a", action="b", outcome="c", detail={"value": value})])

    assert read(database) == []


def test_numbers_go_on_from_the_last_and_every_organization_counts_by_itself(database: Database) -> None:
    for organization in ("acme", "", "acme", "globex"):
        appended(database, organization, events=[loaded(), loaded()])

    assert [event.number for event in read(database)] == [1, 2, 3, 4]
    assert [event.number for event in read(database, "")] == [1, 2]
    with database.read() as connection:
        assert [ledger.last_event(connection, name) for name in ("acme", "globex", "none")] == [4, 2, 0]


def test_a_transaction_that_is_given_up_leaves_no_gap(database: Database) -> None:
    appended(database, events=[loaded()])
    with database.write() as connection:
        ledger.append(connection, "acme", audits=[ALLOWED], events=[loaded(), loaded()])
        connection.rollback()

    assert appended(database, audits=[ALLOWED], events=[loaded()]) == [2]
    with database.read() as connection:
        assert [row.number for row in ledger.read_audit(connection, "acme", after=0, limit=9)] == [1]


def test_appending_nothing_does_nothing(database: Database) -> None:
    assert appended(database) == []
    assert appended(database, audits=[ALLOWED]) == []
    assert read(database) == []


def test_events_can_be_read_on_from_a_number_and_by_name_session_and_user(database: Database) -> None:
    appended(
        database,
        events=[
            loaded(1, session_id="s1", user_id="ann"),
            loaded(2, session_id="s2", user_id="bob"),
            EventEntry(name="approval_required", data={}, session_id="s1"),
            loaded(4, session_id="s1", user_id="ann"),
        ],
    )

    def numbers(**options: Any) -> list[int]:
        return [event.number for event in read(database, **options)]

    assert numbers(after=2) == [3, 4]
    assert numbers(limit=2) == [1, 2]
    assert numbers(names=("skill_loaded",)) == [1, 2, 4]
    assert numbers(names=("skill_loaded", "approval_required"), session_id="s1") == [1, 3, 4]
    assert numbers(user_id="ann", after=1) == [4]
    assert numbers(user_id="") == [3]


def test_a_writer_waits_for_the_one_before_it_and_takes_its_number_when_it_gives_up(database: Database) -> None:
    def overlap(end: Callable[[sa.Connection], None]) -> tuple[list[int], list[int]]:
        """The numbers of a transaction and of one that began to append while it was open."""
        began = threading.Event()

        def second() -> list[int]:
            began.set()
            return appended(database, events=[loaded()])

        with ThreadPoolExecutor(1) as pool:
            with database.write() as connection:
                mine = ledger.append(connection, "acme", events=[loaded()])
                other = pool.submit(second)
                began.wait()
                end(connection)
            return mine, other.result()

    assert overlap(lambda _: None) == ([1], [2])
    assert overlap(lambda connection: connection.rollback()) == ([3], [3])


@pytest.mark.few(1)
def test_a_reader_sees_a_log_that_only_ever_grows_at_its_end_whatever_32_writers_do(
    database: Database, database_url: str
) -> None:
    done = threading.Event()

    def write(writer: int) -> int:
        chance = random.Random(writer)
        kept = 0
        for number in range(6):
            entries = [loaded(number, session_id=str(writer)) for _ in range(chance.randint(1, 3))]
            given_up = chance.random() < 0.2
            with database.write() as connection:
                connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                ledger.append(connection, "acme", audits=[ALLOWED] * chance.randint(0, 2), events=entries)
                if given_up:
                    connection.rollback()
            kept += 0 if given_up else len(entries)
        return kept

    def follow() -> list[int]:
        """Every number, each read once, going on from the last one seen."""
        reader = open_database(database_url)
        seen: list[int] = []
        while True:
            finished = done.is_set()
            new = [event.number for event in read(reader, after=seen[-1] if seen else 0, limit=7)]
            seen += new
            if finished and not new:
                reader.close()
                return seen

    with ThreadPoolExecutor(1) as followers, ThreadPoolExecutor(32) as writers:
        followed = followers.submit(follow)
        try:
            kept = sum(writers.map(write, range(32)))
        finally:
            done.set()

    assert followed.result() == list(range(1, kept + 1))
    with database.read() as connection:
        assert verify_audit(connection, "acme").ok
        assert ledger.last_event(connection, "acme") == kept


def test_settings_are_any_json_by_name_for_each_organization(database: Database) -> None:
    values: dict[str, Any] = {
        "skill_enablement_policy": "auto",
        "skills_max_prompt_chars": 16_000,
        "skills_dynamic_search_enabled": False,
        "nothing": None,
        "roles": {"z": ["skill_*"], "a": []},
    }
    with database.write() as connection:
        for name, value in values.items():
            org_settings.set_setting(connection, "acme", name, "earlier", "bob")
            org_settings.set_setting(connection, "acme", name, value, "ann")

    with database.write() as connection:
        assert org_settings.get_settings(connection, "acme") == values
        assert list(org_settings.get_settings(connection, "acme")["roles"]) == ["z", "a"]
        assert org_settings.get_settings(connection, "") == org_settings.get_settings(connection, "globex") == {}
        assert org_settings.unset_setting(connection, "globex", "roles") is False
        assert org_settings.unset_setting(connection, "acme", "roles") is True
        assert org_settings.unset_setting(connection, "acme", "roles") is False
        assert "roles" not in org_settings.get_settings(connection, "acme")


def test_of_many_who_set_one_value_at_once_one_stays(database: Database) -> None:
    def set_it(number: int) -> None:
        with database.write() as connection:
            org_settings.set_setting(connection, "acme", "approval_minutes", number, f"person-{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(set_it, range(8)))

    with database.read() as connection:
        assert org_settings.get_settings(connection, "acme")["approval_minutes"] in range(8)
