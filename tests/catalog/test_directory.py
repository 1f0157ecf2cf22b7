"""A folder of skills as a store: live over what lies there, careful with what it writes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.folder_writer import FolderWriter
from prowess.catalog.version_log import MemoryVersions
from prowess.errors import Conflict, DuplicateSkill, NotFound, Unavailable
from prowess.skill.limits import Limits
from prowess.skill.package import File, Package
from prowess.storage.files import safe_read
from prowess.storage.files.skill_packages import read_folder
from prowess.storage.files.skill_paths import TEMP_PREFIX


def skill_md(name: str, body: str = "Do it.") -> str:
    return f"---\nname: {name}\ndescription: What {name} is for.\n---\n\n# {name}\n\n{body}\n"


def put(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


def pack(name: str, body: str = "Do it.", **files: str) -> Package:
    return Package.of_texts(name, {"SKILL.md": skill_md(name, body), **files})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / ".agents" / "skills"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def log() -> MemoryVersions:
    return MemoryVersions()


@pytest.fixture
def store(root: Path, log: MemoryVersions) -> DirectoryStore:
    return DirectoryStore(root, scope="workspace", versions=log)


@pytest.fixture
def settled(monkeypatch):
    """Let every file look as if it had been written long before it was read."""
    monkeypatch.setattr(safe_read, "is_settled", lambda *_: True)
    monkeypatch.setattr("prowess.catalog.folder_tree.is_settled", lambda *_: True)


def slugs(store: DirectoryStore) -> list[str]:
    return [card.slug for card in store.list_skills()]


def codes(store: DirectoryStore) -> dict[str, list[str]]:
    root = store.root
    return {
        str(Path(fault.location).relative_to(root)): [problem.code for problem in fault.problems]
        for fault in store.faults()
    }


# What is served

INKLING = {
    "id": "550e8400-e29b-41d4-a716-446655440000",
    "name": "Consistency Checker",
    "description": "Finds contradictions.",
    "artifacts": [{"kind": "description", "name": "Overview", "ordinal": 0, "content": "Checks."}],
}
AGENTCY = "---\nname: Health Triage\nslug: postgres.health-triage\ndescription: Slow databases.\n---\nLook at locks.\n"
DEVAI = json.dumps(
    {"id": "image", "name": "Image", "description": "Makes images.", "version": "1.0.0", "parameters": {}}
)
DESCRIPTOR = """skill_id: summary
version: 1.0.0
title: Summary
description: Sums up.
input_schema: {type: object}
output_schema: {type: object}
template_type: LLM_JSON_GENERATION
template_config:
  prompt_id: sum-up
"""
PROMPT = json.dumps({"prompt_id": "sum-up", "version": "1.0.0", "template": "Sum up {{text}}."})


@pytest.fixture
def every_form(root: Path) -> Path:
    put(
        root,
        {
            "plain/SKILL.md": skill_md("plain"),
            "category/deep/nested/SKILL.md": skill_md("nested"),
            "category/README.md": "# Not a skill",
            "image/skill.json": DEVAI,
            "image/execute.py": "def execute(args, ctx):\n    return {}\n",
            "triage.md": AGENTCY,
            "checker.json": json.dumps(INKLING),
            "catalog/summary.yaml": DESCRIPTOR,
            "prompts/sum-up.json": PROMPT,
        },
    )
    return root


@pytest.mark.usefixtures("every_form")
def test_skills_of_every_form_are_served_side_by_side(store):
    assert codes(store) == {}
    assert slugs(store) == [
        "consistency-checker",
        "image",
        "nested",
        "plain",
        "postgres.health-triage",
        "summary",
    ]
    forms = {slug: store.get_skill_by_name(slug).form for slug in slugs(store)}
    assert forms["image"] == "devai"
    assert forms["consistency-checker"] == "inklings"
    assert forms["summary"] == "agentlayerrules"


@pytest.mark.usefixtures("every_form")
def test_a_skill_keeps_the_id_that_it_declares_and_others_have_one_that_stays(store, root, log):
    ids = {slug: store.get_skill_by_name(slug).id for slug in slugs(store)}
    assert ids["consistency-checker"] == INKLING["id"]
    again = DirectoryStore(root, scope="workspace", versions=log)
    assert {slug: again.get_skill_by_name(slug).id for slug in slugs(again)} == ids


def test_an_id_that_two_skills_declare_belongs_to_the_first(store, root):
    put(root, {"a.json": json.dumps(INKLING), "b.json": json.dumps({**INKLING, "name": "Other"})})
    first, second = store.get_skill_by_name("consistency-checker"), store.get_skill_by_name("other")
    assert first.id == INKLING["id"]
    assert second.id != first.id
    assert store.get_skill(second.id) == second


def test_a_folder_that_does_not_exist_is_an_empty_store_until_something_is_kept(tmp_path, log):
    store = DirectoryStore(tmp_path / "later", scope="user", versions=log)
    assert store.list_skills() == []
    assert store.faults() == []
    assert not (tmp_path / "later").exists()
    store.save(pack("tidy"))
    assert slugs(store) == ["tidy"]


def test_one_broken_skill_does_not_hide_the_others(store, root):
    put(
        root,
        {
            "good/SKILL.md": skill_md("good"),
            "bad/SKILL.md": "---\nname: bad\n---\n",
            "worse/SKILL.md": skill_md("worse"),
        },
    )
    (root / "worse/link").symlink_to("/etc/passwd")
    assert slugs(store) == ["good"]
    assert set(codes(store)) == {"bad", "worse"}
    assert codes(store)["worse"] == ["unreadable"]
    (fault,) = [fault for fault in store.faults() if fault.slug == "worse"]
    assert "'link'" in fault.problems[0].message


def test_a_skill_that_breaks_is_reported_and_comes_back_when_mended(store, root):
    put(root, {"tidy/SKILL.md": skill_md("tidy")})
    assert slugs(store) == ["tidy"]
    put(root, {"tidy/SKILL.md": "---\nname: tidy\n---\n"})
    assert slugs(store) == []
    assert list(codes(store)) == ["tidy"]
    put(root, {"tidy/SKILL.md": skill_md("tidy")})
    assert slugs(store) == ["tidy"]
    assert codes(store) == {}


def test_of_two_claims_on_a_slug_the_first_by_path_is_served_and_the_other_reported(store, root):
    put(root, {"b/SKILL.md": skill_md("tidy", "two"), "a/z/SKILL.md": skill_md("tidy", "one")})
    assert store.get_skill_by_name("tidy").location == str(root / "a/z")
    (fault,) = store.faults()
    assert (fault.slug, fault.location, fault.problems[0].code) == ("tidy", str(root / "b"), "slug-conflict")
    assert str(root / "a/z") in fault.problems[0].message
    shutil.rmtree(root / "a")
    assert store.get_skill_by_name("tidy").location == str(root / "b")
    assert store.faults() == []


def test_two_copies_of_the_same_files_are_one_skill(store, root):
    put(root, {"a/SKILL.md": skill_md("tidy"), "b/SKILL.md": skill_md("tidy")})
    assert slugs(store) == ["tidy"]
    assert store.faults() == []
    store.delete_skill(store.get_skill_by_name("tidy").id)
    assert slugs(store) == []


def test_a_link_to_a_skill_of_the_same_project_is_an_alias(store, root, log):
    put(root, {"tidy/SKILL.md": skill_md("tidy")})
    (root / "again").symlink_to("tidy")
    claude = root.parents[1] / ".claude" / "skills"
    claude.mkdir(parents=True)
    (claude / "tidy").symlink_to("../../.agents/skills/tidy")
    other = DirectoryStore(claude, scope="workspace", versions=log)
    assert (slugs(store), slugs(other)) == (["tidy"], [])
    assert (store.faults(), other.faults()) == ([], [])


def test_a_link_that_leads_elsewhere_is_refused_and_reported(store, root, tmp_path):
    put(tmp_path / "elsewhere", {"tidy/SKILL.md": skill_md("tidy")})
    (root / "tidy").symlink_to(tmp_path / "elsewhere/tidy")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    (root / "README.md").symlink_to("/etc/hostname")
    assert slugs(store) == []
    assert codes(store) == {"tidy": ["link-refused"], "gone": ["link-refused"]}


def test_a_root_that_cannot_be_listed_is_unavailable(tmp_path, log):
    (tmp_path / "file").write_text("not a folder")
    store = DirectoryStore(tmp_path / "file", scope="user", versions=log)
    with pytest.raises(Unavailable, match="Cannot read"):
        store.list_skills()
    with pytest.raises(Unavailable):
        store.save(pack("tidy"))


def test_a_name_that_is_no_text_is_reported(store, root):
    put(root, {"tidy/SKILL.md": skill_md("tidy")})
    folder = root / os.fsdecode(b"bad\xff")
    put(folder, {"SKILL.md": skill_md("bad")})
    assert slugs(store) == ["tidy"]
    assert codes(store) == {"bad\\udcff": ["unreadable"]}


# Live and incremental


def test_every_kind_of_edit_is_seen_on_the_next_call(store, root):
    put(root, {"tidy/SKILL.md": skill_md("tidy")})
    seen = []

    def look() -> None:
        seen.append(store.get_skill_by_name("tidy").digest)

    look()
    put(root, {"tidy/SKILL.md": skill_md("tidy", "Do ib.")})
    look()
    put(root, {"tidy/references/a.md": "a"})
    look()
    put(root, {"tidy/references/a.md": "b"})
    look()
    (root / "tidy/references/a.md").chmod(0o755)
    look()
    (root / "tidy/references/a.md").rename(root / "tidy/references/c.md")
    look()
    (root / "tidy/references/c.md").unlink()
    look()
    assert seen[-1] == seen[1]
    assert len(set(seen)) == len(seen) - 1
    shutil.rmtree(root / "tidy")
    assert slugs(store) == []
    put(root, {"other/SKILL.md": skill_md("tidy")})
    look()


def test_an_edit_that_keeps_size_and_times_is_seen(store, root):
    path = root / "tidy/SKILL.md"
    put(root, {"tidy/SKILL.md": skill_md("tidy", "one")})
    before = path.stat()
    first = store.get_skill_by_name("tidy").digest
    path.write_text(skill_md("tidy", "two"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.get_skill_by_name("tidy").digest != first


@pytest.mark.usefixtures("settled", "every_form")
def test_an_unchanged_folder_is_not_read_again(store, monkeypatch):
    before = store.list_skills()

    def refuse(*args, **kwargs):
        raise AssertionError(f"read again: {args}")

    monkeypatch.setattr(safe_read.os, "read", refuse)
    monkeypatch.setattr(safe_read.os, "scandir", refuse)
    assert store.list_skills() == before
    assert store.faults() == []


@pytest.mark.usefixtures("settled")
def test_only_what_changed_is_read_again(store, root, monkeypatch):
    put(root, {f"s{number}/SKILL.md": skill_md(f"s{number}") for number in range(5)})
    store.list_skills()
    looked = []
    real = safe_read.Reading.folder

    def watch(self, descriptor, location, inside=""):
        looked.append(location)
        return real(self, descriptor, location, inside)

    monkeypatch.setattr(safe_read.Reading, "folder", watch)
    put(root, {"s3/SKILL.md": skill_md("s3", "changed")})
    store.list_skills()
    assert looked == [str(root / "s3")]


@pytest.mark.usefixtures("settled")
def test_a_prompt_that_a_descriptor_names_is_watched_too(store, every_form):
    first = store.get_skill_by_name("summary").digest
    (every_form / "prompts/sum-up.json").write_text(PROMPT.replace("Sum up", "Condense"))
    second = store.get_skill_by_name("summary").digest
    assert second != first


@pytest.mark.usefixtures("settled")
def test_a_prompt_that_is_added_later_is_found(store, root):
    put(root, {"summary.yaml": DESCRIPTOR})
    store.list_skills()
    assert [fault.slug for fault in store.faults()] in (["summary"], [])
    put(root, {"prompts/sum-up.json": PROMPT})
    assert "prompts/sum-up.json" in [entry.path for entry in store.get_skill_by_name("summary").manifest]


def test_a_folder_may_stop_or_start_to_be_a_skill(store, root):
    put(root, {"box/one/SKILL.md": skill_md("one"), "box/two.md": AGENTCY})
    assert slugs(store) == ["one", "postgres.health-triage"]
    put(root, {"box/SKILL.md": skill_md("box")})
    assert slugs(store) == ["box"]
    (root / "box/SKILL.md").unlink()
    assert slugs(store) == ["one", "postgres.health-triage"]


def test_a_part_of_the_way_that_becomes_a_link_is_not_followed(store, root, tmp_path):
    put(root, {"box/one/SKILL.md": skill_md("one")})
    assert slugs(store) == ["one"]
    (root / "box").rename(tmp_path / "box")
    (root / "box").symlink_to(tmp_path / "box")
    assert slugs(store) == []
    assert codes(store) == {"box": ["link-refused"]}


places = st.sampled_from(
    ["a/SKILL.md", "a/x.md", "a/b/SKILL.md", "b/SKILL.md", "b/prompts/sum-up.json", "c.md", "c.yaml", "a", "b", "a/b"]
)
contents = st.sampled_from(
    [
        skill_md("one"),
        skill_md("one", "more"),
        skill_md("two"),
        AGENTCY,
        DESCRIPTOR,
        PROMPT,
        "text",
        "---\nname: x\n---\n",
    ]
)


def edit(root: Path, place: str, what: str, content: str) -> None:
    target = root / place
    if what == "remove" and target.is_dir():
        shutil.rmtree(target)
    elif what == "remove" and target.is_file():
        target.unlink()
    elif what == "move" and target.exists() and not (root / "moved").exists():
        target.rename(root / "moved")
    elif what == "write" and not target.is_dir() and not any(parent.is_file() for parent in target.parents):
        put(root, {place: content})


def wait_for_the_next_tick(probe: Path) -> None:
    """Return once the file system's clock has moved on, so that an edit shows in the stamps."""
    probe.write_text("")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.write_text("")


@settings(max_examples=25, deadline=None)
@given(edits=st.lists(st.tuples(places, st.sampled_from(["write", "write", "remove", "move"]), contents), max_size=12))
@pytest.mark.parametrize("trusting", [False, True])
def test_after_any_edits_an_old_store_sees_what_a_new_one_sees(tmp_path_factory, edits, trusting):
    base = tmp_path_factory.mktemp("skills")
    root, log = base / "skills", MemoryVersions()
    root.mkdir()
    old = DirectoryStore(root, scope="user", versions=log)
    with pytest.MonkeyPatch.context() as patch:
        if trusting:
            patch.setattr(safe_read, "is_settled", lambda *_: True)
            patch.setattr("prowess.catalog.folder_tree.is_settled", lambda *_: True)
        for place, what, content in edits:
            wait_for_the_next_tick(base / "probe")
            edit(root, place, what, content)
            new = DirectoryStore(root, scope="user", versions=log)
            for slug in ("one", "two", "postgres.health-triage", "summary"):
                seen, there = old.get_skill_by_name(slug), new.get_skill_by_name(slug)
                # Of two claims, the one that was served may be served until the next full look.
                assert seen == there or (seen and there and seen.location != there.location)
            assert old.list_skills() == new.list_skills()
            assert old.faults() == new.faults()
            for card in new.list_skills():
                assert old.get_skill_by_name(card.slug) == new.get_skill_by_name(card.slug)


# Writing


def test_a_new_skill_gets_the_folder_of_its_name(store, root):
    store.save(pack("tidy"))
    assert read_folder(root / "tidy") == pack("tidy")


def test_a_name_that_is_taken_gives_way_to_the_whole_slug(store, root):
    first = Package.of_texts("x", {"x.md": AGENTCY})
    second = Package.of_texts("x", {"x.md": AGENTCY.replace("postgres.", "mysql.")})
    store.save(first)
    store.save(second)
    assert sorted(path.name for path in root.iterdir()) == ["health-triage", "mysql.health-triage"]
    assert slugs(store) == ["mysql.health-triage", "postgres.health-triage"]
    assert store.get_skill_by_name("postgres.health-triage").digest == first.digest


def test_a_skill_without_a_name_keeps_its_slug_wherever_it_goes(store, root):
    put(root, {"tidy/notes.txt": "not a skill, but in the way"})
    nameless = Package.of_texts("tidy", {"SKILL.md": "---\ndescription: Tidies.\n---\nTidy.\n"})
    saved = store.save(nameless)
    assert saved.slug == "tidy"
    assert slugs(store) == ["tidy"]
    assert store.get_skill_by_name("tidy").digest == nameless.digest


def test_files_that_would_not_be_found_again_are_kept_in_the_native_form(store, root):
    package = Package.of_texts("checker", {"checker.json": json.dumps(INKLING), "README.md": "# Checker"})
    saved = store.save(package)
    assert (saved.slug, saved.form) == ("consistency-checker", "native")
    assert store.get_skill_by_name("consistency-checker") == saved
    assert "README.md" in [entry.path for entry in saved.manifest]


@pytest.mark.parametrize("slug", ["consistency-checker", "postgres.health-triage", "summary", "image"])
@pytest.mark.usefixtures("every_form")
def test_every_form_survives_being_copied_to_another_store(store, tmp_path, log, slug):
    skill = store.get_skill_by_name(slug)
    package = store.get_package(skill.id)
    other = DirectoryStore(tmp_path / "other", scope="user", versions=MemoryVersions())
    saved = other.save(package)
    assert (saved.slug, saved.digest, saved.form) == (slug, skill.digest, skill.form)
    assert other.get_package(saved.id).files == package.files
    other.delete_skill(saved.id)
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("slug", ["consistency-checker", "postgres.health-triage", "summary", "image", "plain"])
@pytest.mark.usefixtures("every_form")
def test_an_edit_of_any_form_leaves_one_skill_and_can_be_undone(store, root, slug):
    skill = store.get_skill_by_name(slug)
    edited = store.update_skill(skill.model_copy(update={"description": "Something else."}))
    assert edited.description == "Something else."
    assert store.get_skill_by_name(slug) == edited
    assert codes(store) == {}
    assert [version.change for version in store.versions(slug)] == ["create", "update"]
    back = store.rollback(slug, 1)
    assert back.digest == skill.digest
    assert codes(store) == {}
    assert len(slugs(store)) == 6
    assert [path.name for path in root.iterdir() if path.name.startswith(TEMP_PREFIX)] == []


def test_a_single_file_that_is_replaced_by_the_same_file_stays_a_single_file(store, root):
    put(root, {"triage.md": AGENTCY})
    kept = store.get_skill_by_name("postgres.health-triage")
    store.save(Package.of_texts("triage", {"triage.md": AGENTCY + "More.\n"}), expected=kept.digest)
    assert [path.name for path in root.iterdir()] == ["triage.md"]
    assert (root / "triage.md").read_text().endswith("More.\n")


def test_what_was_edited_by_hand_becomes_a_version_before_it_is_replaced(store, root):
    saved = store.save(pack("tidy", "one"))
    put(root, {"tidy/SKILL.md": skill_md("tidy", "by hand")})
    with pytest.raises(Conflict):
        store.save(pack("tidy", "two"), expected=saved.digest)
    edited = store.get_skill_by_name("tidy")
    store.save(pack("tidy", "two"), expected=edited.digest)
    texts = [store.version_package("tidy", number).get("SKILL.md").content.decode() for number in (1, 2, 3)]
    assert [text.split()[-1] for text in texts] == ["one", "hand", "two"]
    put(root, {"tidy/SKILL.md": skill_md("tidy", "again by hand")})
    store.delete_skill(saved.id)
    assert [version.change for version in store.versions("tidy")] == ["create", "update", "update", "update", "delete"]
    assert b"again by hand" in store.version_package("tidy", 4).get("SKILL.md").content


def test_a_taken_slug_is_not_overwritten(store, root):
    put(root, {"mine/SKILL.md": skill_md("tidy", "mine")})
    with pytest.raises(DuplicateSkill):
        store.save(pack("tidy", "yours"))
    assert b"mine" in (root / "mine/SKILL.md").read_bytes()
    assert store.versions("tidy") == []


def test_files_that_do_not_belong_to_a_single_file_skill_stay_when_it_is_deleted(store, root, every_form):
    store.delete_skill(store.get_skill_by_name("summary").id)
    assert (every_form / "prompts/sum-up.json").exists()
    assert not (every_form / "catalog/summary.yaml").exists()


def test_an_update_keeps_the_place_of_a_skill_in_its_category(store, root):
    put(root, {"category/tidy/SKILL.md": skill_md("tidy")})
    kept = store.get_skill_by_name("tidy")
    store.save(pack("tidy", "new"), expected=kept.digest)
    assert b"new" in (root / "category/tidy/SKILL.md").read_bytes()
    assert [path.name for path in root.iterdir()] == ["category"]


def test_a_write_that_the_disk_refuses_changes_nothing(store, root, log, monkeypatch):
    saved = store.save(pack("tidy"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("prowess.storage.files.atomic_write._write", full)
    with pytest.raises(Unavailable, match="No space left"):
        store.save(pack("tidy", "new"), expected=saved.digest)
    assert store.get_skill_by_name("tidy") == saved
    (outcome,) = store.save_all([pack("other")])
    assert isinstance(outcome.error, Unavailable)
    assert len(log.versions("tidy")) == 1
    assert [path.name for path in root.iterdir()] == ["tidy"]


def test_an_edit_between_the_look_and_the_write_is_a_conflict(store, root, monkeypatch):
    saved = store.save(pack("tidy"))
    real = FolderWriter.record_manual_changes

    def edit_first(self, site):
        put(root, {"tidy/SKILL.md": skill_md("tidy", "in between")})
        return real(self, site)

    monkeypatch.setattr(FolderWriter, "record_manual_changes", edit_first)
    with pytest.raises(Conflict):
        store.save(pack("tidy", "new"), expected=saved.digest)
    assert b"in between" in (root / "tidy/SKILL.md").read_bytes()


def test_many_packages_are_kept_each_on_its_own_merits(store):
    packages = [
        pack("a"),
        Package.of_texts("bad", {"SKILL.md": "---\nname: bad\n---\n"}),
        pack("b"),
        pack("a", "other"),
    ]
    outcomes = store.save_all(packages)
    assert [bool(outcome.skill) for outcome in outcomes] == [True, False, True, False]
    assert isinstance(outcomes[3].error, DuplicateSkill)
    replaced = store.save_all([pack("a", "other"), pack("b")], replace=True)
    assert [outcome.changed for outcome in replaced] == [True, False]
    assert slugs(store) == ["a", "b"]


def test_what_a_killed_writer_left_is_cleared_when_the_store_is_opened(root, log):
    put(root, {f"{TEMP_PREFIX}dead/old/SKILL.md": skill_md("tidy"), f"{TEMP_PREFIX}dead/new/SKILL.md": "half"})
    put(root, {f"{TEMP_PREFIX}dead/journal.json": json.dumps({"old": "tidy", "target": "tidy"})})
    store = DirectoryStore(root, scope="workspace", versions=log)
    assert slugs(store) == ["tidy"]
    assert [path.name for path in root.iterdir()] == ["tidy"]


def test_an_unknown_skill_is_none_to_read_and_not_found_to_write(store):
    assert store.get_skill("nobody") is None
    assert store.get_skill_by_name("../../etc/passwd") is None
    assert store.get_package("nobody") is None
    assert store.get_artifact("nobody") is None
    with pytest.raises(NotFound):
        store.delete_skill("nobody")


def test_an_executable_file_stays_executable(store, root):
    package = Package.of("tidy", [*pack("tidy").files, File(path="scripts/a.sh", content=b"#!", mode="0755")])
    store.save(package)
    assert os.access(root / "tidy/scripts/a.sh", os.X_OK)
    assert store.get_package(store.get_skill_by_name("tidy").id) == package


def test_raised_limits_hold_for_what_is_brought_into_the_native_form(root, log):
    limits = Limits(body_chars=300_000)
    store = DirectoryStore(root, scope="workspace", versions=log, limits=limits)
    store.save(Package.of_texts("notes", {"notes.md": "# Notes\n\nTakes notes.\n\n" + "x" * 200_000}, limits))
    assert len(store.get_skill_by_name("notes").body) > 200_000
