"""Catalogs that change and note what is read of them, and a matcher that follows one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import pytest

from prowess.catalog.catalog import Catalog, CatalogChanges
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import SearchDocument
from prowess.errors import Unavailable
from prowess.match.index import Index
from prowess.match.matcher import Matcher
from prowess.skill.model import Scope
from prowess.skill.package import Package

DESCRIPTIONS = {
    "invoice-reader": "Extracts totals and due dates from supplier invoices.",
    "sql-tuner": "Explains slow database queries and proposes indexes.",
    "meeting-minutes": "Turns the transcript of a meeting into minutes with decisions.",
    "key-rotation": "Renews credentials of services before they expire.",
}


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
    ) -> Iterator[SearchDocument]:
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


def make_package(slug: str, description: str = "", body: str = "Do it.") -> Package:
    text = f"---\nname: {slug}\ndescription: {description or DESCRIPTIONS[slug]}\n---\n\n{body}\n"
    return Package.of_texts(slug, {"SKILL.md": text})


def make_store(*packages: Package, scope: Scope = "workspace", kind: type[MemoryStore] = MemoryStore) -> MemoryStore:
    made = kind(scope)
    made.location = scope
    made.save_all(packages)
    return made


def best_slug(matcher: Matcher, message: str) -> str:
    found = matcher.match(message)
    return found[0].slug if found else ""


def build_index(catalog: Counting) -> Index:
    return Index.build(catalog.catalog.documents())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def near() -> MemoryStore:
    return make_store(*map(make_package, DESCRIPTIONS))


@pytest.fixture
def catalog(near: MemoryStore) -> Counting:
    return Counting(near)


@pytest.fixture
def matcher(catalog: Counting, clock: Clock) -> Matcher:
    return Matcher(lambda: catalog, catalog, clock=clock)


@pytest.fixture
def pack():
    """Make a skill of a slug, a description and a body."""
    return make_package


@pytest.fixture
def store():
    """Make a store of packages."""
    return make_store


@pytest.fixture
def counting():
    """A catalog that notes what is read of it."""
    return Counting


@pytest.fixture
def told():
    """The same, with a watch that can tell."""
    return Told


@pytest.fixture
def sleepy():
    """A kind of store that can be away."""
    return Sleepy


@pytest.fixture
def best():
    """The slug of the best skill for a message, or ''."""
    return best_slug


@pytest.fixture
def built():
    """The index that all skills of a catalog give at once."""
    return build_index
