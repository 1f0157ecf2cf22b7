"""What every Store promises, held against every Store."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from prowess.catalog.store import Store
from prowess.errors import Conflict, DuplicateSkill, Invalid, NotFound, ProwessError
from prowess.skill.kinds import Approach, Description, DspyModule, Example, PromptTemplate, UnknownArtifact
from prowess.skill.model import Skill, artifact_id
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package

HOSTILE = (
    "",
    "-x",
    '"',
    "'",
    "a:b",
    "a OR b",
    "*",
    "%",
    "_",
    "'; DROP TABLE skills; --",
    "../../etc/passwd",
    "a\x00b",
    "\ud800",
    "NEAR(a b)",
    "a" * 10_000,
    "{}",
    "💥",
    "Release-Notes",
    "550e8400-e29b-41d4-a716-446655440000",
    "550E8400-E29B-41D4-A716-446655440000",
)


def checker(**changes: Any) -> Skill:
    """A skill of several artifacts, made in memory."""
    artifacts = (
        Description(name="Overview", ordinal=0, content="Finds contradictions."),
        PromptTemplate(name="Check Prompt", ordinal=2, content="Compare {{ a }} with {{ b }}."),
        PromptTemplate(name="Check Prompt", ordinal=1, variant="anthropic", content="<a>{{ a }}</a>"),
        DspyModule(
            name="Optimized",
            ordinal=3,
            content='{"template_id": "chain_of_thought"}',
            state='{"demos": [{"b": 1, "a": 2.5}]}',
            fallback="Check Prompt",
            metadata={"zeta": 1, "alpha": {"deep": [1, "two", None, True]}},
        ),
    )
    fields: dict[str, Any] = {
        "slug": "consistency-checker",
        "title": "Consistency Checker",
        "description": "Finds contradictions between pages.",
        "version": "1.10",
        "tags": ("analysis", "quality"),
        "trigger_phrases": ("are there contradictions",),
        "intent_patterns": ("check consistency",),
        "artifacts": artifacts,
    }
    return Skill(**{**fields, **changes})


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.list_skills() == []
    assert store.faults() == []


def test_a_store_tells_which_kinds_of_artifact_it_serves(store: Store, pack: Callable[..., Package]) -> None:
    assert not store.serves()
    assert not store.serves(["instructions"])
    plain = store.save(pack("plain"))
    assert store.serves()
    assert store.serves(["instructions"])
    assert not store.serves(["reference", "asset"])
    rich = store.save(pack("rich", references_tone="Plain words."))
    assert store.serves(["asset", "reference"])
    assert not store.serves(["asset"])
    store.delete_skill(rich.id)
    assert not store.serves(["asset", "reference"])
    store.delete_skill(plain.id)
    assert not store.serves()


def test_a_saved_package_can_be_read_by_id_and_by_slug(store: Store, pack: Callable[..., Package]) -> None:
    saved = store.save(pack("release-notes"))

    assert saved.slug == "release-notes"
    assert saved.scope == store.scope
    assert store.get_skill(saved.id) == saved
    assert store.get_skill_by_name("release-notes") == saved


def test_a_read_skill_equals_its_own_validation(store: Store) -> None:
    saved = store.create_skill(checker())

    read = store.get_skill(saved.id)

    assert read is not None
    assert read == saved
    assert Skill.model_validate(read.model_dump()) == read
    assert [type(artifact) for artifact in read.artifacts] == [type(artifact) for artifact in saved.artifacts]


def test_the_files_come_back_byte_for_byte(store: Store, pack: Callable[..., Package]) -> None:
    package = pack("release-notes", references_guide=b"\xff\x00\r\n bytes", scripts_run="echo")

    saved = store.save(package)

    kept = store.get_package(saved.id)
    assert kept is not None
    assert kept.files == package.files
    assert kept.digest == saved.digest == package.digest
    assert store.get_package_by_name("release-notes") == kept
    assert saved.manifest == package.manifest
    assert store.read_file(saved.id, "references/guide.md") == b"\xff\x00\r\n bytes"


def test_a_file_that_is_not_in_the_manifest_is_not_found_and_the_hint_lists_what_is(
    store: Store, pack: Callable[..., Package]
) -> None:
    saved = store.save(pack("release-notes", references_guide="x"))

    for path in ("references/other.md", "../agents.db", "/etc/passwd", "references//guide.md", "a\x00b", ""):
        with pytest.raises(NotFound) as caught:
            store.read_file(saved.id, path)
        assert "references/guide.md" in caught.value.hint


def test_cards_come_sorted_by_slug_and_equal_those_of_the_skills(store: Store, pack: Callable[..., Package]) -> None:
    for slug in ("b.two", "b-two", "a", "b", "b2", "b.one"):
        store.save(pack(slug))

    cards = store.list_skills()

    assert [card.slug for card in cards] == sorted(["a", "b", "b2", "b-two", "b.one", "b.two"])
    assert cards == [skill.card for card in cards if (skill := store.get_skill_by_name(card.slug))]


def test_artifacts_come_by_ordinal_then_name_and_variant(store: Store) -> None:
    saved = store.create_skill(checker())

    every = store.get_artifacts(saved.id)
    prompts = store.get_artifacts(saved.id, ["prompt_template"])

    assert sorted(every, key=lambda a: (a.ordinal, a.name, a.variant or "")) == every
    assert [(artifact.name, artifact.variant) for artifact in prompts] == [
        ("Check Prompt", "anthropic"),
        ("Check Prompt", None),
    ]
    assert {a.name for a in store.get_artifacts(saved.id, ("description", "dspy_module"))} == {"Overview", "Optimized"}


def test_an_outline_is_the_skill_without_the_content_of_its_parts(store: Store, pack: Callable[..., Package]) -> None:
    saved = store.create_skill(checker())
    store.save(pack("guide", references_one="One.", scripts_two="Two."))
    for slug in (saved.slug, "guide"):
        skill = store.get_skill_by_name(slug)
        assert skill is not None
        assert store.get_outline(slug) == SkillOutline.of(skill)
    assert store.get_outline("nothing-here") is None


def test_the_digest_of_a_skill_is_that_of_its_current_files(store: Store) -> None:
    saved = store.create_skill(checker())
    assert store.get_digest(saved.slug) == saved.digest
    changed = store.update_skill(saved.model_copy(update={"description": "Checks more."}))
    assert store.get_digest(saved.slug) == changed.digest != saved.digest
    store.delete_skill(saved.id)
    assert store.get_digest(saved.slug) is None
    assert store.get_digest("nothing-here") is None


def test_an_artifact_keeps_all_that_its_kind_holds(store: Store) -> None:
    saved = store.create_skill(checker())

    module = saved.artifact("Optimized")

    assert isinstance(module, DspyModule)
    assert module.state == '{"demos": [{"b": 1, "a": 2.5}]}'
    assert module.fallback == "Check Prompt"
    assert module.metadata == {"zeta": 1, "alpha": {"deep": [1, "two", None, True]}}
    assert store.get_artifact(module.id) == module
    assert module.id == artifact_id(saved.id, "Optimized", None)
    assert (module.skill_id, module.revision) == (saved.id, saved.digest)


def test_a_skill_made_in_memory_keeps_its_metadata(store: Store) -> None:
    saved = store.create_skill(checker(), actor="me", note="first")

    assert saved.title == "Consistency Checker"
    assert saved.version == "1.10"
    assert saved.tags == ("analysis", "quality")
    assert saved.trigger_phrases == ("are there contradictions",)
    assert saved.intent_patterns == ("check consistency",)
    assert saved.form == "native"
    (version,) = store.versions(saved.slug)
    assert (version.change, version.actor, version.note) == ("create", "me", "first")


def test_saving_the_same_files_again_changes_nothing(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes"))

    assert store.save(pack("release-notes")) == first
    assert store.save(pack("release-notes"), expected=first.digest) == first
    assert len(store.versions("release-notes")) == 1


def test_other_files_under_a_taken_slug_are_a_duplicate(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes"))

    with pytest.raises(DuplicateSkill) as caught:
        store.save(pack("release-notes", "Something else."))

    assert caught.value.hint
    assert store.get_skill_by_name("release-notes") == first
    assert len(store.versions("release-notes")) == 1


def test_saving_against_the_kept_digest_replaces_and_keeps_the_id(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes", references_old="x"))

    second = store.save(pack("release-notes", "Better.", references_new="y"), expected=first.digest)

    assert second.id == first.id
    assert first.updated_at <= second.updated_at
    assert second.digest != first.digest
    paths = {artifact.path for artifact in store.get_artifacts(first.id, ["reference"])}
    assert paths == {"references/new.md"}
    assert store.get_skill(first.id) == second


def test_saving_against_an_outdated_digest_is_a_conflict(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes"))
    second = store.save(pack("release-notes", "Two."), expected=first.digest)

    with pytest.raises(Conflict):
        store.save(pack("release-notes", "Three."), expected=first.digest)

    assert store.get_skill_by_name("release-notes") == second
    assert len(store.versions("release-notes")) == 2


def test_saving_against_a_digest_of_nothing_is_not_found_and_names_what_is_near(
    store: Store, pack: Callable[..., Package]
) -> None:
    store.save(pack("release-notes"))

    with pytest.raises(NotFound) as caught:
        store.save(pack("release-note"), expected="0" * 64)

    assert "release-notes" in caught.value.hint
    assert store.versions("release-note") == []


def test_a_bad_package_is_refused_with_every_problem_and_nothing_is_kept(store: Store) -> None:
    bad = Package.of_texts("bad", {"SKILL.md": "---\nname: bad\n---\n", "scripts/x.py": "print()"})

    with pytest.raises(Invalid) as caught:
        store.save(bad)

    assert any(problem.severity == "error" for problem in caught.value.problems)
    assert store.list_skills() == []
    assert store.versions("bad") == []


def test_a_deleted_skill_is_gone_with_its_artifacts_and_its_versions_stay(store: Store) -> None:
    saved = store.create_skill(checker())
    part = saved.artifacts[0].id

    store.delete_skill(saved.id, expected=saved.digest, actor="me")

    assert store.get_skill(saved.id) is None
    assert store.get_skill_by_name(saved.slug) is None
    assert store.get_artifact(part) is None
    assert store.get_artifacts(saved.id) == []
    assert store.get_package(saved.id) is None
    assert store.list_skills() == []
    assert [version.change for version in store.versions(saved.slug)] == ["create", "delete"]
    assert store.versions(saved.slug)[-1].digest == saved.digest


def test_deleting_against_an_outdated_digest_is_a_conflict(store: Store, pack: Callable[..., Package]) -> None:
    saved = store.save(pack("release-notes"))

    with pytest.raises(Conflict):
        store.delete_skill(saved.id, expected="0" * 64)

    assert store.get_skill(saved.id) == saved


def test_version_numbers_never_repeat_not_even_after_a_deletion(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes"))
    store.delete_skill(first.id)
    again = store.save(pack("release-notes", "Anew."))
    store.delete_skill(again.id)

    log = store.versions("release-notes")

    assert [version.number for version in log] == [1, 2, 3, 4]
    assert [version.change for version in log] == ["create", "delete", "create", "delete"]


def test_every_version_gives_its_files(store: Store, pack: Callable[..., Package]) -> None:
    packages = [pack("release-notes", f"Body {n}.", references_guide=f"Guide {n // 2}.") for n in range(4)]
    digest = None
    for package in packages:
        digest = store.save(package, expected=digest).digest

    for version, package in zip(store.versions("release-notes"), packages, strict=True):
        assert store.version_package("release-notes", version.number) == package
        assert (version.digest, version.manifest) == (package.digest, package.manifest)


def test_the_last_version_is_the_newest_of_all(store: Store, pack: Callable[..., Package]) -> None:
    assert store.last_version("a-skill") is None
    first = store.save(pack("a-skill"), actor="me")
    store.save(pack("a-skill", "Otherwise."), expected=first.digest, actor="you", note="other words")
    newest = store.last_version("a-skill")
    assert newest == store.versions("a-skill")[-1].model_copy(update={"manifest": ()})


def test_a_version_that_is_not_there_is_not_found(store: Store, pack: Callable[..., Package]) -> None:
    store.save(pack("release-notes"))

    for number in (0, -1, 2, 2**31, 10**30):
        with pytest.raises(NotFound):
            store.version_package("release-notes", number)
        with pytest.raises(NotFound):
            store.rollback("release-notes", number)
    with pytest.raises(NotFound):
        store.version_package("nothing", 1)


def test_rollback_makes_earlier_files_current_as_a_new_version(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes", references_guide="x"))
    store.save(pack("release-notes", "Worse."), expected=first.digest)

    back = store.rollback("release-notes", 1, actor="me")

    assert back.digest == first.digest
    assert back.id == first.id
    assert store.read_file(first.id, "references/guide.md") == b"x"
    last = store.versions("release-notes")[-1]
    assert (last.number, last.change, last.actor, last.digest) == (3, "rollback", "me", first.digest)


@pytest.mark.parametrize("number", [1, 2])
def test_rollback_revives_a_deleted_skill(store: Store, pack: Callable[..., Package], number: int) -> None:
    saved = store.save(pack("release-notes"))
    store.delete_skill(saved.id)

    back = store.rollback("release-notes", number)

    assert store.get_skill_by_name("release-notes") == back
    assert back.digest == saved.digest
    assert [version.change for version in store.versions("release-notes")] == ["create", "delete", "rollback"]


def test_metadata_is_updated_and_the_other_files_stay(store: Store, pack: Callable[..., Package]) -> None:
    saved = store.save(pack("release-notes", references_guide="x"))

    changed = store.update_skill(saved.model_copy(update={"description": "Writes the notes of a release."}))

    assert changed.description == "Writes the notes of a release."
    assert changed.body == saved.body
    assert changed.id == saved.id
    assert store.read_file(saved.id, "references/guide.md") == b"x"
    assert [version.change for version in store.versions("release-notes")] == ["create", "update"]


def test_updating_an_outdated_skill_is_a_conflict(store: Store) -> None:
    saved = store.create_skill(checker())
    changed = store.update_skill(saved.model_copy(update={"description": "One."}))

    with pytest.raises(Conflict):
        store.update_skill(saved.model_copy(update={"description": "Two."}))

    assert store.get_skill(saved.id) == changed


def test_updating_without_a_digest_changes_whatever_is_kept(store: Store) -> None:
    saved = store.create_skill(checker())
    store.update_skill(saved.model_copy(update={"description": "One."}))

    changed = store.update_skill(saved.model_copy(update={"description": "Two.", "digest": ""}))

    assert changed.description == "Two."


def test_a_slug_stays_for_good(store: Store) -> None:
    saved = store.create_skill(checker())

    with pytest.raises(Invalid):
        store.update_skill(saved.model_copy(update={"slug": "another"}))

    assert [card.slug for card in store.list_skills()] == [saved.slug]


def test_a_fixed_number_of_attempts_is_made_against_others_who_never_rest(store: Store) -> None:
    saved = store.create_skill(checker())
    others = iter(range(100))
    read = store.get_package

    def restless(skill_id: str) -> Package | None:
        """Somebody else changes the skill after every look at it."""
        package = read(skill_id)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "get_package", read)
            store.add_artifact(Example(name=f"Case {next(others)}", content="x", skill_id=skill_id))
        return package

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "get_package", restless)
        with pytest.raises(Conflict):
            store.add_artifact(Approach(name="Method", content="x", skill_id=saved.id))

    assert store.get_artifacts(saved.id, ["approach"]) == []
    assert len(store.get_artifacts(saved.id, ["example"])) == next(others)


def test_an_artifact_is_added_updated_and_deleted(store: Store) -> None:
    saved = store.create_skill(checker())

    added = store.add_artifact(Approach(name="Method", ordinal=4, content="Slowly.", skill_id=saved.id))
    assert store.get_artifact(added.id) == added
    assert added.content == "Slowly."

    updated = store.update_artifact(added.model_copy(update={"content": "Quickly."}))
    assert (updated.id, updated.content) == (added.id, "Quickly.")
    assert updated.revision != added.revision

    store.delete_artifact(updated.id)
    assert store.get_artifact(added.id) is None
    kept = store.get_skill(saved.id)
    assert kept is not None
    assert {(a.name, a.variant, a.content) for a in kept.artifacts} == {
        (a.name, a.variant, a.content) for a in saved.artifacts
    }
    assert len(store.versions(saved.slug)) == 4


def test_two_default_variants_cannot_exist(store: Store) -> None:
    saved = store.create_skill(checker())

    with pytest.raises(Conflict):
        store.add_artifact(PromptTemplate(name="Check Prompt", content="Again.", skill_id=saved.id))

    assert store.get_skill(saved.id) == saved


def test_updating_an_artifact_of_an_outdated_skill_is_a_conflict(store: Store) -> None:
    saved = store.create_skill(checker())
    overview = saved.artifact("Overview")
    assert overview is not None
    store.update_artifact(overview.model_copy(update={"content": "One."}))

    with pytest.raises(Conflict):
        store.update_artifact(overview.model_copy(update={"content": "Two."}))

    changed = store.update_artifact(overview.model_copy(update={"content": "Three.", "revision": ""}))
    assert changed.content == "Three."


def test_unknown_ids_are_none_to_read_and_not_found_to_write(store: Store) -> None:
    unknown = str(uuid.uuid4())
    approach = Approach(name="Method", content="x", id=unknown, skill_id=unknown)

    assert store.get_skill(unknown) is None
    assert store.get_artifact(unknown) is None
    assert store.get_package(unknown) is None
    assert store.get_artifacts(unknown) == []
    for write in (
        lambda: store.delete_skill(unknown),
        lambda: store.delete_artifact(unknown),
        lambda: store.add_artifact(approach),
        lambda: store.update_artifact(approach),
        lambda: store.update_skill(checker(id=unknown)),
        lambda: store.read_file(unknown, "SKILL.md"),
    ):
        with pytest.raises(NotFound):
            write()


@pytest.mark.few(16)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_slugs_and_ids_raise_nothing_but_our_own_errors(
    store: Store, pack: Callable[..., Package], text: str
) -> None:
    saved = store.save(pack("release-notes"))

    assert store.get_skill(text) is None
    assert store.get_skill_by_name(text) is None
    assert store.get_artifact(text) is None
    assert store.get_artifacts(text) == []
    assert store.get_package(text) is None
    assert store.get_package_by_name(text) is None
    assert store.versions(text) == []
    for call in (
        lambda: store.read_file(text, text),
        lambda: store.delete_skill(text),
        lambda: store.delete_artifact(text),
        lambda: store.version_package(text, 1),
        lambda: store.rollback(text, 1),
        lambda: store.add_artifact(Example(name="x", content="x", skill_id=text)),
    ):
        with pytest.raises(NotFound):
            call()
    assert store.list_skills() == [saved.card]


def test_hostile_authors_and_notes_are_kept_or_refused(store: Store, pack: Callable[..., Package]) -> None:
    for number, text in enumerate(HOSTILE):
        slug = f"skill-{number}"
        try:
            store.save(pack(slug), actor=text, note=text)
        except ProwessError:
            assert store.get_skill_by_name(slug) is None
            assert store.versions(slug) == []
        else:
            (version,) = store.versions(slug)
            assert (version.actor, version.note) == (text, text)


def test_one_bad_package_among_many_spoils_only_itself(store: Store, pack: Callable[..., Package]) -> None:
    store.save(pack("taken"))
    bad = Package.of_texts("bad", {"SKILL.md": "---\nname: bad\n---\n"})
    packages = [pack("one"), bad, pack("two", references_guide="x"), pack("taken", "Else."), pack("taken"), pack("one")]

    saved = store.save_all(packages, actor="me")

    assert [item.package for item in saved] == packages
    assert [item.skill.slug if item.skill else None for item in saved] == ["one", None, "two", None, "taken", "one"]
    assert [type(item.error) for item in saved] == [
        type(None),
        Invalid,
        type(None),
        DuplicateSkill,
        type(None),
        type(None),
    ]
    assert [item.changed for item in saved] == [True, False, True, False, False, False]
    assert [card.slug for card in store.list_skills()] == ["one", "taken", "two"]
    assert [version.actor for version in store.versions("two")] == ["me"]


def test_saving_many_with_replace_updates_what_is_there(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("taken", references_old="x"))

    saved = store.save_all([pack("taken", "Two."), pack("taken", "Three."), pack("new")], replace=True)

    assert [item.changed for item in saved] == [True, True, True]
    kept = store.get_skill_by_name("taken")
    assert kept is not None
    assert (kept.id, kept.digest) == (first.id, pack("taken", "Three.").digest)
    assert [version.change for version in store.versions("taken")] == ["create", "update", "update"]
    assert saved[1].skill == kept


@pytest.mark.long
def test_many_more_than_a_batch_are_saved(store: Store, pack: Callable[..., Package]) -> None:
    packages = [pack(f"skill-{number:03}", references_guide=f"Guide {number % 7}.") for number in range(430)]

    saved = store.save_all(packages)

    assert all(item.skill and item.changed for item in saved)
    assert len(store.list_skills()) == 430
    again = store.save_all(packages, replace=True)
    assert [item.skill for item in again] == [item.skill for item in saved]
    assert not any(item.changed for item in again)


def test_an_artifact_without_its_plugin_is_kept_with_all_its_settings(store: Store) -> None:
    files = {
        "SKILL.md": "---\nname: totals\ndescription: Adds up orders.\n---\n\nRun the query.\n",
        "queries/totals.sql": "select 1\n",
        "agents/prowess.yaml": "artifacts:\n  - path: queries/totals.sql\n    kind: acme.query\n    limit: 10\n"
        "    columns: [customer, {as: total}]\n",
    }
    saved = store.save(Package.of_texts("totals", files))
    kept = next(one for one in store.get_artifacts(saved.id) if one.kind == "acme.query")
    assert isinstance(kept, UnknownArtifact)
    assert (kept.name, kept.content, kept.path) == ("totals", "select 1\n", "queries/totals.sql")
    assert kept.model_extra == {"limit": 10, "columns": ["customer", {"as": "total"}]}
    assert store.get_artifacts(saved.id, ["acme.query"]) == [kept]
    assert store.serves(["acme.query"])
    changed = store.update_skill(saved.model_copy(update={"description": "Adds up all orders."}))
    again = next(one for one in changed.artifacts if one.kind == "acme.query")
    assert again.model_extra == kept.model_extra
    package = store.get_package(changed.id)
    assert package is not None
    assert package.get("queries/totals.sql") is not None
