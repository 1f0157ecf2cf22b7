"""Sites that publish skills under /.well-known/, in both versions of the protocol."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest

from prowess.errors import Invalid, NotFound, TooLarge, TryLater
from prowess.net.request import HttpRequest, HttpResponse
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.reference import SourceReference
from prowess.sources.well_known import SCHEMA, fetch_well_known, index_urls

SITE = "https://example.com"
INDEX = f"{SITE}/.well-known/agent-skills/index.json"
LEGACY = f"{SITE}/.well-known/skills/index.json"
SKILL = b"---\nname: release\ndescription: Use this to cut a release.\n---\n# Release\n"


class Site:
    """Answers by URL; anything else is missing. A value may be a list of answers, one after the other."""

    def __init__(self, files: dict[str, bytes | HttpResponse | list[bytes]]) -> None:
        self.files = files
        self.urls: list[str] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.urls.append(request.url)
        found = self.files.get(request.url)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, HttpResponse):
            return found
        return HttpResponse(status=404 if found is None else 200, headers={}, body=found or b"", url=request.url)

    def fetch(self, url: str = SITE, *, skill: str = "", last: SourceState | None = None, **options) -> Fetched:
        context = FetchContext(client=self, cache=Path("unused"), **options)
        return asyncio.run(fetch_well_known(SourceReference(kind="well-known", url=url, skill=skill), context, last))


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def entry(name="release", body=SKILL, **changes):
    row = {
        "name": name,
        "type": "skill-md",
        "description": "Cuts it.",
        "url": f"{name}/SKILL.md",
        "digest": digest(body),
    }
    return {key: value for key, value in {**row, **changes}.items() if value is not None}


def v2(*rows, schema=SCHEMA) -> bytes:
    return json.dumps({"$schema": schema, "skills": rows, "later": True}).encode()


def v1(*rows) -> bytes:
    return json.dumps({"skills": rows}).encode()


def old(name="release", files=("SKILL.md",), description="Cuts it."):
    return {"name": name, "description": description, "files": list(files)}


def zipped(*paths: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path in paths:
            archive.writestr(path, SKILL)
    return made.getvalue()


def names(fetched: Fetched) -> list[str]:
    return [skill.package.name for skill in fetched.skills]


def test_the_index_is_looked_for_in_four_places_in_order():
    with pytest.raises(NotFound, match="publishes no skills"):
        (site := Site({})).fetch(f"{SITE}/docs/")
    assert site.urls == [
        f"{SITE}/docs/.well-known/agent-skills/index.json",
        INDEX,
        f"{SITE}/docs/.well-known/skills/index.json",
        LEGACY,
    ]
    assert index_urls(SITE) == [INDEX, LEGACY]
    assert index_urls(INDEX) == [INDEX]


def test_a_page_for_a_missing_file_or_a_403_is_passed_over():
    page = HttpResponse(status=200, headers={"content-type": "text/html"}, body=b"<html>", url=INDEX)
    denied = HttpResponse(status=403, headers={}, body=b"", url=INDEX)
    files = {LEGACY: v1(old()), f"{SITE}/.well-known/skills/release/SKILL.md": SKILL}
    for answer in (page, denied):
        assert names(Site({INDEX: answer, **files}).fetch()) == ["release"]


def test_a_server_error_does_not_lead_to_another_index():
    broken = HttpResponse(status=500, headers={}, body=b"", url=INDEX)
    with pytest.raises(TryLater):
        (site := Site({INDEX: broken, LEGACY: v1(old())})).fetch()
    assert site.urls == [INDEX]


def test_an_address_that_had_the_index_is_the_only_one_that_counts_later():
    site = Site({LEGACY: v1(old()), f"{SITE}/.well-known/skills/release/SKILL.md": SKILL})
    state = site.fetch().state
    assert state.url == LEGACY
    site.files[INDEX] = v2(entry("evil"))
    assert site.fetch(last=state).unchanged
    del site.files[LEGACY]
    with pytest.raises(NotFound):
        site.fetch(last=state)


def test_version_2_resolves_urls_against_the_index_and_checks_digests():
    rows = [
        entry("relative"),
        entry("rooted", url="/files/rooted.md"),
        entry("elsewhere", url="//cdn.example.net/x.md"),
        entry("wrong", digest=digest(b"other")),
        entry("gone"),
    ]
    base = INDEX.removesuffix("index.json")
    places = [f"{base}relative/SKILL.md", f"{SITE}/files/rooted.md", "https://cdn.example.net/x.md"]
    got = Site({INDEX: v2(*rows), **dict.fromkeys([*places, f"{base}wrong/SKILL.md"], SKILL)}).fetch()
    assert names(got) == ["relative", "rooted", "elsewhere"]
    assert {skill.path: type(skill.error) for skill in got.unreadable} == {"wrong": Invalid, "gone": NotFound}
    assert got.skills[0].revision == digest(SKILL)
    assert (got.state.etag, got.state.revision, got.complete) == ("", "", False)


def test_urls_are_relative_to_the_index_after_redirects():
    moved = "https://cdn.example.net/v7/index.json"
    index = HttpResponse(status=200, headers={}, body=v2(entry(url="a.md")), url=moved)
    assert names(Site({INDEX: index, "https://cdn.example.net/v7/a.md": SKILL}).fetch()) == ["release"]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Release"},
        {"name": "a--b"},
        {"name": "-a"},
        {"name": "a" * 65},
        {"name": "../a"},
        {"description": "x" * 1025},
        {"description": None},
        {"digest": digest(SKILL).upper()},
        {"digest": "sha256:12"},
        {"digest": None},
        {"url": None},
        {"url": "http://[x"},
        {"type": None},
        {"type": 7},
    ],
)
def test_version_2_skips_invalid_entries(changes):
    files = {INDEX: v2(entry(**changes), entry("fine")), INDEX.replace("index.json", "fine/SKILL.md"): SKILL}
    got = Site(files).fetch()
    assert names(got) == ["fine"]
    assert len(got.unreadable) == 1


def test_version_2_skips_types_of_later_versions_with_a_warning():
    files = {
        INDEX: v2(entry("later", type="bundle"), entry("fine")),
        INDEX.replace("index.json", "fine/SKILL.md"): SKILL,
    }
    got = Site(files).fetch()
    assert (names(got), got.unreadable) == (["fine"], ())
    assert [warning.code for warning in got.warnings] == ["unknown-skill-type"]


@pytest.mark.parametrize("schema", ["https://schemas.agentskills.io/discovery/0.3.0/schema.json", None, 7])
def test_an_index_of_an_unknown_schema_is_not_read(schema):
    with pytest.raises(Invalid, match="unknown schema"):
        Site({INDEX: v2(entry(), schema=schema)}).fetch()


@pytest.mark.parametrize(
    ("paths", "expected"), [(["SKILL.md", "a/b.txt"], ["release"]), (["release/SKILL.md"], []), (["a.txt"], [])]
)
def test_an_archive_has_its_skill_md_at_the_root(paths, expected):
    body = zipped(*paths)
    row = entry(type="archive", url="/release.zip", digest=digest(body))
    got = Site({INDEX: v2(row), f"{SITE}/release.zip": body}).fetch()
    assert names(got) == expected
    assert len(got.unreadable) == 1 - len(expected)


def test_version_1_downloads_every_file_of_a_skill():
    files = ("SKILL.md", "references/a b.md", "assets/page.html", "assets/logo.png")
    base = f"{SITE}/.well-known/agent-skills/release"
    contents = {
        f"{base}/{path.replace(' ', '%20')}": SKILL if path.endswith("SKILL.md") else b"<html>\xff" for path in files
    }
    (skill,) = Site({INDEX: v1(old(files=files)), **contents}).fetch().skills
    assert sorted(skill.package.paths) == sorted(files)


@pytest.mark.parametrize(
    "row",
    [
        old(name="No"),
        old(description=""),
        old(files=()),
        old(files=("a.md",)),
        old(files=("SKILL.md", "../x")),
        old(files=("SKILL.md", "/etc/passwd")),
        old(files=("SKILL.md", "\\x")),
        old(files=("SKILL.md", "a\0b")),
        old(files=("SKILL.md", 7)),
        old(),
        "release",
        None,
    ],
)
def test_one_invalid_entry_voids_an_index_of_version_1(row):
    with pytest.raises(Invalid, match="invalid entry"):
        Site({INDEX: v1(old(), row)}).fetch()


def test_version_1_notices_a_site_that_changes_in_between():
    body = f"{SITE}/.well-known/agent-skills/release/SKILL.md"
    with pytest.raises(TryLater, match="changed while"):
        Site({INDEX: [v1(old()), v1(old(), old("more"))], body: SKILL}).fetch()


def test_version_1_asks_for_its_files_again_and_compares_them():
    body = f"{SITE}/.well-known/agent-skills/release/SKILL.md"
    site = Site({INDEX: v1(old()), body: SKILL})
    state = site.fetch().state
    assert site.fetch(last=state).unchanged
    site.files[body] = SKILL + b"More.\n"
    assert names(site.fetch(last=state)) == ["release"]


def test_one_skill_of_a_site_can_be_chosen():
    files = {INDEX: v2(entry("a"), entry("b"))} | {INDEX.replace("index.json", f"{n}/SKILL.md"): SKILL for n in "ab"}
    site = Site(files)
    assert names(site.fetch(skill="b")) == ["b"]
    assert not any(url.endswith("a/SKILL.md") for url in site.urls)
    with pytest.raises(NotFound, match="'c'"):
        site.fetch(skill="c")


def test_all_skills_of_a_site_share_one_limit_of_bytes():
    index = v2(entry("a"), entry("b"), entry("c"))
    files = {INDEX.replace("index.json", f"{name}/SKILL.md"): SKILL for name in "abc"}
    got = Site({INDEX: index, **files}).fetch(max_bytes=len(index) + 2 * len(SKILL))
    assert len(names(got)) == 2
    assert [type(skill.error) for skill in got.unreadable] == [TooLarge]


def test_a_state_of_another_source_is_not_an_etag_of_this_one():
    site = Site({INDEX: v2(entry()), INDEX.replace("index.json", "release/SKILL.md"): SKILL})
    got = site.fetch(last=SourceState(url="https://other.example.com/x", etag='"1"'))
    assert names(got) == ["release"]
