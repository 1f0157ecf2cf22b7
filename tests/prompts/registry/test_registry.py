"""Finding prompts and rubrics: near before far, the latest release, and words for what is not there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.errors import Invalid, NotFound, Unavailable
from prowess.prompts.prompt import Prompt
from prowess.prompts.registry import Registry
from prowess.prompts.shelf import MemoryShelf, RegistryEntry
from prowess.skill.kinds import PromptTemplate, Review
from prowess.skill.model import Skill
from prowess.skill.semver import latest_version

VERSIONS = ["", "0.9.0", "1.0.0-rc.1", "1.0.0", "1.10.0", "1.9.0", "2.0.0-beta", "draft"]


def prompt(id="outline", version="1.0.0", template="far"):
    return Prompt(id=id, version=version, template=template)


def skill(*artifacts, slug="writer"):
    return Skill(slug=slug, title=slug, description="Writes.", artifacts=artifacts)


def registry(*shelves, catalog=None):
    return Registry(lambda: shelves, catalog)


def found(registry, *args, **options):
    return registry.prompt(*args, organization="acme", **options).template


class Broken:
    """A shelf with one prompt that cannot be used."""

    def entries(self, kind, organization, id=None):  # noqa: ARG002
        return (
            [RegistryEntry(kind=kind, id="outline", version="1.0.0", origin="here", value=None)]
            if id == "outline"
            else []
        )


def test_without_a_version_the_latest_release_is_found():
    shelf = MemoryShelf(prompt(version="1.9.0"), prompt(version="1.10.0", template="new"), prompt(version="2.0.0-rc.1"))
    assert found(registry(shelf), "outline") == "new"


def test_with_a_version_exactly_that_one_is_found():
    shelf = MemoryShelf(prompt(version="1.0.0", template="one"), prompt(version="2.0.0-rc.1", template="candidate"))
    assert found(registry(shelf), "outline", "1.0.0") == "one"
    assert found(registry(shelf), "outline", "2.0.0-rc.1") == "candidate"


def test_the_nearest_shelf_that_has_the_id_decides_which_is_the_latest():
    near, far = MemoryShelf(prompt(version="1.0.0", template="near")), MemoryShelf(prompt(version="3.0.0"))
    assert found(registry(near, far), "outline") == "near"
    assert found(registry(near, far), "outline", "3.0.0") == "far"


def test_the_skills_own_prompts_come_first():
    own = skill(
        PromptTemplate(name="outline", content="own", syntax="mustache", version="0.1.0"),
        PromptTemplate(name="outline@0.0.9", content="older", syntax="mustache", version="0.0.9"),
    )
    shelf = MemoryShelf(prompt(version="9.0.0"))
    assert found(registry(shelf), "outline", skill=own) == "own"
    assert found(registry(shelf), "outline", "0.0.9", skill=own) == "older"
    assert found(registry(shelf), "outline", "9.0.0", skill=own) == "far"


def test_what_a_skill_brings_without_a_version_serves_it_under_every_version():
    own = skill(PromptTemplate(name="outline", content="own"))
    assert found(registry(), "outline", "7.0.0", skill=own) == "own"
    with pytest.raises(NotFound):
        found(registry(MemoryShelf(prompt(version=""))), "outline", "7.0.0")


def test_of_a_prompts_variants_the_one_for_any_model_is_found():
    own = skill(
        PromptTemplate(name="outline", content="for claude", variant="anthropic"),
        PromptTemplate(name="outline", content="for any", ordinal=1),
    )
    assert found(registry(), "outline", skill=own) == "for any"


def test_a_rubric_in_a_review_is_found_by_its_id(rubric_document):
    own = skill(Review(name="review", rubric_id="style", content=json.dumps(rubric_document(version="1.5.0"))))
    rubric = registry().rubric("style", skill=own, organization="acme")
    assert (rubric.id, rubric.version, rubric.origin) == ("style", "1.5.0", "skill:writer")
    assert registry().rubric("style", "1.5.0", skill=own, organization="acme") == rubric
    with pytest.raises(NotFound, match=r"Version '2\.0\.0' of the rubric 'style' not found"):
        registry().rubric("style", "2.0.0", skill=own, organization="acme")


def test_a_rubric_in_a_review_that_breaks_a_rule_is_invalid_with_every_problem(rubric_document):
    own = skill(
        Review(name="review", rubric_id="style", content=json.dumps(rubric_document(criteria=[], scoring_mode="")))
    )
    with pytest.raises(Invalid) as refused:
        registry().rubric("style", skill=own, organization="acme")
    assert {problem.code for problem in refused.value.problems} == {"rubric-without-criteria", "rubric-scoring-mode"}


def test_a_broken_entry_is_not_passed_over_for_one_farther_off():
    with pytest.raises(Invalid):
        found(registry(Broken(), MemoryShelf(prompt())), "outline")


def test_another_skills_prompt_is_found_only_by_its_address(prompt_document):
    store = MemoryStore(scope="session")
    store.create_skill(skill(PromptTemplate(name="ask", content="theirs", version="1.0.0"), slug="other"))
    both = registry(catalog=Catalog([store]))
    assert found(both, "other/ask") == "theirs"
    assert found(both, "other/ask", "1.0.0") == "theirs"
    for missing in ("ask", "other/missing", "nobody/ask", "other/", "/ask"):
        with pytest.raises(NotFound):
            found(both, missing)


def test_everything_in_reach_is_listed_with_where_it_is_from(rubric_document):
    store = MemoryStore(scope="session")
    store.create_skill(skill(PromptTemplate(name="ask", content="x"), slug="other"))
    store.create_skill(skill(Review(name="r", rubric_id="style", content=json.dumps(rubric_document())), slug="judge"))
    near, far = MemoryShelf(prompt("b"), prompt("a"), origin="workspace"), MemoryShelf(prompt("a"), origin="database")
    both = registry(near, far, catalog=Catalog([store]))
    listed = [(entry.id, entry.origin) for entry in both.prompts(organization="acme")]
    assert listed == [("a", "workspace"), ("b", "workspace"), ("a", "database"), ("ask", "skill:other")]
    assert [(entry.id, entry.origin) for entry in both.rubrics(organization="acme")] == [("style", "skill:judge")]


def test_what_is_not_there_is_told_with_what_is_near_it():
    shelf = MemoryShelf(prompt("outline"), prompt("summary"))
    with pytest.raises(NotFound) as missing:
        found(registry(shelf), "outlines")
    assert missing.value.message == "Prompt 'outlines' not found."
    assert missing.value.hint == "Did you mean 'outline'?"
    with pytest.raises(NotFound) as version:
        found(registry(MemoryShelf(prompt(version="1.2.0"), prompt(version="1.10.0"))), "outline", "1.3.0")
    assert version.value.hint == "Available versions: 1.10.0, 1.2.0."


def test_a_place_that_does_not_answer_is_not_needed_where_a_nearer_one_serves():
    class Away:
        def entries(self, *_):
            raise Unavailable("The database does not answer.")

    near = MemoryShelf(prompt(template="near"))
    assert found(registry(near, Away()), "outline") == "near"
    with pytest.raises(Unavailable):
        found(registry(near, Away()), "other")


@given(st.lists(st.lists(st.sampled_from(VERSIONS), unique=True), max_size=4), st.sampled_from([None, *VERSIONS[1:]]))
def test_near_comes_before_far_and_late_before_early_whatever_lies_where(places, version):
    shelves = [
        MemoryShelf(*(prompt(version=one, template=f"{number} {one}") for one in versions))
        for number, versions in enumerate(places)
    ]
    having = [
        (number, one)
        for number, versions in enumerate(places)
        for one in ([latest_version(versions)] if version is None else [version])
        if one in versions
    ]
    if having:
        number, expected = having[0]
        assert found(registry(*shelves), "outline", version) == f"{number} {expected}"
    else:
        with pytest.raises(NotFound):
            found(registry(*shelves), "outline", version)
