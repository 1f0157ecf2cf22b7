"""Bad upstream: whatever a site does wrong, a fetch brings nothing that the site does not publish, and ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.errors import ProwessError, TryLater
from prowess.net.client import GuardedHttpClient
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.skill.archive import write_archive
from prowess.skill.package import Package
from prowess.sources import well_known
from prowess.sources.download import RoutedClient
from prowess.sources.fetch import fetch
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.marketplace import fetch_marketplace
from prowess.sources.package_shelf import PackageShelf
from prowess.sources.reference import SourceReference

from .faults import FAULTS, HARMLESS, LIST_FAULTS, QUICK, FaultSite, fault_site

SECONDS = 0.3
"""The deadline of a fetch here. The sites that never finish run into it, all others answer at once."""
SLOW = frozenset({"no answer", "slow headers", "slow body"})
SKILLS = {
    name: f"---\nname: {name}\ndescription: Use this for {name} work.\n---\n# {name}\n\nDo the work.\n".encode()
    for name in ("alpha", "beta", "gamma", "delta")
}
INDEX, ARCHIVE = "/api/v1/index", "/api/v1/skills/{}/1.0.0/archive"
KINDS = [("file", "/alpha/SKILL.md"), ("well-known", "index.json"), ("well-known", "beta/SKILL.md")]
KINDS += [("marketplace", INDEX), ("marketplace", ARCHIVE.format("beta"))]


def cases() -> Iterator[object]:
    """Yield every fault of every file, those of the first two files always."""
    for kind, path in KINDS:
        for fault in (*FAULTS, *LIST_FAULTS) if "index" in path else FAULTS:
            is_quick = fault in QUICK or (kind, path) in KINDS[:2]
            yield pytest.param(kind, path, fault, marks=[] if is_quick else pytest.mark.long)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultSite]:
    """A site that publishes the same skills as files, in a well-known index, and as a registry."""
    shelf = PackageShelf(tmp_path_factory.mktemp("registry"))
    with fault_site() as made:
        made.publish(SKILLS)
        for name, text in SKILLS.items():
            shelf.publish(write_archive(Package.of_texts(name, {"SKILL.md": text}), "zip"), "ann")
            made.files[ARCHIVE.format(name)] = shelf.archive(name, "1.0.0")[1]
        made.files[INDEX] = shelf.index().envelope
        yield made


@pytest.fixture(scope="module")
def client() -> Iterator[GuardedHttpClient]:
    made = GuardedHttpClient()
    yield made
    made.close()


class Hurried:
    """Gives every request less time."""

    def __init__(self, client: HttpClient, seconds: float) -> None:
        self._client, self._seconds = client, seconds

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await self._client.send(replace(request, seconds=self._seconds))


def run(kind: str, site: FaultSite, client: HttpClient, last: SourceState | None = None, seconds=30.0) -> Fetched:
    if kind == "marketplace":
        return asyncio.run(
            fetch_marketplace(site.url, client=Hurried(RoutedClient(client, site.routes), seconds), last=last)
        )
    url = f"{site.url}/alpha/SKILL.md" if kind == "file" else site.url
    context = FetchContext(client=client, cache=Path("unused"), routes=site.routes, seconds=seconds)
    return asyncio.run(fetch(SourceReference(kind=kind, url=url), context, last))


def contents(fetched: Fetched) -> dict[str, bytes]:
    return {skill.package.name: skill.package.files[0].content for skill in fetched.skills}


@pytest.fixture(scope="module")
def good(site: FaultSite, client: HttpClient) -> dict[str, Fetched]:
    """What the site publishes, by the kind of source."""
    return {kind: run(kind, site, client) for kind in ("file", "well-known", "marketplace")}


@pytest.mark.few(20)
@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.long)], ids=["first", "again"])
@pytest.mark.parametrize(("kind", "path", "fault"), list(cases()))
def test_a_fault_brings_nothing_new_and_one_good_answer_heals(site, client, good, kind, path, fault, again):
    published = contents(good[kind])
    site.fault, site.ends_with = fault, path
    try:
        bad = run(kind, site, client, good[kind].state if again else None, SECONDS if fault in SLOW else 30.0)
    except ProwessError as error:
        reasons, last = [error], None
    else:
        assert contents(bad).items() <= published.items()
        # A list with fewer skills must not remove the others.
        assert contents(bad) == published or bad.unchanged or not bad.complete
        reasons, last = [one.error for one in bad.unreadable], bad.state
        # Only these leave nothing to report. The index of a site has no count, so that half of it looks like all of it. The
        # index of a registry is signed: it proves all its skills, whatever is wrong with what is around it.
        proven = kind == "marketplace" and contents(bad) == published
        assert reasons or bad.unchanged or proven or fault in HARMLESS | {"half list"}
    finally:
        site.fault = ""
    assert all(reason.message and reason.hint for reason in reasons)
    healed = run(kind, site, client, last)
    assert healed.unchanged or contents(healed) == published


@pytest.mark.parametrize("kind", ["file", "well-known", "marketplace"])
def test_a_site_that_has_not_changed_is_asked_once(site, client, good, kind):
    before = len(site.requests)
    again = run(kind, site, client, good[kind].state)
    assert (again.unchanged, again.skills) == (True, ())
    assert len(site.requests) == before + 1


@pytest.mark.parametrize("kind", ["file", "well-known"])
def test_one_request_gets_30_seconds_at_most_however_long_a_fetch_may_take(kind):
    class Slow:
        async def send(self, request: HttpRequest) -> HttpResponse:
            raise TryLater(f"{request.seconds:g} seconds")

    context = FetchContext(client=Slow(), cache=Path("unused"), seconds=3600.0)
    with pytest.raises(TryLater, match=r"^30 seconds"):
        asyncio.run(fetch(SourceReference(kind=kind, url="https://slow.example.com/SKILL.md"), context))


def test_a_site_gets_no_more_time_for_all_its_files_than_for_one(monkeypatch):
    monkeypatch.setattr(well_known, "MAX_SECONDS", 0.05)

    class Hanging:
        async def send(self, _request: HttpRequest) -> HttpResponse:
            return await asyncio.get_running_loop().create_future()

    context = FetchContext(client=Hanging(), cache=Path("unused"), seconds=3600.0)
    with pytest.raises(TryLater, match=r"within 0\.05 seconds"):
        asyncio.run(fetch(SourceReference(kind="well-known", url="https://slow.example.com"), context))
