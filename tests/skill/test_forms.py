"""Every form is recognised by content and read with every oddity reported."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.skill.filenames import has_marker
from prowess.skill.form_info import FORMS
from prowess.skill.forms import CODES, read_package, write_package
from prowess.skill.limits import Limits
from prowess.skill.model import Provenance, Skill
from prowess.skill.package import File, Package
from prowess.skill.text.yaml_writer import dump

PLAIN = "---\nname: notes\ndescription: Writes release notes.\n---\n# Notes\n\nWrite them.\n"


def package(files, name="notes"):
    return Package.of_texts(name, files if isinstance(files, dict) else {"SKILL.md": files})


def codes(reading):
    return [problem.code for problem in reading.problems]


def document(**fields):
    return f"---\n{dump(fields)}---\n# Notes\n\nWrite them.\n"


# Recognition


@pytest.mark.parametrize(
    ("files", "form"),
    [
        ({"SKILL.md": PLAIN}, "agentskills"),
        ({"SKILL.md": PLAIN, "agents/prowess.yaml": "version: 1.0.0\n"}, "native"),
        ({"SKILL.md": document(name="a", description="b", trigger_keywords=["c"])}, "bernstein"),
        ({"SKILL.md": document(name="a", description="b", references=["c.md"]), "references/c.md": ""}, "bernstein"),
        ({"SKILL.md": document(name="A", slug="x.a", description="b")}, "agentcy"),
        ({"triage.md": PLAIN}, "agentcy"),
        ({"skill.json": '{"id": "a", "description": "b"}', "execute.ts": "x"}, "devai"),
        ({"anything.json": '{"name": "A", "description": "b", "artifacts": []}'}, "inklings"),
        ({"skill.json": '{"name": "A", "description": "b", "artifacts": []}'}, "inklings"),
        ({"a.yaml": "skill_id: a\ndescription: b\n"}, "agentlayerrules"),
        ({"catalog/a.yml": "skill_id: a\ndescription: b\n", "prompts/p.mustache": "x"}, "agentlayerrules"),
    ],
)
def test_a_form_is_recognised_by_its_content(files, form):
    made = package(files)
    reading = read_package(made)
    assert reading.form == form
    assert reading.skill is not None


@pytest.mark.parametrize("files", [{}, {"README.txt": "hello"}, {"a.json": "[1]", "b.json": "{}"}, {"a.yaml": "b: 1"}])
def test_where_there_is_no_skill_the_problem_says_what_was_looked_for(files):
    reading = read_package(package(files))
    assert reading.skill is None
    (problem,) = reading.problems
    assert (problem.code, problem.severity) == ("no-skill", "error")
    assert all(name in problem.hint for name in ("SKILL.md", "skill.json", "artifacts", "skill_id"))


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD"])
def test_another_spelling_of_skill_md_is_read_and_reported(name):
    reading = read_package(package({name: PLAIN}))
    assert reading.skill.slug == "notes"
    assert codes(reading) == ["skill-md-spelling"]


# Reading a document


def test_a_plain_skill_is_read_without_a_word():
    reading = read_package(package(PLAIN))
    skill = reading.skill
    assert reading.problems == ()
    assert (skill.slug, skill.title, skill.description) == ("notes", "Notes", "Writes release notes.")
    assert (skill.version, skill.form, skill.frontmatter) == ("1.0.0", "agentskills", PLAIN.split("---\n")[1])
    assert skill.body == "# Notes\n\nWrite them.\n"
    assert skill.digest == reading.package.digest
    assert [entry.path for entry in skill.manifest] == ["SKILL.md"]


def test_a_skill_made_on_the_fast_path_equals_the_validated_one():
    text = document(
        name="notes",
        description="d",
        tags=["a"],
        version="1.10",
        license="MIT",
        metadata={"author": "Ada", "n": "1"},
        **{"allowed-tools": "Read Bash(git add:*)", "odd": ["x"], "when_to_use": "now", "triggers": "a, b"},
    )
    skill = read_package(package({"SKILL.md": text, "references/r.md": "x"})).skill
    validated = Skill.model_validate({name: getattr(skill, name) for name in Skill.model_fields})
    assert validated == skill
    assert validated.model_dump() == skill.model_dump()
    assert type(skill.artifacts) is tuple
    assert skill.model_dump_json() == validated.model_dump_json()


def test_all_the_fields_of_a_document_find_their_place():
    text = document(
        name="notes",
        description="d",
        tags="a, b",
        version="1.10",
        author="Ada",
        license="MIT",
        compatibility="git",
        metadata={"k": "v"},
        when_to_use="at a release",
        triggers=["write notes", "what changed"],
        keywords=["release"],
        **{"allowed-tools": "Read Bash(git log:*)"},
    )
    reading = read_package(package(text))
    skill = reading.skill
    assert reading.problems == ()
    assert (skill.version, skill.author, skill.license, skill.compatibility) == ("1.10", "Ada", "MIT", "git")
    assert (skill.tags, skill.keywords) == (("a", "b"), ("release",))
    assert skill.trigger_phrases == ("write notes", "what changed")
    assert skill.allowed_tools == ("Read", "Bash(git log:*)")
    assert (skill.when_to_use, skill.metadata) == ("at a release", {"k": "v"})


def test_author_version_and_tags_may_stand_under_metadata():
    metadata = {"author": "Ada", "version": "2.1", "tags": "a, b", "description": "From the metadata."}
    skill = read_package(package(document(name="notes", metadata=metadata))).skill
    assert (skill.author, skill.version, skill.tags) == ("Ada", "2.1", ("a", "b"))
    assert skill.description == "From the metadata."
    assert skill.metadata == metadata


@pytest.mark.parametrize(
    ("fields", "slug", "title"),
    [
        ({"name": "notes"}, "notes", "Notes"),
        ({"name": "Release Notes!"}, "release-notes", "Release Notes!"),
        ({"name": "notes", "title": "My notes"}, "notes", "My notes"),
        ({"name": "Release Notes", "slug": "team.notes"}, "team.notes", "Release Notes"),
        ({"name": "notes", "slug": "Bad Slug"}, "bad-slug", "notes"),
        ({"title": "Only a title"}, "folder", "Only a title"),
    ],
)
def test_slug_and_title_come_from_the_best_place_there_is(fields, slug, title):
    skill = read_package(package(document(description="d", **fields), name="folder")).skill
    assert (skill.slug, skill.title) == (slug, title)


def test_without_frontmatter_folder_heading_and_paragraph_stand_in():
    reading = read_package(package("# The Title\n\nFirst words.\n\nMore.\n", name="Some Folder"))
    skill = reading.skill
    assert (skill.slug, skill.title, skill.description) == ("some-folder", "The Title", "First words.")
    assert {"name-missing", "description-from-body"} <= set(codes(reading))


def test_a_skill_without_any_name_or_words_is_not_read():
    reading = read_package(package("---\nlicense: MIT\n---\n", name=""))
    assert reading.skill is None
    assert "no-slug" in codes(reading)


def test_a_missing_description_is_an_error_where_no_text_can_stand_in():
    reading = read_package(package("---\nname: notes\n---\n"))
    found = {problem.code: problem.severity for problem in reading.problems}
    assert found == {"description-missing": "error", "body-empty": "info"}


@pytest.mark.parametrize(
    ("text", "code", "field", "line"),
    [
        (document(name="notes", description="d", color="red"), "unknown-field", "color", 4),
        (document(name="My Notes", description="d"), "name-not-slug", "name", 2),
        (document(name="other", description="d"), "name-differs-from-folder", "name", 2),
        (document(name="notes", description=["a", "b"]), "wrong-type", "description", 3),
        (document(name="notes", description="d", metadata="x"), "wrong-type", "metadata", 4),
        (document(name="notes", description="d", Version="2"), "field-spelling", "Version", 4),
        (
            document(name="notes", description="d", tags="a", triggers="b", trigger_phrases="c"),
            "repeated-field",
            "trigger_phrases",
            6,
        ),
        (
            document(name="notes", description="d", trigger_keywords=["k"], scripts=["s.sh"]),
            "missing-file",
            "scripts",
            6,
        ),
    ],
)
def test_an_oddity_is_reported_with_its_field_and_line(text, code, field, line):
    reading = read_package(package(text))
    problem = next(problem for problem in reading.problems if problem.code == code)
    assert (problem.field, problem.line) == (field, line)
    assert problem.severity in ("warning", "info")
    assert reading.skill is not None


def test_fields_without_a_meaning_are_kept():
    skill = read_package(package(document(name="notes", description="d", color="red", hooks={"a": ["b"]}))).skill
    assert skill.extra == {"color": "red", "hooks": {"a": ["b"]}}


def test_files_in_the_three_folders_are_artifacts_and_others_are_not():
    files = {
        "SKILL.md": PLAIN,
        "references/a.md": "A",
        "references/deep/b.md": "B",
        "scripts/run.sh": "x",
        "assets/a.md": "other",
        "prompts/p.j2": "just a file here",
        "LICENSE": "MIT",
    }
    skill = read_package(package(files)).skill
    told = [(artifact.kind, artifact.name, artifact.path) for artifact in skill.artifacts]
    assert told == [
        ("instructions", "instructions", "SKILL.md"),
        ("reference", "a.md", "references/a.md"),
        ("reference", "deep/b.md", "references/deep/b.md"),
        ("script", "run.sh", "scripts/run.sh"),
        ("asset", "assets/a.md", "assets/a.md"),
    ]


def test_limits_are_kept():
    limits = Limits(skill_md_bytes=200, body_chars=10)
    too_long = read_package(package(PLAIN), limits)
    assert ("body-too-long", "error") in [(one.code, one.severity) for one in too_long.problems]
    too_large = read_package(package(PLAIN + "x" * 200), limits)
    assert too_large.skill is None
    assert codes(too_large) == ["skill-md-too-large"]


# Hostile and broken data


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "json-unreadable"),
        ('{"artifacts": NaN}', "json-unreadable"),
        ('{"artifacts": 1e999}', "json-unreadable"),
        ('{"artifacts": [], "name": "\\ud800"}', "json-unreadable"),
        ('{"artifacts": ' + "9" * 5000 + "}", "json-unreadable"),
        ('{"artifacts": ' + "[" * 100_000, "json-unreadable"),
        ('{"artifacts": ' + "[" * 200 + "]" * 200 + "}", "json-unreadable"),
        (b"\xff\xfe{}", "json-unreadable"),
    ],
)
def test_json_that_a_skill_may_not_use_is_refused_with_the_reason(text, code):
    reading = read_package(package({"x.json": text}))
    assert reading.skill is None
    assert codes(reading) == [code]


def test_a_json_file_over_the_limit_is_not_read():
    reading = read_package(
        package({"x.json": json.dumps({"artifacts": [], "pad": "x" * 1000})}), Limits(file_bytes=500)
    )
    assert codes(reading) == ["file-too-large"]


def test_a_repeated_key_is_reported():
    reading = read_package(package({"x.json": '{"name": "A", "name": "B", "description": "c", "artifacts": []}'}))
    assert codes(reading) == ["json-duplicate-key"]
    assert reading.skill.title == "B"


@pytest.mark.parametrize(
    "text", ["skill_id: a\nb: &x [*x]\n", "skill_id: [a\n", "skill_id: a\nskill_id: b\n", "skill_id: " + "[" * 500]
)
def test_yaml_that_a_skill_may_not_use_is_refused_with_the_line(text):
    reading = read_package(package({"x.yaml": text}))
    assert reading.skill is None
    assert codes(reading) == ["yaml-unreadable"]
    assert reading.problems[0].line is not None


@pytest.mark.parametrize(
    "value",
    [
        {"name": 1, "artifacts": "x"},
        {"name": ["a"], "description": {"b": 1}, "tags": {"c": [1]}, "artifacts": [1, None, {"kind": "description"}]},
        {
            "name": "A",
            "description": "b",
            "source": "mars",
            "artifacts": [{"kind": "description", "name": "", "content": 3}],
        },
        {"artifacts": [{"kind": [], "name": {}}]},
        {
            "name": "A",
            "description": "b",
            "artifacts": [{"kind": "dspy_module", "name": "m", "ordinal": "x", "state_blob": 5}],
        },
        {
            "name": "A",
            "description": "b",
            "artifacts": [{"kind": "example", "name": "m", "content": "c", "metadata": "no"}],
        },
    ],
)
def test_an_inklings_package_of_odd_values_is_reported_not_raised(value):
    reading = read_package(package({"x.json": json.dumps(value)}))
    assert reading.problems
    assert all(problem.code in CODES for problem in reading.problems)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["native", "devai", "inklings", "[["]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "artifacts",
                        "id",
                        "name",
                        "kind",
                        "skill_id",
                        "description",
                        "template_type",
                        "template_config",
                        "implementation",
                        "type",
                        "parameters",
                        "prompt_id",
                        "criteria",
                        "tags",
                        "content",
                        "metadata",
                        "version",
                        "output_schema",
                        "policy",
                        "slug",
                        *("provenance", "source_type", "origin", "form", "changes", "at", "frontmatter", "title"),
                        *("properties", "required", "path", "rubric_id", "fallback", "variant", "not_artifacts"),
                    ]
                ),
                inner,
                max_size=8,
            )
        ),
        max_leaves=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_no_data_makes_a_reader_raise(value):
    value = {**(value if isinstance(value, dict) else {"x": value})}
    text = json.dumps(value)
    for files in (
        {"x.json": json.dumps({"artifacts": [value], **value})},
        {"skill.json": text, "execute.py": "x"},
        {"x.yaml": dump({"skill_id": "x", **value}), "prompts/p.json": text, "rubrics/r.json": text},
        {"SKILL.md": PLAIN, "agents/prowess.yaml": text, "rubrics/r.json": text},
        {"SKILL.md": PLAIN, "agents/prowess.yaml": dump({"provenance": value, "parameters": value})},
        {"SKILL.md": PLAIN, "agents/prowess.yaml": dump({"origin": {"form": "devai", "changes": [value], **value}})},
        {"SKILL.md": PLAIN, "agents/prowess.yaml": dump({"artifacts": [value, {"path": "SKILL.md", **value}]})},
        {"SKILL.md": f"---\n{dump(value)}---\n"},
    ):
        reading = read_package(package(files))
        if reading.skill is not None:
            for form in FORMS:
                write_package(reading.skill, reading.package, form)


# The native form


def native(sidecar, **files):
    more = {path.replace("__", "/"): text for path, text in files.items()}
    return package(
        {"SKILL.md": PLAIN, "agents/prowess.yaml": sidecar if isinstance(sidecar, str) else dump(sidecar), **more}
    )


STATE = '{"demos": [], "signature": {"instructions": "Check.", "fields": []}}'


def test_files_of_a_native_folder_are_artifacts_by_where_they_lie():
    files = {
        "SKILL.md": PLAIN,
        "agents/prowess.yaml": "artifacts:\n  - path: dspy/checker.json\n    fallback: check\n",
        "prompts/check.j2": "{{ a }}",
        "prompts/check.anthropic.j2": "<a>{{ a }}</a>",
        "prompts/list.mustache": "{{a}}",
        "code/cross.py": "print(1)",
        "dspy/checker.json": '{"template_id": "predict"}',
        "dspy/checker.state.json": STATE,
        "execute.py": "def execute(args, ctx): ...",
        "rubrics/style.json": json.dumps({"rubric_id": "house", "scoring_mode": "binary", "criteria": []}),
        "approach.md": "Slowly.",
        "examples/one.md": "in → out",
        "references/r.md": "r",
        "evals/evals.json": "{}",
        "prompts/schema.json": "{}",
    }
    reading = read_package(package(files))
    assert codes(reading) == ["rubric-without-criteria"]
    told = {(artifact.kind, artifact.name, artifact.variant) for artifact in reading.skill.artifacts}
    assert told == {
        ("instructions", "instructions", None),
        ("prompt_template", "check", None),
        ("prompt_template", "check", "anthropic"),
        ("prompt_template", "list", None),
        ("code_template", "cross", None),
        ("dspy_module", "checker", None),
        ("function", "execute", None),
        ("review", "style", None),
        ("approach", "approach", None),
        ("example", "one.md", None),
        ("reference", "r.md", None),
    }
    assert reading.skill.artifact("checker").state == STATE
    assert reading.skill.artifact("list").syntax == "mustache"
    assert reading.skill.artifact("style").rubric_id == "house"


@pytest.mark.parametrize("more", ["", "kind: function, "])
def test_an_entry_that_is_called_execute_is_about_the_execute_file(more):
    sidecar = f"artifacts: [{{name: execute, {more}timeout_seconds: 5}}]\n"
    files = {"SKILL.md": PLAIN, "agents/prowess.yaml": sidecar, "execute.py": "def execute(args, ctx): ..."}
    reading = read_package(package(files))
    assert codes(reading) == []
    [function] = [one for one in reading.skill.artifacts if one.kind == "function"]
    assert (function.name, function.path, function.timeout_seconds) == ("execute", "execute.py", 5)
    assert function.content == files["execute.py"]


def test_the_sidecar_has_the_last_word():
    sidecar = {
        "title": "Release notes",
        "slug": "team.notes",
        "version": "3.0",
        "tags": ["a"],
        "triggers": ["b"],
        "intent_patterns": ["c"],
        "keywords": ["d"],
        "when_to_use": "e",
        "author": "Ada",
        "parameters": {"type": "object"},
        "output_schema": {"type": "array"},
        "policy": {"env": ["TOKEN"], "hosts": ["example.org"], "roots": ["."]},
        "source": "community",
        "provenance": {"source_type": "github", "source_url": "https://example.org/x"},
        "frontmatter": {"model": "opus"},
    }
    skill = read_package(native(sidecar)).skill
    assert (skill.title, skill.slug, skill.version, skill.author) == ("Release notes", "team.notes", "3.0", "Ada")
    assert (skill.tags, skill.trigger_phrases, skill.intent_patterns, skill.keywords) == (
        ("a",),
        ("b",),
        ("c",),
        ("d",),
    )
    assert (skill.parameters, skill.output_schema) == ({"type": "object"}, {"type": "array"})
    assert skill.policy["hosts"] == ["example.org"]
    assert skill.provenance == Provenance(source="community", source_type="github", source_url="https://example.org/x")
    assert skill.extra == {"model": "opus"}


@pytest.mark.parametrize(
    ("sidecar", "code", "words"),
    [
        ({"tittle": "x"}, "sidecar-unknown-field", "Did you mean 'title'?"),
        ({"tags": {"a": 1}}, "sidecar-invalid", "tags"),
        ("tags: [", "sidecar-unreadable", "agents/prowess.yaml"),
        ("- a\n", "sidecar-unreadable", "mapping"),
        ({"slug": "Not A Slug"}, "slug-invalid", "slug"),
        ({"artifacts": [{"path": "prompts/none.j2"}]}, "missing-file", "prompts/none.j2"),
        ({"artifacts": [{"path": "p.txt", "kind": "promt_template"}]}, "unknown-kind", "prompt_template"),
        ({"artifacts": [{"path": "p.txt"}]}, "unknown-kind", "artifacts[0] has no kind"),
        (
            {"artifacts": [{"path": "p.txt", "kind": "prompt_template", "sintax": "x"}]},
            "sidecar-unknown-field",
            "syntax",
        ),
        ({"artifacts": [{"path": "p.txt", "kind": "prompt_template", "syntax": "x"}]}, "artifact-invalid", "syntax"),
        ({"artifacts": [{"path": "p.txt", "kind": "example", "fallback": "none"}]}, "unknown-fallback", "none"),
        ({"artifacts": [{"path": "p.txt", "kind": "dspy_module"}]}, "dspy-without-fallback", "fallback"),
        (
            {"artifacts": [{"path": "p.txt", "kind": "example", "name": "instructions"}]},
            "duplicate-artifact",
            "instructions",
        ),
    ],
)
def test_a_faulty_sidecar_is_an_error_that_says_what_to_do_and_the_rest_is_read(sidecar, code, words):
    reading = read_package(
        package(
            {
                "SKILL.md": PLAIN,
                "agents/prowess.yaml": sidecar if isinstance(sidecar, str) else dump(sidecar),
                "p.txt": "x",
            }
        )
    )
    problem = next(problem for problem in reading.problems if problem.code == code)
    assert problem.severity == "error"
    assert words in problem.message + problem.hint
    assert reading.skill.description == "Writes release notes."


def test_a_sidecar_without_skill_md_is_an_error():
    reading = read_package(package({"agents/prowess.yaml": "slug: a\ndescription: b\n"}))
    assert "skill-md-missing" in codes(reading)


def test_a_long_description_is_cut_in_skill_md_and_whole_in_the_sidecar():
    skill = read_package(package(document(name="notes", description="word " * 400))).skill
    written = write_package(skill, package(PLAIN), "native").package
    assert len(read_package(written).document.fields["description"]) <= 1024
    assert read_package(written).skill.description == skill.description


def test_a_description_edited_by_hand_in_skill_md_counts():
    skill = read_package(package(document(name="notes", description="word " * 400))).skill
    written = write_package(skill, package(PLAIN), "native").package
    edited = written.with_files([File(path="SKILL.md", content=PLAIN.encode())])
    reading = read_package(edited)
    assert reading.skill.description == "Writes release notes."
    assert "description-differs" in codes(reading)


def test_more_artifacts_than_a_skill_may_have_are_an_error_and_the_rest_is_not_read():
    rows = [{"kind": "example", "name": str(number), "content": "x"} for number in range(500)]
    reading = read_package(package({"x.json": json.dumps({"name": "A", "description": "b", "artifacts": rows})}))
    assert codes(reading) == ["too-many-artifacts"]
    assert len(reading.skill.artifacts) == 400


def test_very_many_unknown_fields_are_summed_up():
    value = {"name": "A", "description": "b", "artifacts": [], **{f"k{number}": 1 for number in range(100)}}
    reading = read_package(package({"x.json": json.dumps(value)}))
    assert len(reading.problems) == 51
    assert "50 more unknown fields" in reading.problems[-1].message


def test_very_many_unknown_fields_of_a_document_are_summed_up_too():
    text = document(name="notes", description="d", **{f"k{number}": "1" for number in range(100)})
    reading = read_package(package(text))
    assert codes(reading) == ["unknown-field"] * 51
    assert "50 more unknown fields" in reading.problems[-1].message
    assert len(reading.skill.extra) == 100


@pytest.mark.parametrize("kind", ["prompt", "rubric"])
@pytest.mark.parametrize("what", ["id-missing", "unknown"])
def test_the_codes_of_a_registry_are_explained(kind, what):
    template = {"prompt": "LLM_JSON_GENERATION", "rubric": "LLM_REVIEW"}[kind]
    config = {f"{kind}_id": "x"} if what == "unknown" else {}
    value = {"skill_id": "a", "description": "b", "template_type": template, "template_config": config}
    found = codes(read_package(package({"a.yaml": dump({**value, "output_schema": {}})})))
    assert f"{kind}-{what}" in found
    assert set(found) <= set(CODES)


@pytest.mark.parametrize(("slug", "name"), [("notes", "notes"), ("team.notes", "notes"), ("a.b.c", "c")])
def test_a_skill_is_called_by_the_last_segment_of_its_slug(slug, name):
    skill = Skill(slug=slug, title="N", description="d")
    assert skill.name == name
    assert "name" not in skill.model_dump()


def test_the_old_spelling_skills_md_is_read_but_marks_no_folder():
    assert read_package(package({"SKILLS.md": PLAIN, "references/a.md": "A"})).skill.slug == "notes"
    assert not has_marker(["SKILLS.md", "README.md"])
    assert has_marker(["Skill.md"])


def test_every_code_is_explained():
    assert all(meaning.endswith(".") for meaning in CODES.values())


def test_a_state_that_dspy_does_not_save_is_kept_and_reported():
    artifacts = [{"path": "dspy/checker.json", "fallback": "check"}]
    files = {"prompts__check.j2": "x", "dspy__checker.json": '{"template_id": "predict"}'}
    reading = read_package(native({"artifacts": artifacts}, **files, **{"dspy__checker.state.json": '{"lm": 1}'}))
    assert codes(reading) == ["dspy-state-invalid"]
    assert reading.skill.artifact("checker").state == '{"lm": 1}'
