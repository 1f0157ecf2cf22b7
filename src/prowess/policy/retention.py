"""Delete records that are older than their organization keeps them: events, audit rows, idle sessions, compositions and traces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Protocol

import sqlalchemy as sa

from prowess.errors import ProwessError
from prowess.policy.organization import OrgPolicy
from prowess.storage import checkpoints, compositions, evals, org_settings, retention, traces
from prowess.storage.audit_chain import PRUNE_AUDIT, PruneRecord, find_record, record_detail, verify_audit
from prowess.storage.clock import now, start_of_day
from prowess.storage.database import Connections
from prowess.storage.database_url import sqlite_path
from prowess.storage.ledger import AuditEntry, append
from prowess.storage.retention import LogRange
from prowess.storage.sqlite import no_deadline
from prowess.traces.cleanup import close_interrupted

log = logging.getLogger(__name__)

BATCH_ROWS = 250
"""How many rows one transaction deletes. It takes about 5 ms of CPU time on SQLite, where nobody else can write in the meantime."""

_PAUSE_SECONDS = 0.02
"""How long others can write between two batches. Without a pause, a waiting thread of this process might never get the lock."""

ACTOR = "retention"
"""The actor in the audit rows of a pruning that no person started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """How many records of an organization were deleted, or would be.

    `problem` says why its audit rows were not pruned although they are old enough; '' otherwise.
    """

    organization: str
    events: int = 0
    audit: int = 0
    sessions: int = 0
    web_sessions: int = 0
    compositions: int = 0
    traces: int = 0
    problem: str = ""

    @property
    def total(self) -> int:
        """The number of all records."""
        return self.events + self.audit + self.sessions + self.web_sessions + self.compositions + self.traces


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The cutoffs of what is deleted. A cutoff is '' if nothing is deleted by it."""

    organization: str
    events: LogRange
    audit: LogRange
    audit_hash: str
    record: PruneRecord | None
    """The record of an earlier pruning that has to be sealed again."""
    sessions_before: str
    traces_before: str
    report: PruneReport


class _DeleteBatch(Protocol):
    def __call__(self, connection: sa.Connection, organization_id: str, /, *, limit: int) -> int: ...


class Retention:
    """Prunes all organizations of one database. Blocking; safe if several processes do it at once.

    Ages are counted in whole days (UTC), so that there is something to delete at most once a day. `trace_days` replaces
    the default of that setting. `moment` is the time to count back from.
    """

    def __init__(
        self,
        records: Connections,
        *,
        trace_days: int | None = None,
        moment: Callable[[], str] = now,
        ended: Event | None = None,
    ) -> None:
        self._records = records
        self._trace_days = trace_days
        self._moment = moment
        self._ended = ended or Event()

    def preview(self) -> list[PruneReport]:
        """Return what `prune` would delete in each organization."""
        return [self._plan(organization).report for organization in self._organizations()]

    def prune(self, *, by: str = ACTOR, channel: str = "", any_key: bool = False) -> list[PruneReport]:
        """Delete what is too old and return how much, for each organization; nothing if another process does it now.

        Small batches let others write in between, and no write lock is taken if there is nothing to delete. What is going
        to be deleted is recorded in the audit first, as done by the actor `by`. The audit is pruned only if its chain is
        intact up to there, so that evidence of a change is never deleted. With `any_key`, an earlier pruning that was recorded
        with another key is accepted and recorded again with the current one.
        """
        with self._only_one() as alone:
            if not alone:
                return []
            reports: list[PruneReport] = []
            for organization in self._organizations():
                if self._ended.is_set():
                    break
                plan = self._plan(organization, any_key=any_key)
                needed = plan.report.total or plan.record
                reports.append(self._carry_out(plan, by, channel) if needed else plan.report)
            return reports

    @contextmanager
    def _only_one(self) -> Generator[bool]:
        """Keep other replicas from pruning at the same time. On SQLite they do no harm: batches exclude each other."""
        if sqlite_path(self._records.url):
            yield True
            return
        with self._records.write() as connection:
            yield retention.try_lock(connection)

    def _organizations(self) -> list[str]:
        with self._records.read() as connection:
            return retention.list_organizations(connection)

    def _plan(self, organization: str, *, any_key: bool = False) -> _Plan:
        with self._records.read() as connection:
            stored = org_settings.get_settings(connection, organization)
            policy = OrgPolicy.of(stored)
            if self._trace_days and "trace_days" not in stored:
                policy = replace(policy, trace_days=self._trace_days)
            events = self._old_rows(connection, "events", organization, policy.event_days)
            rows = self._old_rows(connection, "audit", organization, policy.audit_days)
            idle, old = self._cutoff(policy.session_days), self._cutoff(policy.trace_days)
            report = PruneReport(
                organization=organization,
                events=events.rows,
                sessions=retention.count_idle_sessions(connection, organization, idle) if idle else 0,
                web_sessions=retention.count_ended_web_sessions(connection, organization, idle) if idle else 0,
                compositions=compositions.count_before(connection, organization, idle) if idle else 0,
                traces=traces.count_before(connection, organization, old) if old else 0,
            )
            chain_hash = ""
            record = find_record(connection, organization) if any_key else None
            record = record if record and record.seal == "foreign" else None
            if rows.rows or record:
                with no_deadline(connection):  # there may be millions of rows
                    verdict = verify_audit(connection, organization, last=rows.upto or None, any_key=any_key)
                chain_hash = verdict.head if verdict.ok else ""
                report = replace(report, audit=rows.rows if verdict.ok else 0, problem=verdict.problem)
        return _Plan(
            organization=organization,
            events=events,
            audit=rows if chain_hash else LogRange(),
            audit_hash=chain_hash,
            record=record if chain_hash else None,
            sessions_before=idle,
            traces_before=old,
            report=report,
        )

    def _old_rows(self, connection: sa.Connection, which: retention.Log, organization: str, days: int) -> LogRange:
        before = self._cutoff(days)
        return retention.find_old_rows(connection, which, organization, before) if before else LogRange()

    def _cutoff(self, days: int) -> str:
        return start_of_day(self._moment(), days) if days else ""

    def _carry_out(self, plan: _Plan, by: str, channel: str) -> PruneReport:
        of, planned = plan.organization, plan.report
        with self._records.write() as connection:
            append(connection, of, audits=_describe(connection, plan, by, channel))
        deletions: dict[str, tuple[int, _DeleteBatch]] = {
            "sessions": (planned.sessions, partial(retention.delete_idle_sessions, before=plan.sessions_before)),
            "web_sessions": (
                planned.web_sessions,
                partial(retention.delete_ended_web_sessions, before=plan.sessions_before),
            ),
            "compositions": (planned.compositions, partial(compositions.delete_before, moment=plan.sessions_before)),
            "traces": (planned.traces, partial(traces.delete_before, moment=plan.traces_before)),
        }
        deleted = {name: self._delete(of, batch) for name, (many, batch) in deletions.items() if many}
        deleted["events"] = self._delete_rows(of, "events", plan.events.upto) if planned.events else 0
        deleted["audit"] = self._delete_rows(of, "audit", plan.audit.upto) if planned.audit else 0
        if planned.traces and self._has_checkpoints(plan):
            self._delete(of, partial(checkpoints.delete_before, moment=plan.traces_before))
        if planned.traces:  # the results of evaluations hold outputs as traces do
            self._delete(of, partial(evals.remove_runs, before=plan.traces_before))
        return replace(planned, **deleted)

    def _has_checkpoints(self, plan: _Plan) -> bool:
        with self._records.read() as connection:
            return checkpoints.has_before(connection, plan.organization, plan.traces_before)

    def _delete_rows(self, organization: str, which: retention.Log, last: int) -> int:
        """Delete the oldest rows of a log, up to a number; return how many."""
        removed = 0
        while not self._ended.is_set():
            with self._records.read() as connection:
                batch = retention.read_batch(connection, which, organization, upto=last, limit=BATCH_ROWS)
            if batch is None:
                break
            with self._records.write() as connection:
                deleted = retention.delete_batch(connection, organization, batch)
            if not deleted:
                break
            removed += batch.rows
            self._ended.wait(_PAUSE_SECONDS)
        return removed

    def _delete(self, organization: str, delete_batch: _DeleteBatch) -> int:
        removed = 0
        while not self._ended.is_set():
            with self._records.write() as connection:
                count = delete_batch(connection, organization, limit=BATCH_ROWS)
            removed += count
            if count < BATCH_ROWS:
                break
            self._ended.wait(_PAUSE_SECONDS)
        return removed


def _describe(connection: sa.Connection, plan: _Plan, by: str, channel: str) -> list[AuditEntry]:
    """Return the audit rows of a pruning that is about to start."""
    entries: list[AuditEntry] = []
    planned = plan.report
    if planned.total > planned.audit:
        detail = {
            "events": planned.events,
            "events_upto": plan.events.upto,
            "sessions": planned.sessions,
            "web_sessions": planned.web_sessions,
            "compositions": planned.compositions,
            "sessions_before": plan.sessions_before
            if planned.sessions or planned.web_sessions or planned.compositions
            else "",
            "traces": planned.traces,
            "traces_before": plan.traces_before if planned.traces else "",
        }
        entries.append(AuditEntry(actor=by, channel=channel, action="prune", outcome="done", detail=detail))
    through, last = plan.audit.upto, plan.audit_hash
    if not planned.audit and plan.record:
        through, last = plan.record.through, plan.record.hash
    if planned.audit or plan.record:
        detail = record_detail(connection, plan.organization, through=through, hash=last)
        entries.append(AuditEntry(actor=by, channel=channel, action=PRUNE_AUDIT, outcome="done", detail=detail))
    return entries


def clean_up(records: Connections, *, trace_days: int | None = None, ended: Event | None = None) -> None:
    """Close the traces of runs that were interrupted, and prune. Never raises: what is left over does no harm.

    Once `ended` is set, no further connection is opened and nothing is logged.
    """
    stopped = ended or Event()
    try:
        if not stopped.is_set():
            close_interrupted(records)
        if not stopped.is_set():
            reports = Retention(records, trace_days=trace_days, ended=stopped).prune()
            for report in reports:
                if report.problem:
                    log.warning("The audit log was not pruned: %s", report.problem)
    except ProwessError as error:
        if not stopped.is_set():
            log.warning("Failed to prune old records: %s", error.message)
