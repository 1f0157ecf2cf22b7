"""An edit changes what was edited and nothing else."""

from __future__ import annotations

import pytest

from prowess.skill.edit import rewrite
from prowess.skill.forms import read_package
from prowess.skill.kinds import Instructions, PromptTemplate, Reference
from prowess.skill.model import Skill
from prowess.skill.package import File, Package

SKILL_MD = """---
# kept by hand
name:   notes
description: "Writes notes."
tags: [a, b]
model: opus
---

# Notes

Write them.
"""


@pytest.fixture
def pack():
    files = [
        File(path="SKILL.md", content=SKILL_MD.encode()),
        File(path="references/a.md", content=b"A"),
        File(path="references/b.md", content=b"B"),
        File(path="scripts/run.sh", content=b"#!/bin/sh\n", mode="0755"),
        File(path="examples/one.py", content=b"not an artifact"),
        File(path="LICENSE", content=b"MIT"),
    ]
    return Package.of("notes", files)


@pytest.fixture
def skill(pack):
    return read_package(pack).skill.kept_as(id="id-1", scope="user", created_at="now")


def changed(skill, **values):
    return skill.model_copy(update=values)


def test_a_skill_that_did_not_change_keeps_all_its_files(skill, pack):
    assert rewrite(skill, pack) is pack


def test_a_new_skill_is_written_in_the_native_form():
    skill = Skill(
        slug="team.notes",
        title="Notes",
        description="Writes notes.",
        artifacts=(
            Instructions(name="instructions", content="Write them."),
            PromptTemplate(name="check", content="{{ a }}"),
            Reference(name="guide.md", path="references/guide.md", content="Read me."),
        ),
    )
    package = rewrite(skill)
    assert package.name == "notes"
    assert package.paths == ("SKILL.md", "agents/prowess.yaml", "prompts/check.j2", "references/guide.md")
    reading = read_package(package)
    assert reading.form == "native"
    assert (reading.skill.slug, reading.skill.body) == ("team.notes", "Write them.")
    assert package.get("references/guide.md").content == b"Read me."


def test_skill_md_stays_byte_for_byte_when_only_the_sidecar_has_something_new(skill, pack):
    edited = changed(skill, author="Ada", policy={"hosts": ["example.org"]}, version="2.0.0")
    package = rewrite(edited, pack)
    assert package.get("SKILL.md") == pack.get("SKILL.md")
    again = read_package(package).skill
    assert (again.author, again.policy, again.version) == ("Ada", {"hosts": ["example.org"]}, "2.0.0")
    assert (again.tags, again.extra) == (("a", "b"), {"model": "opus"})


@pytest.mark.parametrize(
    "values", [{"description": "Writes better notes."}, {"tags": ("a",)}, {"extra": {}}, {"slug": "other-notes"}]
)
def test_skill_md_is_written_anew_when_what_it_says_changed(skill, pack, values):
    package = rewrite(changed(skill, **values), pack)
    assert package.get("SKILL.md") != pack.get("SKILL.md")
    again = read_package(package).skill
    for field in ("description", "tags", "extra", "slug", "body", "title"):
        assert getattr(again, field) == values.get(field, getattr(skill, field))


def test_a_changed_body_is_written_and_the_frontmatter_still_says_the_same(skill, pack):
    body = skill.artifacts[0].model_copy(update={"content": "# Notes\n\nOtherwise.\n"})
    again = read_package(rewrite(changed(skill, artifacts=(body, *skill.artifacts[1:])), pack)).skill
    assert again.body == "# Notes\n\nOtherwise.\n"
    assert (again.description, again.tags, again.extra) == (skill.description, skill.tags, skill.extra)


def test_other_files_and_artifacts_that_did_not_change_keep_bytes_and_mode(skill, pack):
    package = rewrite(changed(skill, title="New"), pack)
    for path in ("references/a.md", "scripts/run.sh", "examples/one.py", "LICENSE"):
        assert package.get(path) == pack.get(path)
    assert [one.name for one in read_package(package).skill.artifacts] == [one.name for one in skill.artifacts]


def test_an_added_artifact_gets_a_file_of_its_own(skill, pack):
    prompt = PromptTemplate(name="Check it", content="{{ a }}", variant="openai", ordinal=4)
    package = rewrite(changed(skill, artifacts=(*skill.artifacts, prompt)), pack)
    assert package.get("prompts/check-it.openai.j2").content == b"{{ a }}"
    again = read_package(package).skill.artifact("Check it", "openai")
    assert (again.ordinal, again.content) == (4, "{{ a }}")


def test_a_removed_artifact_takes_its_file_along(skill, pack):
    left = tuple(one for one in skill.artifacts if one.name != "a.md")
    package = rewrite(changed(skill, artifacts=left), pack)
    assert package.get("references/a.md") is None
    assert package.get("references/b.md") is not None


def test_a_changed_file_artifact_is_written_and_keeps_its_mode(skill, pack):
    edited = tuple(
        one.model_copy(update={"content": "#!/bin/sh\necho\n"}) if one.name == "run.sh" else one
        for one in skill.artifacts
    )
    package = rewrite(changed(skill, artifacts=edited), pack)
    assert package.get("scripts/run.sh") == File(path="scripts/run.sh", content=b"#!/bin/sh\necho\n", mode="0755")


def test_the_stores_id_does_not_enter_the_files(skill, pack):
    package = rewrite(changed(skill, title="New"), pack)
    assert b"id-1" not in package.get("agents/prowess.yaml").content
    assert read_package(package).skill.id == ""


def test_an_edit_of_an_edit_changes_only_what_was_edited(skill, pack):
    first = rewrite(changed(skill, title="New"), pack)
    second = rewrite(changed(read_package(first).skill, title="Newer"), first)
    differing = [path for path in second.paths if second.get(path) != first.get(path)]
    assert differing == ["agents/prowess.yaml"]
    assert second.paths == first.paths


@pytest.mark.parametrize("path", ["../outside.j2", "SKILL.md", "agents/prowess.yaml", "/x.j2", "LICENSE/x.j2"])
def test_a_path_that_an_artifact_may_not_have_is_replaced(skill, pack, path):
    prompt = PromptTemplate(name="check", content="{{ a }}", path=path)
    package = rewrite(changed(skill, artifacts=(*skill.artifacts, prompt)), pack)
    assert read_package(package).skill.artifact("check").path == "prompts/check.j2"
    assert package.get("LICENSE") == pack.get("LICENSE")


def test_instructions_that_no_document_can_hold_get_a_file_of_their_own():
    content = "\x00a" * 200
    body = Instructions(name="instructions", content=content)
    package = rewrite(Skill(slug="a", title="A", description="d", artifacts=(body,)))
    assert package.get("instructions/instructions.md").content == content.encode()
    assert read_package(package).skill.body == content


def test_a_file_that_is_not_text_is_reported_and_keeps_its_bytes(pack):
    native = rewrite(changed(read_package(pack).skill, title="New"), pack)
    native = native.with_files([File(path="code/odd.py", content=b"\xff\xfe")])
    reading = read_package(native)
    assert "not-text" in [problem.code for problem in reading.problems]
    assert rewrite(changed(reading.skill, title="Newer"), native).get("code/odd.py").content == b"\xff\xfe"
