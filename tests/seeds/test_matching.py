"""The printed skills of Inklings, Agentcy and Bernstein, found by what their pages say they are found by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import SearchDocument
from prowess.match.matcher import Matcher
from prowess.skill.package import Package

OTHERS = {
    "meeting-minutes": "Turns the transcript of a meeting into minutes with decisions and action items.",
    "invoice-reader": "Extracts totals, VAT and due dates from supplier invoices in PDF.",
    "vacation-planner": "Plans the leave days of a team so that somebody is always on duty.",
    "release-notes": "Writes release notes from merged pull requests, grouped by what users notice.",
    "greenhouse-keeper": "Plans watering and ventilation of a greenhouse from its sensors.",
    "color-palettes": "Chooses colours for slides and posters that go well together.",
}


class MetadataOnly(MemoryStore):
    """A store that gives the metadata of its skills, and no artifact and no file."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise AssertionError("an artifact was read")

    get_skill = get_artifact = get_artifacts = get_package = read_file = _refuse


class Place:
    """A catalog of one store, whose changes cannot be told cheaply."""

    def __init__(self, store: MemoryStore) -> None:
        self.catalog = Catalog([store])

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:  # noqa: ARG002
        return False

    def shared(self):
        return True


Served = Callable[..., Matcher]


@pytest.fixture
def served() -> Served:
    """A matcher over some packages and a few skills of an office."""

    def make(*packages: Package) -> Matcher:
        store = MetadataOnly("workspace")
        for name, description in OTHERS.items():
            store.save(skill(name, description))
        for package in packages:
            store.save(package)
        place = Place(store)
        return Matcher(lambda: place.catalog, place)

    return make


def skill(name: str, description: str) -> Package:
    return Package.of_texts(name, {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n---\n\nDo it.\n"})


# Inklings: a deterministic match against metadata, ranked, with no artifact loaded


@pytest.fixture
def inklings(printed, served: Served) -> Matcher:
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    return served(Package.of_texts("consistency-checker.json", {"consistency-checker.json": text}))


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("are there any contradictions", "triggers"),
        ("are there any contradictions in my book", "triggers"),
        pytest.param("Are there any contradictions in the chapters about the old king?", "triggers"),
        ("please check for inconsistencies in my world", "triggers"),
        ("check consistency", "patterns"),
        ("Can you find contradictions between these two pages?", "patterns"),
        ("VERIFY FACTS about the harbour town", "patterns"),
        ("I need a consistency checker", "name"),
        ("something for worldbuilding", "tags"),
    ],
)
def test_the_consistency_checker_is_recommended_for_what_its_package_names(inklings: Matcher, message: str, field: str):
    best = inklings.rank(message)[0]
    assert best.slug == "consistency-checker"
    assert field in [item.field for item in best.evidence]
    assert field == "tags" or best.decision == "offer"


def test_recommendations_are_ranked_by_score_and_the_same_each_time(inklings: Matcher):
    found = inklings.rank("check the minutes of the meeting for contradictions")
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found == inklings.rank("check the minutes of the meeting for contradictions")


def test_a_message_about_something_else_is_not_recommended_the_checker(inklings: Matcher):
    for message in ("hello there", "what is the weather like", "extract the totals of this supplier invoice"):
        assert "consistency-checker" not in [one.slug for one in inklings.match(message)]


def test_no_content_of_an_artifact_is_disclosed(inklings: Matcher, printed):
    best = inklings.match("find contradictions between claims of an entity")[0]
    told = json.dumps(best.as_json(explain=True))
    for secret in ("entity_name", "loop.index", "llm_query", "chain_of_thought", "conflicting"):
        assert secret not in told


# Agentcy: search_skills(query?, tags?)


@pytest.fixture
def agentcy(printed, served: Served) -> Matcher:
    text = printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")
    matcher = served(Package.of_texts("health-triage.md", {"health-triage.md": text}))
    return matcher.with_documents(
        [SearchDocument(slug="postgres-silent", title="Postgres", tags=("database", "postgres"))]
    )


def slugs(found) -> list[str]:
    return [one.slug for one in found]


def test_search_ranks_the_triage_skill_first_for_the_printed_query(agentcy: Matcher, printed):
    query = json.loads(printed("agentcy", "LLM → search_skills({ query: ", " })"))
    assert query == "postgres slow query triage"
    found = agentcy.search(query)
    assert (found[0].slug, found[0].title) == ("postgres.health-triage", "PostgreSQL Health Triage")


def test_the_printed_message_of_the_user_is_offered_it_too(agentcy: Matcher, printed):
    message = printed("agentcy", 'User: "', '"\n')
    assert message.startswith("the prod Postgres is responding slowly")
    assert [(one.slug, one.decision) for one in agentcy.match(message)] == [("postgres.health-triage", "offer")]


def test_search_takes_tags_with_a_query_or_without(agentcy: Matcher):
    assert slugs(agentcy.search("slow query", tags=["sre"])) == ["postgres.health-triage"]
    assert slugs(agentcy.search(tags=["SRE", "postgres"])) == ["postgres.health-triage"]
    assert agentcy.search("slow query", tags=["sre", "gardening"]) == []
    assert slugs(agentcy.search()) == sorted([*OTHERS, "postgres-silent", "postgres.health-triage"])


def test_the_slug_with_its_dot_is_a_call(agentcy: Matcher):
    for message in ("/postgres.health-triage", "please enable postgres.health-triage"):
        best = agentcy.match(message)[0]
        assert (best.slug, best.decision) == ("postgres.health-triage", "offer")


def test_a_skill_with_an_empty_description_is_listed_and_does_not_rank(agentcy: Matcher):
    assert slugs(agentcy.search(tags=["database"])) == ["postgres-silent", "postgres.health-triage"]
    for query in ("postgres silent", "postgres database", "/postgres-silent"):
        assert "postgres-silent" not in slugs(agentcy.search(query))
        assert "postgres-silent" not in slugs(agentcy.rank(query, limit=100))


# Bernstein: trigger_keywords are optional keyword hints


@pytest.fixture
def bernstein(printed, served: Served) -> Matcher:
    text = printed("bernstein", "SKILL.md format¶\n", "Descriptions stay terse")
    names = ("python-conventions.md", "test-patterns.md", "error-handling.md")
    files = {"SKILL.md": text, "scripts/lint.sh": "exec ruff\n", **{f"references/{name}": name for name in names}}
    return served(Package.of_texts("backend", files))


@pytest.mark.parametrize("keyword", ["python", "backend", "async", "pyright", "Pyright", "pyrihgt"])
def test_the_pack_is_found_by_each_of_its_trigger_keywords(bernstein: Matcher, keyword: str):
    best = bernstein.search(keyword)[0]
    assert best.slug == "backend"
    assert "keywords" in [item.field for item in best.evidence]


def test_the_pack_is_offered_for_a_request_that_it_describes(bernstein: Matcher):
    best = bernstein.match("write an async python API for the backend with strict typing")[0]
    assert (best.slug, best.decision) == ("backend", "offer")
    assert {"description", "keywords"} <= {item.field for item in best.evidence}


def test_matching_leaves_no_file_behind(bernstein: Matcher, tmp_path: Path, home: Path):
    bernstein.match("python backend")
    assert list(tmp_path.iterdir()) == list(home.iterdir()) == []
