"""Folders: read without following anything, found wherever they lie."""

from __future__ import annotations

import io
import json
import os
import socket
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prowess.errors import Invalid, NotFound
from prowess.skill.limits import Limits
from prowess.storage.files import safe_read
from prowess.storage.files.freshness import is_settled, make_stamp
from prowess.storage.files.skill_packages import read_folder, read_path
from prowess.storage.files.skill_paths import find_skills, leaves_project

SKILL = "---\nname: tidy\ndescription: Tidies.\n---\nTidy up.\n"


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


# Reading


def test_a_folder_is_read_whole_with_its_modes_and_without_leftovers(tmp_path):
    folder = put(
        tmp_path / "tidy",
        {
            "SKILL.md": SKILL,
            "scripts/run.sh": "#!/bin/sh\n",
            "inner/SKILL.md": SKILL,
            "assets/Größe.bin": b"\x00\xff",
            ".git/config": "x",
            "node_modules/a/index.js": "x",
            "scripts/__pycache__/a.pyc": "x",
            "a.pyc": "x",
            ".DS_Store": "x",
        },
    )
    (folder / "scripts/run.sh").chmod(0o700)
    package = read_folder(folder)
    assert package.name == "tidy"
    assert {file.path: file.mode for file in package.files} == {
        "SKILL.md": "0644",
        "assets/Größe.bin": "0644",
        "inner/SKILL.md": "0644",
        "scripts/run.sh": "0755",
    }
    assert package.get("assets/Größe.bin").content == b"\x00\xff"


@pytest.mark.parametrize("target", ["/etc/passwd", "SKILL.md", "nowhere", "/dev/zero", "."])
def test_a_folder_with_a_link_is_refused_by_name(tmp_path, target):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL, "references/a.md": "a"})
    (folder / "references/link.md").symlink_to(target)
    with pytest.raises(Invalid, match=r"'references/link\.md' is a symbolic link"):
        read_folder(folder)


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    put(tmp_path / "tidy", {"SKILL.md": SKILL})
    (tmp_path / "alias").symlink_to(tmp_path / "tidy")
    with pytest.raises(Invalid, match="symbolic link"):
        read_folder(tmp_path / "alias")


def test_a_folder_inside_that_is_a_link_is_refused_by_name(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    put(tmp_path / "elsewhere", {"secret.md": "s"})
    (folder / "references").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="'references' is a symbolic link"):
        read_folder(folder)


def test_a_named_pipe_is_refused_by_name_and_never_opened(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    os.mkfifo(folder / "pipe")
    with pytest.raises(Invalid, match="'pipe' is a named pipe"):
        read_folder(folder)


def test_a_socket_is_refused_by_name(tmp_path, monkeypatch):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(Invalid, match="'s' is a socket"):
            read_folder(folder)


def test_a_device_is_refused_by_name():
    with pytest.raises(Invalid, match="is a device"):
        read_path(Path("/dev/zero"))


@pytest.mark.parametrize("becomes", ["link", "pipe"])
def test_a_file_that_is_swapped_before_it_is_opened_is_not_read(tmp_path, monkeypatch, becomes):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    real = os.open

    def swap_then_open(path, flags, *args, **kwargs):
        if path == "SKILL.md":
            (folder / "SKILL.md").unlink()
            if becomes == "link":
                (folder / "SKILL.md").symlink_to("/etc/passwd")
            else:
                os.mkfifo(folder / "SKILL.md")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(safe_read.os, "open", swap_then_open)
    with pytest.raises(Invalid, match=r"symbolic link|named pipe|Cannot read"):
        read_folder(folder)


def test_a_file_that_grows_while_it_is_read_is_held_to_the_limit(tmp_path, monkeypatch):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    grown = [b"x" * 60_000] * 4
    monkeypatch.setattr(safe_read.os, "read", lambda *_: grown.pop() if grown else b"")
    with pytest.raises(Invalid, match=r"'SKILL\.md'"):
        read_folder(folder, Limits(file_bytes=100_000))


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"big.md": "x" * 101}, "'big.md'"),
        ({f"f{number}": "x" for number in range(5)}, "'f4'"),
        ({f"f{number}": "x" * 90 for number in range(4)}, "'f3'"),
        ({"a/b/c/d.md": "x"}, "'a/b/c/d.md'"),
    ],
)
def test_what_is_over_a_limit_is_refused_by_name(tmp_path, files, named):
    folder = put(tmp_path / "tidy", files)
    limits = Limits(file_bytes=100, skill_bytes=300, files=4, depth=3)
    with pytest.raises(Invalid) as caught:
        read_folder(folder, limits)
    assert named in caught.value.message


def test_a_file_name_that_is_no_text_is_refused(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    (folder / os.fsdecode(b"bad\xff.md")).write_text("x")
    with pytest.raises(Invalid, match="control characters"):
        read_folder(folder)


def test_names_that_differ_only_in_case_are_refused(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL, "a.md": "1", "A.md": "2"})
    with pytest.raises(Invalid, match="differ only in case"):
        read_folder(folder)


def test_a_folder_that_is_not_there_is_not_found(tmp_path):
    for read in (read_folder, read_path):
        with pytest.raises(NotFound, match="does not exist"):
            read(tmp_path / "none")


@contextmanager
def without_privilege() -> Iterator[None]:
    """The rights of an ordinary user, also for root, who may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_without_permission_is_refused_with_the_reason():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = put(Path(place) / "tidy", {"SKILL.md": SKILL})
        (folder / "SKILL.md").chmod(0)
        with without_privilege(), pytest.raises(Invalid, match="Permission denied"):
            read_folder(folder)


# What a person points at


def test_a_skill_md_stands_for_its_folder(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL, "references/a.md": "a"})
    assert read_path(folder / "SKILL.md") == read_path(folder) == [read_folder(folder)]


def test_a_path_that_a_person_names_may_be_a_link(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    (tmp_path / "alias").symlink_to(folder)
    assert read_path(tmp_path / "alias") == [read_folder(folder)]


def test_an_archive_is_told_by_its_content(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("tidy/SKILL.md", SKILL)
    (tmp_path / "whatever.bin").write_bytes(out.getvalue())
    assert [package.name for package in read_path(tmp_path / "whatever.bin")] == ["tidy"]


def test_an_archive_over_the_limit_is_refused_without_reading_all_of_it(tmp_path):
    (tmp_path / "big.zip").write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(Invalid, match="the limit is 100"):
        read_path(tmp_path / "big.zip", Limits(archive_bytes=100))


@pytest.mark.parametrize("name", ["triage.md", "checker.json", "check.yaml", "check.yml"])
def test_a_single_file_is_a_package_of_one(tmp_path, name):
    put(tmp_path, {name: "text", "other.md": "x"})
    (package,) = read_path(tmp_path / name)
    assert (package.name, package.paths) == (name.partition(".")[0], (name,))


def test_a_file_of_another_kind_is_refused_with_what_would_do(tmp_path):
    put(tmp_path, {"picture.png": b"\x89PNG"})
    with pytest.raises(Invalid) as caught:
        read_path(tmp_path / "picture.png")
    assert "SKILL.md" in caught.value.hint


DESCRIPTOR = """skill_id: summary
version: 1.0.0
title: Summary
description: Sums up.
template_type: LLM_JSON_GENERATION
template_config:
  prompt_id: {prompt}
  rubric_id: {rubric}
"""


@pytest.mark.parametrize(
    ("prompt", "rubric"),
    [
        ("prompts/sum_up.json", "rubrics/quality.json"),
        ("../prompts/sum_up.v2.yaml", "../rubrics/quality@1.0.0.json"),
        ("prompt-registry/prompts/sum-up.mustache", "../prompt-registry/rubrics/quality.yml"),
        ("prompt-registry/sum_up.json", "../prompt-registry/quality.json"),
    ],
)
def test_a_descriptor_brings_the_prompt_and_rubric_that_it_names(tmp_path, prompt, rubric):
    folder = put(
        tmp_path / "catalog",
        {
            "summary.yaml": DESCRIPTOR.format(prompt="sum_up", rubric="quality"),
            prompt: "{}",
            rubric: "{}",
            "prompts/sum_up_other.json": "{}",
            "prompts/unrelated.json": "{}",
        },
    )
    (package,) = read_path(folder / "summary.yaml")
    expected = {"summary.yaml", f"prompts/{Path(prompt).name}", f"rubrics/{Path(rubric).name}"}
    assert set(package.paths) == expected


def test_a_companion_is_found_by_what_it_says_where_no_name_fits(tmp_path):
    put(
        tmp_path,
        {
            "summary.yaml": DESCRIPTOR.format(prompt="sum_up", rubric="quality"),
            "prompts/first.json": '{"prompt_id": "sum_up", "template": "x"}',
            "prompts/second.json": '{"prompt_id": "sum_up_more", "template": "x"}',
            "rubrics/r.yaml": "rubric_id: quality\ncriteria: []\n",
        },
    )
    (package,) = read_path(tmp_path / "summary.yaml")
    assert package.paths == ("prompts/first.json", "rubrics/r.yaml", "summary.yaml")


@pytest.mark.parametrize("wanted", ["../../secret", "/etc/passwd", "[a, b]", "*", ".."])
def test_a_descriptor_cannot_name_files_elsewhere(tmp_path, wanted):
    put(tmp_path, {"secret.json": "{}", "a/b/summary.yaml": DESCRIPTOR.format(prompt=wanted, rubric=wanted)})
    put(tmp_path, {"a/b/prompts/x.json": "{}"})
    (package,) = read_path(tmp_path / "a/b/summary.yaml")
    assert package.paths == ("summary.yaml",)


def test_a_registry_that_is_a_link_is_not_followed(tmp_path):
    put(tmp_path / "elsewhere", {"sum_up.json": "{}"})
    put(tmp_path / "catalog", {"summary.yaml": DESCRIPTOR.format(prompt="sum_up", rubric="r")})
    (tmp_path / "catalog/prompts").symlink_to(tmp_path / "elsewhere")
    (package,) = read_path(tmp_path / "catalog/summary.yaml")
    assert package.paths == ("summary.yaml",)


# Finding


def found(path: Path) -> list[str]:
    return [str(skill.relative_to(path)) for skill in find_skills(path)]


def test_every_skill_below_a_folder_is_found_and_nothing_else(tmp_path):
    put(
        tmp_path,
        {
            "README.md": "# Read me",
            "package.json": "{}",
            "notes.yaml": "a: 1",
            "alone.md": "---\nname: a\ndescription: b\n---\nx",
            "spaced.md": "\ufeff---\r\nslug: team.thing\r\n---\r\nx",
            "half.md": "---\nname: a\n---\nx",
            "pack.json": json.dumps({"name": "P", "artifacts": []}),
            "settings.json": json.dumps({"artifacts": 3}),
            "broken.json": '{"artifacts": [',
            "summary.yml": "skill_id: x\n",
            "zeta/SKILL.md": SKILL,
            "zeta/inner/SKILL.md": SKILL,
            "category/deeper/one/skill.md": SKILL,
            "category/two/skill.json": "{}",
            ".agents/skills/three/SKILL.md": SKILL,
            "node_modules/four/SKILL.md": SKILL,
            ".git/five/SKILL.md": SKILL,
            "dist/six/SKILL.md": SKILL,
            "build/seven/SKILL.md": SKILL,
            ".venv/eight/SKILL.md": SKILL,
            ".prowess-tmp-1/new/SKILL.md": SKILL,
        },
    )
    assert found(tmp_path) == [
        ".agents/skills/three",
        "alone.md",
        "category/deeper/one",
        "category/two",
        "pack.json",
        "spaced.md",
        "summary.yml",
        "zeta",
    ]


def test_a_path_that_is_itself_a_skill_is_all_that_is_found(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL, "inner/SKILL.md": SKILL})
    assert list(find_skills(folder)) == [folder]
    assert list(find_skills(folder / "SKILL.md")) == [folder / "SKILL.md"]
    with pytest.raises(NotFound):
        list(find_skills(tmp_path / "none"))


def test_of_all_links_only_one_to_a_skill_is_given_and_none_is_followed(tmp_path):
    put(tmp_path / "outside/tidy", {"SKILL.md": SKILL})
    root = put(tmp_path / "root", {"one/SKILL.md": SKILL})
    (root / "two").symlink_to(tmp_path / "outside/tidy")
    (root / "loop").symlink_to(root)
    (root / "category").symlink_to(tmp_path / "outside")
    (root / "three.md").symlink_to(tmp_path / "outside/tidy/SKILL.md")
    assert found(root) == ["one", "two"]
    assert leaves_project(root / "two", root)
    (root / "four").symlink_to(root / "one")
    assert not leaves_project(root / "four", root)


def test_an_archive_with_the_skill_ending_is_found(tmp_path):
    with zipfile.ZipFile(tmp_path / "tidy.skill", "w") as archive:
        archive.writestr("tidy/SKILL.md", SKILL)
    put(tmp_path, {"fake.skill": "text"})
    assert found(tmp_path) == ["tidy.skill"]


# Stamps


def test_a_file_that_changed_just_before_it_was_read_is_not_settled(tmp_path):
    path = tmp_path / "a"
    path.write_text("x")
    changed = make_stamp(path.stat())
    now = changed[1]
    assert not is_settled(changed, now)
    assert not is_settled(changed, now + 50_000_000)
    assert is_settled(changed, now + 3_000_000_000)


def test_a_file_system_that_counts_in_seconds_is_given_two_of_them():
    whole = (0, 10 * 10**9, 1, 1, 0o100644)
    assert not is_settled(whole, 11 * 10**9)
    assert is_settled(whole, 13 * 10**9)


def test_a_folder_without_permission_is_refused_with_the_reason():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = put(Path(place) / "tidy", {"SKILL.md": SKILL})
        folder.chmod(0)
        with without_privilege(), pytest.raises(Invalid, match="Permission denied"):
            list(find_skills(folder))
        folder.chmod(0o755)
