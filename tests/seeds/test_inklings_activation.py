"""Inklings: two phases; the first reads no artifact, the second only those that the step needs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.match.matcher import Matcher
from prowess.policy.actor import Actor
from prowess.session.activate import Activation
from prowess.session.admission import Gate
from prowess.session.load import Loader
from prowess.session.sessions import Sessions
from prowess.skill.package import Package
from prowess.storage.database import Database

ANN = Actor(name="ann")
LIGHT = {"scope", "location", "get_digest", "get_outline", "last_version"}
"""What tells of a skill without its content."""


class CountedStore:
    """A store that says what was read of it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.reads: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*args: Any, **options: Any) -> Any:
            told = [",".join(given) if isinstance(given, tuple) else given for given in args[1:]]
            self.reads[" ".join([name, *told])] += 1
            return found(*args, **options)

        return counted

    def taken(self) -> dict[str, int]:
        """What was read since the last time, but for what tells no content."""
        reads = {name: count for name, count in self.reads.items() if name.split()[0] not in LIGHT}
        self.reads.clear()
        return reads


@pytest.fixture
def checker(printed: Any) -> Package:
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    return Package.of_texts("consistency-checker.json", {"consistency-checker.json": text})


@pytest.fixture
def store(checker: Package) -> CountedStore:
    kept = MemoryStore("workspace")
    files = {
        "SKILL.md": "---\nname: guide\ndescription: How to.\n---\n\nRead on.\n",
        "references/one.md": "One.",
        "references/two.md": "Two.",
        "scripts/run.sh": "run\n",
        "assets/big.bin": b"\0" * 1_000,
    }
    for package in (checker, Package.of_texts("guide", files)):
        kept.save(package)
    kept.frozen = True  # as if they came with an installed package, so that nobody is asked about them
    return CountedStore(kept)


@pytest.fixture
def activation(database: Database, store: CountedStore) -> Activation:
    return Activation(records=database, catalog=Catalog([store]), wake=lambda _: None)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def loading(database: Database, store: CountedStore) -> Loader:
    gate = Gate(records=database, present=lambda: True, wake=lambda _: None)
    return Loader(catalog=Catalog([store]), gate=gate)  # pyright: ignore[reportArgumentType]


def test_enabling_reads_one_outline_and_only_what_is_inserted(activation: Activation, store: CountedStore):
    session = Sessions(records=activation.records).open(ANN, "chat").id
    activation.enable(ANN, session, "guide")
    assert store.reads["get_outline"] == 1
    assert store.taken() == {"get_artifacts description,instructions,approach": 1}


def test_a_skill_without_instructions_enters_with_its_description_and_nothing_heavier(
    activation: Activation, store: CountedStore
):
    session = Sessions(records=activation.records).open(ANN, "chat").id
    activation.enable(ANN, session, "consistency-checker")
    assert store.taken() == {"get_artifacts description,instructions,approach": 1}
    _, (block,) = activation.blocks(ANN, session)
    assert "analyzes content across your workspace" in block
    assert "{{ entity_name }}" not in block
    assert "import inklings" not in block
    assert "template_id" not in block


def test_a_prompt_of_skills_that_did_not_change_reads_no_content(activation: Activation, store: CountedStore):
    session = Sessions(records=activation.records).open(ANN, "chat").id
    for slug in ("guide", "consistency-checker"):
        activation.enable(ANN, session, slug)
    store.taken()
    activation.blocks(ANN, session)
    assert dict(store.reads) == {"get_digest": 2}
    assert store.taken() == {}
    activation.enable(ANN, session, "guide")
    activation.disable(ANN, session, "guide")
    assert store.taken() == {"get_artifacts description,instructions,approach": 1}


def test_loading_a_reference_reads_that_file_alone(loading: Loader, store: CountedStore):
    assert loading.load(ANN, "guide", reference="two.md").reference_content == "Two."
    assert store.reads["get_outline"] == 1
    assert store.taken() == {"read_file references/two.md": 1}
    assert loading.load(ANN, "guide").body == "Read on."
    assert store.taken() == {"get_artifacts description,instructions,approach": 1}
    assert loading.resource(ANN, "guide", "assets/big.bin").content == b"\0" * 1_000
    assert store.taken() == {"read_file assets/big.bin": 1}
    for wrong in ("three.md", "../one.md", "references/two.md/"):
        assert loading.load(ANN, "guide", reference=wrong).error
    assert store.taken() == {}


def test_what_is_refused_is_not_read(loading: Loader, store: CountedStore):
    reader = Actor(name="nobody", kind="agent", permissions=frozenset())
    assert loading.load(reader, "guide", reference="two.md").error
    assert loading.load(reader, "guide", script="run.sh").error
    assert store.taken() == {}


class NeverSure:
    """Cannot tell whether anything changed, so that the stores are asked each time."""

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:
        return record is None

    def shared(self) -> bool:
        return False


def test_matching_reads_no_artifact_and_no_file(store: CountedStore):
    catalog = Catalog([store])  # pyright: ignore[reportArgumentType]
    matcher = Matcher(lambda: catalog, NeverSure(), freshness=0)
    found = matcher.match("are there any contradictions between my pages?")
    assert found[0].slug == "consistency-checker"
    assert set(store.taken()) <= {"changes", "documents", "list_skills", "faults"}
    for _ in range(3):
        matcher.match("find contradictions")
    assert set(store.taken()) <= {"changes", "list_skills", "faults"}
