"""The lock files: the two of the skills CLI byte for byte, our own, and files that somebody broke on purpose."""

from __future__ import annotations

import json
import os
import string
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, ProwessError, Refused
from prowess.skill.package import File, Package
from prowess.sources.lock.folder_hash import compute_hash, git_tree, hash_folder, hash_package
from prowess.sources.lock.lock_file import MAX_BYTES, format_document, locked, read_document, write_document
from prowess.sources.lock.prowess_lock import InstalledSkill, Pin, ProwessLock, folder_name, lock_files
from prowess.sources.lock.skills_lock import PROJECT, USER, LockedSource, SkillsLock

CLI_LOCK = """\
{
  "version": 1,
  "skills": {
    "Zebra": {
      "source": "https://git.example/z.git",
      "sourceUrl": "https://git.example/z.git",
      "ref": "v1",
      "sourceType": "git",
      "skillPath": "skills/zebra/SKILL.md",
      "computedHash": "aa"
    },
    "find-skills": {
      "source": "vercel-labs/skills",
      "sourceType": "github",
      "skillPath": "skills/find-skills/SKILL.md",
      "computedHash": "bb",
      "subagents": [
        "x"
      ]
    }
  }
}
"""
"""As the skills CLI 1.5.18 writes it."""

texts = st.text(max_size=12)
entries = st.builds(
    LockedSource,
    source=st.text(min_size=1, max_size=12),
    source_type=st.sampled_from(["github", "git", "local", "well-known"]),
    hash=st.text("0123456789abcdef", max_size=8),
    source_url=texts,
    ref=texts,
    skill_path=texts,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def write(folder: Path, text: str | bytes, name: str = "skills-lock.json") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def installed(package: Package, **more: object) -> InstalledSkill:
    return InstalledSkill.model_validate(
        {
            "pin": Pin(source="a/b", type="github", url="https://github.com/a/b.git", commit="c" * 40),
            "digest": package.digest,
            "source_digest": package.digest,
            "files": lock_files(package.manifest),
            "agents": ("universal",),
            "mode": "symlink",
            **more,
        },
        strict=False,
    )


def test_a_lock_of_the_skills_cli_is_written_back_byte_for_byte(tmp_path):
    lock = SkillsLock.read(write(tmp_path, CLI_LOCK), PROJECT)
    assert lock.text() == CLI_LOCK
    assert lock.skills["find-skills"].source == "vercel-labs/skills"
    # Adding a skill and removing it again changes nothing else.
    added = LockedSource(source="a/b", source_type="github", hash="cc")
    assert lock.with_skill("new", added).without("new").text() == CLI_LOCK


def test_unknown_keys_are_kept_in_the_file_and_in_its_entries(tmp_path):
    text = CLI_LOCK.replace('"computedHash": "bb",', '"computedHash": "bb",\n      "mine": {\n        "a": 1\n      },')
    lock = SkillsLock.read(write(tmp_path, text), PROJECT)
    changed = lock.with_skill("find-skills", LockedSource(source="other/repo", source_type="github", hash="dd"))
    entry = json.loads(changed.text())["skills"]["find-skills"]
    assert entry == {
        "source": "other/repo",
        "sourceType": "github",
        "computedHash": "dd",
        "mine": {"a": 1},
        "subagents": ["x"],
    }
    top = SkillsLock.read(write(tmp_path, '{"version": 1, "note": "x", "skills": {}}'), PROJECT)
    assert (
        json.loads(top.with_skill("a", LockedSource(source="a/b", source_type="github", hash="")).text())["note"] == "x"
    )


@given(skills=st.dictionaries(texts, entries, max_size=6), other=st.dictionaries(texts, json_values, max_size=3))
@pytest.mark.parametrize("form", [PROJECT, USER], ids=["project", "user"])
def test_every_lock_reads_back_as_it_was_written(tmp_path_factory, form, skills, other):
    path = tmp_path_factory.mktemp("lock") / "lock.json"
    lock = SkillsLock.empty(form)
    extra = {key: value for key, value in other.items() if key not in ("version", "skills")}
    lock = SkillsLock(form=form, document={**lock.document, **extra})
    for name, entry in skills.items():
        lock = lock.with_skill(name, entry, at="2026-01-01T00:00:00.000Z")
    path.write_text(lock.text())
    again = SkillsLock.read(path, form)
    assert again.skills == skills
    assert again.text() == lock.text()
    assert {key: value for key, value in again.document.items() if key in extra} == extra


def test_the_users_lock_keeps_its_order_its_times_and_has_no_newline_at_the_end():
    source = LockedSource(source="a/b", source_type="github", hash="t" * 40, source_url="https://github.com/a/b.git")
    lock = SkillsLock.empty(USER).with_skill("z", source, at="1").with_skill("a", source, at="2")
    again = lock.with_skill("z", source, at="3")
    found = json.loads(again.text())
    assert list(found["skills"]) == ["z", "a"]
    assert (found["skills"]["z"]["installedAt"], found["skills"]["z"]["updatedAt"]) == ("1", "3")
    assert list(found) == ["version", "skills", "dismissed"]
    assert not again.text().endswith("\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 0, "skills": {"a": {}}}',
        '{"version": "1", "skills": {}}',
        '{"version": true, "skills": {}}',
        '{"version": 1}',
        '{"version": 1, "skills": [1]}',
        '{"version": 1, "skills": {}}',
    ],
)
def test_old_and_empty_locks_count_as_empty_as_in_the_cli(tmp_path, text):
    assert SkillsLock.read(write(tmp_path, text), PROJECT).skills == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<<<<<<< HEAD\n",
        b"[]",
        b"\xff\xfe",
        b'{"version": NaN}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'"' + b"x" * MAX_BYTES,
        b'{"version": ' + b"9" * 10_000 + b"}",
    ],
    ids=["empty", "conflict", "list", "bytes", "nan", "deep-list", "deep-object", "huge", "number"],
)
def test_a_broken_lock_is_an_error_and_stays_as_it_is(tmp_path, content):
    path = write(tmp_path, content)
    with pytest.raises(Invalid, match="Cannot read the lock file"):
        read_document(path)
    assert path.read_bytes() == content


def test_links_and_special_files_are_not_read_as_a_lock(tmp_path):
    secret = write(tmp_path, CLI_LOCK, "secret.json")
    (tmp_path / "skills-lock.json").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("skills-lock.json", "pipe", "folder"):
        with pytest.raises(Invalid):
            read_document(tmp_path / name)
    with locked(tmp_path), pytest.raises(Refused):
        write_document(tmp_path / "skills-lock.json", "{}")
    assert secret.read_text() == CLI_LOCK


@pytest.mark.parametrize("entry", [None, 1, [], {}, {"source": 1}, {"source": "a/b", "ref": []}, {"sourceType": "git"}])
def test_entries_of_wrong_types_are_not_used_and_not_lost(tmp_path, entry):
    document = {"version": 1, "skills": {"bad": entry, "good": {"source": "a/b", "sourceType": "github"}}}
    lock = SkillsLock.read(write(tmp_path, json.dumps(document)), PROJECT)
    assert list(lock.skills) == ["good"]
    assert json.loads(lock.text()) == document


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "skills-lock.json"

    def add(number: int) -> None:
        with locked(tmp_path):
            lock = SkillsLock.read(path, PROJECT)
            entry = LockedSource(source=f"a/{number}", source_type="github", hash="")
            write_document(path, lock.with_skill(f"s{number}", entry).text())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert len(SkillsLock.read(path, PROJECT).skills) == 40
    assert [one.name for one in tmp_path.iterdir()] == ["skills-lock.json"]


def test_keys_that_are_numbers_come_first_as_in_javascript():
    assert list(json.loads(format_document({"b": 1, "10": 2, "9": 3, "01": 4}))) == ["9", "10", "b", "01"]
    assert format_document({"a": "\ud800\u2028", "n": 2.0}) == '{\n  "a": "\\ud800\u2028",\n  "n": 2\n}'


NAMES = st.text(st.sampled_from(string.ascii_letters + string.digits + "-_. "), min_size=1, max_size=8)
FILES = st.dictionaries(
    st.sampled_from(["SKILL.md", "a.md", "B.md", "b/c.md", "x-y", "x_y"]), st.binary(max_size=20), min_size=1
)


@given(contents=FILES)
def test_a_folder_and_its_package_have_the_same_hash(tmp_path_factory, contents):
    folder = tmp_path_factory.mktemp("skill")
    for path, content in contents.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    package = Package.of("skill", [File(path=path, content=content) for path, content in contents.items()])
    assert hash_folder(folder) == hash_package(package) == compute_hash(contents)


def test_the_hash_covers_files_that_are_no_part_of_a_skill_but_no_links_and_no_repositories(tmp_path):
    (tmp_path / "SKILL.md").write_text("x")
    plain = hash_folder(tmp_path)
    for folder in (".git", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text("y")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert hash_folder(tmp_path) == plain
    (tmp_path / ".DS_Store").write_text("z")
    assert hash_folder(tmp_path) != plain


def test_the_git_tree_is_the_one_that_git_computes(tmp_path):
    files = {"SKILL.md": b"s", "a.txt": b"", "a/b/c.sh": b"#!/bin/sh\n", "a-b": b"1", "a0/x": b"2", "ä/ö": b"3"}
    package = Package.of(
        "x",
        [
            File(path=path, content=content, mode="0755" if path.endswith(".sh") else "0644")
            for path, content in files.items()
        ],
    )
    git = ["git", "-C", str(tmp_path), "-c", "core.autocrlf=false"]
    subprocess.run([*git, "init", "-q"], check=True)
    for file in package.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(file.content)
        (tmp_path / file.path).chmod(int(file.mode, 8))
    subprocess.run([*git, "add", "."], check=True)
    assert subprocess.run([*git, "write-tree"], check=True, capture_output=True, text=True).stdout.strip() == git_tree(
        package.files
    )


PACKAGE = Package.of_texts(
    "pdf", {"SKILL.md": "---\nname: pdf\ndescription: Reads.\n---\nRead.\n", "scripts/a.py": "x"}
)


def test_our_lock_reads_back_with_everything_it_says(tmp_path):
    one = installed(PACKAGE, agents=("universal", "claude-code"), mode="copy", later={"key": 1})
    lock = ProwessLock(other={"later": True}).with_skill("pdf", one).with_created([".agents"])
    again = ProwessLock.read(write(tmp_path, lock.text(), "prowess.lock"))
    assert again.skills["pdf"].manifest == PACKAGE.manifest
    assert again == lock
    assert again.text() == lock.text()
    assert again.text().endswith("}\n")


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"files": {"../../.ssh/id": {"sha256": "0" * 64, "size": 1, "mode": "0644"}}},
        {"files": {"SKILL.md": {"sha256": "x", "size": 1, "mode": "0644"}}},
        {"files": []},
        {"pin": "a/b"},
        {"agents": "claude-code"},
        {"mode": "hardlink"},
    ],
)
def test_an_entry_that_cannot_be_true_is_reported_and_kept(tmp_path, change):
    good = installed(PACKAGE).model_dump(mode="json")
    document = {"version": 1, "skills": {"bad": {**good, **change}, "good": good}}
    lock = ProwessLock.read(write(tmp_path, json.dumps(document), "prowess.lock"))
    assert list(lock.skills) == ["good"]
    assert [problem.code for problem in lock.problems] == ["lock-entry"]
    assert json.loads(lock.text())["skills"]["bad"] == {**good, **change}


def test_a_later_version_of_our_lock_is_refused(tmp_path):
    with pytest.raises(Invalid, match="version '2'"):
        ProwessLock.read(write(tmp_path, '{"version": 2, "skills": {}}', "prowess.lock"))


def test_paths_that_lead_out_are_never_taken_for_something_we_made(tmp_path):
    paths = ["../x", "/etc", "a/../../b", ".agents", 3, "a//b", ""]
    lock = ProwessLock.read(write(tmp_path, json.dumps({"version": 1, "skills": {}, "created": paths}), "prowess.lock"))
    assert lock.created == (".agents",)


@given(name=st.text(max_size=400))
def test_the_name_of_a_folder_is_one_plain_segment(name):
    folder = folder_name(name)
    assert folder
    assert len(folder) <= 255
    assert set(folder) <= set(string.ascii_lowercase + string.digits + "._-")
    assert not folder.startswith((".", "-"))
    assert folder_name(folder) == folder or len(folder) == 255


def test_a_full_disk_leaves_the_old_lock(tmp_path, monkeypatch):
    path = write(tmp_path, CLI_LOCK)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ProwessError, match="No space left"), locked(tmp_path):
        write_document(path, "{}")
    assert path.read_text() == CLI_LOCK
