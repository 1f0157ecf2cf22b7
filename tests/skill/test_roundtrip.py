"""What one form holds comes back from every other form that can hold it, and the native form holds everything."""

from __future__ import annotations

import base64
import gzip
import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.skill.form_info import FORMS
from prowess.skill.forms import read_package, write_package
from prowess.skill.forms.form import Candidate
from prowess.skill.forms.origin import apply_changes, diff_values, dump_content
from prowess.skill.kinds import (
    Approach,
    Asset,
    CliCommand,
    CodeTemplate,
    Description,
    DspyModule,
    Example,
    Function,
    HttpCall,
    Instructions,
    JsonGeneration,
    PromptTemplate,
    Reference,
    Review,
    Script,
)
from prowess.skill.limits import DEFAULT_LIMITS, MIB, Limits
from prowess.skill.model import Provenance, Skill
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.package import File, Package
from prowess.skill.text.yaml import load
from prowess.skill.text.yaml_writer import dump

PLAIN = "---\nname: notes\ndescription: Writes release notes.\n---\n# Notes\n\nWrite them.\n"


def package(files, name="notes"):
    return Package.of_texts(name, files)


def document(**fields):
    return f"---\n{dump(fields)}---\n# Notes\n\nWrite them.\n"


EXAMPLES = {
    "agentskills": {
        "SKILL.md": "---\nname: notes # a comment\ndescription: >-\n  Writes\n  notes.\nmodel: opus\nmetadata:\n  version: '1.10'\n---\n\n# Notes\r\n\nWrite them.\n",
        "references/a.md": b"\xff\x00binary",
        "examples/x.py": "print(1)",
        "code/tool.py": "print(2)",
        "execute.py": "not a function",
        "LICENSE": "MIT",
    },
    "agentcy": {
        "notes.md": document(name="Team notes", slug="team.notes", description="d", version="1.0", tags=["a"], x=["y"])
    },
    "bernstein": {
        "SKILL.md": document(
            name="notes", description="d", trigger_keywords=["a"], references=["b.md", "a.md"], version="2"
        ),
        "references/a.md": "a",
        "references/b.md": "b",
    },
    "devai": {
        "skill.json": json.dumps(
            {
                "id": "note_taker",
                "name": "N",
                "description": " d ",
                "parameters": {"a": {"type": "string", "required": False}},
                "more": [1.5, None],
            }
        ),
        "execute.py": "def execute(args, ctx):\r\n    return 1\n",
        "lib/x.py": "y",
    },
    "inklings": {
        "pack.json": json.dumps(
            {
                "id": "7",
                "name": "N. Taker",
                "description": "d",
                "tags": '["a"]',
                "artifacts": [
                    {"kind": "prompt_template", "name": "P", "ordinal": 5, "content": "x\r\n"},
                    {
                        "kind": "prompt_template",
                        "name": "P",
                        "ordinal": 1,
                        "content": "y",
                        "model_variant": "openai",
                        "metadata": {"a": 1},
                    },
                    {"kind": "example", "name": "p", "content": "", "id": "9"},
                    {
                        "kind": "dspy_module",
                        "name": "../../D",
                        "content": "{}",
                        "state_blob": "e30=",
                        "metadata": {"fallback_artifact": "P"},
                    },
                ],
            }
        )
    },
    "agentlayerrules": {
        "catalog/note.yaml": "skill_id: Note_Taker\ntitle: N\ndescription: d\nversion: 1.10\ntemplate_type: LLM_JSON_GENERATION\ntemplate_config: {prompt_id: p, temperature: 0.70, odd: 1}\noutput_schema: {type: object}\nimplementation: {type: cli_command, handler: run}\nteam: x\n",
        "registry/prompts/p.v1.yaml": "prompt_id: p\nversion: 1.0.0\ntemplate: |\n  Hi {{x}}\n",
        "README.md": "about",
    },
    "native": {
        "SKILL.md": PLAIN,
        "agents/prowess.yaml": "# mine\ntitle: T\npolicy: {hosts: [a]}\nartifacts:\n  - {path: prompts/p.j2, name: P q, metadata: {k: [1, x]}}\n",
        "prompts/p.j2": "{{ a }}",
        "evals/evals.json": "{}",
    },
}


def example(form):
    return package(EXAMPLES[form], name="notes" if form in ("agentskills", "native") else "note")


def data(made):
    """The content of a package: values of data files, bytes of all others."""
    told = {}
    for file in made.files:
        if file.path.endswith(".json") and "/" not in file.path:
            told[file.path] = json.loads(file.content)
        elif file.path.startswith("catalog/"):
            told[file.path] = load(file.content.decode(), typed=True, limits=Limits(frontmatter_bytes=4 * MIB)).value
        else:
            told[file.path] = (file.content, file.mode)
    return told


def read_form(form, made, limits):
    return FORMS[form].load().read(Candidate(made, limits))


@pytest.mark.parametrize("row", FORMS.values(), ids=lambda row: row.name)
def test_each_row_names_itself_and_loads_all_that_a_form_has(row):
    assert FORMS[row.name] is row
    assert all(callable(getattr(row.load(), name)) for name in ("recognises", "read", "render", "origin", "controls"))


@pytest.mark.parametrize("form", FORMS)
def test_the_same_form_gives_the_same_bytes(form):
    made = example(form)
    reading = read_package(made)
    assert reading.form == form
    writing = write_package(reading.skill, made, form)
    assert (writing.package, writing.left_out) == (made, ())


@pytest.mark.parametrize("form", FORMS)
def test_the_native_form_holds_everything_and_gives_it_back(form):
    made = example(form)
    skill = read_package(made).skill
    writing = write_package(skill, made, "native")
    assert writing.left_out == ()
    middle = read_package(writing.package)
    assert middle.form == "native"
    assert comparable(middle.skill) == comparable(skill)
    back = write_package(middle.skill, writing.package, form)
    assert back.left_out == ()
    assert data(back.package) == data(made)


@pytest.mark.parametrize("form", FORMS)
def test_the_native_skill_md_is_plain_enough_for_every_client(form):
    made = example(form)
    written = write_package(read_package(made).skill, made, "native").package
    fields = read_package(written).document.fields
    assert set(fields) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert fields["name"] == written.name


@pytest.mark.parametrize("source", FORMS)
@pytest.mark.parametrize("target", FORMS)
def test_what_a_form_has_no_place_for_is_named_and_all_else_survives(source, target):
    made = example(source)
    skill = read_package(made).skill
    writing = write_package(skill, made, target)
    assert all(problem.code == "left-out" and problem.severity == "warning" for problem in writing.left_out)
    lost = {problem.field.partition(".")[0] for problem in writing.left_out}
    names = {problem.field for problem in writing.left_out}
    again = read_form(target, writing.package, DEFAULT_LIMITS).skill
    for field, value in dump_content(skill).items():
        if field in ("artifacts", "metadata", "provenance", "extra") or field in lost:
            continue
        assert dump_content(again)[field] == value, field
    kept = {(one.kind, one.name, one.variant, one.content) for one in again.artifacts}
    for one in skill.artifacts:
        assert (one.kind, one.name, one.variant, one.content) in kept or one.name in names


@pytest.mark.parametrize("source", FORMS)
@pytest.mark.parametrize("target", FORMS)
def test_a_skill_that_a_form_can_hold_comes_back_from_it_with_the_same_content(source, target):
    made = example(source)
    skill = read_package(made).skill
    there = write_package(skill, made, target)
    if there.left_out:
        return
    middle = read_form(target, there.package, DEFAULT_LIMITS).skill
    back = write_package(middle, there.package, source)
    again = read_form(source, back.package, DEFAULT_LIMITS).skill
    assert comparable(again) == comparable(skill)


@pytest.mark.parametrize("form", ["devai", "agentlayerrules", "inklings"])
def test_a_data_form_names_the_text_and_the_fields_that_it_cannot_hold(form):
    made = package({"SKILL.md": document(name="notes", description="d", model="opus", hooks=None), "LICENSE": "MIT"})
    lost = {problem.field for problem in write_package(read_package(made).skill, made, form).left_out}
    assert {"extra.model", "extra.hooks"} <= lost
    assert ("instructions" in lost) == (form != "inklings")
    assert ("LICENSE" in lost) == (form == "inklings")


def test_a_descriptor_takes_the_schema_of_its_generation():
    sidecar = (
        "artifacts:\n  - {path: prompts/ask.mustache}\n"
        "  - {kind: json_generation, name: answer, prompt_id: ask, output_schema: {type: object}}\n"
    )
    made = package({"SKILL.md": PLAIN, "agents/prowess.yaml": sidecar, "prompts/ask.mustache": "Ask {{what}}."})
    written = write_package(read_package(made).skill, made, "agentlayerrules").package
    reading = read_package(written)
    assert [problem.code for problem in reading.problems if problem.severity == "error"] == []
    assert reading.skill.artifact("generate").output_schema == {"type": "object"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("target", ["native", "agentskills", "agentcy", "bernstein"])
def test_line_ends_survive_every_document_form(end, target):
    text = "---\nname: notes\ndescription: d\nmodel: opus\n---\n# Notes\n\nWrite them.\n".replace("\n", end)
    made = package({"SKILL.md": text})
    there = write_package(read_package(made).skill, made, target).package
    middle = read_form(target, there, DEFAULT_LIMITS).skill
    back = write_package(middle, there, "agentskills").package.get("SKILL.md").content.decode()
    assert back.endswith(f"---{end}# Notes{end}{end}Write them.{end}")
    if target != "bernstein":
        assert back == text


@pytest.mark.long
@pytest.mark.parametrize("form", ["devai", "agentlayerrules"])
def test_raised_limits_hold_on_the_way_to_the_native_form_and_back(form):
    limits = Limits(skill_md_bytes=4 * MIB)
    (path, text), *others = EXAMPLES[form].items()
    more = {"more": "x" * MIB}
    text = text + dump(more) if path.endswith(".yaml") else json.dumps({**json.loads(text), **more})
    made = Package.of_texts("note", {path: text, **dict(others)}, limits)
    writing = write_package(read_package(made, limits).skill, made, "native", limits)
    assert writing.left_out == ()
    back = write_package(read_package(writing.package, limits).skill, writing.package, form, limits)
    assert back.left_out == ()
    assert data(back.package) == data(made)


def comparable(skill):
    """What a skill says, apart from where its artifacts lie."""
    values = dump_content(skill)
    for artifact in values["artifacts"]:
        if artifact["kind"] not in ("reference", "script", "asset"):
            del artifact["path"]
    return values


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
LINE = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20).filter(
    str.strip
)
TRIMMED = LINE.map(lambda text: text.strip())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
LISTS = st.lists(TRIMMED, max_size=3, unique=True).map(tuple)
OPTIONAL = st.none() | TRIMMED
COMMON = {
    "ordinal": st.integers(-5, 100),
    "content": TEXT,
    "variant": st.none() | TRIMMED,
    "assertions": st.lists(OBJECT, max_size=2).map(tuple),
    "metadata": OBJECT,
}
KIND_STRATEGIES = [
    st.builds(Description, name=LINE, **COMMON),
    st.builds(Instructions, name=LINE, **COMMON),
    st.builds(Approach, name=LINE, **COMMON),
    st.builds(Example, name=LINE, **COMMON),
    st.builds(
        PromptTemplate,
        name=LINE,
        **COMMON,
        syntax=st.sampled_from(["jinja", "mustache"]),
        version=OPTIONAL,
        vars_schema=st.none() | OBJECT,
        output_schema=st.none() | OBJECT,
    ),
    st.builds(
        JsonGeneration,
        name=LINE,
        **COMMON,
        prompt_id=LINE,
        prompt_version=OPTIONAL,
        model=OPTIONAL,
        temperature=st.none() | st.floats(0, 2),
        max_tokens=st.none() | st.integers(1, 9),
        retry_on_validation_failure=st.booleans(),
        output_schema=st.none() | OBJECT,
    ),
    st.builds(
        Review,
        name=LINE,
        **COMMON,
        rubric_id=LINE,
        rubric_version=OPTIONAL,
        evaluation_model=OPTIONAL,
        include_criteria_details=st.booleans(),
        output_schema=st.none() | OBJECT,
    ),
    st.builds(CodeTemplate, name=LINE, **COMMON),
    st.builds(
        Function,
        name=LINE,
        **COMMON,
        language=st.sampled_from(["python", "typescript", "javascript"]),
        handler=LINE,
        timeout_seconds=st.floats(0.5, 99),
    ),
    st.builds(HttpCall, name=LINE, **COMMON, handler=TEXT),
    st.builds(CliCommand, name=LINE, **COMMON, handler=TEXT),
    st.builds(DspyModule, name=LINE, **COMMON, state=st.none() | TEXT, fallback=st.none() | LINE),
]
# With a letter in front that begins no name of a device, such as `com1`, which is refused.
FILE_NAMES = st.text(string.ascii_letters + string.digits + "_-", max_size=8).map(lambda name: f"x{name}.txt")


@st.composite
def skills(draw):
    """A skill with artifacts of any kind, and the package that holds its files."""
    artifacts = draw(st.lists(st.one_of(KIND_STRATEGIES), max_size=5, unique_by=lambda one: (one.name, one.variant)))
    names = draw(st.lists(FILE_NAMES, max_size=3, unique_by=str.lower))
    folders = {"references": Reference, "scripts": Script, "assets": Asset}
    paths = {f"{draw(st.sampled_from(sorted(folders)))}/{name}": draw(st.binary(max_size=20)) for name in names}
    artifacts += [
        folders[path.partition("/")[0]](name=path.partition("/")[2], path=path, ordinal=draw(st.integers(0, 3)))
        for path in paths
    ]
    skill = Skill(
        slug=draw(st.sampled_from(["notes", "team.notes", "a.b.c-d", "été"])),
        title=draw(TRIMMED),
        description=draw(TRIMMED | TEXT.filter(str.strip)),
        version=draw(TRIMMED),
        tags=draw(LISTS),
        author=draw(OPTIONAL),
        license=draw(OPTIONAL),
        compatibility=draw(OPTIONAL),
        allowed_tools=draw(LISTS),
        metadata=draw(OBJECT),
        when_to_use=draw(OPTIONAL),
        trigger_phrases=draw(LISTS),
        intent_patterns=draw(LISTS),
        keywords=draw(LISTS),
        parameters=draw(st.none() | OBJECT),
        output_schema=draw(st.none() | OBJECT),
        policy=draw(OBJECT),
        extra=draw(st.dictionaries(st.sampled_from(NEED_FIELDS) | LINE, JSON, max_size=3)),
        provenance=draw(
            st.builds(Provenance, source=st.sampled_from(["system", "user"]), source_ref=OPTIONAL, sync_etag=OPTIONAL)
        ),
        artifacts=draw(st.permutations(artifacts)),
    )
    return skill, Package.of("", [File(path=path, content=content) for path, content in paths.items()])


@given(skills())
@settings(max_examples=150, deadline=None)
def test_any_skill_written_in_the_native_form_is_read_back_as_it_was(made):
    skill, files = made
    writing = write_package(skill, files, "native")
    reading = read_package(writing.package)
    assert comparable(reading.skill) == comparable(skill)
    assert writing.left_out == ()
    assert write_package(reading.skill, writing.package, "native").package == writing.package


@given(JSON, JSON)
@settings(max_examples=100, deadline=None)
def test_changes_turn_one_value_into_the_other_and_leave_moved_ground_alone(plain, source):
    made = tuple(diff_values(plain, source))
    assert json.dumps(apply_changes(plain, made), sort_keys=True) == json.dumps(source, sort_keys=True)
    assert (made == ()) == (json.dumps(plain, sort_keys=True) == json.dumps(source, sort_keys=True))


def test_a_change_is_passed_over_once_the_skill_says_something_else_there():
    made = tuple(diff_values({"version": "1.0.0", "tags": []}, {"tags": "[]", "odd": 1}))
    assert apply_changes({"version": "2.0.0", "tags": []}, made) == {"version": "2.0.0", "tags": "[]", "odd": 1}


def test_skill_md_without_frontmatter_comes_back_bare():
    made = package({"SKILL.md": "# Notes\n\nWrite them.\n"})
    native = write_package(read_package(made).skill, made, "native").package
    assert write_package(read_package(native).skill, native, "agentskills").package == made


def test_an_edit_in_the_native_form_shows_in_the_form_that_the_skill_came_in():
    made = example("inklings")
    native = write_package(read_package(made).skill, made, "native").package
    edited = read_package(native).skill.model_copy(update={"version": "2.0.0", "tags": ("b",)})
    value = json.loads(write_package(edited, native, "inklings").package.get("pack.json").content)
    assert (value["version"], value["tags"]) == ("2.0.0", ["b"])
    assert value["artifacts"] == json.loads(made.files[0].content)["artifacts"]


@pytest.mark.long
def test_real_skills_come_back_from_the_native_form(shared):
    """One in thirty of the real files: nothing left out, and the same text again."""
    with gzip.open(shared("corpus/skills.jsonl.gz"), "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for number, line in enumerate(lines) if number % 30 == 0]
    for entry in entries:
        content = base64.b64decode(entry["base64"]) if "base64" in entry else entry["text"].encode()
        made = package({"SKILL.md": content}, name=entry["path"].split("/")[-2] if "/" in entry["path"] else "skill")
        reading = read_package(made)
        native = write_package(reading.skill, made, "native")
        assert native.left_out == ()
        again = read_package(native.package)
        assert comparable(again.skill) == comparable(reading.skill)
        back = read_form(reading.form, write_package(again.skill, native.package, reading.form).package, DEFAULT_LIMITS)
        assert comparable(back.skill) == comparable(reading.skill)
        assert list(back.document.fields.items()) == list(reading.document.fields.items())
        assert back.document.body == reading.document.body
