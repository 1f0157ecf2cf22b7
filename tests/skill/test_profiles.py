"""What each profile says about a skill: one rule a test, told by its code and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.errors import Problem
from prowess.skill.forms.form import CODES as FORM_CODES
from prowess.skill.package import File, Package
from prowess.skill.profiles import PROFILE_NAMES, PROFILES
from prowess.skill.profiles.profile import CODES as OWN_CODES
from prowess.skill.profiles.profile import EXPLAINED_BY
from prowess.skill.text.document import TEXT_CODES
from prowess.skill.validate import validate

DOCS = Path(__file__).resolve().parents[2] / "docs" / "profiles.md"
GOOD = "---\nname: notes\ndescription: Takes notes in meetings and sorts them.\n---\n# Notes\n\nWrite them down.\n"


def skill(
    frontmatter: str, body: str = "# Notes\n\nWrite them down.\n", folder: str = "notes", **files: str
) -> Package:
    content = f"---\n{frontmatter}\n---\n{body}"
    return Package.of_texts(folder, {"SKILL.md": content, **files})


def codes(package: Package, profile: str) -> set[str]:
    return {problem.code for problem in validate(package, profile).problems}


def errors(package: Package, profile: str) -> dict[str, int | None]:
    return {problem.code: problem.line for problem in validate(package, profile).errors}


def only(package: Package, profile: str, code: str) -> Problem:
    [problem] = [problem for problem in validate(package, profile).problems if problem.code == code]
    return problem


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_a_plain_skill_passes_every_profile_without_a_word(profile: str) -> None:
    assert validate(Package.of_texts("notes", {"SKILL.md": GOOD}), profile).problems == ()


def test_every_profile_is_in_the_table_under_its_name() -> None:
    assert tuple(PROFILES) == PROFILE_NAMES
    assert all(name == profile.name and profile.summary for name, profile in PROFILES.items())


@pytest.mark.parametrize("profile", sorted(set(PROFILE_NAMES) - {"prowess"}))
def test_a_package_without_skill_md_is_no_skill_for_other_clients(profile: str) -> None:
    package = Package.of_texts(
        "notes", {"skill.json": '{"name": "notes", "description": "Takes notes."}', "execute.py": ""}
    )
    assert "no-skill-md" in errors(package, profile)


# --- agentskills


@pytest.mark.parametrize(
    ("frontmatter", "code", "line"),
    [
        ("description: d", "name-missing", None),
        ("name: ''\ndescription: d", "name-empty", 2),
        ("name: Notes\ndescription: d", "name-pattern", 2),
        ("name: no--tes\ndescription: d", "name-pattern", 2),
        ("name: " + "n" * 65 + "\ndescription: d", "name-long", 2),
        ("name: other\ndescription: d", "name-differs-from-folder", 2),
        ("name: notes", "description-missing", None),
        ("name: notes\ndescription: ''", "description-empty", 3),
        ("name: notes\ndescription: " + "d" * 1025, "description-long", 3),
        ("name: notes\ndescription: d\ncompatibility: " + "c" * 501, "compatibility-long", 4),
        ("name: notes\ndescription: d\ncompatibility:\n  a: b", "compatibility-type", 4),
        ("name: notes\ndescription: d\nversion: 1.0", "unknown-field", 4),
        ("name: notes\ndescription: d\nmetadata: {a: b}", "strict-flow", 4),
        ("name: notes\ndescription: d\nmetadata:\n  a:\n    b: c\n  d:\n     e: f", "strict-indentation", 8),
    ],
)
def test_the_standard_names_the_fault_and_its_line(frontmatter: str, code: str, line: int | None) -> None:
    assert errors(skill(frontmatter), "agentskills").get(code, "not found") == line


@pytest.mark.parametrize(
    ("frontmatter", "code"),
    [
        ("name: notes\ndescription: one: two", "unquoted-colon"),
        ("name: notes\ndescription: *star", "yaml-alias"),
        ("name: notes\nname: notes\ndescription: d", "yaml-duplicate-key"),
    ],
)
def test_a_fault_that_the_reader_explains_is_told_once_and_as_an_error(frontmatter: str, code: str) -> None:
    package = skill(frontmatter)
    report = validate(package, "agentskills")
    assert [problem.code for problem in report.errors] == [code]
    assert "reference validator" in report.errors[0].message
    assert validate(package).ok


def test_the_order_is_by_severity_then_line() -> None:
    package = skill("name: Notes\ndescription: d\nversion: 1.0\nmetadata:\n  - a")
    problems = validate(package, "agentskills").problems
    assert [problem.severity for problem in problems] == sorted(problem.severity for problem in problems)
    lines = [problem.line or 0 for problem in problems if problem.severity == "error"]
    assert lines == sorted(lines)


def test_names_in_other_scripts_belong_to_the_standard() -> None:
    assert validate(skill("name: 笔记\ndescription: d", folder="笔记"), "agentskills").ok


def test_what_the_reference_lets_pass_against_the_specification_is_a_warning() -> None:
    package = skill("name: notes\ndescription: d\nallowed-tools:\n  - Read\nmetadata:\n  a:\n    b: c")
    report = validate(package, "agentskills")
    assert report.ok
    assert [(problem.code, problem.field) for problem in report.problems] == [
        ("value-type", "allowed-tools"),
        ("value-type", "metadata"),
    ]


@pytest.mark.parametrize(
    ("profile", "ok"), [("agentskills", True), ("claude-code", False), ("codex", False), ("mcp", False)]
)
def test_a_lower_case_file_name_is_enough_for_the_reference_alone(profile: str, ok: bool) -> None:
    assert validate(Package.of_texts("notes", {"skill.md": GOOD}), profile).ok is ok


@pytest.mark.parametrize("profile", sorted(set(PROFILE_NAMES) - {"prowess"}))
@pytest.mark.parametrize("name", ["Skill.md", "SKILL.MD", "skills.md"])
def test_a_spelling_that_no_client_looks_for_is_named_and_the_rest_is_judged(profile: str, name: str) -> None:
    package = Package.of_texts("notes", {name: GOOD.replace("Takes notes", "<b>\u202e" * 600)})
    report = validate(package, profile)
    assert "skill-md-spelling" in errors(package, profile)
    assert "no-skill-md" not in codes(package, profile)
    assert len([problem for problem in report.problems if problem.code == "skill-md-spelling"]) == 1
    assert profile == "claude-code" or "description-long" in errors(package, profile)


# --- claude-api


@pytest.mark.parametrize(
    ("frontmatter", "folder", "code"),
    [
        ("name: my-claude-notes\ndescription: d", "my-claude-notes", "name-reserved"),
        ("name: anthropic\ndescription: d", "anthropic", "name-reserved"),
        ("name: 笔记\ndescription: d", "笔记", "name-ascii"),
        ("name: notes\ndescription: Reads <b> tags", "notes", "markup"),
        ("name: notes\ndescription: d\nversion: '1'", "notes", "unknown-field"),
    ],
)
def test_the_claude_platform_asks_for_more_than_the_standard(frontmatter: str, folder: str, code: str) -> None:
    assert code in errors(skill(frontmatter, folder=folder), "claude-api")


# --- claude-code


def test_claude_code_needs_neither_name_nor_description() -> None:
    report = validate(Package.of_texts("notes", {"SKILL.md": "# Notes\n\nWrite.\n"}), "claude-code")
    assert report.ok
    assert "description-missing" in {problem.code for problem in report.problems}


@pytest.mark.parametrize(
    ("line", "code", "severity"),
    [
        ("disable-model-invocation: maybe", "value-type", "error"),
        ("user-invocable: false", None, None),
        ("allowed-tools: Read, Bash(git add:*)", None, None),
        ("allowed-tools:\n  - Read", None, None),
        ("allowed-tools:\n  Read: true", "value-type", "error"),
        ("hooks: run.sh", "value-type", "error"),
        ("model:\n  - opus", "value-type", "error"),
        ("effort: enormous", "value-unknown", "warning"),
        ("context: fork", None, None),
        ("paths: '*.py, *.md'", None, None),
        ("argument-hint:", None, None),
        ("colour: red", "unknown-field", "info"),
    ],
)
def test_claude_code_checks_the_types_of_its_keys(line: str, code: str | None, severity: str | None) -> None:
    problems = validate(skill(f"name: notes\ndescription: d\n{line}"), "claude-code").problems
    assert [(problem.code, problem.severity, problem.line) for problem in problems] == (
        [(code, severity, 4)] if code else []
    )


def test_claude_code_warns_where_its_listing_cuts() -> None:
    package = skill("name: notes\ndescription: " + "d" * 1000 + "\nwhen_to_use: " + "w" * 600)
    assert only(package, "claude-code", "listing-cut").severity == "warning"


# --- codex


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("# Notes\n\nNo frontmatter.\n", "no-frontmatter"),
        ("\n---\nname: notes\ndescription: d\n---\n", "blank-before-frontmatter"),
        ("---\nname: notes\n---\nBody.\n", "description-missing"),
        ("---\ndescription: " + "d" * 1025 + "\n---\n", "description-long"),
        ("---\nname: " + "n" * 65 + "\ndescription: d\n---\n", "name-long"),
    ],
)
def test_codex_refuses_what_it_cannot_list(content: str, code: str) -> None:
    assert code in errors(Package.of_texts("notes", {"SKILL.md": content}), "codex")


def test_codex_takes_free_names_unknown_keys_and_unquoted_colons() -> None:
    package = skill("name: My   Notes\ndescription: Does: things\ncolour: red")
    assert validate(package, "codex").ok


@pytest.mark.parametrize(
    "sidecar",
    [
        "[",
        "- a",
        "interface: text",
        "interface:\n  display_name: 3",
        "policy:\n  allow_implicit_invocation: maybe",
        "policy:\n  products: all",
        "dependencies:\n  tools: text",
        "dependencies:\n  tools:\n    - type: " + "t" * 65,
    ],
)
def test_codex_only_warns_about_its_sidecar(sidecar: str) -> None:
    package = skill("name: notes\ndescription: d", **{"agents/openai.yaml": sidecar})
    report = validate(package, "codex")
    assert report.ok
    assert [problem.severity for problem in report.problems if problem.code == "openai-yaml"] == ["warning"]


def test_a_right_sidecar_gives_codex_nothing_to_say() -> None:
    sidecar = "interface:\n  display_name: Notes\npolicy:\n  allow_implicit_invocation: false\n"
    sidecar += "dependencies:\n  tools:\n    - type: mcp\n      value: notes\n"
    assert validate(skill("name: notes\ndescription: d", **{"agents/openai.yaml": sidecar}), "codex").problems == ()


def test_a_sidecar_for_codex_may_be_longer_than_a_frontmatter() -> None:
    sidecar = "# " + "x" * 20_000 + "\ninterface:\n  display_name: [a]\n"
    package = skill("name: notes\ndescription: d", **{"agents/openai.yaml": sidecar})
    assert only(package, "codex", "openai-yaml").message.startswith(
        "interface in agents/openai.yaml has a display_name"
    )


# --- mcp


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("updated: 2026-01-01", "not-json"),
        ("metadata:\n  limit: .inf", "not-json"),
        ("metadata:\n  1: one", "not-json"),
        ("metadata:\n  io.modelcontextprotocol/x: y", "mcp-reserved"),
        ("license: &a MIT", "yaml-alias"),
    ],
)
def test_the_frontmatter_of_an_mcp_skill_has_a_form_in_json(line: str, code: str) -> None:
    problem = only(skill(f"name: notes\ndescription: d\n{line}"), "mcp", code)
    assert (problem.severity, problem.line) in {("error", 4), ("error", 5)}


@pytest.mark.parametrize("line", ["updated: '2026-01-01'", "tags: [a, b]", "version: 1.10", "on: true", "colour: red"])
def test_mcp_minds_neither_style_nor_unknown_keys(line: str) -> None:
    line = line.replace("on:", "'on':")
    assert validate(skill(f"name: notes\ndescription: d\n{line}"), "mcp").ok


def test_mcp_has_limits_of_its_own() -> None:
    many = Package.of("notes", [File(path="SKILL.md", content=GOOD.encode()), *_files(512, 1)])
    assert "mcp-files" in errors(many, "mcp")
    large = Package.of("notes", [File(path="SKILL.md", content=GOOD.encode()), *_files(4, 4_500_000)])
    assert "mcp-bytes" in errors(large, "mcp")


def _files(count: int, size: int) -> list[File]:
    return [File(path=f"assets/{number}.txt", content=b"x" * size) for number in range(count)]


# --- bernstein


@pytest.mark.parametrize(
    ("frontmatter", "code"),
    [
        ("name: 1notes\ndescription: Takes notes in meetings.", "name-pattern"),
        ("name: notes\ndescription: Too short.", "description-short"),
        ("name: notes\ndescription: " + "d" * 501, "description-long"),
        ("name: notes\ndescription: Takes notes in meetings.\nlicense: MIT", "unknown-field"),
        ("name: notes\ndescription: Takes notes in meetings.\nversion: 1.0", "value-type"),
        ("name: notes\ndescription: Takes notes in meetings.\ntrigger_keywords: notes", "value-type"),
        ("name: notes\ndescription: Takes notes in meetings.\nreferences:\n  - gone.md", "missing-file"),
    ],
)
def test_a_bernstein_manifest_is_strict(frontmatter: str, code: str) -> None:
    assert code in errors(skill(frontmatter), "bernstein")


def test_a_bernstein_pack_may_use_flow_style_and_all_eight_keys() -> None:
    frontmatter = (
        "name: notes\ndescription: Takes notes in meetings.\ntrigger_keywords: [notes, minutes]\n"
        "references:\n  - style.md\nscripts: [lint.sh]\nassets: []\nversion: '1.0'\nauthor: Ada"
    )
    package = skill(frontmatter, **{"references/style.md": "x", "scripts/lint.sh": "x"})
    assert validate(package, "bernstein").problems == ()


# --- prowess


def test_prowess_warns_about_what_others_stumble_over() -> None:
    report = validate(skill("name: My Notes\ndescription: " + "d" * 1100 + "\ncolour: red"))
    assert report.ok
    found = {problem.code: problem.severity for problem in report.problems}
    assert found["description-long"] == "warning"
    assert found["name-not-slug"] == "warning"
    assert found["unknown-field"] == "info"


def test_a_long_description_in_the_sidecar_is_no_warning_if_other_clients_read_a_short_one() -> None:
    sidecar = {"agents/prowess.yaml": f"description: Takes notes. {'d' * 1100}\n"}
    report = validate(skill("name: notes\ndescription: Takes notes. …", **sidecar))
    assert report.reading.skill is not None
    assert (len(report.reading.skill.description), report.problems) == (1113, ())


@pytest.mark.parametrize("path", ["prompts/ask.j2", "execute.py"])
def test_a_file_that_would_run_in_a_native_skill_is_a_warning_in_a_plain_one(path: str) -> None:
    files = {path: "def execute(args, ctx):\n    return 1\n"}
    [problem] = validate(skill("name: notes\ndescription: Takes notes.", **files)).problems
    assert (problem.code, problem.severity, problem.field) == ("native-file-unused", "warning", path)
    assert not validate(
        skill("name: notes\ndescription: Takes notes.", **files, **{"agents/prowess.yaml": ""})
    ).problems


def test_prowess_refuses_a_skill_that_says_nothing_about_itself() -> None:
    assert "description-missing" in errors(skill("name: notes", body=""), "prowess")


@pytest.mark.parametrize(
    ("path", "content", "line"),
    [
        ("references/a.md", "one\ntwo \U000e0041\U000e0042\n", 2),
        ("scripts/run.sh", "#!/bin/sh\n# \u202etxet\n", 2),
    ],
)
def test_hidden_text_in_any_file_is_an_error_that_shows_it_escaped(path: str, content: str, line: int) -> None:
    package = skill("name: notes\ndescription: d", **{path: content})
    problem = only(package, "prowess", "hidden-text")
    assert (problem.severity, problem.field, problem.line) == ("error", path, line)
    assert problem.message.isascii()


def test_text_that_an_escape_hides_is_found_in_its_field() -> None:
    package = skill('name: notes\ndescription: "Takes \\U000E0041\\U000E0042 notes"')
    problem = only(package, "prowess", "hidden-text")
    assert (problem.field, problem.line) == ("description", 3)


@pytest.mark.parametrize(
    "text", ["flag \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "👩‍🚀", "می‌خواهم"]
)
def test_flags_joined_emoji_and_persian_are_not_hidden_text(text: str) -> None:
    assert "hidden-text" not in codes(skill(f"name: notes\ndescription: d {text}", body=text), "prowess")


@pytest.mark.parametrize(
    ("frontmatter", "body", "files", "field"),
    [
        ("hooks:\n  Stop: []", "x", {}, "hooks"),
        ("allowed-tools: Bash(git:*) Read", "x", {}, "allowed-tools"),
        ("license: MIT", "Now !`date` it is", {}, "body"),
        ("license: MIT", "x", {".mcp.json": "{}"}, ".mcp.json"),
        ("license: MIT", "x", {".claude/settings.json": "{}"}, ".claude/settings.json"),
        ("license: MIT", "x", {"lib/evil.pth": "import os"}, "lib/evil.pth"),
        ("license: MIT", "x", {"inner/SKILL.md": GOOD}, "inner/SKILL.md"),
    ],
)
def test_what_a_skill_asks_for_is_listed_and_grants_nothing(
    frontmatter: str, body: str, files: dict[str, str], field: str
) -> None:
    package = skill(f"name: notes\ndescription: d\n{frontmatter}", body=body, **files)
    problem = only(package, "prowess", "asks-for")
    assert (problem.severity, problem.field) == ("info", field)
    assert validate(package).ok


def test_a_long_body_is_worth_a_remark() -> None:
    assert only(skill("name: notes\ndescription: d", body="x\n" * 501), "prowess", "body-long").severity == "info"


# --- codes


def test_every_explanation_is_a_code_of_the_reader() -> None:
    for strict, causes in EXPLAINED_BY.items():
        assert strict in OWN_CODES
        assert causes <= TEXT_CODES.keys() | FORM_CODES.keys()
