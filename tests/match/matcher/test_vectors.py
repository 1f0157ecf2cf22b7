"""The vectors of an index: looked up after each refresh, few computed at once, many left to the background."""

from __future__ import annotations

import numpy as np
import pytest

from prowess.errors import Unavailable
from prowess.match.card import card_of
from prowess.match.index import Index
from prowess.match.matcher import IN_PLACE, Matcher
from prowess.match.snapshot import Snapshot
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import embed_cards
from prowess.match.vectors.encoder import Encoder, default_encoder

MANY = IN_PLACE + 8


class Background:
    """Stands in for the process that computes vectors; counts the calls."""

    def __init__(self, *, possible: bool = True) -> None:
        self.calls = 0
        self.possible = possible

    def __call__(self) -> bool:
        self.calls += 1
        return self.possible


@pytest.fixture
def background() -> Background:
    return Background()


@pytest.fixture
def open_matcher(tmp_path, clock, counting, background):
    """Open a matcher over a store that shares its vectors with all others of the test."""

    def opened(store, **given) -> Matcher:
        catalog = counting(store)
        catalog.shared = lambda: given.get("shared", True)
        return Matcher(
            lambda: catalog,
            catalog,
            snapshot=Snapshot(tmp_path / "index"),
            cards=lambda: CardVectors(tmp_path / "vectors", default_encoder()),
            background=given.get("background", background),
            patient=given.get("patient", False),
            clock=clock,
        )

    return opened


def many(pack, store, count: int = MANY):
    return store(*(pack(f"skill-{number}", f"Does thing number {number}.") for number in range(count)))


def assert_right(index: Index) -> None:
    """Every document that has vectors has its own."""
    for part in index.parts:
        known = np.flatnonzero(part.vectors.first >= 0)
        rows, starts = part.vectors.take(known)
        for place, document in enumerate(known.tolist()):
            expected = embed_cards(index.embedder, [card_of(part.segment.shown(document))])[0]
            assert np.array_equal(rows[starts[place] : starts[place + 1]], expected)


def test_an_index_in_memory_has_all_vectors_at_once(office) -> None:
    index = Index.build(office)
    assert index.missing == 0
    assert_right(index)
    grown = Index.build(office[:3]).updated(office[3:], removed=[office[0].slug])
    assert grown.missing == 0
    assert_right(grown)


def test_a_few_missing_vectors_are_computed_by_the_query_and_kept(near, open_matcher, background, tmp_path) -> None:
    index = open_matcher(near).index()
    assert (index.missing, background.calls) == (0, 0)
    assert_right(index)
    assert list(tmp_path.glob("vectors/*/*.vectors"))


def test_many_missing_vectors_are_left_to_the_background(pack, store, open_matcher, background) -> None:
    matcher = open_matcher(many(pack, store))
    assert (matcher.index().missing, background.calls) == (MANY, 1)
    assert matcher.match("does thing number 7")


def test_skills_that_are_likely_to_fit_are_compared_by_meaning_before_the_background_has_begun(
    pack, store, open_matcher, clock
) -> None:
    skills = [pack(f"skill-{number}", f"Measures the pressure in boiler {number}.") for number in range(MANY)]
    bread = pack("baking", "Bakes bread with yeast or sourdough.")
    matcher = open_matcher(store(*skills, bread))
    (first, *_) = matcher.match("my sourdough bread does not rise")
    assert (first.slug, first.decision, first.signals["compared"]) == ("baking", "offer", 1.0)
    clock.now += 5
    assert matcher.index().missing == MANY


def test_words_decide_if_the_vectors_of_likely_skills_cannot_be_computed(
    pack, store, open_matcher, monkeypatch
) -> None:
    matcher = open_matcher(many(pack, store))
    matcher.index()

    def fail(*_: object, **_named: object) -> None:
        raise Unavailable("The embedder does not answer.")

    monkeypatch.setattr(CardVectors, "add", fail)
    (first, *_) = matcher.match("does thing number 7")
    assert (first.slug, first.signals["compared"]) == ("skill-7", 0.0)


def test_what_the_background_computes_is_used_after_the_next_look(
    pack, store, open_matcher, background, clock, tmp_path
) -> None:
    matcher = open_matcher(many(pack, store))
    cards = list(matcher.index().missing_cards())
    elsewhere = CardVectors(tmp_path / "vectors", default_encoder())
    elsewhere.add(cards[:4])
    clock.now += 5
    assert matcher.index().missing == MANY - 4
    elsewhere.add(cards[4:])
    clock.now += 5
    index = matcher.index()
    assert index.missing == 0
    assert_right(index)
    clock.now += 5
    assert matcher.index() is index


def test_the_last_few_are_computed_by_the_query(pack, store, open_matcher, clock, tmp_path) -> None:
    matcher = open_matcher(many(pack, store))
    CardVectors(tmp_path / "vectors", default_encoder()).add(list(matcher.index().missing_cards())[:-IN_PLACE])
    clock.now += 5
    assert matcher.index().missing == 0


def test_a_patient_matcher_computes_some_hundred_before_its_first_answer(pack, store, open_matcher, background) -> None:
    assert open_matcher(many(pack, store), patient=True).index().missing == 0
    assert background.calls == 0


def test_where_there_is_no_background_each_look_computes_a_few(pack, store, open_matcher, clock) -> None:
    matcher = open_matcher(many(pack, store), background=Background(possible=False))
    while left := matcher.index().missing:
        clock.now += 5
        assert matcher.index().missing < left


def test_skills_that_only_this_process_has_are_not_left_to_another_one(
    pack, store, open_matcher, background, clock
) -> None:
    matcher = open_matcher(many(pack, store), shared=False)
    assert matcher.index().missing < MANY
    assert background.calls == 0


def test_preparing_computes_all_and_a_new_matcher_finds_them(pack, store, open_matcher, background) -> None:
    skills = many(pack, store)
    assert open_matcher(skills).prepare().missing == 0
    index = open_matcher(skills).index()
    assert index.missing == 0
    assert_right(index)


def test_preparing_within_a_time_computes_some_and_leaves_the_rest(pack, store, open_matcher, background) -> None:
    skills = many(pack, store, 3 * MANY)
    assert 0 < open_matcher(skills).prepare(seconds=0.0).missing < 3 * MANY
    assert background.calls == 2


def test_a_changed_skill_gets_new_vectors_and_the_others_keep_theirs(near, open_matcher, pack, clock) -> None:
    matcher = open_matcher(near)
    before = matcher.index()
    near.save(
        pack("sql-tuner", "Waters the plants of the office."), expected=near.get_skill_by_name("sql-tuner").digest
    )
    matcher.look_again()
    after = matcher.index()
    assert after is not before
    assert after.missing == 0
    assert_right(after)


def test_documents_that_are_only_tried_out_are_not_kept(near, open_matcher, office, tmp_path) -> None:
    matcher = open_matcher(near)
    matcher.index()
    before = sorted(tmp_path.glob("vectors/*/*"))
    tried = matcher.with_documents(office).index()
    assert tried.missing == 0
    assert_right(tried)
    assert sorted(tmp_path.glob("vectors/*/*")) == before


def test_while_the_embedder_is_away_words_decide_and_later_the_vectors_are_there(
    near, clock, counting, tmp_path
) -> None:
    class Wavering(Encoder):
        away = False

        def embed(self, texts):
            if self.away:
                raise Unavailable("away")
            return super().embed(texts)

        def embed_parts(self, cards):
            self.embed([])
            return super().embed_parts(cards)

    embedder, catalog = Wavering(), counting(near)
    matcher = Matcher(
        lambda: catalog,
        catalog,
        embedder=lambda: embedder,
        cards=lambda: CardVectors(tmp_path / "vectors", embedder),
        clock=clock,
    )
    embedder.away = True
    assert matcher.match("the totals of this invoice")
    assert matcher.index().missing == 4
    embedder.away = False
    clock.now += 100
    assert matcher.index().missing == 0
