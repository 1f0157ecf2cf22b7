"""The audit chain: whatever is done to a row afterwards is found, and what cannot be found is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.storage import ledger
from prowess.storage.audit_chain import AuditVerdict, hash_row, verify_audit
from prowess.storage.database import Database
from prowess.storage.ledger import AuditEntry, AuditRow
from prowess.storage.sql.ledger import audit

ROWS = 24
TEXTS = ("at", "actor", "action", "slug", "digest", "outcome", "previous", "hash")
DETAIL = {"reason": "It was asked for.", "z": [1, 2.5, None], "a": {"ä": "\ud800\x00"}, "big": 2**70}


@pytest.fixture
def chain(database: Database) -> Database:
    """A database with a chain of rows, appended in portions."""
    for portion in range(0, ROWS, 4):
        entries = [
            AuditEntry(
                actor=f"person-{number}",
                action="enable",
                slug=f"skill-{number}",
                digest=f"{number:064}",
                outcome="allowed",
                detail={**DETAIL, "n": number},
            )
            for number in range(portion, portion + 4)
        ]
        with database.write() as connection:
            ledger.append(connection, "acme", audits=entries)
    return database


def verdict_after(database: Database, tamper: Callable[[sa.Connection], object], head: str = "") -> AuditVerdict:
    """What verification says when this was done to the rows; the rows are as before afterwards."""
    with database.write() as connection:
        tamper(connection)
        verdict = verify_audit(connection, "acme", head=head)
        connection.rollback()
    return verdict


def rows_of(database: Database) -> list[AuditRow]:
    with database.read() as connection:
        return ledger.read_audit(connection, "acme", after=0, limit=1000)


def row(number: int, organization: str = "acme") -> sa.ColumnElement[bool]:
    return sa.and_(audit.c.organization_id == organization, audit.c.number == number)


def change(number: int, **values: Any) -> Callable[[sa.Connection], object]:
    return lambda connection: connection.execute(sa.update(audit).where(row(number)).values(**values))


def said(of: AuditRow) -> dict[str, Any]:
    return {name: getattr(of, name) for name in AuditRow.__slots__}


def test_an_untouched_chain_is_whole(chain: Database) -> None:
    rows = rows_of(chain)

    with chain.read() as connection:
        verdict = verify_audit(connection, "acme")

    assert verdict == AuditVerdict(rows=ROWS, ok=True, head=rows[-1].hash)
    assert [item.number for item in rows] == list(range(1, ROWS + 1))
    assert [item.previous for item in rows] == ["", *(item.hash for item in rows[:-1])]
    assert rows[6].detail == {**DETAIL, "n": 6}


def test_a_chain_of_no_rows_is_whole(database: Database) -> None:
    with database.read() as connection:
        assert verify_audit(connection, "acme") == AuditVerdict(rows=0, ok=True)
        assert not verify_audit(connection, "acme", head="0" * 64).ok


def test_rows_are_read_on_from_a_number(chain: Database) -> None:
    with chain.read() as connection:
        assert [item.number for item in ledger.read_audit(connection, "acme", after=3, limit=2)] == [4, 5]
        assert ledger.read_audit(connection, "globex", after=0, limit=9) == []


@pytest.mark.few(1)
def test_every_altered_value_of_every_row_is_found_at_that_row(chain: Database) -> None:
    for item in rows_of(chain):
        for name in TEXTS:
            value = getattr(item, name)
            flipped = chr(ord(value[0]) ^ 1) + value[1:] if value else "x"
            verdict = verdict_after(chain, change(item.number, **{name: flipped}))
            assert (verdict.ok, verdict.first_bad) == (False, item.number), name
        verdict = verdict_after(chain, change(item.number, detail={**item.detail, "n": -1}))
        assert (verdict.ok, verdict.first_bad, verdict.rows) == (False, item.number, item.number - 1)


def test_every_removed_row_is_found_but_the_last_for_which_the_head_is_needed(chain: Database) -> None:
    head = rows_of(chain)[-1].hash
    for number in range(1, ROWS + 1):
        remove = sa.delete(audit).where(row(number))
        verdict = verdict_after(chain, lambda connection, remove=remove: connection.execute(remove))
        assert verdict.ok == (number == ROWS)
        assert verdict.first_bad == (None if number == ROWS else number)
        verdict = verdict_after(chain, lambda connection, remove=remove: connection.execute(remove), head)
        assert (verdict.ok, verdict.first_bad) == (False, number)
        assert verdict.problem


def test_every_removed_row_is_found_also_when_the_rest_is_numbered_anew(chain: Database) -> None:
    def remove_and_close_up(number: int) -> Callable[[sa.Connection], object]:
        def tamper(connection: sa.Connection) -> None:
            connection.execute(sa.delete(audit).where(row(number)))
            for later in range(number + 1, ROWS + 1):
                connection.execute(sa.update(audit).where(row(later)).values(number=later - 1))

        return tamper

    for number in range(1, ROWS, 3):
        verdict = verdict_after(chain, remove_and_close_up(number))
        assert (verdict.ok, verdict.first_bad) == (False, number)


def test_every_two_rows_that_change_places_are_found(chain: Database) -> None:
    def swap(number: int) -> Callable[[sa.Connection], object]:
        def tamper(connection: sa.Connection) -> None:
            for old, new in ((number, 0), (number + 1, number), (0, number + 1)):
                connection.execute(sa.update(audit).where(row(old)).values(number=new))

        return tamper

    for number in range(1, ROWS):
        verdict = verdict_after(chain, swap(number))
        assert (verdict.ok, verdict.first_bad) == (False, number)


def test_every_altered_row_with_a_fresh_hash_is_found_at_the_next_or_by_the_head(chain: Database) -> None:
    rows = rows_of(chain)
    head = rows[-1].hash
    for item in rows:
        altered = {**said(item), "outcome": "denied"}
        forge = change(item.number, outcome="denied", hash=hash_row(altered))
        verdict = verdict_after(chain, forge)
        assert (verdict.ok, verdict.first_bad) == ((True, None) if item.number == ROWS else (False, item.number + 1))
        assert not verdict_after(chain, forge, head).ok


def test_an_end_that_was_written_anew_is_found_by_the_head_alone(chain: Database) -> None:
    rows = rows_of(chain)

    def forge(connection: sa.Connection) -> None:
        previous = rows[9].hash
        for item in rows[10:]:
            altered = {**said(item), "actor": "nobody", "previous": previous}
            previous = hash_row(altered)
            change(item.number, actor="nobody", previous=altered["previous"], hash=previous)(connection)

    assert verdict_after(chain, forge).ok
    assert not verdict_after(chain, forge, rows[-1].hash).ok
    assert verdict_after(chain, forge, rows[9].hash).ok


def test_an_added_row_is_found(chain: Database) -> None:
    first = rows_of(chain)[0]
    beyond = sa.insert(audit).values(**{**said(first), "number": ROWS + 1})
    before = sa.insert(audit).values(**{**said(first), "number": 0})

    assert verdict_after(chain, lambda connection: connection.execute(beyond)).first_bad == ROWS + 1
    assert verdict_after(chain, lambda connection: connection.execute(before)).first_bad == 1


def test_a_head_of_earlier_still_stands_in_a_chain_that_grew(chain: Database) -> None:
    head = rows_of(chain)[-1].hash
    with chain.write() as connection:
        ledger.append(connection, "acme", audits=[AuditEntry(actor="a", action="b", outcome="c")])

    with chain.read() as connection:
        verdict = verify_audit(connection, "acme", head=head)

    assert (verdict.ok, verdict.rows) == (True, ROWS + 1)
    assert verdict.head != head


def test_rows_of_another_organization_do_not_pass_for_ones_own(chain: Database) -> None:
    with chain.write() as connection:
        connection.execute(sa.update(audit).values(organization_id="globex"))

    with chain.read() as connection:
        assert verify_audit(connection, "acme").rows == 0
        assert verify_audit(connection, "globex").first_bad == 1


def test_a_detail_that_is_no_document_any_more_is_found_and_breaks_nothing(chain: Database) -> None:
    postgres = chain.location.startswith("postgresql")  # which keeps nothing in such a column that is not JSON
    column = "CAST(:text AS json)" if postgres else ":text"
    spoil = sa.text(f"UPDATE audit SET detail = {column} WHERE number = 5")

    for text in ['"text"', "[1]", *([] if postgres else ["{", "NaN", "", "[" * 100_000])]:
        verdict = verdict_after(chain, lambda connection, text=text: connection.execute(spoil, {"text": text}))
        assert (verdict.ok, verdict.first_bad) == (False, 5), text[:9]
