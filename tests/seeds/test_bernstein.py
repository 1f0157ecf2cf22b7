"""Bernstein: the backend pack with its references and its script, as its page prints them."""

from __future__ import annotations

import re

import pytest

from prowess.skill.forms import read_package, write_package
from prowess.skill.package import File, Package
from prowess.skill.profiles.bernstein import KEYS

REFERENCES = ("python-conventions.md", "test-patterns.md", "error-handling.md")


@pytest.fixture
def skill_md(printed):
    """The printed SKILL.md; the page has lost the indent of list items, which YAML does not need."""
    return printed("bernstein", "SKILL.md format¶\n", "Descriptions stay terse")


@pytest.fixture
def pack(skill_md):
    files = [File(path="SKILL.md", content=skill_md.encode())]
    files += [File(path=f"references/{name}", content=f"# {name}\r\n".encode()) for name in REFERENCES]
    files += [File(path="scripts/lint.sh", content=b"#!/bin/sh\nexec ruff check\n", mode="0755")]
    return Package.of("backend", files)


def test_the_printed_pack_is_recognised_and_read(pack):
    reading = read_package(pack)
    skill = reading.skill
    assert reading.form == "bernstein"
    assert read_package(pack).form == "bernstein"
    assert reading.problems == ()
    assert skill.slug == "backend"
    assert skill.title == "Backend Engineering Skill"
    assert skill.description == "Python server code, APIs, async, strict typing."
    assert skill.keywords == ("python", "backend", "async", "pyright")
    assert skill.version == "1.0.0"
    assert skill.author is None


def test_its_references_and_its_script_are_artifacts_by_their_names(pack):
    skill = read_package(pack).skill
    assert {a.name for a in skill.artifacts if a.kind == "reference"} == set(REFERENCES)
    assert skill.artifact("lint.sh").kind == "script"
    assert skill.artifact("lint.sh").path == "scripts/lint.sh"
    assert skill.body.lstrip().startswith("# Backend Engineering Skill")


def test_the_layout_that_the_page_draws_is_the_layout_that_is_read(printed, pack):
    tree = printed("bernstein", "skills/ # new skill packs (oai-004)\n", "qa/\n").split()
    assert tree == ["backend/", "SKILL.md", "references/", *REFERENCES, "scripts/", "lint.sh"]
    read = {artifact.name for artifact in read_package(pack).skill.artifacts}
    assert read == {"instructions", *REFERENCES, "lint.sh"}


def test_every_field_of_the_frontmatter_table_is_understood(printed):
    table = printed("bernstein", "| field | type | notes |\n", "Validation failures")
    names = re.findall(r"^\s*(?:\| )?`?(\w+)`? \| ", table, re.MULTILINE)
    assert tuple(names) == KEYS
    fields = {"name": "x", "description": "A description of some length.", "version": "2.0.0", "author": "me"}
    lists = "".join(f"{name}: [a]\n" for name in ("trigger_keywords", "references", "scripts", "assets"))
    text = "---\n" + "".join(f"{key}: {value}\n" for key, value in fields.items()) + lists + "---\nBody\n"
    files = {"SKILL.md": text, "references/a": "", "scripts/a": "", "assets/a": ""}
    reading = read_package(Package.of_texts("x", files))
    assert reading.problems == ()
    assert (reading.skill.version, reading.skill.author) == ("2.0.0", "me")
    assert [a.name for a in reading.skill.artifacts] == ["instructions", "a", "scripts/a", "assets/a"]


def test_a_declared_file_that_is_missing_is_reported_with_its_line(pack):
    reading = read_package(pack.without(["references/test-patterns.md"]))
    problem = next(problem for problem in reading.problems if problem.code == "missing-file")
    assert "references/test-patterns.md" in problem.message
    assert problem.field == "references"
    assert problem.line == 5


def test_it_comes_back_from_the_native_form_byte_for_byte(pack):
    native = write_package(read_package(pack).skill, pack, "native")
    assert native.left_out == ()
    again = read_package(native.package)
    assert set(again.document.fields) == {"name", "description"}
    assert again.problems == ()
    back = write_package(again.skill, native.package, "bernstein")
    assert back.left_out == ()
    assert back.package == pack


def test_written_afresh_it_has_only_the_fields_of_the_schema(pack):
    skill = read_package(pack).skill.model_copy(update={"tags": ("api",), "output_schema": {"type": "object"}})
    writing = write_package(skill, pack, "bernstein")
    document = read_package(writing.package).document
    assert set(document.fields) <= set(KEYS)
    assert document.fields["trigger_keywords"] == list(skill.keywords)
    assert {problem.field for problem in writing.left_out} == {"tags", "output_schema"}
    assert {problem.severity for problem in writing.left_out} == {"warning"}
