"""Source strings are read as the skills CLI reads them, and hostile ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.sources.reference import SourceReference, parse_source

RECORDED: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("source_strings.json").read_text())
"""Source strings, with the answers of the parser of skills 1.5.18."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def fields(reference: SourceReference) -> tuple[str, str, str, str, str]:
    return reference.kind, reference.url, reference.ref, reference.path, reference.skill


@pytest.mark.parametrize("text", RECORDED)
def test_a_source_string_is_read_as_by_the_skills_cli(text: str) -> None:
    cli = RECORDED[text]
    expected = (
        cli["type"],
        cli["url"],
        cli.get("ref", ""),
        cli.get("subpath", "").strip("/"),
        cli.get("skillFilter", ""),
    )
    assert fields(parse_source(text)) == expected


@pytest.mark.long
def test_the_recorded_answers_are_those_of_the_npm_package(skills_cli: Callable[..., Any]) -> None:
    assert dict(zip(RECORDED, skills_cli("parse_sources.mjs", list(RECORDED)), strict=True)) == RECORDED


DIFFERENT = {
    "ssh://git@github.com/owner/repo.git": ("git", "ssh://git@github.com/owner/repo.git", "", "", ""),
    "https://evil.example/github.com/owner/repo": (
        "well-known", "https://evil.example/github.com/owner/repo", "", "", "",
    ),
    "https://notgithub.com/owner/repo": ("well-known", "https://notgithub.com/owner/repo", "", "", ""),
    "https://github.com/o/r/blob/main/skills/pdf/SKILL.md": (
        "github", "https://github.com/o/r.git", "main", "skills/pdf", "",
    ),
    "https://github.com/o/r/blob/main/notes/a.md": ("github", "https://github.com/o/r.git", "main", "notes/a.md", ""),
    "https://gitlab.com/g/p/-/blob/main/x/SKILL.md": ("gitlab", "https://gitlab.com/g/p.git", "main", "x", ""),
    "owner/repo/skills/pdf@other": ("github", "https://github.com/owner/repo.git", "", "skills/pdf", "other"),
    "owner/repo/packages/@scope/skill": (
        "github", "https://github.com/owner/repo.git", "", "packages/@scope/skill", "",
    ),
    "https://github.com/owner/repo#main@pdf": ("github", "https://github.com/owner/repo.git", "main", "", "pdf"),
    "https://raw.githubusercontent.com/o/r/main/SKILL.md": (
        "file", "https://raw.githubusercontent.com/o/r/main/SKILL.md", "", "", "",
    ),
    "https://example.com/skills/pdf.md": ("file", "https://example.com/skills/pdf.md", "", "", ""),
    "https://example.com/pdf.skill": ("archive", "https://example.com/pdf.skill", "", "", ""),
    "https://example.com/pdf.tar.gz?token=1": ("archive", "https://example.com/pdf.tar.gz?token=1", "", "", ""),
    "https://github.com/o/r/archive/refs/heads/main.zip": (
        "archive", "https://github.com/o/r/archive/refs/heads/main.zip", "", "", "",
    ),
    "https://github.com/o/r/releases/download/v1/pdf.skill": (
        "archive", "https://github.com/o/r/releases/download/v1/pdf.skill", "", "", "",
    ),
    "vercel-labs/vercel-skills": ("github", "https://github.com/vercel-labs/agent-skills.git", "", "", ""),
}  # fmt: skip
"""Source strings that the CLI reads as something that cannot work, or that the text does not say."""


@pytest.mark.parametrize("text", DIFFERENT)
def test_a_source_string_means_what_it_says(text: str) -> None:
    assert fields(parse_source(text)) == DIFFERENT[text]


def test_a_hidden_folder_without_a_dot_before_it_is_refused_with_its_path() -> None:
    with pytest.raises(Invalid, match="is not a source") as caught:
        parse_source(".claude/skills")
    assert "For a local folder, use ./.claude/skills." in caught.value.hint


def test_the_id_of_a_registry_is_refused_with_the_command_that_installs_it() -> None:
    with pytest.raises(Invalid, match="id of a skill in a registry") as caught:
        parse_source("clawhub:gifgrep")
    assert caught.value.hint == "Run `prowess registry install clawhub:gifgrep`."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "skills",
        "-x",
        "--upload-pack=touch /tmp/x",
        "github:-x/repo",
        "github:--upload-pack=x/y",
        "owner/-repo",
        "-owner/repo",
        "owner/repo/../../etc",
        "owner/repo/a\\..\\..\\b",
        "https://github.com/o/r/tree/main/../../x",
        "https://github.com/o/r/tree/main/%2e%2e/x",
        "owner/repo#-x",
        "owner/repo#--upload-pack=x",
        "owner/repo#a..b",
        "owner/repo#main^{tree}",
        "owner/repo#a b",
        "owner/repo#%00",
        "owner/repo#x.lock",
        "ext::sh -c touch% /tmp/x",
        "EXT::sh",
        "fd::17",
        "git://host/repo.git",
        "ftp://host/repo.git",
        "javascript:alert(1)",
        "data:text/plain,x",
        "http://example.com/repo.git",
        "http://example.com",
        "owner/re\x00po",
        "owner/repo\n--upload-pack=x",
        "owner/\u001b[31mrepo",
        "../\ud800",
        "git@-oProxyCommand=x:owner/repo",
        "git@host:../../etc",
        "git@host:-x/y",
        "-oProxyCommand=x@host:a/b",
        "ssh://-oProxyCommand=x/owner/repo",
        "ssh://git@host/owner/../repo",
        "ssh://git@host:99999/owner/repo",
        "ssh://git@[host/owner/repo",
        "file://",
        "file:///",
        "file://host/repo.git",
        "file:///a/../b.git",
        "https://example.com\\@evil.example/x.git",
        "https://0x7f000001/x.git",
        "https:///x.git",
        "owner/..",
        "owner/.",
        "owner/.git",
        "gitlab:project",
        "gitlab:../x",
        "x" * 3_000,
    ],
)
def test_a_hostile_or_meaningless_source_string_is_refused_with_advice(text: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_source(text)
    assert error.value.hint
    assert not any(ord(char) < 32 for char in error.value.message)


@pytest.mark.parametrize(
    "text",
    [
        "https://user:hunter2@github.com/owner/repo",
        "https://hunter2@github.com/owner/repo",
        "https://user:hunter2@host.example/x.git#main",
        "ssh://git:hunter2@host.example/x.git",
        "http://hunter2@example.com/",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_source(text)
    assert "hunter2" not in error.value.message + error.value.hint


def test_a_local_path_is_made_absolute_without_looking_at_it(tmp_path: Path) -> None:
    assert parse_source("../other/./skills", base=tmp_path / "here").url == str(tmp_path / "other/skills")


def test_a_reference_can_be_given_a_ref_and_a_path() -> None:
    reference = parse_source("acme/runbooks").at(ref="v1", path="skills/")
    assert fields(reference) == ("github", "https://github.com/acme/runbooks.git", "v1", "skills", "")
    with pytest.raises(Invalid):
        reference.at(path="../x")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("owner/repo/x", "owner/repo"),
        ("gitlab:group/sub/project", "group/sub/project"),
        ("https://git.example/group/project/-/tree/main", "https://git.example/group/project.git"),
        ("https://example.com", "https://example.com/"),
    ],
)
def test_the_short_name_is_the_one_that_lock_files_record(text: str, source: str) -> None:
    assert parse_source(text).source == source


def test_only_a_full_commit_is_a_pin() -> None:
    assert parse_source(f"owner/repo#{COMMIT}").is_pinned
    assert not parse_source("owner/repo#0123abc").is_pinned


@pytest.mark.parametrize("text", [*RECORDED, *DIFFERENT])
def test_a_reference_written_as_text_is_read_as_the_same_reference(text: str) -> None:
    reference = parse_source(text)
    assert parse_source(str(reference)) == reference


@given(st.text(max_size=60) | st.from_regex(r"(?:owner/repo|https://[a-z./:@-]{0,20}|git@)[ -~]{0,30}", fullmatch=True))
def test_any_text_is_a_reference_or_a_clear_error(text: str) -> None:
    try:
        reference = parse_source(text)
    except Invalid:
        return
    assert not reference.url.startswith("-")
    assert not reference.ref.startswith("-")
    assert ".." not in reference.path.split("/")
    assert parse_source(str(reference)) == reference
