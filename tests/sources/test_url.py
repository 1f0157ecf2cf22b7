"""A source that is one URL: a SKILL.md, another single file, an archive, or a page of GitHub or GitLab that shows one."""

from __future__ import annotations

import asyncio
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from prowess.errors import Invalid
from prowess.net.request import HttpResponse
from prowess.net.scripted import ScriptedHttpClient
from prowess.skill.validate import validate
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.reference import SourceReference
from prowess.sources.url import fetch_url, file_url

SKILL = b"---\nname: release\ndescription: Use this to cut a release.\n---\n# Release\n"
BASE = "https://skills.example.com"


def run(client, url: str, last: SourceState | None = None) -> Fetched:
    context = FetchContext(client=client, cache=Path("unused"))
    return asyncio.run(fetch_url(SourceReference(kind="file", url=url), context, last))


def fetch(body: bytes, url: str, content_type: str = "", last=None, etag='"1"', status=200) -> Fetched:
    headers = {"content-type": content_type, "etag": etag}
    with ScriptedHttpClient([HttpResponse(status=status, headers=headers, body=body, url=url)]) as client:
        return run(client, url, last)


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return made.getvalue()


def tar_gz(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(made.getvalue())


@pytest.mark.parametrize(
    ("path", "name", "file"),
    [
        ("/skills/release/SKILL.md", "release", "SKILL.md"),
        ("/skill.md", "skills-example-com", "skill.md"),
        ("/runbooks/cut%20it.md", "cut it", "cut it.md"),
        ("/notes/Release.MD?token=x", "Release", "Release.MD"),
        ("/download?id=7", "download", "download.md"),
        ("/", "skills-example-com", "SKILL.md"),
    ],
)
def test_markdown_is_one_skill_named_after_its_file_or_folder(path, name, file):
    (skill,) = fetch(SKILL, BASE + path, "text/markdown; charset=utf-8").skills
    assert (skill.package.name, skill.package.paths, skill.path) == (name, (file,), "")
    assert skill.package.files[0].content == SKILL


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", ""])
def test_a_file_without_a_suffix_or_a_type_is_read_by_its_first_character(kind):
    (skill,) = fetch(SKILL, f"{BASE}/release", kind).skills
    assert skill.package.paths == ("release.md",)


def test_a_package_in_json_is_one_skill():
    body = b'{"slug": "a", "name": "A", "description": "Does A.", "artifacts": []}'
    (skill,) = fetch(body, f"{BASE}/a.json", "application/json").skills
    assert skill.package.paths == ("a.json",)


@pytest.mark.parametrize(("pack", "suffix"), [(zipped, ".zip"), (tar_gz, ".tar.gz"), (zipped, ".skill"), (zipped, "")])
def test_an_archive_has_one_skill_or_several(pack, suffix):
    (skill,) = fetch(pack({"release/SKILL.md": SKILL, "release/a.txt": b"a"}), f"{BASE}/any{suffix}").skills
    assert (skill.package.name, skill.package.paths) == ("release", ("SKILL.md", "a.txt"))
    several = fetch(pack({"x/one/SKILL.md": SKILL, "x/two/SKILL.md": SKILL}), f"{BASE}/any{suffix}").skills
    assert [skill.path for skill in several] == ["one", "two"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"plain words", "/file.txt"),
        (b"\x89PNG", "/image"),
        (b"not an archive", "/a.zip"),
        (b"{", "/a.json"),
        (b"[" * 200_000, "/a.json"),
        (SKILL[:30], "/SKILL.md"),
        (b"  \n", "/SKILL.md"),
        (SKILL + b"\xff", "/SKILL.md"),
        (zipped({"../evil/SKILL.md": SKILL}), "/a.zip"),
    ],
)
def test_a_file_that_is_not_a_skill_is_invalid(body, path):
    with pytest.raises(Invalid) as caught:
        fetch(body, BASE + path)
    assert caught.value.hint


def test_the_bytes_decide_whether_it_changed():
    first = fetch(SKILL, f"{BASE}/SKILL.md")
    assert first.state.revision.startswith("sha256:")
    confirmed = fetch(b"", f"{BASE}/SKILL.md", last=first.state, status=304, etag="")
    assert (confirmed.unchanged, confirmed.state.etag) == (True, '"1"')
    same = fetch(SKILL, f"{BASE}/SKILL.md", last=first.state, etag='"2"')
    assert (same.unchanged, same.state.etag) == (True, '"2"')
    other = fetch(SKILL + b"More.\n", f"{BASE}/SKILL.md", last=first.state, etag='"1"')
    assert not other.unchanged
    assert other.state.revision != first.state.revision


def test_a_source_that_moves_to_another_host_comes_with_a_warning():
    first = fetch(SKILL, f"{BASE}/SKILL.md")
    moved = HttpResponse(status=200, headers={}, body=SKILL + b"x", url="https://elsewhere.example.net/SKILL.md")
    with ScriptedHttpClient([moved]) as client:
        second = run(client, f"{BASE}/SKILL.md", first.state)
    assert [warning.code for warning in second.warnings] == ["source-moved"]
    assert "elsewhere.example.net" in second.warnings[0].message


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("https://github.com/o/r/blob/main/a/SKILL.md", "https://raw.githubusercontent.com/o/r/main/a/SKILL.md"),
        ("https://github.com/o/r/raw/v1/a/SKILL.md?x=1", "https://raw.githubusercontent.com/o/r/v1/a/SKILL.md"),
        ("https://www.github.com/o/r/blob/main/x.md#L5", "https://raw.githubusercontent.com/o/r/main/x.md"),
        ("https://gitlab.com/g/s/r/-/blob/main/x.md", "https://gitlab.com/g/s/r/-/raw/main/x.md"),
        ("https://git.example.com/g/r/-/blob/v1/x.md?ref_type=heads", "https://git.example.com/g/r/-/raw/v1/x.md"),
        ("https://example.com/blob/main/x.md#part", "https://example.com/blob/main/x.md"),
        ("https://github.com.evil.example/o/r/blob/x.md", "https://github.com.evil.example/o/r/blob/x.md"),
    ],
)
def test_a_page_that_shows_a_file_stands_for_the_file(page, file):
    assert file_url(page) == file


def test_a_fetched_file_is_a_valid_skill():
    (skill,) = fetch(SKILL, f"{BASE}/release/SKILL.md").skills
    assert validate(skill.package, "prowess").ok
