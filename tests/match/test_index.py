"""An index that follows changes is the index that is built from what there is in the end."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from prowess.catalog.store import SearchDocument
from prowess.match.index import MAX_SEGMENTS, Index, LiveSegment
from prowess.match.merge import merge_segments
from prowess.match.ranking import MAX_RESULTS, list_tagged, rank
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import quantize
from prowess.skill.slug import slugify
from prowess.skill.text.reader import read_document

VOCABULARY = [
    "invoice",
    "invoices",
    "total",
    "totals",
    "supplier",
    "bill",
    "query",
    "slow",
    "garden",
    "greenhouse",
    "timeline",
    "vacation",
    "planner",
    "rotate",
    "keys",
    "report",
    "reports",
    "reporting",
    "the",
    "for",
    "not",
    "of",
    "café",
    "strasse",
    "发票",
    "敬語",
    "이력서",
    "C++",
    "xylophonist",
    "brontosaur",
]
MESSAGES = (
    "the total of this invoice",
    "invioce from a suplier",
    "slow report queries in the garden",
    "rotate keys 42",
    "发票 and 敬語",
    "reportgarden",
    "use slug-1 and /b",
    "xylophonist",
    "something else entirely",
)
SLUGS = [*"abcdef", *(f"slug-{number}" for number in range(6))]

words = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)
short = st.lists(st.sampled_from(VOCABULARY), max_size=3).map(tuple)
documents = st.builds(
    SearchDocument,
    slug=st.sampled_from(SLUGS),
    title=words,
    description=words,
    tags=short,
    triggers=st.lists(words, max_size=3).map(tuple),
    patterns=st.lists(st.sampled_from(["rotate keys", r"\d+", "(", "x*", "else"]), max_size=2).map(tuple),
    keywords=short,
    body=words,
    scope=st.sampled_from(["workspace", "account"]),
)


class HashEmbedder:
    """Gives each text a vector of its own, much faster than the encoder."""

    name = "hash"
    dimensions = 64

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        digests = b"".join(hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
        return quantize(np.frombuffer(digests, np.int8).reshape(-1, self.dimensions).astype(np.float64))


def build(documents: Iterable[SearchDocument]) -> Index:
    return Index.build(documents, HashEmbedder())


def signed(document: SearchDocument) -> SearchDocument:
    """With a digest that is another one for other content, as a store gives it."""
    return replace(document, digest=f"{hash(replace(document, digest='')) & (1 << 64) - 1:016x}")


def answers(index: Index) -> list[object]:
    """All that can be asked."""
    found: list[object] = [
        index.digest,
        index.size,
        sorted(index.known().items()),
        list_tagged(index, limit=MAX_RESULTS),
    ]
    for message in MESSAGES:
        found.append(rank(index, message, limit=MAX_RESULTS))
        found.append(rank(index, message, limit=3, tags=["garden"], context="a bill for the vacation"))
    return found


class Following(RuleBasedStateMachine):
    """Skills come, change and go, a few at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[str, SearchDocument] = {}
        self.index = build([])

    @initialize(first=st.lists(documents, max_size=8))
    def begin(self, first: list[SearchDocument]) -> None:
        for document in map(signed, first):
            self.there.setdefault(document.slug, document)
        self.index = build(map(signed, first))

    @rule(some=st.lists(documents, max_size=3), gone=st.lists(st.sampled_from(SLUGS), max_size=2))
    def change(self, some: list[SearchDocument], gone: list[str]) -> None:
        coming = {document.slug: signed(document) for document in some}
        for slug in gone:
            self.there.pop(slug, None)
        self.there |= coming
        self.index = self.index.updated(coming.values(), gone)

    @invariant()
    def it_is_what_would_be_built(self) -> None:
        assert answers(self.index) == answers(build(self.there.values()))


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=20, stateful_step_count=10)


def test_a_skill_without_a_vector_is_found_alike_in_a_segment_of_its_own():
    known, bare = (
        signed(SearchDocument(slug=slug, title=slug, description=description))
        for slug, description in (("invoices", "Adds up the total of invoices"), ("bare", "not for gardens"))
    )
    assert answers(build([known]).updated([bare])) == answers(build([known, bare]))


def many(count: int, seed: int) -> list[SearchDocument]:
    chance = random.Random(seed)

    def some(most: int) -> str:
        return " ".join(chance.choices(VOCABULARY, k=chance.randint(1, most)))

    return [
        signed(
            SearchDocument(
                slug=f"skill-{number}",
                title=some(3),
                description=some(12),
                tags=tuple(some(3).split()),
                triggers=(some(4),),
                patterns=("rotate keys",) if number % 7 == 0 else (),
                body=some(40),
            )
        )
        for number in range(count)
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("base", [0, 200, 3])
def test_many_small_changes_give_the_answers_of_one_build_and_few_segments(base):
    there = {document.slug: document for document in many(base, 1)}
    index = build(there.values())
    chance = random.Random(base)
    for step, document in enumerate(many(60, 2)):
        gone = chance.choice(sorted(there)) if there and step % 3 == 0 else ""
        there.pop(gone, None)
        there[document.slug] = document
        index = index.updated([document], [gone] if gone else [])
        assert len(index.parts) <= MAX_SEGMENTS
        assert index.size == len(there)
        if step % 10 == 9:
            assert answers(index) == answers(build(there.values()))


def test_an_index_stays_as_it_was_when_a_newer_one_is_made_of_it(index):
    before = [rank(index, message, limit=MAX_RESULTS) for message in MESSAGES]
    newer = index.updated([SearchDocument(slug="sql-tuner", description="Quite another thing.")], ["invoice-reader"])
    assert [rank(index, message, limit=MAX_RESULTS) for message in MESSAGES] == before
    listing = {one.slug: one.description for one in list_tagged(newer, limit=MAX_RESULTS)}
    assert "invoice-reader" not in listing
    assert listing["sql-tuner"] == "Quite another thing."
    assert "invoice-reader" in {one.slug for one in list_tagged(index, limit=MAX_RESULTS)}


IN_ORDER = many(80, 3)


@cache
def answers_in_order() -> list[object]:
    return answers(build(IN_ORDER))


@given(st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_the_order_in_which_skills_come_does_not_matter(chance: random.Random):
    shuffled = chance.sample(IN_ORDER, len(IN_ORDER))
    assert answers(build(shuffled)) == answers_in_order()


def test_of_several_with_one_slug_the_first_counts(digested):
    first, second = SearchDocument(slug="one", description="First."), SearchDocument(slug="one", description="Second.")
    index = build(map(digested, [first, second]))
    assert [one.description for one in list_tagged(index, limit=5)] == ["First."]


def test_removing_what_is_not_there_changes_nothing(index):
    assert answers(index.updated([], ["absent", ""])) == answers(index)
    assert answers(index.updated([])) == answers(index)


def test_the_same_skills_in_another_scope_or_with_other_files_are_another_catalog(index, office):
    assert build(office).digest == index.digest
    assert build([replace(office[0], scope="account"), *office[1:]]).digest != index.digest
    assert build([replace(office[0], digest="other"), *office[1:]]).digest != index.digest
    assert build(office[1:]).digest != index.digest


def test_building_in_portions_gives_the_same(monkeypatch):
    from prowess.match import index as module

    whole = answers(build(many(50, 4)))
    monkeypatch.setattr(module, "SEGMENT_SIZE", 7)
    assert answers(build(many(50, 4))) == whole


def arrays_of(documents: Iterable[SearchDocument]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The arrays of skills that are indexed at once."""
    (part,) = build(documents).parts
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in part.segment.arrays().items()}


def arrays_of_each(documents: Iterable[SearchDocument]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The arrays of skills that are indexed one by one, and merged."""
    ordered = sorted(documents, key=lambda document: document.slug)
    merged = merge_segments([LiveSegment.whole(build([document]).parts[0].segment) for document in ordered])
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in merged.arrays().items()}


any_text = st.text(st.characters(codec=None)) | st.text("ab C+#_'’s\x01é…\u0301か\u3099中文：-.,;`~\n", max_size=60)
any_texts = st.lists(any_text, max_size=3).map(tuple)
any_documents = st.builds(
    SearchDocument,
    slug=st.sampled_from(SLUGS),
    title=any_text,
    description=any_text,
    tags=any_texts,
    triggers=any_texts,
    keywords=any_texts,
    body=any_text,
)


@given(st.lists(any_documents, min_size=1, max_size=6, unique_by=lambda document: document.slug))
def test_skills_that_are_indexed_at_once_give_the_arrays_that_each_gives_alone(some):
    assert arrays_of(some) == arrays_of_each(some)


def test_real_skills_that_are_indexed_at_once_give_the_arrays_that_each_gives_alone(shared: Callable[[str], Path]):
    real: dict[str, SearchDocument] = {}
    with gzip.open(shared("corpus/skills.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for row in map(json.loads, islice(lines, 0, None, 30)):
            document = read_document(row.get("text", "").encode())
            title, description = (str(document.fields.get(name, "")) for name in ("name", "description"))
            slug = slugify(title) or "skill"
            real[slug] = SearchDocument(slug=slug, title=title, description=description, body=document.body)
    assert arrays_of(real.values()) == arrays_of_each(real.values())


@pytest.mark.parametrize("seed", [5, 6])
def test_a_snapshot_gives_the_same_answers_and_can_be_followed_on(tmp_path, seed):
    some = many(120, seed)
    index = build(some[:100]).updated(some[100:110], ["skill-3", "skill-50"])
    assert Snapshot(tmp_path).save(SavedIndex(index=index, positions={"a": "1"}, record=b"r"))
    loaded = Snapshot(tmp_path).load(index.embedder)
    assert loaded is not None
    assert (loaded.positions, loaded.record) == ({"a": "1"}, b"r")
    found = loaded.index.with_all_vectors(CardVectors(None, index.embedder))
    assert answers(found) == answers(index)
    on = found.updated(some[110:], ["skill-7"])
    assert answers(on) == answers(index.updated(some[110:], ["skill-7"]))
    assert answers(on) == answers(build(left(some, {"skill-3", "skill-50", "skill-7"})))


def left(some: Iterable[SearchDocument], gone: set[str]) -> list[SearchDocument]:
    return [document for document in some if document.slug not in gone]


@pytest.mark.long
def test_a_large_catalog_gives_the_same_answers_in_one_segment_and_in_several():
    some = many(4_000, 9)
    whole = build(some)
    several = build(some[:3_400]).updated(some[3_400:3_700]).updated(some[3_700:], ["skill-1"]).updated(some[1:2])
    assert (len(whole.parts), len(several.parts)) == (1, 4)
    assert whole.digest == several.digest
    for message in MESSAGES:
        for limit in (5, 100):
            assert rank(whole, message, limit=limit) == rank(several, message, limit=limit)


def test_many_skills_that_change_at_once_are_each_there_once():
    documents = [
        SearchDocument(slug=f"part-{number}", description=f"Handles part {number} of many.", digest="old")
        for number in range(60)
    ]
    changed = [replace(document, digest="new") for document in documents[10:50]]
    index = build(documents).updated(changed, [document.slug for document in documents[50:]])
    expected = {document.slug: ("workspace", document.digest) for document in [*documents[:10], *changed]}
    assert index.known() == expected
    assert index.size == len(expected)
