"""Validation as the rest of the engine sees it: reports, acceptance, limits, and the real files."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.skill.profiles import PROFILE_NAMES
from prowess.skill.text.document import TEXT_CODES
from prowess.skill.validate import VALIDATION_CODES, accept, validate

GOOD = "---\nname: notes\ndescription: Takes notes in meetings and sorts them.\n---\n# Notes\n\nWrite them down.\n"


def test_a_report_holds_the_reading_the_profile_and_the_verdict() -> None:
    report = validate(Package.of_texts("notes", {"SKILL.md": GOOD}))
    assert report.ok
    assert report.profile == "prowess"
    assert report.reading.skill is not None
    assert report.reading.skill.slug == "notes"


def test_accepting_a_usable_skill_gives_its_reading() -> None:
    reading = accept(Package.of_texts("notes", {"SKILL.md": "# Notes\n\nTakes notes.\n"}))
    assert reading.skill is not None
    assert (reading.skill.slug, reading.skill.description) == ("notes", "Takes notes.")


def test_numbers_of_a_schema_in_the_sidecar_may_end_with_a_zero_and_a_version_keeps_its_own() -> None:
    number = "{type: number, minimum: 0.50, maximum: 2.00, default: 0.70}"
    sidecar = (
        f"version: 1.10\nparameters:\n  properties:\n    warmth: {number}\n    release: {{type: string, default: 1.10}}\n"
        f"artifacts:\n  - path: prompts/a.j2\n    vars_schema: {{properties: {{warmth: {number}}}}}\n"
    )
    files = {"SKILL.md": GOOD, "agents/prowess.yaml": sidecar, "prompts/a.j2": "{{ warmth }}"}
    skill = accept(Package.of_texts("notes", files)).skill
    assert skill is not None
    expected = {"type": "number", "minimum": 0.5, "maximum": 2.0, "default": 0.7}
    assert skill.parameters["properties"] == {"warmth": expected, "release": {"type": "string", "default": "1.10"}}
    assert skill.find_artifact("a").vars_schema == {"properties": {"warmth": expected}}
    assert skill.version == "1.10"


def test_accepting_an_unusable_skill_raises_with_every_problem() -> None:
    package = Package.of_texts("notes", {"SKILL.md": "---\nname: notes\ncolour: red\n---\n", "a.txt": "\u202ex\n"})
    with pytest.raises(Invalid) as refused:
        accept(package)
    found = {problem.code for problem in refused.value.problems}
    assert {"description-missing", "hidden-text", "unknown-field"} <= found
    assert refused.value.hint
    assert "notes" in refused.value.message


def test_a_package_over_the_limits_is_an_error_under_every_profile() -> None:
    package = Package.of_texts("notes", {"SKILL.md": GOOD, "a.txt": "x" * 100})
    for profile in PROFILE_NAMES:
        report = validate(package, profile, Limits(file_bytes=90))
        assert "over-limit" in {problem.code for problem in report.errors}


def test_a_package_is_checked_against_limits_other_than_those_it_was_read_with() -> None:
    narrow, files = Limits(files=1), {"SKILL.md": "---\nname: a\ndescription: A.\n---\n\nA.\n", "notes.md": "B.\n"}
    package = Package.of_texts("a", files)
    assert validate(package).ok
    assert [problem.code for problem in validate(package, limits=narrow).errors] == ["over-limit"]

    small = Package.of_texts("a", {"SKILL.md": files["SKILL.md"]}, narrow)
    grown = replace(small, files=package.files)
    assert validate(small, limits=narrow).ok
    assert [problem.code for problem in validate(grown, limits=narrow).errors] == ["over-limit"]


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_raised_limits_hold_under_every_profile(profile: Any) -> None:
    package = Package.of_texts("notes", {"SKILL.md": GOOD.replace("meetings", "\n  meetings # " + "x" * 20_000)})
    limits = Limits(frontmatter_bytes=64 * 1024)
    assert "frontmatter-too-large" in {problem.code for problem in validate(package, profile).problems}
    assert validate(package, profile, limits).problems == ()


def test_nothing_that_is_a_skill_in_no_form_is_an_error_and_not_an_exception() -> None:
    for profile in PROFILE_NAMES:
        assert not validate(Package.of_texts("notes", {"picture.png": b"\x89PNG"}), profile).ok


PIECES = st.sampled_from(
    [
        "---", "\n", "name: notes", "name: [a]", "description: d", "description: a: b", "tags: [a, b", "\t", "  - x", "# H",
        "key:\n  sub: 1", "&a", "*b", "!t", "```", "\ufeff", "\x00", "\u202e", "\U000e0041", "é", "'", '"', "{", "}", "\r\n",
        "metadata:", "hooks: x", "allowed-tools: *",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12), st.sampled_from(PROFILE_NAMES))
@settings(max_examples=200, deadline=None)
def test_validation_never_raises_and_never_says_the_same_twice(pieces: list[str], profile: Any) -> None:
    problems = validate(Package.of_texts("notes", {"SKILL.md": "".join(pieces)}), profile).problems
    assert len(set(problems)) == len(problems)
    assert all(problem.code in VALIDATION_CODES for problem in problems)
    assert all(problem.message for problem in problems)


REASONS = {"hidden-text", "description-missing", "no-slug", "body-too-long", "frontmatter-too-large"}
"""Why a real file may be refused."""


def corpus(shared: Callable[[str], Path]) -> Iterator[Package]:
    with gzip.open(shared("corpus/skills.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            folder = Path(row["path"]).parent.name or row["repo"].rpartition("/")[2]
            data = row["text"] if "text" in row else base64.b64decode(row["base64"])
            yield Package.of_texts(folder, {"SKILL.md": data})


@pytest.mark.long
def test_every_irregular_file_is_told_why_and_every_code_has_a_meaning(shared: Callable[[str], Path]) -> None:
    causes = TEXT_CODES.keys() - {"crlf"}
    irregular = 0
    for package in corpus(shared):
        report = validate(package)
        assert {problem.code for problem in report.problems} <= VALIDATION_CODES.keys()
        assert {problem.code for problem in report.errors} <= REASONS
        document = report.reading.document
        if document is not None and document.how == "yaml":
            continue
        irregular += 1
        named = [problem for problem in report.problems if problem.code in causes]
        assert named, package.name
        assert all(problem.message and problem.hint and problem.line for problem in named)
    assert irregular > 900


@pytest.mark.long
def test_every_profile_explains_itself_on_real_files(shared: Callable[[str], Path]) -> None:
    for package in list(corpus(shared))[::9]:
        for profile in PROFILE_NAMES:
            problems = validate(package, profile).problems
            assert {problem.code for problem in problems} <= VALIDATION_CODES.keys()
            assert all(problem.message and problem.hint for problem in problems if problem.severity != "info")


@pytest.mark.parametrize(
    "frontmatter",
    ["a: " + "[" * 200_000, "".join(f"k{number}: v\n" for number in range(20_000)), "a: " + "x" * 20_000],
)
@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_a_frontmatter_made_to_exhaust_the_reader_is_refused_by_its_size(frontmatter: str, profile: Any) -> None:
    report = validate(
        Package.of_texts("notes", {"SKILL.md": f"---\nname: notes\n{frontmatter}\n---\nBody.\n"}), profile
    )
    assert "frontmatter-too-large" in {problem.code for problem in report.problems}
    assert report.ok == (profile == "claude-code")


def test_a_hidden_character_in_a_file_name_is_an_error() -> None:
    report = validate(Package.of_texts("notes", {"SKILL.md": GOOD, "assets/a\u202eb.txt": "x"}))
    assert [(problem.code, problem.field) for problem in report.errors] == [("hidden-text", "assets/a\\u{202E}b.txt")]


def test_files_that_are_not_text_are_not_searched_for_hidden_text() -> None:
    files = {"SKILL.md": GOOD, "assets/a.bin": b"\xff\xfe\x00\x01", "assets/b.bin": b"\x00\x01\x02"}
    assert validate(Package.of_texts("notes", files)).problems == ()


SIDECAR = """\
parameters:
  type: object
  required: [text]
  properties:
    text: {type: string}
artifacts:
  - path: prompts/ask.j2
    kind: prompt_template
    name: ask
    assertions: [{type: length, check: char_range, min: 1, max: 40}]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("type: object", "type: objekt", "not valid at /type: it is not one of array, boolean"),
        ("type: string", "type: strng", "not valid at /properties/text/type: it is not one of"),
        ("required: [text]", "required: text", "not valid at /required"),
        (
            "required: [text]",
            "required: [txt]",
            "'txt' is required, but not one of the properties. Did you mean 'text'?",
        ),
        ("required:", "requierd:", "'requierd' has no effect. Did you mean 'required'?"),
        ("type: string", "type: string, minLenght: 3", "'minLenght' has no effect. Did you mean 'minLength'?"),
        ("min: 1", "minn: 1", "'minn' has no effect. Did you mean 'min'?"),
        ("- path", "- output_schema: {type: textt}\n    path", "not valid at /type"),
        ("artifacts:", "policy: {timeout: 5}\nartifacts:", "'timeout' has no effect. Did you mean 'timeout_seconds'?"),
        (
            "artifacts:",
            "policy: {tone: kind}\nartifacts:",
            "'tone' has no effect. The settings are timeout_seconds, max_",
        ),
        ("artifacts:", "observability: {log_inputs: no}\nartifacts:", "Did you mean 'log_input'?"),
        ("- path", "- metadata: {temperature: 0}\n    path", "no effect in the metadata of the kind prompt_template."),
        ("- path", "- metadata: {timeout_seconds: 5}\n    path", "Set the limit of the whole skill: `policy: {timeout"),
        ("- path", "- metadata: {output_schema: {}}\n    path", "Write `output_schema` beside `metadata`."),
        ("- path", "- {kind: cli_command, name: c, handler: ls, metadata: {outptu: json}}\n  - path", "mean 'output'?"),
    ],
)
def test_a_typing_error_that_makes_a_run_fail_or_has_no_effect_is_a_warning(old: str, new: str, said: str) -> None:
    files = {"SKILL.md": GOOD, "agents/prowess.yaml": SIDECAR, "prompts/ask.j2": "{{ text }}"}
    assert [one.severity for one in validate(Package.of_texts("notes", files)).problems] == []
    files["agents/prowess.yaml"] = SIDECAR.replace(old, new, 1)
    report = validate(Package.of_texts("notes", files))
    found = [f"{one.message} {one.hint}" for one in report.problems if one.severity == "warning"]
    assert any(said in text for text in found), found
    assert report.ok
    # What is stored already stays usable.
    assert accept(Package.of_texts("notes", files)).skill is not None


def test_keywords_that_other_programs_may_know_are_left_alone() -> None:
    files = {"SKILL.md": GOOD, "agents/prowess.yaml": SIDECAR.replace("type: string", "type: string, x-order: 1")}
    files["prompts/ask.j2"] = "{{ text }}"
    assert validate(Package.of_texts("notes", files)).problems == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [("[{", "not valid JSON"), ('[{"query": "a", "should_trigger": true}, {"qery": "b"}]', "Entry 2 has no query")],
)
def test_trigger_queries_that_cannot_be_read_are_a_warning(content: str, said: str) -> None:
    report = validate(Package.of_texts("notes", {"SKILL.md": GOOD, "evals/triggers.json": content}))
    [problem] = report.problems
    assert (problem.severity, problem.field, said in problem.message) == ("warning", "evals/triggers.json", True)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("licence", "Unknown field 'licence'; it is kept. Did you mean 'license'?"),
        ("zebra", "Unknown field 'zebra'; it is kept."),
        ("hooks", "'hooks' is a field of Claude Code; it is kept."),
    ],
)
def test_an_unknown_field_is_explained(field: str, said: str) -> None:
    report = validate(Package.of_texts("notes", {"SKILL.md": GOOD.replace("name:", f"{field}: x\nname:", 1)}))
    [problem] = [one for one in report.problems if one.code == "unknown-field"]
    assert f"{problem.message} {problem.hint}".strip().endswith(said)


@pytest.mark.parametrize(("value", "codes"), [("true", []), ("no", []), ("sometimes", ["wrong-type"])])
def test_the_field_for_people_only_is_true_or_false(value: str, codes: list[str]) -> None:
    text = GOOD.replace("name:", f"disable-model-invocation: {value}\nname:", 1)
    report = validate(Package.of_texts("notes", {"SKILL.md": text}))
    assert [problem.code for problem in report.problems if problem.field == "disable-model-invocation"] == codes
