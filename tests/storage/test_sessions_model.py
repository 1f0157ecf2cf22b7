"""Sessions and a plain dictionary agree, whatever is done to them, on both databases."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from prowess.storage import sessions
from prowess.storage.database import Database
from prowess.storage.owner import Owner
from prowess.storage.sessions import SessionViewer

CHATS = st.sampled_from([("ann", "one"), ("ann", "two"), ("bob", "one")])
SLUGS = st.sampled_from(["a", "b", "c"])
DIGESTS = st.sampled_from(["d1", "d2"])
LENGTHS = st.integers(min_value=0, max_value=12)
BUDGETS = st.integers(min_value=0, max_value=20)
GIVEN: dict[str, Any] = {"role": "", "model": "", "context_window": None}


class Chat:
    """What one conversation must look like: slug to digest and length, in the order of enabling."""

    def __init__(self, id: str, budget: int) -> None:
        self.id = id
        self.budget = budget
        self.open = True
        self.skills: dict[str, tuple[str, int]] = {}

    @property
    def used(self) -> int:
        return sum(length for _, length in self.skills.values())

    def replace(self, slug: str, digest: str, length: int) -> str:
        """What exchanging an enabled skill must answer, and do."""
        grows = length - self.skills[slug][1]
        if grows > 0 and self.used + grows > self.budget:
            return "over"
        self.skills[slug] = (digest, length)
        return "done"


class Sessions(RuleBasedStateMachine):
    """Two users, one of them with two conversations, in an organization that no other run has."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.organization = str(uuid.uuid4())
        self.chats: dict[tuple[str, str], Chat] = {}

    def viewer(self, user: str) -> SessionViewer:
        return SessionViewer(owner=Owner(organization_id=self.organization, user_id=user), actor="a", kind="agent")

    @rule(chat=CHATS, budget=BUDGETS)
    def open(self, chat: tuple[str, str], budget: int) -> None:
        user, conversation = chat
        with self.database.write() as connection:
            row = sessions.open_session(
                connection, self.viewer(user), conversation_id=conversation, budget_max=budget, **GIVEN
            )
        kept = self.chats.setdefault(chat, Chat(row.id, budget))
        if not kept.open:
            kept.open, kept.budget = True, budget
        assert (row.id, row.budget_max, row.budget_used) == (kept.id, kept.budget, kept.used)

    @precondition(lambda self: self.chats)
    @rule(chat=CHATS, slug=SLUGS, digest=DIGESTS, length=LENGTHS)
    def reserve(self, chat: tuple[str, str], slug: str, digest: str, length: int) -> None:
        kept = self.chats.get(chat)
        with self.database.write() as connection:
            answer = sessions.reserve(connection, kept.id if kept else "unknown", row_of(slug, digest), "x" * length)
        if kept is None or not kept.open:
            assert answer == "gone"
        elif slug in kept.skills and kept.skills[slug][0] == digest:
            assert answer == "there"
        elif slug in kept.skills:
            assert answer == kept.replace(slug, digest, length)
        elif kept.used + length > kept.budget and length > 0:
            assert answer == "over"
        else:
            assert answer == "done"
            kept.skills[slug] = (digest, length)

    @precondition(lambda self: self.chats)
    @rule(chat=CHATS, slug=SLUGS, digest=DIGESTS, length=LENGTHS)
    def exchange(self, chat: tuple[str, str], slug: str, digest: str, length: int) -> None:
        kept = self.chats.get(chat)
        with self.database.write() as connection:
            answer = sessions.exchange(connection, kept.id if kept else "unknown", row_of(slug, digest), "x" * length)
        there = kept is not None and slug in kept.skills
        assert answer == (kept.replace(slug, digest, length) if kept and there else "gone")

    @precondition(lambda self: self.chats)
    @rule(chat=CHATS, slug=SLUGS)
    def release(self, chat: tuple[str, str], slug: str) -> None:
        kept = self.chats.get(chat)
        with self.database.write() as connection:
            answer = sessions.release(connection, kept.id if kept else "unknown", slug)
        assert answer == (kept.skills.pop(slug)[1] if kept and slug in kept.skills else None)

    @precondition(lambda self: self.chats)
    @rule(chat=CHATS, by=st.sampled_from(["ann", "bob"]), budget=BUDGETS)
    def change_budget(self, chat: tuple[str, str], by: str, budget: int) -> None:
        kept = self.chats.get(chat)
        with self.database.write() as connection:
            answer = sessions.change_session(
                connection, self.viewer(by), kept.id if kept else "unknown", budget_max=budget
            )
        if kept is None or not kept.open or by != chat[0]:
            assert answer is None
        else:
            assert answer is not None
            kept.budget = answer.budget_max
            assert kept.budget == budget

    @precondition(lambda self: self.chats)
    @rule(chat=CHATS, by=st.sampled_from(["ann", "bob"]))
    def close(self, chat: tuple[str, str], by: str) -> None:
        kept = self.chats.get(chat)
        with self.database.write() as connection:
            answer = sessions.close_session(connection, self.viewer(by), kept.id if kept else "unknown")
        assert answer == (kept is not None and kept.open and by == chat[0])
        if kept and answer:
            kept.open, kept.skills = False, {}

    @rule(chat=CHATS, slug=SLUGS)
    def give_up(self, chat: tuple[str, str], slug: str) -> None:
        """A transaction that does something and is then given up."""
        kept = self.chats.get(chat)
        with self.database.write() as connection:
            if kept:
                sessions.release(connection, kept.id, slug)
                sessions.reserve(connection, kept.id, row_of("other", "d1"), "x")
            connection.rollback()

    @invariant()
    def agree(self) -> None:
        with self.database.read() as connection:
            for (user, conversation), kept in self.chats.items():
                row = sessions.get_session(connection, self.viewer(user), conversation)
                assert row is not None
                assert (row.id, row.budget_max, row.budget_used) == (kept.id, kept.budget, kept.used)
                assert (row.closed_at is None) == kept.open
                found = sessions.list_contents(connection, kept.id)
                assert [(item.slug, (item.digest, len(text))) for item, text, _ in found] == list(kept.skills.items())
            for user in ("ann", "bob"):
                listed = {row.id for row in sessions.list_sessions(connection, self.viewer(user), limit=9)}
                assert listed == {kept.id for (of, _), kept in self.chats.items() if of == user and kept.open}


def row_of(slug: str, digest: str) -> sessions.EnabledRow:
    return sessions.EnabledRow(
        slug=slug, title=slug, digest=digest, scope="account", source_type="catalog", origin="here"
    )


@pytest.mark.long
def test_sessions_agree_with_a_dictionary(database: Database) -> None:
    machine = type("Sessions", (Sessions,), {"database": database})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
