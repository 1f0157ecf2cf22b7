"""Old records go, what others need stays, counts do not fall, and the audit stays provable."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.feed.metrics import Metrics
from prowess.feed.usage import list_usage
from prowess.policy.retention import BATCH_ROWS, Retention, clean_up
from prowess.redaction import Redactor
from prowess.storage import approvals, ledger, org_settings, sessions, spend
from prowess.storage.audit_chain import PRUNE_AUDIT, AuditVerdict, hash_row, verify_audit
from prowess.storage.clock import now
from prowess.storage.database import Database, open_database
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.owner import Owner
from prowess.storage.people import web_sessions
from prowess.storage.seals import Seals
from prowess.storage.sql.ledger import audit, events
from prowess.storage.traces import Trace, Values, insert_many, to_values
from prowess.traces.trace_row import to_row

OWNER = Owner(organization_id="acme", user_id="ann")
VIEWER = sessions.SessionViewer(owner=OWNER, actor="ann", kind="person")


def in_days(days: int) -> Callable[[], str]:
    """Return a clock that shows the time in so many days."""
    time = datetime.now(UTC) + timedelta(days=days)
    return lambda: time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def load(slug: str, file: str | None = None) -> EventEntry:
    data = {"name": slug, "reference": file, "script": None}
    return EventEntry(name="skill_loaded", data=data, subject=slug, source="org", seconds=0.004)


def write(database: Database, *entries: EventEntry, audits: int = 0, organization: str = "acme") -> None:
    decided = [
        AuditEntry(actor="ann", action="enable", slug=f"s-{n}", outcome="allowed", detail={"n": n})
        for n in range(audits)
    ]
    with database.write() as connection:
        ledger.append(connection, organization, events=entries, audits=decided)


def configure(database: Database, **values: int) -> None:
    with database.write() as connection:
        for name, value in values.items():
            org_settings.set_setting(connection, "acme", name, value, "ann")


def numbers(database: Database, table: sa.Table, organization: str = "acme") -> list[int]:
    query = sa.select(table.c.number).where(table.c.organization_id == organization).order_by(table.c.number)
    with database.read() as connection:
        return list(connection.scalars(query))


def verify(database: Database, **given: Any) -> AuditVerdict:
    with database.read() as connection:
        return verify_audit(connection, "acme", **given)


def total(report: bytes, name: str) -> float:
    lines = [line for line in report.decode().splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def open_session(database: Database, conversation: str) -> str:
    with database.write() as connection:
        return sessions.open_session(
            connection,
            VIEWER,
            conversation_id=conversation,
            role="",
            model="",
            context_window=None,
            budget_max=1_000,
        ).id


@pytest.fixture
def make_trace_row() -> Callable[..., Values]:
    """The row of a run that has begun, with whatever else is said of it."""

    def make(**more: Any) -> dict[str, Any]:
        trace = Trace(
            id=str(uuid.uuid4()),
            run_id="run",
            organization_id="acme",
            user_id="ann",
            skill_id="skill",
            skill_slug="one",
            artifact_id="artifact",
            artifact_name="Check",
            artifact_kind="prompt_template",
            started_at=now(),
            deadline_at=in_days(1)(),
            process="elsewhere/1/1",
        )
        return to_values(to_row(replace(trace, **more), Redactor()))

    return make


def test_events_older_than_their_days_go_and_the_newest_always_stays(database: Database) -> None:
    write(database, *(load("one") for _ in range(5)))

    [before] = Retention(database, moment=in_days(90)).prune()
    [after] = Retention(database, moment=in_days(91)).prune()

    assert (before.events, after.events) == (0, 4)
    assert numbers(database, events) == [5]
    write(database, load("one"))
    assert numbers(database, events) == [5, 6]


def test_only_events_from_before_the_day_go(database: Database) -> None:
    write(database, *(load("one") for _ in range(9)))
    with database.write() as connection:
        old = in_days(-100)()
        connection.execute(sa.update(events).where(events.c.number <= 6).values(at=old))

    [report] = Retention(database).prune()

    assert report.events == 6
    assert numbers(database, events) == [7, 8, 9]


def test_a_preview_says_what_would_go_and_deletes_nothing(database: Database) -> None:
    configure(database, audit_days=100)
    write(database, *(load("one") for _ in range(5)), audits=4)
    open_session(database, "old")
    retention = Retention(database, moment=in_days(200))

    [preview] = retention.preview()

    assert (preview.events, preview.audit, preview.sessions) == (4, 3, 1)
    assert len(numbers(database, events)) == 5
    assert retention.prune() == [preview]
    assert retention.preview()[0].events == 0


def test_zero_days_keep_everything(database: Database) -> None:
    configure(database, event_days=0, session_days=0, trace_days=0)
    write(database, load("one"), load("one"), audits=3)
    open_session(database, "old")

    [report] = Retention(database, moment=in_days(3_000)).prune()

    assert report.total == 0
    assert len(numbers(database, audit)) == 3


def test_a_damaged_setting_deletes_nothing(database: Database) -> None:
    write(database, load("one"), load("one"))
    with database.write() as connection:
        org_settings.set_setting(connection, "acme", "event_days", "soon", "ann")

    [report] = Retention(database, moment=in_days(3_000)).prune()

    assert report.events == 0


def test_each_organization_keeps_its_records_as_long_as_it_says(database: Database) -> None:
    write(database, load("one"), load("one"))
    write(database, load("one"), load("one"), organization="globex")
    configure(database, event_days=300)

    reports = Retention(database, moment=in_days(200)).prune()

    assert {report.organization: report.events for report in reports} == {"acme": 0, "globex": 1}


def test_metrics_and_usage_are_the_same_before_and_after(database: Database) -> None:
    configure(database, audit_days=100)
    write(database, load("one", "guide.md"), load("one"), load("two"), audits=4)
    write(database, EventEntry(name="skill_loaded", data={}, subject="one", source="org"))
    write(database, EventEntry(name="skills_state_changed", data={}, subject="two"), load("one", "guide.md"))
    usage = list_usage(database, "acme")
    running = Metrics(database, "acme")
    before = running.exposition()
    audited = total(before, 'skill_gate_total{action="enable"')

    Retention(database, moment=in_days(200)).prune()

    assert len(numbers(database, events)) == 1
    for report in (Metrics(database, "acme").exposition(), running.exposition()):
        for name in ("skill_load_total", "skill_load_errors_total", "skill_file_load_total", "skill_events_total"):
            assert total(report, name) == total(before, name) > 0, name
        assert total(report, "skill_load_duration_seconds_bucket") == total(
            before, "skill_load_duration_seconds_bucket"
        )
        assert total(report, 'skill_gate_total{action="enable"') == audited == 4
    assert list_usage(database, "acme") == usage


def test_metrics_that_were_last_counted_before_pruned_events_came_count_them(database: Database) -> None:
    write(database, load("one"))
    running = Metrics(database, "acme")
    running.exposition()
    write(database, *(load("one") for _ in range(4)))
    Retention(database, moment=in_days(200)).prune()

    assert total(running.exposition(), "skill_load_total") == 5


def test_many_events_go_in_batches_while_others_write(database: Database) -> None:
    write(database, *(load("one") for _ in range(3 * BATCH_ROWS + 7)))
    ended = threading.Event()
    written = 0

    def go_on() -> None:
        nonlocal written
        while not ended.is_set():
            write(database, load("two"))
            written += 1

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        [report] = Retention(database, moment=in_days(200)).prune()
    finally:
        ended.set()
        writer.join()

    kept = numbers(database, events)
    assert report.events >= 3 * BATCH_ROWS
    assert kept == list(range(kept[0], 3 * BATCH_ROWS + 7 + written + 1))
    assert total(Metrics(database, "acme").exposition(), "skill_load_total") == 3 * BATCH_ROWS + 7 + written


def test_replicas_that_prune_at_once_count_each_event_once(database: Database, database_url: str) -> None:
    write(database, *(load("one") for _ in range(2 * BATCH_ROWS)), audits=10)
    configure(database, audit_days=100)
    others = [open_database(database_url) for _ in range(3)]
    ready = threading.Barrier(3)

    def prune(replica: Database) -> None:
        ready.wait()
        Retention(replica, moment=in_days(200)).prune()

    threads = [threading.Thread(target=prune, args=(replica,)) for replica in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for replica in others:
        replica.close()

    assert numbers(database, events) == [2 * BATCH_ROWS]
    assert total(Metrics(database, "acme").exposition(), "skill_load_total") == 2 * BATCH_ROWS


def test_on_postgresql_one_replica_prunes_and_the_others_leave_it_alone(postgres_url: str) -> None:
    one, other = open_database(postgres_url), open_database(postgres_url)
    write(one, load("one"), load("one"))
    with one.write() as connection:
        lock = sa.func.pg_advisory_xact_lock(sa.func.hashtextextended("retention", 0))
        connection.execute(sa.select(lock))
        assert Retention(other, moment=in_days(200)).prune() == []
    assert Retention(other, moment=in_days(200)).prune()[0].events == 1
    one.close()
    other.close()


def test_idle_sessions_go_with_their_skills_and_spending(database: Database) -> None:
    gone = open_session(database, "old")
    row = sessions.EnabledRow(slug="one", title="One", digest="d", scope="org", source_type="catalog", origin="")
    with database.write() as connection:
        sessions.reserve(connection, gone, row, "text")
        spend.reserve(connection, "acme", {f"session:{gone}": 5.0}, 1.0)

    [report] = Retention(database, moment=in_days(181)).prune()

    assert report.sessions == 1
    with database.read() as connection:
        assert sessions.get_session(connection, VIEWER, gone) is None
        assert sessions.list_enabled(connection, gone) == []
        assert connection.execute(sa.text("SELECT count(*) FROM spend")).scalar() == 0


def test_a_session_with_a_pending_approval_or_a_running_trace_stays(
    database: Database, make_trace_row: Callable[..., Values]
) -> None:
    asked, running, ran = (open_session(database, name) for name in ("asked", "running", "ran"))
    with database.write() as connection:
        approvals.ask(
            connection,
            OWNER,
            action="enable",
            slug="one",
            digest="d",
            requester="bot",
            session_id=asked,
            reason="",
            detail={},
            lifetime_seconds=60,
        )
        insert_many(connection, [make_trace_row(session_id=running, status="running")])
        insert_many(connection, [make_trace_row(session_id=ran, status="ok", started_at=in_days(150)())])

    [report] = Retention(database, moment=in_days(200)).prune()

    assert report.sessions == 0
    with database.read() as connection:
        assert {row.id for row in sessions.list_sessions(connection, VIEWER, limit=9)} == {asked, running, ran}


def test_ended_traces_go_after_their_days_and_running_ones_stay(
    database: Database, make_trace_row: Callable[..., Values]
) -> None:
    with database.write() as connection:
        insert_many(connection, [make_trace_row(status="ok") for _ in range(BATCH_ROWS + 3)])
        insert_many(connection, [make_trace_row(status="running")])

    assert [report.traces for report in Retention(database, moment=in_days(31), trace_days=60).prune()] == [0]
    assert [report.traces for report in Retention(database, moment=in_days(31)).prune()] == [BATCH_ROWS + 3]
    configure(database, trace_days=10)
    assert Retention(database, moment=in_days(31), trace_days=60).prune()[0].traces == 0  # the running one

    with database.read() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM skill_execution_traces")).scalar() == 1


def test_what_is_deleted_is_recorded_in_the_audit(database: Database) -> None:
    write(database, *(load("one") for _ in range(3)))

    Retention(database, moment=in_days(200)).prune(by="ann", channel="cli")

    with database.read() as connection:
        [row] = ledger.read_audit(connection, "acme", after=0, limit=9)
    assert (row.actor, row.action, row.outcome) == ("ann", "prune", "done")
    assert (row.detail["events"], row.detail["events_upto"], row.detail["channel"]) == (2, 2, "cli")


def test_where_nothing_is_old_nobody_is_kept_from_writing(database: Database) -> None:
    class Reading:
        location, url, read = database.location, database.url, database.read

        def write(self):
            return database.write()

        def snapshot(self):
            raise AssertionError

    write(database, load("one"), audits=2)
    before = numbers(database, audit)

    clean_up(Reading())

    assert numbers(database, audit) == before


def test_cleaning_up_a_database_that_cannot_be_used_is_a_warning(tmp_path, caplog) -> None:
    from prowess.storage.deferred_database import DeferredDatabase

    (tmp_path / "bad.db").write_bytes(b"this is no database, whatever its name may say" * 50)
    clean_up(DeferredDatabase(f"sqlite:///{tmp_path}/bad.db"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_cleaning_up_that_has_been_ended_takes_no_connection() -> None:
    ended = threading.Event()
    ended.set()
    clean_up(None, ended=ended)


def test_web_sessions_that_ended_long_ago_go(database: Database) -> None:
    shared = {"organization_id": "acme", "user_id": "ann", "actor_name": "ann", "created_at": now(), "how": "code"}
    with database.write() as connection:
        for name, ends in (("old", in_days(1)()), ("new", in_days(100)())):
            row = {**shared, "hash": name, "id": name, "client": "", "expires_at": ends, "ends_at": ends}
            connection.execute(sa.insert(web_sessions), row)

    [report] = Retention(database, moment=in_days(200)).prune()

    assert report.web_sessions == 1
    with database.read() as connection:
        assert list(connection.scalars(sa.select(web_sessions.c.id))) == ["new"]


# The audit


@pytest.fixture
def pruned(database: Database) -> Database:
    """A database whose audit had 24 rows, of which the first 16 were pruned."""
    return prune_first_rows(database)


def prune_first_rows(database: Database) -> Database:
    configure(database, audit_days=100)
    write(database, audits=16)
    with database.write() as connection:
        age(connection, days=150)
        ledger.append(connection, "acme", audits=[AuditEntry(actor="ann", action="run", outcome="ok")] * 8)
    [report] = Retention(database).prune()
    assert report.audit == 16
    return database


def age(connection: sa.Connection, days: int) -> None:
    """Make a valid chain of rows that were written so many days ago, as time passing would."""
    at, previous = in_days(-days)(), ""
    rows = connection.execute(sa.select(audit).order_by(audit.c.number)).mappings().all()
    for row in rows:
        changed = {**row, "at": at, "previous": previous}
        previous = hash_row(changed)
        where = sa.and_(audit.c.organization_id == row["organization_id"], audit.c.number == row["number"])
        connection.execute(sa.update(audit).where(where).values(at=at, previous=changed["previous"], hash=previous))


def after(database: Database, *statements: sa.Executable, **given: Any) -> AuditVerdict:
    """What verification says when this was done; everything is as before afterwards."""
    with database.write() as connection:
        for statement in statements:
            connection.execute(statement)
        verdict = verify_audit(connection, "acme", **given)
        connection.rollback()
    return verdict


def delete(*which: int) -> sa.Executable:
    return sa.delete(audit).where(audit.c.number.in_(which))


def test_a_pruned_audit_is_whole(pruned: Database) -> None:
    verdict = verify(pruned)

    assert (verdict.ok, verdict.rows, verdict.pruned, verdict.problem) == (True, 9, 16, "")
    assert numbers(pruned, audit) == list(range(17, 26))
    assert verify(pruned, head=verdict.head).ok


def test_an_audit_can_be_pruned_again_and_again(pruned: Database) -> None:
    for days in (150, 300):
        Retention(pruned, moment=in_days(days)).prune()
        write(pruned, audits=3)
        verdict = verify(pruned)
        assert (verdict.ok, verdict.problem) == (True, "")


@pytest.mark.few(4)
@pytest.mark.parametrize("number", range(17, 25))
def test_whatever_row_is_removed_after_a_pruning_is_found(pruned: Database, number: int) -> None:
    verdict = after(pruned, delete(number))

    assert (verdict.ok, verdict.first_bad) == (False, number)


def test_cutting_off_more_than_was_recorded_is_found(pruned: Database) -> None:
    verdict = after(pruned, delete(17, 18, 19))

    assert (verdict.ok, verdict.first_bad) == (False, 17)
    assert "Row 17 is missing" in verdict.problem


def test_a_start_that_does_not_follow_the_pruned_rows_is_found(pruned: Database) -> None:
    with pruned.read() as connection:
        rows = {row.number: dict(row._mapping) for row in connection.execute(sa.select(audit))}
    forged = {**rows[17], "previous": "0" * 64}
    change = sa.update(audit).where(audit.c.number == 17)

    verdict = after(pruned, change.values(previous=forged["previous"], hash=hash_row(forged)))

    assert (verdict.ok, verdict.first_bad) == (False, 17)


def test_a_record_of_a_pruning_that_was_altered_is_found(pruned: Database) -> None:
    record = sa.update(audit).where(audit.c.action == PRUNE_AUDIT)

    assert not after(pruned, record.values(detail={"through": 18, "hash": "0" * 64, "seal": ""}), delete(17, 18)).ok
    assert not after(pruned, record.values(action="run")).ok
    assert not after(pruned, sa.delete(audit).where(audit.c.action == PRUNE_AUDIT)).ok


def test_a_pruning_that_somebody_without_the_key_invents_is_found(pruned: Database) -> None:
    head = verify(pruned).head
    with pruned.write() as connection:
        last = connection.execute(sa.select(audit).order_by(audit.c.number.desc()).limit(1)).mappings().one()
        twentieth = connection.execute(sa.select(audit.c.hash).where(audit.c.number == 20)).scalar_one()
        stolen = connection.execute(sa.select(audit.c.detail).where(audit.c.action == PRUNE_AUDIT)).scalar_one()
        detail = {"through": 20, "hash": twentieth, "seal": stolen["seal"]}
        forged = {
            **last,
            "number": last["number"] + 1,
            "previous": last["hash"],
            "action": PRUNE_AUDIT,
            "detail": detail,
        }
        connection.execute(sa.insert(audit), {**forged, "hash": hash_row(forged)})
        connection.execute(delete(17, 18, 19, 20))
        # Every hash is right, and the head is in the chain: only the seal tells.
        verdict = verify_audit(connection, "acme", head=head)
        connection.rollback()

    assert not verdict.ok
    assert "no valid seal" in verdict.problem


def test_an_audit_that_was_changed_is_not_pruned(database: Database) -> None:
    configure(database, audit_days=100)
    write(database, audits=10)
    with database.write() as connection:
        connection.execute(sa.update(audit).where(audit.c.number == 4).values(outcome="denied"))

    [report] = Retention(database, moment=in_days(200)).prune()

    assert report.audit == 0
    assert "Row 4 was changed" in report.problem
    assert len(numbers(database, audit)) == 10


def test_a_pruning_that_was_interrupted_is_provable_and_goes_on(database: Database) -> None:
    prune_first_rows(database)
    write(database, audits=2 * BATCH_ROWS)
    ended = threading.Event()

    class Interrupted:
        """Ends after the first batch."""

        location, url, read, snapshot = database.location, database.url, database.read, database.snapshot
        writes = 0

        def write(self):
            self.writes += 1
            # Before it come the record in the audit and, on PostgreSQL, the lock.
            if self.writes == (2 if database.url.startswith("sqlite") else 3):
                ended.set()
            return database.write()

    Retention(Interrupted(), moment=in_days(200), ended=ended).prune()
    first = numbers(database, audit)[0]

    assert 17 < first < 2 * BATCH_ROWS
    assert verify(database).ok
    swapped = sa.update(audit).where(audit.c.number == first).values(outcome="denied")
    assert not after(database, swapped).ok
    Retention(database, moment=in_days(200)).prune()
    assert verify(database).ok
    assert len(numbers(database, audit)) < 5


def test_a_start_sealed_with_another_key_is_refused_until_a_person_accepts_it(tmp_path, database_url: str) -> None:
    old, new = Seals.of_home(tmp_path / "old"), Seals.of_home(tmp_path / "new")
    made = prune_first_rows(open_database(database_url, old))
    made.close()
    database = open_database(database_url, new)

    verdict = verify(database)
    assert not verdict.ok
    assert "sealed with another key" in verdict.problem
    [report] = Retention(database, moment=in_days(150)).prune()
    assert (report.audit, "another key" in report.problem) == (0, True)

    Retention(database).prune(by="ann", any_key=True)

    assert verify(database).ok
    database.close()


def test_a_head_from_before_the_pruning_is_named_as_such(pruned: Database) -> None:
    verdict = verify(pruned, head="0" * 64)

    assert not verdict.ok
    assert "use a newer one" in verdict.problem


def test_the_time_is_the_current_one_by_default(database: Database) -> None:
    assert now() > in_days(-1)()
    write(database, load("one"), load("one"))
    assert Retention(database).prune()[0].total == 0
