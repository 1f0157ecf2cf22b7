"""The catalog: many stores as one, the nearest first, and nothing hidden without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.catalog.catalog import Catalog
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.version_log import MemoryVersions
from prowess.errors import NotFound, Unavailable
from prowess.skill.model import Scope
from prowess.skill.package import Package


def pack(name: str, body: str = "Do it.") -> Package:
    text = f"---\nname: {name}\ndescription: What {name} is for.\n---\n\n# {name}\n\n{body}\n"
    return Package.of_texts(name, {"SKILL.md": text})


def store(scope: Scope, *packages: Package, location: str = "") -> MemoryStore:
    made = MemoryStore(scope)
    made.location = location or scope
    for package in packages:
        made.save(package)
    return made


class Counting(MemoryStore):
    """A store that counts how often it is listed."""

    listed = 0

    def list_skills(self):
        self.listed += 1
        return super().list_skills()


class Away(MemoryStore):
    """A store whose database is gone."""

    def list_skills(self):
        raise Unavailable("The database does not answer.", hint="Start it.")

    def get_skill_by_name(self, name):
        raise Unavailable(f"The database does not answer about {name}.", hint="Start it.")

    def faults(self):
        raise OSError("gone")

    def versions(self, slug):
        raise Unavailable(f"The database does not answer about {slug}.", hint="Start it.")


def test_an_empty_catalog_has_no_cards_and_no_faults():
    assert Catalog([]).cards() == []
    assert Catalog([]).faults() == []


def test_cards_of_all_stores_are_sorted_by_slug():
    catalog = Catalog([store("system", pack("b")), store("session", pack("c")), store("user", pack("a"))])
    assert [(card.slug, card.scope) for card in catalog.cards()] == [("a", "user"), ("b", "system"), ("c", "session")]
    assert catalog.faults() == []


def test_the_nearer_scope_wins_and_its_card_says_what_it_hides():
    far, near = store("account", pack("tidy", "far")), store("workspace", pack("tidy", "near"))
    farthest = store("system", pack("tidy", "farthest"))
    catalog = Catalog([farthest, far, near])
    (card,) = catalog.cards()
    assert card.scope == "workspace"
    assert [(hidden.scope, hidden.digest) for hidden in card.hides] == [
        ("account", pack("tidy", "far").digest),
        ("system", pack("tidy", "farthest").digest),
    ]
    assert catalog.get("tidy").digest == pack("tidy", "near").digest
    assert catalog.faults() == []


def test_a_hidden_skill_is_reached_by_its_scope():
    catalog = Catalog([store("account", pack("tidy", "far")), store("workspace", pack("tidy", "near"))])
    found, skill = catalog.find("account:tidy")
    assert (found.scope, skill.digest) == ("account", pack("tidy", "far").digest)
    with pytest.raises(NotFound):
        catalog.get("system:tidy")
    with pytest.raises(NotFound):
        catalog.get("nowhere:tidy")


def test_a_second_claim_inside_a_scope_is_reported_and_skipped():
    first = store("workspace", pack("tidy", "one"), location="here")
    second = store("workspace", pack("tidy", "two"), pack("other"), location="there")
    catalog = Catalog([first, second])
    assert [card.slug for card in catalog.cards()] == ["other", "tidy"]
    assert catalog.get("tidy").digest == pack("tidy", "one").digest
    assert catalog.cards()[1].hides == ()
    (fault,) = catalog.faults()
    (problem,) = fault.problems
    assert (fault.location, fault.slug, problem.code) == ("there", "tidy", "slug-conflict")
    assert "'here'" in problem.message
    assert "'there'" in problem.message
    assert problem.hint


def test_the_same_files_twice_in_a_scope_are_no_conflict():
    catalog = Catalog([store("workspace", pack("tidy")), store("workspace", pack("tidy"))])
    assert len(catalog.cards()) == 1
    assert catalog.faults() == []


def test_a_conflict_in_a_hidden_scope_is_reported_too():
    catalog = Catalog([store("session", pack("t")), store("user", pack("t", "1")), store("user", pack("t", "2"))])
    (card,) = catalog.cards()
    assert [hidden.digest for hidden in card.hides] == [pack("t", "1").digest]
    assert [fault.problems[0].code for fault in catalog.faults()] == ["slug-conflict"]


def test_a_store_that_is_away_is_reported_and_the_others_serve():
    away = Away("session")
    away.location = "database"
    catalog = Catalog([away, store("user", pack("tidy"))])
    assert [card.slug for card in catalog.cards()] == ["tidy"]
    assert catalog.get("tidy").slug == "tidy"
    (fault,) = catalog.faults()
    assert (fault.location, fault.problems[0].code) == ("database", "store-unavailable")
    assert "does not answer" in fault.problems[0].message
    assert fault.problems[0].hint == "Start it."
    with pytest.raises(Unavailable, match="database did not respond") as caught:  # it may have the skill
        catalog.get("other")
    assert caught.value.hint == "Start it."


def test_an_unknown_slug_is_not_found_and_the_hint_names_what_is_near():
    catalog = Catalog([store("user", pack("release-notes"))])
    with pytest.raises(NotFound) as caught:
        catalog.get("release-note")
    assert "'release-notes'" in caught.value.hint


def test_a_skill_that_is_broken_says_so_when_it_is_asked_for(tmp_path):
    (tmp_path / "tidy").mkdir()
    (tmp_path / "tidy/SKILL.md").write_text("---\nname: tidy\n---\n")
    catalog = Catalog([DirectoryStore(tmp_path, scope="user", versions=MemoryVersions())])
    with pytest.raises(NotFound) as caught:
        catalog.get("tidy")
    assert "cannot be used" in caught.value.message
    assert caught.value.hint


def test_a_slug_is_resolved_without_listing_any_store():
    stores = [Counting("session"), Counting("user")]
    stores[1].save(pack("tidy"))
    assert Catalog(stores).get("tidy").slug == "tidy"
    assert [made.listed for made in stores] == [0, 0]


def test_an_outline_that_is_not_there_is_none_and_lists_no_store():
    kept = Counting("user")
    kept.save(pack("tidy"))
    catalog = Catalog([kept])
    found = catalog.outline("user:tidy")
    assert found is not None
    assert found.slug == "tidy"
    assert (catalog.outline("tidier"), catalog.outline("session:tidy"), kept.listed) == (None, None, 0)


def test_whoever_tries_many_names_does_not_have_all_skills_listed_for_each():
    kept = Counting("user")
    kept.save(pack("tidy"))
    catalog = Catalog([kept])
    for _ in range(5):
        with pytest.raises(NotFound, match="not found") as caught:
            catalog.get("tidi")
        assert "'tidy'" in caught.value.hint
    assert kept.listed < 5


def test_stores_may_come_and_go():
    present = [store("user", pack("tidy"))]
    catalog = Catalog(lambda: present)
    assert len(catalog.cards()) == 1
    present.append(store("session", pack("other")))
    assert len(catalog.cards()) == 2
    present.clear()
    assert catalog.cards() == []


def test_history_is_that_of_the_skill_that_is_served():
    near, far = store("workspace", pack("tidy", "near")), store("account", pack("tidy", "far"))
    catalog = Catalog([far, near])
    kept, versions = catalog.history("tidy")
    assert kept is near
    assert [version.digest for version in versions] == [pack("tidy", "near").digest]
    assert catalog.history("account:tidy")[0] is far


def test_a_deleted_skill_has_a_history_still():
    kept = store("user", pack("tidy"))
    kept.delete_skill(kept.get_skill_by_name("tidy").id)
    away = Away("session")
    assert [version.change for version in Catalog([away, kept]).history("tidy")[1]] == ["create", "delete"]
    with pytest.raises(NotFound):
        Catalog([kept]).history("never")


@pytest.mark.parametrize("address", ["tidy", "user:tidy"])
def test_an_error_about_a_deleted_skill_says_how_to_restore_it(address: str):
    kept = store("user", pack("tidy"))
    kept.delete_skill(kept.get_skill_by_name("tidy").id)
    with pytest.raises(NotFound) as caught:
        Catalog([kept]).get(address)
    assert caught.value.hint == f"It was deleted. Restore it with `prowess rollback {address} 2`."
    kept.rollback("tidy", 2)
    assert Catalog([kept]).get(address).slug == "tidy"


def test_a_skill_that_was_never_changed_through_prowess_says_that_it_has_no_versions(tmp_path: Path):
    (tmp_path / "tidy").mkdir()
    (tmp_path / "tidy/SKILL.md").write_bytes(pack("tidy").get("SKILL.md").content)
    catalog = Catalog([DirectoryStore(tmp_path, scope="user", versions=MemoryVersions())])
    with pytest.raises(NotFound, match="no versions yet"):
        catalog.history("tidy")
