"""The matcher follows its catalog, and reads no more of it than changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from prowess.catalog.catalog import Catalog, CatalogChanges
from prowess.catalog.document import Document
from prowess.catalog.memory import MemoryStore
from prowess.errors import Unavailable
from prowess.match.index import Index
from prowess.match.matcher import FRESHNESS, Matcher
from prowess.match.ranking import rank
from prowess.match.snapshot import Snapshot
from prowess.match.vectors.static import StaticEmbedder
from prowess.skill.model import Scope
from prowess.skill.package import Package

DESCRIPTIONS = {
    "invoice-reader": "Extracts totals and due dates from supplier invoices.",
    "sql-tuner": "Explains slow database queries and proposes indexes.",
    "meeting-minutes": "Turns the transcript of a meeting into minutes with decisions.",
    "key-rotation": "Renews credentials of services before they expire.",
}


def pack(slug: str, description: str = "", body: str = "Do it.") -> Package:
    text = f"---\nname: {slug}\ndescription: {description or DESCRIPTIONS[slug]}\n---\n\n{body}\n"
    return Package.of_texts(slug, {"SKILL.md": text})


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Counting:
    """A catalog that notes what is read of it, and a watch that can never tell."""

    def __init__(self, *stores: MemoryStore) -> None:
        self.catalog = Catalog(stores)
        self.looked = 0
        self.served_all = 0
        self.read: list[set[str] | None] = []

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        self.looked += 1
        return self.catalog.changes(since)

    def documents(
        self, slugs: Collection[str] | None = None, *, away: Callable[[str], None] = lambda _: None
    ) -> Iterator[Document]:
        self.read.append(None if slugs is None else set(slugs))
        return self.catalog.documents(slugs, away=away)

    def served(self) -> dict[str, tuple[str, str]]:
        self.served_all += 1
        return self.catalog.served()

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:  # noqa: ARG002
        return False

    def shared(self):
        return True


class Sleepy(MemoryStore):
    """A store whose database is away for a while."""

    away = False

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("The database does not answer.", hint="Start it.")

    def changes(self, since=""):
        self._answer()
        return super().changes(since)

    def documents(self, slugs=None):
        self._answer()
        return super().documents(slugs)

    def list_skills(self):
        self._answer()
        return super().list_skills()


def store(*packages: Package, scope: Scope = "workspace", kind: type[MemoryStore] = MemoryStore) -> MemoryStore:
    made = kind(scope)
    made.location = scope
    made.save_all(packages)
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def near() -> MemoryStore:
    return store(*map(pack, DESCRIPTIONS))


@pytest.fixture
def catalog(near: MemoryStore) -> Counting:
    return Counting(near)


@pytest.fixture
def matcher(catalog: Counting, clock: Clock) -> Matcher:
    return Matcher(lambda: catalog, catalog, clock=clock)


def best(matcher: Matcher, message: str) -> str:
    found = matcher.match(message)
    return found[0].slug if found else ""


def built(catalog: Counting) -> Index:
    return Index.build(catalog.catalog.documents())


def test_nothing_is_opened_before_something_is_asked():
    def never() -> Counting:
        raise AssertionError("opened")

    Matcher(never, Counting()).close()


def test_for_a_moment_after_a_look_the_catalog_is_not_looked_at(matcher, catalog, clock):
    for _ in range(5):
        assert best(matcher, "slow database queries") == "sql-tuner"
        clock.now += FRESHNESS / 10
    assert catalog.looked == 1
    clock.now += FRESHNESS
    best(matcher, "slow database queries")
    assert catalog.looked == 2


def test_an_unchanged_catalog_is_never_read_again(matcher, catalog, clock):
    for _ in range(5):
        best(matcher, "slow database queries")
        clock.now += 10 * FRESHNESS
    assert catalog.looked == 5
    assert catalog.read == [None]
    assert catalog.served_all == 0


def test_a_change_is_seen_after_that_moment_and_only_what_changed_is_read(matcher, catalog, near, clock):
    assert best(matcher, "water the balcony plants") == ""
    near.save(pack("plant-care", "Waters the plants of the balcony."))
    assert best(matcher, "water the balcony plants") == ""
    clock.now += FRESHNESS
    assert best(matcher, "water the balcony plants") == "plant-care"
    assert catalog.read == [None, {"plant-care"}]


def test_who_changed_something_need_not_wait(matcher, near):
    assert best(matcher, "water the balcony plants") == ""
    near.save(pack("plant-care", "Waters the plants of the balcony."))
    matcher.look_again()
    assert best(matcher, "water the balcony plants") == "plant-care"


@pytest.mark.parametrize("kept", [False, True])
def test_skills_that_change_or_go_are_followed_one_by_one(catalog, near, clock, tmp_path, caplog, kept):
    snapshot = Snapshot(tmp_path / "snapshot") if kept else None
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=snapshot)
    with caplog.at_level(logging.WARNING):
        assert best(matcher, "slow database queries") == "sql-tuner"
        near.delete_skill(near.get_skill_by_name("sql-tuner").id)
        clock.now += FRESHNESS
        assert best(matcher, "slow database queries") == ""
        old = near.get_skill_by_name("invoice-reader")
        near.save(pack("invoice-reader", "Explains slow database queries."), expected=old.digest)
        clock.now += FRESHNESS
        assert best(matcher, "slow database queries") == "invoice-reader"
    assert catalog.read == [None, {"sql-tuner"}, {"invoice-reader"}]
    assert caplog.records == []
    assert matcher.rank("slow database queries") == rank(built(catalog), "slow database queries", limit=10)


def test_a_nearer_skill_hides_a_farther_one_until_it_goes(clock):
    near = store(pack("sql-tuner"))
    far = store(pack("sql-tuner", "Composes music for the clarinet."), pack("invoice-reader"), scope="account")
    catalog = Counting(near, far)
    matcher = Matcher(lambda: catalog, catalog, clock=clock)
    assert matcher.match("slow database queries")[0].scope == "workspace"
    assert best(matcher, "music for the clarinet") == ""
    assert matcher.match("totals of supplier invoices")[0].scope == "account"
    near.delete_skill(near.get_skill_by_name("sql-tuner").id)
    clock.now += FRESHNESS
    assert best(matcher, "slow database queries") == ""
    found = matcher.match("music for the clarinet")[0]
    assert (found.slug, found.scope) == ("sql-tuner", "account")
    near.save(pack("sql-tuner"))
    clock.now += FRESHNESS
    assert best(matcher, "music for the clarinet") == ""
    assert matcher.match("slow database queries")[0].scope == "workspace"
    assert catalog.read == [None, {"sql-tuner"}, {"sql-tuner"}]


@pytest.mark.parametrize("kept", [False, True])
def test_while_a_store_is_away_the_others_match_and_then_it_does_again(clock, tmp_path, kept):
    near, far = store(pack("sql-tuner")), store(pack("invoice-reader"), scope="account", kind=Sleepy)
    catalog = Counting(near, far)
    snapshot = Snapshot(tmp_path / "snapshot") if kept else None
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=snapshot)
    for away in (True, False, True, False):
        far.away = away
        clock.now += FRESHNESS
        assert best(matcher, "slow database queries") == "sql-tuner"
        assert best(matcher, "totals of supplier invoices") == ("" if away else "invoice-reader")
        fresh = Matcher(lambda: catalog, catalog, clock=clock, snapshot=snapshot)
        assert best(fresh, "totals of supplier invoices") == ("" if away else "invoice-reader")


def test_a_store_that_goes_while_it_is_read_is_read_again(clock):
    near, far = store(pack("sql-tuner")), store(pack("invoice-reader"), scope="account", kind=Sleepy)
    catalog = Counting(near, far)
    asked = catalog.catalog.changes
    matcher = Matcher(lambda: catalog, catalog, clock=clock)

    def then_away(since: Mapping[str, str]) -> CatalogChanges:
        found = asked(since)
        far.away = True
        return found

    catalog.changes = then_away
    assert best(matcher, "totals of supplier invoices") == ""
    assert best(matcher, "slow database queries") == "sql-tuner"
    del catalog.changes
    far.away = False
    clock.now += FRESHNESS
    assert best(matcher, "totals of supplier invoices") == "invoice-reader"


def test_a_new_matcher_reads_only_what_changed_since_the_snapshot(near, clock, tmp_path):
    first, second = Counting(near), Counting(near)
    matcher = Matcher(lambda: first, first, clock=clock, snapshot=Snapshot(tmp_path / "snapshot"))
    best(matcher, "slow database queries")
    near.save(pack("plant-care", "Waters the plants of the balcony."))
    newer = Matcher(lambda: second, second, clock=clock, snapshot=Snapshot(tmp_path / "snapshot"))
    assert best(newer, "water the balcony plants") == "plant-care"
    assert (first.read, second.read) == ([None], [{"plant-care"}])


def test_a_snapshot_of_another_catalog_is_brought_up_to_date(near, clock, tmp_path):
    other = Counting(store(pack("plant-care", "Waters the plants of the balcony."), pack("sql-tuner"), scope="account"))
    catalog = Counting(near)
    best(Matcher(lambda: other, other, snapshot=Snapshot(tmp_path)), "anything")
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=Snapshot(tmp_path))
    assert best(matcher, "water the balcony plants") == ""
    assert matcher.index().digest == built(catalog).digest
    assert matcher.rank("slow database queries") == rank(built(catalog), "slow database queries", limit=10)


class Told(Counting):
    """A watch that can tell."""

    def __init__(self, *stores: MemoryStore) -> None:
        super().__init__(*stores)
        self.standing = b"1"

    def record(self) -> bytes:
        return self.standing

    def holds(self, record: bytes) -> bool:
        return record == self.standing

    def shared(self):
        return True


def test_where_the_places_are_as_they_were_the_catalog_is_not_even_opened(near, clock, tmp_path):
    catalog = Told(near)
    assert best(Matcher(lambda: catalog, catalog, snapshot=Snapshot(tmp_path)), "slow queries") == "sql-tuner"

    def never() -> Counting:
        raise AssertionError("opened")

    matcher = Matcher(never, catalog, clock=clock, snapshot=Snapshot(tmp_path))
    for _ in range(3):
        assert best(matcher, "slow queries") == "sql-tuner"
        clock.now += FRESHNESS
    catalog.standing = b"2"
    clock.now += FRESHNESS
    with pytest.raises(AssertionError, match="opened"):
        matcher.match("slow queries")


def test_what_fails_once_is_tried_again(near, clock):
    catalog = Counting(near)
    broken = [True]

    def opened() -> Counting:
        if broken[0]:
            raise Unavailable("The catalog does not answer.", hint="Wait.")
        return catalog

    matcher = Matcher(opened, catalog, clock=clock)
    with pytest.raises(Unavailable):
        matcher.match("slow queries")
    broken[0] = False
    assert best(matcher, "slow queries") == "sql-tuner"


def test_many_threads_ask_while_the_catalog_changes_and_each_gets_a_whole_answer(near, tmp_path):
    catalog = Counting(near)
    matcher = Matcher(lambda: catalog, catalog, freshness=0.0, snapshot=Snapshot(tmp_path))
    done = Event()

    def ask(_: int) -> int:
        count = 0
        while not done.is_set() or not count:
            assert best(matcher, "slow database queries") == "sql-tuner"
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask, number) for number in range(3)]
        for number in range(30):
            near.save(pack(f"plant-{number}", f"Waters plant number {number} of the balcony."))
            if number % 2:
                near.delete_skill(near.get_skill_by_name(f"plant-{number - 1}").id)
            matcher.look_again()
        done.set()
        assert all(one.result() for one in asking)
    matcher.look_again()
    assert matcher.index().digest == built(catalog).digest
    message = "water plants of the balcony"
    assert matcher.rank(message, limit=50) == rank(built(catalog), message, limit=50)


def test_a_matcher_with_more_documents_leaves_the_first_as_it_is(matcher):
    more = matcher.with_documents([Document(slug="plant-care", description="Waters the plants of the balcony.")])
    assert best(more, "water the balcony plants") == "plant-care"
    assert best(more, "slow database queries") == "sql-tuner"
    assert best(matcher, "water the balcony plants") == ""


def test_a_snapshot_that_is_damaged_while_it_is_used_is_built_anew(near, clock, tmp_path, monkeypatch, caplog):
    catalog = Counting(near)
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=Snapshot(tmp_path))
    expected = matcher.rank("slow database queries")
    from prowess.match import matcher as module

    failing = [True]

    def damaged(*args, **kwargs):
        if failing.pop() if failing else False:
            raise ValueError("cannot reshape")
        return rank(*args, **kwargs)

    monkeypatch.setattr(module, "rank", damaged)
    with caplog.at_level(logging.WARNING):
        assert matcher.rank("slow database queries") == expected
    assert catalog.read == [None, None]
    assert "damaged" in caplog.text


def test_without_the_embedder_that_was_asked_for_the_static_one_is_used(near, clock, caplog):
    class Away:
        name = "away"
        dimensions = 3

        def embed(self, texts):  # noqa: ARG002
            raise Unavailable("The server of embeddings does not answer.", hint="Start it.")

    catalog = Counting(near)
    matcher = Matcher(lambda: catalog, catalog, clock=clock, embedder=Away)
    with caplog.at_level(logging.WARNING):
        assert best(matcher, "slow database queries") == "sql-tuner"
    assert "does not answer" in caplog.text


class Wavering(StaticEmbedder):
    """An embedder whose server goes away."""

    away = False

    def embed(self, texts):
        if self.away:
            raise Unavailable("The server of embeddings does not answer.", hint="Start it.")
        return super().embed(texts)


@pytest.mark.parametrize("changed", [False, True])
def test_an_embedder_that_goes_away_later_does_not_stop_matching(near, clock, changed):
    embedder, catalog = Wavering(dimensions=64), Counting(near)
    matcher = Matcher(lambda: catalog, catalog, clock=clock, embedder=lambda: embedder)
    assert best(matcher, "slow database queries") == "sql-tuner"
    embedder.away = True
    if changed:
        near.save(pack("plant-care", "Waters the plants of the balcony."))
        clock.now += FRESHNESS
    assert matcher.rank("explain a slow query")[0].slug == "sql-tuner"


@pytest.mark.parametrize("kept", [False, True])
def test_an_embedder_that_cannot_be_opened_does_not_stop_matching(near, clock, tmp_path, kept):
    def missing() -> StaticEmbedder:
        raise Unavailable("The library of the model is not installed.", hint="Install prowess[semantic].")

    catalog = Counting(near)
    snapshot = Snapshot(tmp_path) if kept else None
    matcher = Matcher(lambda: catalog, catalog, clock=clock, embedder=missing, snapshot=snapshot)
    assert best(matcher, "slow database queries") == "sql-tuner"


def test_closing_closes_what_was_opened(catalog, clock):
    closed: list[int] = []
    with Matcher(lambda: catalog, catalog, clock=clock, close=lambda: closed.append(1)) as matcher:
        best(matcher, "slow queries")
    assert closed == [1]
