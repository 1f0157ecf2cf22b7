"""The retrieval sets: cards, and queries with the cards that answer them.

Six sets are our own: requests as people write them to an agent, in five languages, over skills of the shared corpus, and
requests that none of these skills fits. In the two messy ones, the request is somewhere in a story, an e-mail, a chat or a
stack trace, is dictated, names what is not wanted, or is one of several. Settings are chosen on the first of the two alone.
The set `independent` has another author, who knew the skills but not the matcher; no setting may be chosen on it. The
messages of `several` are two or three of the first three sets together.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prowess.catalog.store import SearchDocument
from prowess.skill.forms.conversion import read_package
from prowess.skill.package import Package

SHARED = Path(__file__).resolve().parents[3] / "shared"
REQUEST_SETS = ("coding", "office", "research", "messy", "messy-held-out", "independent")
SET_NAMES = ("sfskills", "metatool", "author-phrases", "coding", "office", "research")
"""Without the last three, which have to be named, so that the other benchmarks stay comparable."""
REQUESTS = Path(__file__).with_name("requests")


_SHORT, _SEVERAL = 40, 300
_BEFORE = (
    "I have a long list today, so bear with me.",
    "We are getting ready for the end of the quarter and I am behind with everything.",
    "Two colleagues are on holiday and their work landed on my desk.",
    "",
)
_BETWEEN = ("When that is done:", "And something else:", "Also,", "After that,", "One more thing.", "")


class Card(NamedTuple):
    """What a skill says of itself, as every method gets it; `body` is '' where the set has none."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    body: str = ""

    @property
    def text(self) -> str:
        """Everything but the body in one string, for methods without fields."""
        return " . ".join((self.name, self.description, *self.tags, *self.triggers))


class Query(NamedTuple):
    """A message, and the ids of the cards that it should find; none where nothing fits."""

    id: str
    text: str
    relevant: frozenset[str]
    kind: str = ""
    language: str = "en"


class RetrievalSet(NamedTuple):
    """One set, whole. `strangers` are messages that no card fits."""

    name: str
    cards: list[Card]
    queries: list[Query]
    strangers: tuple[Query, ...] = ()


class Absent(Exception):
    """A set is not there; the message says which and where it was looked for."""


def read_set(name: str, folder: Path = SHARED / "bench") -> RetrievalSet:
    """Read one set. Queries that equal a trigger word for word are left out: the triggers are indexed."""
    if name in REQUEST_SETS:
        return read_requests(name)
    if name == "several":
        return read_several()
    if not (folder / name).is_dir():
        raise Absent(f"{name}: there is no folder of that name in {folder}")
    cards = [card_of(row) for row in rows_of(folder / name / "corpus.jsonl.gz")]
    queries = [
        Query(row["id"], row["text"], frozenset(row["relevant"]))
        for row in rows_of(folder / name / "queries.jsonl.gz")
        if not row.get("verbatim_trigger")
    ]
    return RetrievalSet(name, cards, queries)


def present_sets(names: Sequence[str]) -> list[RetrievalSet]:
    """Read the sets that are there; the others are named as skipped."""
    found: list[RetrievalSet] = []
    for name in names:
        try:
            found.append(read_set(name))
        except Absent as reason:
            print(f"skipped {reason}")
    return found


def read_requests(name: str) -> RetrievalSet:
    """Read one of our own sets; its cards are skills of the shared corpus, named by repository and path."""
    corpus = SHARED / "corpus" / "skills.jsonl.gz"
    if not corpus.is_file():
        raise Absent(f"{name}: there is no file {corpus}")
    places = (REQUESTS / f"{name}.cards.txt").read_text(encoding="utf-8").splitlines()
    wanted = set(places)
    found = {place: row for row in rows_of(corpus) if (place := f"{row['repo']} {row['path']}") in wanted}
    queries = [
        Query(
            f"{name}-{number}",
            row["text"],
            frozenset(map(places.__getitem__, row["cards"])),
            row["kind"],
            row["language"],
        )
        for number, row in enumerate(request_rows(name))
    ]
    return RetrievalSet(
        name,
        [skill_card(place, found[place]) for place in places],
        [query for query in queries if query.relevant],
        tuple(query for query in queries if not query.relevant),
    )


def read_several() -> RetrievalSet:
    """Put two or three short messages of different skills into one, with what people say around and between."""
    whole = [read_requests(name) for name in ("coding", "office", "research")]
    cards = {card.id: card for each in whole for card in each.cards}
    short = [query for each in whole for query in each.queries if len(query.text.split()) <= _SHORT]
    chance = random.Random(11)
    queries: list[Query] = []
    for number in range(_SEVERAL):
        parts = chance.sample(short, chance.choice((2, 2, 3)))
        told = [chance.choice(_BEFORE), parts[0].text]
        for part in parts[1:]:
            told += [chance.choice(_BETWEEN), part.text]
        text = " ".join([*(one if one.endswith((".", "?", "!", ":")) else f"{one}." for one in told if one)])
        relevant = frozenset[str]().union(*(part.relevant for part in parts))
        queries.append(Query(f"several-{number}", text, relevant, f"{len(parts)} requests"))
    return RetrievalSet("several", list(cards.values()), queries)


def request_rows(name: str) -> Iterator[dict[str, Any]]:
    """The messages of one of our own sets."""
    for line in (REQUESTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def skill_card(place: str, row: dict[str, Any]) -> Card:
    """Return a skill of the corpus as a card."""
    skill = read_package(Package.of_texts(row["path"].split("/")[-2], {"SKILL.md": row["text"]})).skill
    if skill is None:
        raise Absent(f"{place} is not a skill")
    said = SearchDocument.of(skill)
    return Card(place, said.slug, said.description, said.tags, (*said.triggers, *said.keywords), said.body)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def card_of(row: dict[str, Any]) -> Card:
    return Card(
        row["id"],
        row["name"],
        row["description"],
        tuple(map(str, row.get("tags") or ())),
        tuple(map(str, row.get("triggers") or ())),
        row.get("body") or "",
    )
