"""Packages: exact files, exact paths, and a digest that two different packages never share."""

from __future__ import annotations

import dataclasses
import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.edit import diff_packages
from prowess.skill.limits import Limits
from prowess.skill.package import File, Package, compute_digest

NAMES = st.from_regex(r"[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,2}\.md", fullmatch=True)
FILES = st.dictionaries(NAMES, st.binary(max_size=40), min_size=1, max_size=6)


def test_the_digest_is_the_sha256_of_the_canonical_manifest():
    package = Package.of_texts("x", {"b.md": "two", "a.md": "one"})
    one, two = (hashlib.sha256(text).hexdigest() for text in (b"one", b"two"))
    manifest = f'[["a.md","0644",3,"{one}"],["b.md","0644",3,"{two}"]]'
    assert package.digest == hashlib.sha256(manifest.encode()).hexdigest()
    assert package.digest == compute_digest(reversed(package.manifest))


@given(FILES, FILES)
def test_two_packages_share_a_digest_only_if_they_share_all_files(one, two):
    first, second = Package.of_texts("one", one), Package.of_texts("two", two)
    assert (first.digest == second.digest) == (one == two)


def test_no_single_change_leaves_the_digest_as_it_was():
    chance = random.Random(7)
    files = [
        File(path=f"references/{number}.md", content=chance.randbytes(chance.randrange(1, 60))) for number in range(5)
    ]
    original = Package.of("x", files)
    seen = {original.digest: original.files}
    for _ in range(10_000):
        place = chance.randrange(len(files))
        file = files[place]
        match chance.randrange(4):
            case 0:
                spot = chance.randrange(len(file.content) + 1)
                changed = dataclasses.replace(file, content=file.content[:spot] + b"\n" + file.content[spot:])
            case 1:
                spot = chance.randrange(len(file.content))
                flipped = bytes([file.content[spot] ^ (1 << chance.randrange(8))])
                changed = dataclasses.replace(file, content=file.content[:spot] + flipped + file.content[spot + 1 :])
            case 2:
                changed = dataclasses.replace(file, path=f"references/{chance.randrange(10**9)}.md")
            case _:
                changed = dataclasses.replace(file, mode="0755" if file.mode == "0644" else "0644")
        variant = Package.of("x", [*files[:place], changed, *files[place + 1 :]])
        assert variant.digest != original.digest
        assert seen.setdefault(variant.digest, variant.files) == variant.files


def test_moving_bytes_between_name_and_content_changes_the_digest():
    assert Package.of_texts("x", {"ab": "c"}).digest != Package.of_texts("x", {"a": "bc"}).digest
    assert Package.of_texts("x", {"a": "b\nc"}).digest != Package.of_texts("x", {"a": "b", "c": ""}).digest


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        "./a",
        "a\\b",
        "C:x",
        "a\x00b",
        "a\nb",
        "a/" * 9 + "b",
        "x" * 256,
        "a ",
        "a.",
    ],
)
def test_a_path_that_could_lead_elsewhere_is_refused_by_name(path):
    with pytest.raises(Invalid) as refused:
        Package.of_texts("x", {path: "data"})
    assert repr(path[:200]) in refused.value.message


@pytest.mark.parametrize(
    ("one", "two"), [("A.md", "a.md"), ("é.md", "e\u0301.md"), ("a", "a/b"), ("A/b", "a"), ("ref/x.md", "REF/y.md")]
)
def test_paths_that_would_fall_together_on_some_disk_are_refused(one, two):
    with pytest.raises(Invalid) as refused:
        Package.of_texts("x", {one: "1", two: "2"})
    assert two in refused.value.message or one in refused.value.message


@pytest.mark.parametrize(
    "path", [".git/config", "a/.git", ".GIT/hooks/post-checkout", "a/.Git/config", "GIT~1/config", ".g\u200cit/config"]
)
def test_a_file_that_makes_the_folder_a_git_repository_on_some_disk_is_refused(path):
    with pytest.raises(Invalid, match="git repository"):
        Package.of_texts("x", {"SKILL.md": "data", path: "[core]\n\tfsmonitor = run-me\n"})
    assert Package.of_texts("x", {".gitignore": "", ".github/x.yml": "", "git/x": "", "a.git": ""}).files


def test_what_is_over_a_limit_is_refused_with_limit_size_and_setting():
    limits = Limits(file_bytes=10, skill_bytes=15, files=2)
    cases = {
        "PROWESS_MAX_FILE_BYTES": {"a": "x" * 11},
        "PROWESS_MAX_SKILL_BYTES": {"a": "x" * 9, "b": "x" * 9},
        "PROWESS_MAX_FILES": {"a": "", "b": "", "c": ""},
    }
    for setting, files in cases.items():
        with pytest.raises(Invalid) as refused:
            Package.of_texts("x", files, limits)
        assert setting in refused.value.hint
        assert "limit is" in refused.value.message


def test_a_file_is_found_by_its_exact_path_only():
    package = Package.of_texts("x", {"references/guide.md": "text"})
    assert package.get("references/guide.md") is not None
    for path in ("references/./guide.md", "REFERENCES/guide.md", "references//guide.md", "guide.md", "references"):
        assert package.get(path) is None


def test_a_diff_tells_every_kind_of_change():
    before = Package.of(
        "x",
        [
            File(path="same.md", content=b"same"),
            File(path="text.md", content=b"one\ntwo\n"),
            File(path="image.png", content=b"\xff\xd8\xff\xe0\x00\x10J"),
            File(path="gone.md", content=b"bye"),
            File(path="run.sh", content=b"echo"),
        ],
    )
    after = before.without(["gone.md"]).with_files(
        [
            File(path="text.md", content=b"one\n2\n"),
            File(path="image.png", content=b"\x89P\r\x00\xff\xd8\xff\xe0\x00\x10"),
            File(path="new.md", content=b"hi"),
            File(path="run.sh", content=b"echo", mode="0755"),
        ]
    )
    changes = {change.path: change for change in diff_packages(before, after)}
    assert {path: change.change for path, change in changes.items()} == {
        "text.md": "changed",
        "image.png": "changed",
        "gone.md": "removed",
        "new.md": "added",
        "run.sh": "mode",
    }
    assert "-two" in changes["text.md"].text
    assert "+2" in changes["text.md"].text
    assert "7 bytes → 10 bytes" in changes["image.png"].text
    assert diff_packages(before, before) == []


def test_a_moved_file_is_shown_in_full_at_its_new_path_only():
    before = Package.of_texts("a", {"notes/old.md": "One.\n", "empty.md": "", "gone.md": "Gone.\n"})
    after = Package.of_texts("a", {"scripts/new.sh": "One.\n", "blank.md": ""})
    changes = {change.path: change.text for change in diff_packages(before, after)}
    assert changes["notes/old.md"] == "moved to scripts/new.sh\n"
    assert "+One." in changes["scripts/new.sh"]
    assert (changes["empty.md"], "-Gone." in changes["gone.md"]) == ("", True)


def test_a_comparison_is_cut_short_where_a_few_lines_repeat_in_another_order():
    # Without a limit this takes many minutes, and no person could wait for the question that shows it.
    forwards, backwards = ("".join(f"{sign * number % 101}\n" for number in range(20_000)) for sign in (1, -1))

    before, after = (Package.of_texts("a", {"a.txt": text}) for text in (forwards, backwards))
    (change,) = diff_packages(before, after)

    lines = change.text.splitlines(keepends=True)[2:]
    assert "".join(line[1:] for line in lines if line[0] in " -") == forwards
    assert "".join(line[1:] for line in lines if line[0] in " +") == backwards
