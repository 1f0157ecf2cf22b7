"""Fitting a skill to a profile: what comes out passes, and everything that was changed is told."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from skills_ref.validator import validate as reference_validate

from prowess.errors import Invalid
from prowess.skill.fit import fit, lengthen, shorten
from prowess.skill.fit_changes import FIT_CODES
from prowess.skill.forms import read_package
from prowess.skill.forms.form import Writing
from prowess.skill.limits import DEFAULT_LIMITS, MIB, Limits
from prowess.skill.package import File, Package
from prowess.skill.profiles import PROFILE_NAMES, ProfileName
from prowess.skill.text.reader import read_document
from prowess.skill.validate import accept, validate

GOOD = "---\nname: notes\ndescription: Takes notes in meetings and sorts them.\n---\n# Notes\n\nWrite them down.\n"
LONG = "Takes notes. " * 200


def fitted(package: Package, profile: ProfileName, limits: Limits = DEFAULT_LIMITS) -> Writing:
    skill = accept(package, limits).skill
    assert skill is not None
    writing = fit(skill, package, profile, limits)
    report = validate(writing.package, profile, limits)
    assert report.ok, report.errors
    assert {problem.code for problem in writing.left_out} <= FIT_CODES.keys() | {"left-out"}
    assert all(problem.severity != "error" and problem.message for problem in writing.left_out)
    return writing


def told(writing: Writing) -> set[str]:
    return {problem.code for problem in writing.left_out}


def front(package: Package) -> dict[str, Any]:
    file = package.get("SKILL.md")
    assert file is not None
    return dict(read_document(file.content).fields)


def of(text: str, folder: str = "notes", **files: str | bytes) -> Package:
    return Package.of_texts(folder, {"SKILL.md": text, **files})


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_what_passes_already_stays_byte_for_byte(profile: ProfileName) -> None:
    package = of(GOOD, **{"references/a.md": "x"})
    writing = fitted(package, profile)
    assert writing.package.files == package.files
    assert writing.left_out == ()


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_the_folder_is_called_as_the_skill_is(profile: ProfileName) -> None:
    writing = fitted(of("---\nname: My Notes\ndescription: Takes notes in meetings.\n---\nx\n", "somewhere"), profile)
    assert writing.package.name == "my-notes"
    if profile != "prowess":
        assert front(writing.package)["name"] == "my-notes"
        assert "renamed" in told(writing)


def test_keys_beyond_the_standard_move_to_the_sidecar_and_come_back() -> None:
    package = of("---\nname: notes\ndescription: d\nversion: 2.10\ntags: [a, b]\ncolour: red\n---\nBody.\n")
    before = accept(package).skill
    writing = fitted(package, "agentskills")
    assert set(front(writing.package)) == {"name", "description"}
    moved = {problem.field: problem.line for problem in writing.left_out if problem.code == "moved-to-sidecar"}
    assert moved == {"version": 4, "tags": 5, "colour": 6}
    after = accept(writing.package).skill
    assert before is not None
    assert after is not None
    assert (after.version, after.tags, after.extra, after.body) == (
        before.version,
        before.tags,
        before.extra,
        before.body,
    )


@pytest.mark.parametrize(
    ("profile", "limit"), [("agentskills", 1024), ("claude-api", 1024), ("codex", 1024), ("bernstein", 500)]
)
def test_a_long_description_ends_with_a_sentence_and_an_ellipsis(profile: ProfileName, limit: int) -> None:
    writing = fitted(of(f"---\nname: notes\ndescription: {LONG}\n---\nx\n"), profile)
    description = front(writing.package)["description"]
    assert limit * 0.9 < len(description) <= limit
    assert description.endswith("notes. …")
    assert "shortened" in told(writing)


def test_the_whole_description_stays_in_the_sidecar() -> None:
    writing = fitted(of(f"---\nname: notes\ndescription: {LONG}\n---\nx\n"), "agentskills")
    skill = accept(writing.package).skill
    assert skill is not None
    assert skill.description == LONG.strip()


def test_the_claude_platform_gets_a_name_and_a_description_it_accepts() -> None:
    package = of("---\nname: claude-notes\ndescription: Reads <b> tags.\n---\nx\n", "claude-notes")
    writing = fitted(package, "claude-api")
    assert front(writing.package) == {"name": "notes", "description": "Reads ‹b› tags."}
    assert {"renamed", "replaced"} <= told(writing)


@pytest.mark.parametrize("name", ["笔记", "claude", "café-notes", "anthropic-claude"])
@pytest.mark.parametrize("profile", ["claude-api", "bernstein"])
def test_a_name_that_cannot_stay_gets_a_plain_one(name: str, profile: ProfileName) -> None:
    package = of(f"---\nname: {name}\ndescription: Takes notes in meetings.\n---\nx\n", name)
    name = fitted(package, profile).package.name
    assert name.isascii()
    assert name


def test_claude_code_loses_only_what_it_cannot_use() -> None:
    package = of("---\nname: notes\ndescription: d\nhooks: run.sh\nuser-invocable: false\ncolour: red\n---\nx\n")
    writing = fitted(package, "claude-code")
    assert set(front(writing.package)) == {"name", "description", "user-invocable", "colour"}
    assert [problem.field for problem in writing.left_out] == ["hooks"]


@pytest.mark.parametrize("profile", ["agentskills", "claude-api", "claude-code", "codex", "mcp"])
def test_title_and_namespace_come_back_with_the_next_import(profile: ProfileName) -> None:
    package = of("---\nname: My Notes\nslug: acme.notes\ndescription: Takes notes.\n---\nx\n")
    writing = fitted(package, profile)
    skill = accept(writing.package).skill
    assert skill is not None
    assert writing.package.name == "notes"
    assert (skill.slug, skill.title) == ("acme.notes", "My Notes")


def test_a_description_from_the_text_is_written_down_for_codex() -> None:
    writing = fitted(of("# Notes\n\nTakes notes in meetings.\n"), "codex")
    assert front(writing.package) == {"name": "notes", "description": "Takes notes in meetings."}
    assert "completed" in told(writing)


def test_dates_are_quoted_for_mcp_and_nothing_else_is_lost() -> None:
    writing = fitted(of("---\nname: notes\ndescription: d\nupdated: 2026-01-01\nversion: 1.10\n---\nx\n"), "mcp")
    assert front(writing.package) == {"name": "notes", "description": "d", "updated": "2026-01-01", "version": "1.10"}
    assert told(writing) == {"rewritten"}


def test_files_beyond_the_limits_of_mcp_go_largest_assets_first() -> None:
    files = [File(path=f"assets/{number:03}.bin", content=b"x" * (number + 1)) for number in range(520)]
    package = Package.of("notes", [File(path="SKILL.md", content=GOOD.encode()), *files])
    writing = fitted(package, "mcp")
    assert len(writing.package.files) == 512
    assert [problem.field for problem in writing.left_out] == [
        f"assets/{number:03}.bin" for number in range(519, 510, -1)
    ]


def test_a_bernstein_pack_has_its_eight_keys_and_lists_its_files() -> None:
    package = of(
        "---\nname: notes\ndescription: Short.\nlicense: MIT\nkeywords: [minutes]\nversion: 1.0\n---\nx\n",
        **{"references/a.md": "a", "scripts/b.sh": "b"},
    )
    writing = fitted(package, "bernstein")
    fields = front(writing.package)
    assert fields["references"] == ["a.md"]
    assert fields["scripts"] == ["b.sh"]
    assert fields["trigger_keywords"] == ["minutes"]
    assert fields["version"] == "1.0"
    assert "license" not in fields
    assert {"left-out", "lengthened"} <= told(writing)


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_a_skill_without_skill_md_gets_one(profile: ProfileName) -> None:
    manifest = {
        "name": "adder",
        "description": "Adds two numbers and gives the sum.",
        "version": "1.0.0",
        "author": "x",
        "tags": ["math"],
        "parameters": {"type": "object", "properties": {}},
    }
    package = Package.of_texts(
        "adder", {"skill.json": json.dumps(manifest), "execute.py": "def execute(args, ctx):\n    return 1\n"}
    )
    writing = fitted(package, profile)
    assert writing.package.name == "adder"
    if profile not in ("prowess", "bernstein"):
        skill = accept(writing.package).skill
        assert skill is not None
        assert skill.kinds == accept(package).skill.kinds


@pytest.mark.parametrize("profile", PROFILE_NAMES)
@pytest.mark.parametrize("text", ["---\nname: notes\n---\n", GOOD + "\u202e hidden\n"])
def test_what_cannot_be_fitted_is_refused_with_the_problems(profile: ProfileName, text: str) -> None:
    package = of(text)
    skill = read_package(package).skill
    assert skill is not None
    with pytest.raises(Invalid) as refused:
        fit(skill, package, profile)
    assert refused.value.problems


@pytest.mark.few(2)
@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_raised_limits_hold_for_fitting_too(profile: ProfileName) -> None:
    limits = Limits(file_bytes=7 * MIB, frontmatter_bytes=64 * 1024, body_chars=300_000)
    extra = "\n".join(f"key{number}: {'v' * 100}" for number in range(300))
    text = f"---\nname: My Notes\ndescription: Takes notes in meetings.\n{extra}\n---\n" + "x" * 200_000
    files = [File(path="SKILL.md", content=text.encode()), File(path="assets/a.bin", content=bytes(6 * MIB))]
    package = Package.of("notes", files, limits)
    writing = fitted(package, profile, limits)
    asset, skill = writing.package.get("assets/a.bin"), accept(writing.package, limits).skill
    assert asset is not None
    assert skill is not None
    assert skill.body == "x" * 200_000
    assert len(skill.extra) == (300 if profile != "bernstein" else 0)


@pytest.mark.parametrize("profile", PROFILE_NAMES)
@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD", "SKILLS.md"])
def test_whatever_spelling_of_skill_md_comes_out_as_skill_md(profile: ProfileName, name: str) -> None:
    package = Package.of_texts("notes", {name: GOOD, "references/a.md": "x"})
    writing = fitted(package, profile)
    as_it_is = profile == "prowess" or (name == "skill.md" and profile in ("agentskills", "claude-api", "bernstein"))
    found = [path for path in writing.package.paths if path.lower().endswith("md") and "/" not in path]
    assert found == [name if as_it_is else "SKILL.md"]


def test_a_profile_with_a_file_limit_never_leaves_out_skill_md_however_it_is_spelt() -> None:
    files = [File(path=f"b/{number:03}", content=b"") for number in range(520)]
    writing = fitted(Package.of("notes", [File(path="Skill.md", content=GOOD.encode()), *files]), "mcp")
    assert len(writing.package.files) == 512
    assert "Skill.md" not in {problem.field for problem in writing.left_out}


def test_what_looks_like_an_escape_stays_beside_three_dashes() -> None:
    description = r"a --- b \x7F c"
    package = of(f"---\nname: Notes\ndescription: '{description}'\nauthor: \"x\\x9Fy\"\n---\nx\n")
    assert front(fitted(package, "agentskills").package)["description"] == description
    assert front(fitted(package, "codex").package)["author"] == "x\x9fy"


def test_three_dashes_in_a_description_do_not_confuse_the_reference(tmp_path: Path) -> None:
    writing = fitted(of("---\nname: Notes\ndescription: one ----- two --- three\n---\nx\n"), "agentskills")
    assert front(writing.package)["description"] == "one ----- two --- three"
    assert _reference_accepts(writing.package, tmp_path)


def _reference_accepts(package: Package, folder: Path) -> bool:
    target = folder / package.name
    target.mkdir(parents=True)
    file = package.get("SKILL.md")
    assert file is not None
    (target / "SKILL.md").write_bytes(file.content)
    return reference_validate(target) == []


@given(st.text(max_size=60), st.integers(min_value=4, max_value=40))
@settings(max_examples=200, deadline=None)
def test_a_shortened_text_is_within_its_limit_and_a_beginning(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    if short != text:
        assert text.startswith(short.removesuffix("…").removesuffix(" "))


@given(st.text(max_size=30), st.text(max_size=10))
@settings(max_examples=100, deadline=None)
def test_a_lengthened_text_is_long_enough_and_keeps_its_words(text: str, title: str) -> None:
    longer = lengthen(text, title, 20)
    assert len(longer) >= 20
    assert longer.startswith(text.rstrip().rstrip("."))


NAMES = st.sampled_from(
    ["notes", "My Notes", "claude-notes", "笔记", "a.b", "-x-", "no_tes", "n" * 80, "'1'", "[a]", ""]
)
VALUES = st.sampled_from(
    [
        "d",
        "Takes notes: short",
        "a <b> --- c",
        "'it''s'",
        "d " * 700,
        "~",
        "[x, y]",
        "{a: 1}",
        "*bold*",
        ">-\n  folded\n  text",
    ]
)
LINES = st.sampled_from(
    [
        "version: 1.0", "license: [MIT]", "compatibility: " + "c" * 600, "metadata: {a: {b: [1]}}", "metadata: text",
        "allowed-tools: [Read, 'Bash(git add:*)']", "hooks: x", "updated: 2026-01-01", "tags: a, b", "slug: other.slug",
        "references: [gone.md]", "user-invocable: perhaps", "1: one", "title: A: B", "metadata:\n  io.modelcontextprotocol/a: b",
        "author:", "keywords: []", "description: again",
    ]
)  # fmt: skip
BODIES = st.sampled_from(
    ["", "# Title\n\nText.\n", "---\nname: second\n---\n", "x\n---\ny\n", "\n\n  indented", "```\n---\n```\n"]
)


@given(NAMES, VALUES, st.lists(LINES, max_size=4), BODIES, st.sampled_from(PROFILE_NAMES))
@settings(max_examples=250, deadline=None)
def test_fitting_never_gives_something_that_fails(
    name: str, description: str, lines: list[str], body: str, profile: ProfileName
) -> None:
    text = "\n".join(["---", f"name: {name}", f"description: {description}", *lines, "---", body])
    package = of(text, **{"references/a.md": "a", "assets/b.bin": b"\x00"})
    assume(validate(package).ok)
    writing = fitted(package, profile)
    before, after = accept(package).skill, read_package(writing.package).skill
    assert before is not None
    assert after is not None
    assert after.body == before.body


def corpus(shared: Callable[[str], Path]) -> Iterator[Package]:
    with gzip.open(shared("corpus/skills.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            folder = Path(row["path"]).parent.name or row["repo"].rpartition("/")[2]
            data = row["text"] if "text" in row else base64.b64decode(row["base64"])
            yield Package.of_texts(folder, {"SKILL.md": data})


@pytest.mark.long
def test_real_skills_can_be_fitted_to_every_profile(shared: Callable[[str], Path], tmp_path: Path) -> None:
    count = 0
    for number, package in enumerate(corpus(shared)):
        if not validate(package).ok:
            continue
        # Every skill, and every profile with skills from all of the corpus: a seventh of all pairs.
        for profile in PROFILE_NAMES[number % 7 :: 7]:
            writing = fitted(package, profile)
            count += 1
            if profile in ("agentskills", "claude-api"):
                assert _reference_accepts(writing.package, tmp_path / str(count))
    assert count > 3_500
