"""Skills are found in a repository where the skills CLI finds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.sources.discovery import declared_name, discover, discover_markdown, is_internal

from .repositories import skill

TREES: dict[str, tuple[list[str], list[str]]] = {
    "a skill at the root is the only one": (["SKILL.md", "skills/a/SKILL.md"], [""]),
    "children of the root": (["a/SKILL.md", "b/SKILL.md", "c/x/SKILL.md"], ["a", "b"]),
    "the container skills": (["skills/a/SKILL.md", "skills/b/SKILL.md", "x/y/z/SKILL.md"], ["skills/a", "skills/b"]),
    "categories in a container": (["skills/web/a/SKILL.md", "skills/b/SKILL.md"], ["skills/b", "skills/web/a"]),
    "a skill hides those below it": (["skills/a/SKILL.md", "skills/a/inner/SKILL.md"], ["skills/a"]),
    "three levels are too deep for a container": (["skills/x/y/a/SKILL.md", "skills/b/SKILL.md"], ["skills/b"]),
    "curated and experimental": (
        ["skills/.curated/a/SKILL.md", "skills/.experimental/b/SKILL.md", "skills/.system/c/SKILL.md"],
        ["skills/.curated/a", "skills/.experimental/b", "skills/.system/c"],
    ),
    "the folders of agents": ([".claude/skills/a/SKILL.md", ".agents/skills/b/SKILL.md"], [".agents/skills/b", ".claude/skills/a"]),
    "an unknown hidden folder": ([".other/skills/a/SKILL.md", "b/SKILL.md"], ["b"]),
    "recursion if nothing else": (["x/y/z/a/SKILL.md", "x/q/b/SKILL.md"], ["x/q/b", "x/y/z/a"]),
    "recursion ends at five levels": (["1/2/3/4/5/SKILL.md", "1/2/3/4/5/6/SKILL.md"], ["1/2/3/4/5"]),
    "recursion skips build folders": (["x/node_modules/a/SKILL.md", "x/dist/b/SKILL.md", "x/y/c/SKILL.md"], ["x/y/c"]),
    "build folders in a container": (["skills/build/a/SKILL.md", "skills/b/SKILL.md"], ["skills/b"]),
    "a folder named build that is a skill": (["skills/build/SKILL.md"], ["skills/build"]),
    "nothing": (["README.md", "src/x.py"], []),
}  # fmt: skip


def found(paths: list[str], contents: Mapping[str, object] | None = None) -> list[str]:
    texts = {path: json.dumps(value).encode() for path, value in (contents or {}).items()}
    return list(discover([*paths, *texts], texts.get).folders)


@pytest.mark.parametrize("title", TREES)
def test_folders_with_skills_are_found(title: str) -> None:
    paths, expected = TREES[title]
    assert sorted(found(paths)) == sorted(expected)


def test_the_folders_of_cursor_and_gemini_are_found_too() -> None:
    paths = [".cursor/skills/a/SKILL.md", ".gemini/skills/b/SKILL.md", ".github/skills/c/SKILL.md"]
    assert found([*paths, "d/SKILL.md"]) == ["d", ".cursor/skills/a", ".gemini/skills/b", ".github/skills/c"]


MARKETPLACE, PLUGIN = ".claude-plugin/marketplace.json", ".claude-plugin/plugin.json"


def test_plugin_manifests_name_more_places() -> None:
    paths = ["plugins/one/skills/a/SKILL.md", "plugins/two/deep/er/b/SKILL.md", "extra/place/c/SKILL.md", "d/SKILL.md"]
    manifest = {
        "metadata": {"pluginRoot": "./plugins"},
        "plugins": [{"name": "one", "source": "./one"}, {"name": "two", "source": "./two", "skills": ["./deep/er/b"]}],
    }
    plugin = {"name": "x", "skills": ["./extra/place/c"]}
    assert found(paths, {MARKETPLACE: manifest, PLUGIN: plugin}) == [
        "d",
        "plugins/one/skills/a",
        "plugins/two/deep/er/b",
        "extra/place/c",
    ]


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {"plugins": "x"},
        {"plugins": [1, None, {"source": 5}]},
        {"plugins": [{"source": "../../etc"}]},
        {"plugins": [{"source": "./../x", "skills": ["./../../y/z"]}]},
        {"plugins": [{"source": "/etc", "skills": ["/etc/x"]}]},
        {"metadata": {"pluginRoot": "../x"}, "plugins": [{"source": "./q"}]},
        {"metadata": 5, "plugins": [{"skills": [7, "no-dot/a"]}]},
    ],
)
def test_a_hostile_plugin_manifest_changes_nothing(manifest: object) -> None:
    assert found(["a/SKILL.md", "x/y/SKILL.md"], {MARKETPLACE: manifest, PLUGIN: manifest}) == ["a"]


def test_skills_that_the_repository_only_uses_are_left_out() -> None:
    lock: dict[str, object] = {"version": 1, "skills": {"Foreign Skill": {}}}
    paths = [".claude/skills/foreign-skill/SKILL.md", ".claude/skills/own/SKILL.md", "skills/foreign-skill/SKILL.md"]
    assert found(paths, {"skills-lock.json": lock}) == ["skills/foreign-skill", ".claude/skills/own"]


def test_every_markdown_file_outside_of_skill_folders_is_a_skill() -> None:
    paths = ["a.md", "deep/er/b.MD", "README.md", "skills/x/SKILL.md", "skills/x/c.md", "node_modules/d.md", "e.txt"]
    discovery = discover_markdown([*paths, "x/y/z/SKILL.md"])
    assert (discovery.folders, discovery.files) == (("skills/x", "x/y/z"), ("a.md", "deep/er/b.MD"))


def test_names_and_marks_are_read() -> None:
    assert declared_name(b"---\nname: 'My Skill'\ndescription: x\n---\n") == "My Skill"
    assert declared_name(b"name: x\n") == ""
    assert is_internal(b"---\nname: x\nmetadata:\n  author: me\n  internal: true\n---\n")
    assert not is_internal(b"---\nname: x\nmetadata:\n  internal: false\n---\ninternal: true\n")
    assert is_internal(b"---\r\nmetadata:\r\n  a: {\r\n\r\n    b}\r\n  internal:  true\r\n---\r\n")
    assert not is_internal(b"---\nmetadata:\n  a: b\nother:\n  internal: true\n---\n")
    assert is_internal(b"---\nname: x\nmetadata: {author: me, internal: true}\n---\n")
    assert is_internal(b'---\nname: x\nmetadata: {"internal": true}\n---\n')
    assert not is_internal(b"---\nname: x\nmetadata: {tool: {internal: true}, text: 'internal: true'}\n---\n")


def test_a_document_with_many_indented_lines_is_read_at_once() -> None:
    # Once, each line could be read in many ways, and twenty lines took hours.
    lines = b"      some: value\n \t \n" * 300
    assert not is_internal(b"---\nname: x\nmetadata:\n" + lines + b"  internal: false\n---\n")


@given(
    st.lists(st.lists(st.sampled_from(["skills", "a", "b", "build", ".claude", "SKILL.md"]), min_size=1, max_size=7))
)
def test_every_result_is_a_folder_with_a_skill(parts: list[list[str]]) -> None:
    paths = ["/".join([*folders, "SKILL.md"]) for folders in parts]
    marked = {path.rpartition("/")[0] for path in paths}
    folders = found(paths)
    assert set(folders) <= marked
    assert len(set(folders)) == len(folders)


@pytest.mark.long
def test_the_cli_finds_the_same_folders(skills_cli: Callable[..., Any], tmp_path: Path) -> None:
    places: dict[str, str] = {}
    for number, title in enumerate(TREES):
        root = tmp_path / str(number)
        for count, path in enumerate(TREES[title][0]):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(skill(f"s{count}"))
        places[title] = str(root)
    answers = skills_cli("discover_skills.mjs", list(places.values()))
    expected = {title: sorted(TREES[title][1]) for title in TREES}
    assert {title: sorted(answer) for title, answer in zip(places, answers, strict=True)} == expected
