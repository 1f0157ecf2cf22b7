"""Memory, SQLite and a plain dictionary agree, whatever is done to them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import Store
from prowess.errors import Conflict, DuplicateSkill, NotFound, ProwessError
from prowess.skill.kinds import Example
from prowess.skill.package import Package
from prowess.storage.database import open_database

SLUGS = st.sampled_from(["one", "two", "ns.three"])
BODIES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(min_value=0, max_value=6)


def pack(slug: str, body: str) -> Package:
    text = f"---\nname: {slug}\ndescription: For {slug}.\n---\n\n{body}\n"
    return Package.of_texts(slug, {"SKILL.md": text, "references/guide.md": f"Guide {body}."})


class Stores(RuleBasedStateMachine):
    """`self.kept` says what must be there (slug to digest), `self.log` what was done (slug to digests, None = any)."""

    folder: Path
    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, str] = {}
        self.log: dict[str, list[tuple[str, str]]] = {}

    @initialize()
    def open(self) -> None:
        self.file = Path(tempfile.mkdtemp(dir=self.folder)) / "agents.db"
        shutil.copy(self.template, self.file)
        self.database = open_database(self.file)
        self.stores: list[Store] = [MemoryStore("workspace"), DatabaseStore(self.database, scope="workspace")]

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.file.parent)

    def both(self, call: Callable[[Store], Any]) -> Any:
        """What both stores give, which must be the same: the digest of a skill, or the kind of error."""
        answers = [outcome(call, store) for store in self.stores]
        assert answers[0] == answers[1]
        return answers[0]

    def expect(self, answer: Any, slug: str, change: str, digest: str) -> None:
        assert answer == digest
        if self.kept.get(slug) != digest:
            self.kept[slug] = digest
            self.log.setdefault(slug, []).append((change, digest))

    @rule(slug=SLUGS, body=BODIES)
    def save(self, slug: str, body: str) -> None:
        package = pack(slug, body)
        answer = self.both(lambda store: store.save(package))
        if slug in self.kept and self.kept[slug] != package.digest:
            assert answer is DuplicateSkill
        else:
            self.expect(answer, slug, "create", package.digest)

    @rule(slug=SLUGS, body=BODIES, seen=BODIES)
    def save_over(self, slug: str, body: str, seen: str) -> None:
        package, expected = pack(slug, body), pack(slug, seen).digest
        answer = self.both(lambda store: store.save(package, expected=expected))
        if slug not in self.kept:
            assert answer is NotFound
        elif self.kept[slug] != expected:
            assert answer is Conflict
        else:
            self.expect(answer, slug, "update", package.digest)

    @rule(items=st.lists(st.tuples(SLUGS, BODIES), max_size=4), replace=st.booleans())
    def save_all(self, items: list[tuple[str, str]], replace: bool) -> None:
        packages = [pack(*item) for item in items]
        saved = [store.save_all(packages, replace=replace) for store in self.stores]
        first, second = [
            [(item.skill and item.skill.digest, type(item.error), item.changed) for item in items] for items in saved
        ]
        assert first == second
        for (slug, _), package, (_, error, changed) in zip(items, packages, first, strict=True):
            taken = slug in self.kept and self.kept[slug] != package.digest
            assert (error is DuplicateSkill) == (taken and not replace)
            assert changed == (self.kept.get(slug) != package.digest and error is type(None))
            if changed:
                self.expect(package.digest, slug, "update" if slug in self.kept else "create", package.digest)

    @rule(slug=SLUGS, seen=st.one_of(st.none(), BODIES))
    def delete(self, slug: str, seen: str | None) -> None:
        expected = pack(slug, seen).digest if seen else None
        answer = self.both(lambda store: store.delete_skill(id_of(store, slug), expected=expected))
        if slug not in self.kept:
            assert answer is NotFound
        elif expected not in (None, self.kept[slug]):
            assert answer is Conflict
        else:
            self.log[slug].append(("delete", self.kept.pop(slug)))

    @rule(slug=SLUGS, number=NUMBERS)
    def rollback(self, slug: str, number: int) -> None:
        answer = self.both(lambda store: store.rollback(slug, number))
        log = self.log.get(slug, [])
        if 1 <= number <= len(log):
            self.expect(answer, slug, "rollback", log[number - 1][1])
        else:
            assert answer is NotFound

    @precondition(lambda self: self.kept)
    @rule(slug=SLUGS, text=BODIES, outdated=st.booleans())
    def describe(self, slug: str, text: str, outdated: bool) -> None:
        def change(store: Store) -> Any:
            skill = store.get_skill_by_name(slug)
            if skill is None:
                return None
            changes = {"description": f"Described {text}.", **({"digest": "0" * 64} if outdated else {})}
            return store.update_skill(skill.model_copy(update=changes))

        answer = self.both(change)
        if slug in self.kept and outdated:
            assert answer is Conflict
        elif slug in self.kept:
            self.expect(answer, slug, "update", answer)
            assert self.both(lambda store: getattr(store.get_skill_by_name(slug), "description", None)) == (
                f"Described {text}."
            )

    @precondition(lambda self: self.kept)
    @rule(slug=SLUGS, name=st.sampled_from(["Case", "Other"]))
    def add_or_delete_example(self, slug: str, name: str) -> None:
        def toggle(store: Store) -> Any:
            skill = store.get_skill_by_name(slug)
            if skill is None:
                return None
            found = skill.artifact(name)
            if found:
                store.delete_artifact(found.id)
            else:
                store.add_artifact(Example(name=name, content="x", skill_id=skill.id))
            return store.get_skill_by_name(slug)

        answer = self.both(toggle)
        if slug in self.kept:
            self.expect(answer, slug, "update", answer)

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "stores"):
            return
        for store in self.stores:
            assert {card.slug: card.digest for card in store.list_skills()} == self.kept
            for slug, log in self.log.items():
                versions = store.versions(slug)
                assert [(version.change, version.digest) for version in versions] == log
                assert [version.number for version in versions] == list(range(1, len(log) + 1))
        for slug in self.kept:
            assert self.both(lambda store, slug=slug: content_of(store, slug))


def outcome(call: Callable[[Store], Any], store: Store) -> Any:
    try:
        result = call(store)
    except ProwessError as error:
        return type(error)
    return getattr(result, "digest", result)


def id_of(store: Store, slug: str) -> str:
    skill = store.get_skill_by_name(slug)
    return skill.id if skill else ""


def content_of(store: Store, slug: str) -> Any:
    """All of a skill but what a store may choose for itself."""
    skill = store.get_skill_by_name(slug)
    assert skill is not None
    assert store.get_skill(skill.id) == skill
    assert [store.get_artifact(artifact.id) for artifact in skill.artifacts] == list(skill.artifacts)
    own = {"id", "location", "created_at", "updated_at", "artifacts"}
    parts = [artifact.model_dump(exclude={"id", "skill_id"}) for artifact in skill.artifacts]
    return skill.model_dump(exclude=own), parts, store.get_package(skill.id)


@pytest.mark.long
def test_stores_agree_with_a_dictionary(tmp_path: Path) -> None:
    template = tmp_path / "template.db"
    open_database(template).close()
    machine = type("Stores", (Stores,), {"folder": tmp_path, "template": template})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=20,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
