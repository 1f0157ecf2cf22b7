"""Actors, subjects and a way through the gate, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.errors import ProwessError
from prowess.policy.acceptance import resolve
from prowess.policy.actor import Actor, agent_of
from prowess.policy.configuration import read_policy
from prowess.policy.gate import Admission, admit
from prowess.policy.subject import Subject
from prowess.skill.package import Package
from prowess.storage.database import Database
from prowess.storage.ledger import AuditRow, append, read_audit, read_events
from prowess.storage.org_settings import set_setting
from prowess.storage.sql.approvals import approvals

SKILL = "---\nname: triage\ndescription: Triage of slow databases.\n---\n\n# Triage\n\nLook at the locks first.\n"


class Desk:
    """The gate as a caller meets it: decide, write down, commit."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def admit(self, actor: Actor, action: str, subject: Subject | None, **options: Any) -> Admission:
        with self.database.write() as connection:
            policy = read_policy(connection, actor.organization)
            if subject is not None:
                [subject] = resolve(connection, actor.owner, [subject], ())
            admission = admit(connection, actor, action, subject, policy=policy, **options)
            append(connection, actor.organization, audits=admission.audits, events=admission.events)
        return admission

    def set(self, name: str, value: Any, organization: str = "acme") -> None:
        """Put a value into the database past every check."""
        with self.database.write() as connection:
            set_setting(connection, organization, name, value, "test")

    def let_time_pass(self, approval_id: str) -> None:
        """Put the end of an approval's time into the past."""
        with self.database.write() as connection:
            over = sa.update(approvals).where(approvals.c.id == approval_id)
            connection.execute(over.values(expires_at="2020-01-01T00:00:00.000000Z"))

    def audit(self, organization: str = "acme") -> list[AuditRow]:
        with self.database.read() as connection:
            return read_audit(connection, organization, after=0, limit=10_000)

    def outcomes(self, organization: str = "acme") -> list[tuple[str, str]]:
        return [(row.action, row.outcome) for row in self.audit(organization)]

    def events(self, organization: str = "acme") -> list[tuple[str, dict[str, Any]]]:
        with self.database.read() as connection:
            found = read_events(connection, organization, after=0, limit=10_000)
        return [(event.name, event.data) for event in found]


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


@pytest.fixture
def ann() -> Actor:
    """A person who may do everything in her organization."""
    return Actor(name="ann", organization="acme", user="ann")


@pytest.fixture
def agent(ann: Actor) -> Actor:
    """Her agent."""
    return agent_of(ann)


@pytest.fixture
def package() -> Package:
    return Package.of_texts("triage", {"SKILL.md": SKILL, "references/locks.md": "Locks.", "scripts/top.sh": "ps\n"})


@pytest.fixture
def subject_of() -> Callable[..., Subject]:
    """The subject for a package that came from elsewhere, so that a person is asked about it by default."""

    def make(package: Package, **changes: Any) -> Subject:
        values: dict[str, Any] = {
            "slug": package.name,
            "digest": package.digest,
            "title": "Triage",
            "description": "Triage of slow databases.",
            "scope": "org",
            "source": "community",
            "source_type": "github",
            "origin": "github:acme/runbooks",
            "chars": 60,
            "manifest": package.manifest,
        }
        return Subject(**{**values, **changes})

    return make


@pytest.fixture
def synced(package: Package, subject_of: Callable[..., Subject]) -> Subject:
    return subject_of(package)


@pytest.fixture
def at_once() -> Callable[..., list[Any]]:
    """What each call gave, or the ProwessError that it raised, when all begin together."""

    def run_all(*calls: Callable[[], Any]) -> list[Any]:
        barrier = threading.Barrier(len(calls))
        results: list[Any] = [None] * len(calls)

        def run(place: int, call: Callable[[], Any]) -> None:
            barrier.wait()
            try:
                results[place] = call()
            except ProwessError as error:
                results[place] = error

        threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    return run_all
