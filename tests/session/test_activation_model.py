"""Enabling, disabling, editing, approving and prompting agree with a plain model, whatever their order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.errors import ApprovalRequired, BudgetExceeded, NotFound
from prowess.policy.actor import Actor
from prowess.policy.approvals import Approvals
from prowess.policy.configuration import Policies
from prowess.session.activate import Activation
from prowess.session.sessions import Sessions
from prowess.session.text import read_skill_text
from prowess.skill.package import Package
from prowess.storage.database import open_database

ANN = Actor(name="ann")
SLUGS = st.sampled_from(["a", "b", "c"])
LENGTHS = st.integers(min_value=0, max_value=120)


class Chat(RuleBasedStateMachine):
    """One session with a small budget, over three skills that come, change and go."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.database = open_database(f"sqlite:///{tempfile.mkdtemp(dir=self.folder)}/agents.db")
        self.store = MemoryStore("workspace")
        self.catalog = Catalog([self.store])
        self.activation = Activation(records=self.database, catalog=self.catalog, wake=lambda _: None)
        self.asks = False
        self.approved: set[tuple[str, str]] = set()
        self.enabled: dict[str, str] = {}
        """The blocks that must be in the prompt, in their order."""
        self.let_in: dict[str, tuple[bool, str]] = {}
        """Whether the policy asked when each was let in, and the digest that a person had approved, if so."""

    @initialize(budget=st.integers(min_value=150, max_value=450))
    def open(self, budget: int) -> None:
        self.budget = budget
        self.session = Sessions(records=self.database).open(ANN, "chat", budget=budget).id

    @rule(slug=SLUGS, length=LENGTHS)
    def write(self, slug: str, length: int) -> None:
        text = f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n{'x' * length}.\n"
        self.store.save_all([Package.of_texts(slug, {"SKILL.md": text})], replace=True)

    @rule(slug=SLUGS)
    def delete(self, slug: str) -> None:
        skill = self.store.get_skill_by_name(slug)
        if skill is not None:
            self.store.delete_skill(skill.id)

    @rule(asks=st.booleans())
    def set_policy(self, asks: bool) -> None:
        self.asks = asks
        Policies(self.database).change(ANN, "skill_enablement_policy", "prompt-user" if asks else "auto")

    @rule()
    def approve_all(self) -> None:
        for row in Approvals(self.database).list(ANN):
            Approvals(self.database).resolve(ANN, row.id, approved=True)
            self.approved.add((row.slug, row.digest))

    def is_revoked(self, slug: str) -> bool:
        """Whether the approval that let a skill in was taken back."""
        digest = self.let_in[slug][1] if slug in self.enabled else ""
        return digest != "" and (slug, digest) not in self.approved

    def stands(self, slug: str, *, staying: bool) -> bool:
        """Whether a skill is let be that has the same text as before: as long as the policy, or the yes, is the same."""
        digest = self.let_in[slug][1]
        if self.is_revoked(slug):
            return False
        if staying and (not self.asks or digest):
            self.let_in[slug] = (self.asks, digest)
        return self.let_in[slug][0] == self.asks

    def outcome(self, slug: str, *, staying: bool = False) -> type[Exception] | None:
        """What enabling must come to, and in the model does."""
        skill = self.store.get_skill_by_name(slug)
        if skill is None:
            return NotFound
        block = read_skill_text(self.catalog, slug, ANN).block
        if self.enabled.get(slug) == block and self.stands(slug, staying=staying):
            return None
        others = sum(len(text) for name, text in self.enabled.items() if name != slug)
        if len(block) > len(self.enabled.get(slug, "")) and others + len(block) > self.budget:
            return BudgetExceeded
        if self.asks and (slug, skill.digest) not in self.approved:
            self.approved = {(name, digest) for name, digest in self.approved if name != slug}
            return ApprovalRequired
        self.enabled[slug] = block
        self.let_in[slug] = (self.asks, skill.digest if self.asks else "")
        return None

    @rule(slug=SLUGS)
    def enable(self, slug: str) -> None:
        revoked = self.is_revoked(slug)
        expected = self.outcome(slug)
        if revoked and expected in (BudgetExceeded, ApprovalRequired):
            del self.enabled[slug]
        came: type[Exception] | None = None
        try:
            self.activation.enable(ANN, self.session, slug)
        except (NotFound, BudgetExceeded, ApprovalRequired) as error:
            came = type(error)
        assert came is expected

    @rule(slug=SLUGS)
    def disable(self, slug: str) -> None:
        expected = self.enabled.pop(slug, None)
        try:
            self.activation.disable(ANN, self.session, slug)
        except NotFound:
            assert expected is None
        else:
            assert expected is not None

    @rule()
    def prompt(self) -> None:
        revoked = [slug for slug in self.enabled if self.is_revoked(slug)]
        for slug in [slug for slug in self.enabled if slug not in revoked]:
            if self.outcome(slug, staying=True) is not None:
                del self.enabled[slug]
        for slug in revoked:
            del self.enabled[slug]
        session, blocks = self.activation.blocks(ANN, self.session)
        assert blocks == tuple(self.enabled.values())
        assert [skill.slug for skill in session.enabled] == list(self.enabled)

    @invariant()
    def the_budget_is_exact(self) -> None:
        if not hasattr(self, "session"):
            return
        session = Sessions(records=self.database).get(ANN, self.session)
        assert session.budget.used == sum(map(len, self.enabled.values())) <= self.budget
        assert [skill.slug for skill in session.enabled] == list(self.enabled)

    def teardown(self) -> None:
        self.database.close()


def test_a_session_and_a_plain_dictionary_agree(tmp_path: Path) -> None:
    class Here(Chat):
        folder = tmp_path

    limits: dict[str, Any] = {"max_examples": 15, "stateful_step_count": 25, "derandomize": True}
    run_state_machine_as_test(Here, settings=settings(**limits, suppress_health_check=list(HealthCheck)))
    shutil.rmtree(tmp_path, ignore_errors=True)
