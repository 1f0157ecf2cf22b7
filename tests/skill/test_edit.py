"""An edit changes what was edited and nothing else."""

from __future__ import annotations

import pytest

from prowess.skill.draft import SkillDraft, make_package
from prowess.skill.edit import rewrite_package
from prowess.skill.forms import read_package
from prowess.skill.kinds import Instructions, PromptTemplate, Reference
from prowess.skill.limits import Limits
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
    assert rewrite_package(skill, pack) is pack


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
    package = rewrite_package(skill)
    assert package.name == "notes"
    assert package.paths == ("SKILL.md", "agents/prowess.yaml", "prompts/check.j2", "references/guide.md")
    reading = read_package(package)
    assert reading.form == "native"
    assert (reading.skill.slug, reading.skill.body) == ("team.notes", "Write them.")
    assert package.get("references/guide.md").content == b"Read me."


def test_skill_md_stays_byte_for_byte_when_only_the_sidecar_has_something_new(skill, pack):
    edited = changed(skill, author="Ada", policy={"hosts": ["example.org"]}, version="2.0.0")
    package = rewrite_package(edited, pack)
    assert package.get("SKILL.md") == pack.get("SKILL.md")
    again = read_package(package).skill
    assert (again.author, again.policy, again.version) == ("Ada", {"hosts": ["example.org"]}, "2.0.0")
    assert (again.tags, again.extra) == (("a", "b"), {"model": "opus"})


@pytest.mark.parametrize(
    "values", [{"description": "Writes better notes."}, {"tags": ("a",)}, {"extra": {}}, {"slug": "other-notes"}]
)
def test_skill_md_is_written_anew_when_what_it_says_changed(skill, pack, values):
    package = rewrite_package(changed(skill, **values), pack)
    assert package.get("SKILL.md") != pack.get("SKILL.md")
    again = read_package(package).skill
    for field in ("description", "tags", "extra", "slug", "body", "title"):
        assert getattr(again, field) == values.get(field, getattr(skill, field))


def test_a_changed_body_is_written_and_the_frontmatter_still_says_the_same(skill, pack):
    body = skill.artifacts[0].model_copy(update={"content": "# Notes\n\nOtherwise.\n"})
    again = read_package(rewrite_package(changed(skill, artifacts=(body, *skill.artifacts[1:])), pack)).skill
    assert again.body == "# Notes\n\nOtherwise.\n"
    assert (again.description, again.tags, again.extra) == (skill.description, skill.tags, skill.extra)


def test_other_files_and_artifacts_that_did_not_change_keep_bytes_and_mode(skill, pack):
    package = rewrite_package(changed(skill, title="New"), pack)
    for path in ("references/a.md", "scripts/run.sh", "examples/one.py", "LICENSE"):
        assert package.get(path) == pack.get(path)
    assert [one.name for one in read_package(package).skill.artifacts] == [one.name for one in skill.artifacts]


def test_an_added_artifact_gets_a_file_of_its_own(skill, pack):
    prompt = PromptTemplate(name="Check it", content="{{ a }}", variant="openai", ordinal=4)
    package = rewrite_package(changed(skill, artifacts=(*skill.artifacts, prompt)), pack)
    assert package.get("prompts/check-it.openai.j2").content == b"{{ a }}"
    again = read_package(package).skill.artifact("Check it", "openai")
    assert (again.ordinal, again.content) == (4, "{{ a }}")


def test_a_removed_artifact_takes_its_file_along(skill, pack):
    left = tuple(one for one in skill.artifacts if one.name != "a.md")
    package = rewrite_package(changed(skill, artifacts=left), pack)
    assert package.get("references/a.md") is None
    assert package.get("references/b.md") is not None


def test_a_changed_file_artifact_is_written_and_keeps_its_mode(skill, pack):
    edited = tuple(
        one.model_copy(update={"content": "#!/bin/sh\necho\n"}) if one.name == "run.sh" else one
        for one in skill.artifacts
    )
    package = rewrite_package(changed(skill, artifacts=edited), pack)
    assert package.get("scripts/run.sh") == File(path="scripts/run.sh", content=b"#!/bin/sh\necho\n", mode="0755")


def test_the_sidecar_keeps_its_comments_when_it_still_says_the_same():
    sidecar = File(path="agents/prowess.yaml", content=b"# by hand\ntitle: Notes\nversion: 1.0.0\n")
    prompt = File(path="prompts/check.j2", content=b"Check {{ text }}")
    pack = Package(name="notes", files=(File(path="SKILL.md", content=SKILL_MD.encode()), sidecar, prompt))
    skill = read_package(pack).skill
    artifacts = [
        one.model_copy(update={"content": "Test {{ text }}"}) if one.kind == "prompt_template" else one
        for one in skill.artifacts
    ]
    package = rewrite_package(skill.model_copy(update={"artifacts": tuple(artifacts)}), pack)
    assert package.get("prompts/check.j2").content == b"Test {{ text }}"
    assert package.get("agents/prowess.yaml").content == sidecar.content
    changed = rewrite_package(skill.model_copy(update={"version": "2.0.0"}), pack)
    assert read_package(changed).skill.version == "2.0.0"


def test_an_edited_field_leaves_the_rest_of_the_sidecar_as_the_author_wrote_it():
    written = b"""# by hand
title: Notes   # short
triggers:
  - take notes
  # as people say it

# the release
version: '1.0.0'
parameters: {type: object, properties: {text: {type: string}}}
"""
    sidecar = File(path="agents/prowess.yaml", content=written)
    pack = Package(name="notes", files=(File(path="SKILL.md", content=SKILL_MD.encode()), sidecar))
    skill = read_package(pack).skill
    update = {"trigger_phrases": ("take notes", "minutes"), "version": "2.0.0", "output_schema": {"type": "object"}}
    package = rewrite_package(skill.model_copy(update=update), pack)
    assert package.get("agents/prowess.yaml").content.decode() == (
        "# by hand\ntitle: Notes   # short\ntriggers:\n  - take notes\n  # as people say it\n"
        "  - minutes\n\n# the release\nversion: '2.0.0'\n"
        "parameters: {type: object, properties: {text: {type: string}}}\noutput_schema:\n  type: object\n"
    )
    other = rewrite_package(skill.model_copy(update={"trigger_phrases": ("minutes",)}), pack)
    assert b"triggers:\n  - minutes\n\n# the release" in other.get("agents/prowess.yaml").content
    none_left = rewrite_package(skill.model_copy(update={"trigger_phrases": ()}), pack)
    assert b"triggers" not in none_left.get("agents/prowess.yaml").content
    assert b"# the release\nversion: '1.0.0'\n" in none_left.get("agents/prowess.yaml").content


def test_an_added_artifact_leaves_the_comments_of_the_others():
    written = b"# by hand\nartifacts:\n  # the main one\n  - path: prompts/check.j2   # short\n    fallback: instructions\n\n# wanted\ntags: [a]\n"
    prompt = File(path="prompts/check.j2", content=b"Check {{ text }}")
    sidecar = File(path="agents/prowess.yaml", content=written)
    pack = Package(name="notes", files=(File(path="SKILL.md", content=SKILL_MD.encode()), sidecar, prompt))
    skill = read_package(pack).skill
    new = PromptTemplate(name="other", content="{{ text }}", ordinal=2, fallback="check")
    package = rewrite_package(skill.model_copy(update={"artifacts": (*skill.artifacts, new)}), pack)
    assert package.get("agents/prowess.yaml").content == written.replace(
        b"\n\n# wanted", b"\n  - path: prompts/other.j2\n    ordinal: 2\n    fallback: check\n\n# wanted"
    )
    assert read_package(package).skill.artifact("other").fallback == "check"


@pytest.mark.parametrize(
    "written",
    [
        b"{title: Notes, version: '1.0.0'}\n",
        b"{title: Notes,\nversion: '1.0.0'}\n",
        b"---\ntitle: Notes\nversion: '1.0.0'\n...\n",
        b"title: Notes\r\nversion: '1.0.0'\r\n",
        b"title: Notes\rversion: '1.0.0'\r",
        b"'title': Notes\nversion: '1.0.0'",
        b"  title: Notes\n  version: '1.0.0'\n",
        b"title: 'No\xc2\x85tes'\nversion: '1.0.0'\n",
    ],
)
def test_a_sidecar_of_any_layout_can_be_edited(written):
    sidecar = File(path="agents/prowess.yaml", content=written)
    pack = Package(name="notes", files=(File(path="SKILL.md", content=SKILL_MD.encode()), sidecar))
    skill = read_package(pack).skill
    update = {"version": "2.0.0", "output_schema": {"type": "object"}}
    again = read_package(rewrite_package(skill.model_copy(update=update), pack)).skill
    assert (again.title, again.version, again.output_schema) == (skill.title, "2.0.0", {"type": "object"})


def test_artifacts_with_and_without_a_file_keep_the_order_of_the_list():
    listed = (
        "artifacts:\n  - {path: prompts/check.j2}\n  - {kind: review, name: judge, rubric_id: style}\n"
        "  - {path: prompts/again.j2}\n  - {kind: review, name: first, rubric_id: style, ordinal: 0}\n"
    )
    files = {"SKILL.md": SKILL_MD, "agents/prowess.yaml": listed, "prompts/check.j2": "a", "prompts/again.j2": "b"}
    pack = Package.of_texts("notes", files)
    skill = read_package(pack).skill
    ordinals = {one.name: one.ordinal for one in skill.artifacts}
    assert ordinals == {"instructions": 0, "check": 1, "judge": 1, "again": 1, "first": 0}
    again = read_package(rewrite_package(skill.model_copy(update={"title": "New"}), pack)).skill
    assert {one.name: one.ordinal for one in again.artifacts} == ordinals


def test_the_stores_id_does_not_enter_the_files(skill, pack):
    package = rewrite_package(changed(skill, title="New"), pack)
    assert b"id-1" not in package.get("agents/prowess.yaml").content
    assert read_package(package).skill.id == ""


def test_an_edit_of_an_edit_changes_only_what_was_edited(skill, pack):
    first = rewrite_package(changed(skill, title="New"), pack)
    second = rewrite_package(changed(read_package(first).skill, title="Newer"), first)
    differing = [path for path in second.paths if second.get(path) != first.get(path)]
    assert differing == ["agents/prowess.yaml"]
    assert second.paths == first.paths


@pytest.mark.parametrize("path", ["../outside.j2", "SKILL.md", "agents/prowess.yaml", "/x.j2", "LICENSE/x.j2"])
def test_a_path_that_an_artifact_may_not_have_is_replaced(skill, pack, path):
    prompt = PromptTemplate(name="check", content="{{ a }}", path=path)
    package = rewrite_package(changed(skill, artifacts=(*skill.artifacts, prompt)), pack)
    assert read_package(package).skill.artifact("check").path == "prompts/check.j2"
    assert package.get("LICENSE") == pack.get("LICENSE")


def test_instructions_that_look_like_utf_16_are_kept_as_they_are():
    content = "\x00a" * 200
    body = Instructions(name="instructions", content=content)
    package = rewrite_package(Skill(slug="a", title="A", description="d", artifacts=(body,)))
    assert read_package(package).skill.body == content


def test_a_file_that_is_not_text_is_reported_and_keeps_its_bytes(pack):
    native = rewrite_package(changed(read_package(pack).skill, title="New"), pack)
    native = native.with_files([File(path="code/odd.py", content=b"\xff\xfe")])
    reading = read_package(native)
    assert "not-text" in [problem.code for problem in reading.problems]
    assert rewrite_package(changed(reading.skill, title="Newer"), native).get("code/odd.py").content == b"\xff\xfe"


# The author's frontmatter


OWN = """---
# read by other clients
name: notes
description: >-
  Writes
  notes.

# how it is called
disable-model-invocation: true
model: opus  # the large one
version: 1.10
hooks: {start: [a, b]}
tags:
  - a
---
# Notes

Write them.
"""


def own(text=OWN, **files):
    pack = Package.of_texts("notes", {"SKILL.md": text, **files})
    return pack, read_package(pack).skill


def with_body(skill, body):
    return changed(skill, artifacts=(skill.artifacts[0].model_copy(update={"content": body}), *skill.artifacts[1:]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_edit_of_the_body_leaves_the_frontmatter_byte_for_byte(end):
    text = OWN.replace("\n", end)
    pack, skill = own(text)
    package = rewrite_package(with_body(skill, f"# Notes{end}{end}Otherwise.{end}"), pack)
    assert package.get("SKILL.md").content == text.replace("Write them.", "Otherwise.").encode()
    again = read_package(package).skill
    assert again.extra == skill.extra
    assert b"opus" not in package.get("agents/prowess.yaml").content


@pytest.mark.parametrize(
    ("values", "old", "new"),
    [
        ({"description": "Better."}, "description: >-\n  Writes\n  notes.\n", "description: Better.\n"),
        ({"tags": ("a", "b")}, "tags:\n  - a\n", "tags:\n  - a\n  - b\n"),
        ({"tags": ()}, "tags:\n  - a\n", ""),
        ({"version": "2.0"}, "version: 1.10\n", "version: '2.0'\n"),
        ({"slug": "team.other"}, "name: notes\n", "name: other\n"),
    ],
)
def test_an_edit_of_a_field_leaves_all_other_lines(values, old, new):
    pack, skill = own()
    package = rewrite_package(changed(skill, **values), pack)
    assert package.get("SKILL.md").content.decode() == OWN.replace(old, new)
    again = read_package(package).skill
    for field in ("slug", "title", "description", "version", "tags", "extra", "body"):
        assert getattr(again, field) == values.get(field, getattr(skill, field))


def test_a_field_that_other_clients_read_changes_or_goes_with_the_edit():
    pack, skill = own()
    extra = {**skill.extra, "model": "sonnet"}
    del extra["hooks"]
    text = rewrite_package(changed(skill, extra=extra), pack).get("SKILL.md").content.decode()
    assert text == OWN.replace("model: opus  # the large one\n", "model: sonnet\n").replace(
        "hooks: {start: [a, b]}\n", ""
    )


def test_a_value_that_frontmatter_cannot_give_back_is_kept_in_the_sidecar():
    pack, skill = own()
    extra = {**skill.extra, "model": {"large": True, "size": None}}
    assert read_package(rewrite_package(changed(skill, extra=extra), pack)).skill.extra == extra


def test_frontmatter_that_cannot_be_mended_line_by_line_keeps_the_fields_of_other_clients():
    text = "---\n{name: notes, description: d, model: opus, disable-model-invocation: true}\n---\n# Notes\n"
    pack, skill = own(text)
    package = rewrite_package(changed(skill, description="Better."), pack)
    assert package.get("SKILL.md").content.decode() == (
        "---\nname: notes\ndescription: Better.\nmodel: opus\ndisable-model-invocation: true\n---\n# Notes\n"
    )
    assert read_package(package).skill.extra == skill.extra


@pytest.mark.parametrize(
    "raw",
    [
        "{\nname: notes,\ndescription: d,\nmodel: opus\n}\n",
        "name: notes\ndescription: a: b: c\nmodel: opus\n",
        "name: notes\nmodel: opus\ndescription: d\nmodel: opus\n",
        "? name\n: notes\n? description\n: d\n? model\n: opus\n",
        "name: notes\ndescription: |+\n  d\n\n\nmodel: opus\n",
        'name: notes\ndescription: "d\u2028e"\nmodel: opus\n',
        "name: notes\nmodel: opus\ndescription: d",
        "name: notes\ndescription: d\nhooks:\n\tstart: a\nmodel: opus\n",
    ],
)
@pytest.mark.parametrize(
    "values", [{"description": "Better: by far."}, {"description": "e", "extra": {"model": "big"}}]
)
def test_an_edit_of_irregular_frontmatter_leaves_it_readable_with_all_its_fields(raw, values):
    pack, skill = own(f"---\n{raw}---\n# Notes\n")
    reading = read_package(rewrite_package(changed(skill, **values), pack))
    assert reading.document.how == "yaml"
    assert reading.document.fields["model"] == values.get("extra", {"model": "opus"})["model"]
    assert reading.document.fields["description"] == values["description"]
    assert (reading.skill.description, reading.skill.body) == (values["description"], skill.body)


def test_a_version_edited_by_hand_after_an_edit_counts():
    pack, skill = own()
    package = rewrite_package(changed(skill, title="New"), pack)
    text = package.get("SKILL.md").content.replace(b"version: 1.10", b"version: 3.0")
    assert read_package(package.with_files([File(path="SKILL.md", content=text)])).skill.version == "3.0"


def test_raised_limits_hold_for_an_edit():
    limits = Limits(skill_md_bytes=4 * 1024 * 1024, body_chars=3_000_000, frontmatter_bytes=64 * 1024)
    text = OWN.replace("tags:\n", f"long: {'x' * 20_000}\ntags:\n") + "x" * 2_000_000
    pack = Package.of_texts("notes", {"SKILL.md": text}, limits)
    skill = read_package(pack, limits).skill
    package = rewrite_package(changed(skill, description="Better."), pack, limits)
    again = read_package(package, limits)
    assert (again.skill.description, again.skill.extra, again.skill.body) == ("Better.", skill.extra, skill.body)
    assert [problem for problem in again.problems if problem.severity == "error"] == []


def test_a_description_that_is_given_for_a_document_without_one_is_written_into_it():
    package = make_package(SkillDraft(content="Add them up.", slug="totals", description="Adds up totals."))
    skill = read_package(package).skill
    assert skill.description == "Adds up totals."
