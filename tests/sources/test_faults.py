"""Bad upstream: whatever a site does wrong, a fetch brings nothing that the site does not publish, and ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from prowess.errors import ProwessError
from prowess.net.client import GuardedHttpClient
from prowess.sources.download import RoutedClient
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.url import fetch_url
from prowess.sources.well_known import fetch_well_known

from .faults import FAULTS, HARMLESS, LIST_FAULTS, FaultSite, fault_site

SECONDS = 0.3
"""The deadline of a fetch here. The sites that never finish run into it, all others answer at once."""
SLOW = frozenset({"no answer", "slow headers", "slow body"})
SKILLS = {
    name: f"---\nname: {name}\ndescription: Use this for {name} work.\n---\n# {name}\n\nDo the work.\n".encode()
    for name in ("alpha", "beta", "gamma", "delta")
}
KINDS = [("url", "/alpha/SKILL.md"), ("well-known", "index.json"), ("well-known", "beta/SKILL.md")]
CASES = [(kind, path, fault) for kind, path in KINDS for fault in FAULTS]
CASES += [("well-known", "index.json", fault) for fault in LIST_FAULTS]


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with fault_site() as made:
        made.publish(SKILLS)
        yield made


@pytest.fixture(scope="module")
def client(site: FaultSite) -> Iterator[RoutedClient]:
    guarded = GuardedHttpClient()
    yield RoutedClient(guarded, site.routes)
    guarded.close()


def fetch(kind: str, site: FaultSite, client: RoutedClient, last: SourceState | None = None, seconds=30.0) -> Fetched:
    if kind == "url":
        return asyncio.run(fetch_url(client, f"{site.url}/alpha/SKILL.md", last=last, seconds=seconds))
    return asyncio.run(fetch_well_known(client, site.url, last=last, seconds=seconds))


def contents(fetched: Fetched) -> dict[str, bytes]:
    return {skill.package.name: skill.package.files[0].content for skill in fetched.skills}


@pytest.fixture(scope="module")
def good(site: FaultSite, client: RoutedClient) -> dict[str, Fetched]:
    """What the site publishes, by the kind of source."""
    return {kind: fetch(kind, site, client) for kind in ("url", "well-known")}


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize(("kind", "path", "fault"), CASES)
def test_a_fault_brings_nothing_new_and_one_good_answer_heals(site, client, good, kind, path, fault, again):
    published = contents(good[kind])
    site.fault, site.ends_with = fault, path
    try:
        bad = fetch(kind, site, client, good[kind].state if again else None, SECONDS if fault in SLOW else 30.0)
    except ProwessError as error:
        reasons, last = [error], None
    else:
        assert contents(bad).items() <= published.items()
        # A list with fewer skills must not remove the others.
        assert contents(bad) == published or bad.unchanged or not bad.complete
        reasons, last = [one.error for one in bad.unreadable], bad.state
        # Only these leave nothing to report. The index of a site has no count, so that half of it looks like all of it.
        assert reasons or fault in HARMLESS | {"half list"} or bad.unchanged
    finally:
        site.fault = ""
    assert all(reason.message and reason.hint for reason in reasons)
    healed = fetch(kind, site, client, last)
    assert healed.unchanged or contents(healed) == published


@pytest.mark.parametrize("kind", ["url", "well-known"])
def test_a_site_that_has_not_changed_is_asked_once(site, client, good, kind):
    before = len(site.requests)
    again = fetch(kind, site, client, good[kind].state)
    assert (again.unchanged, again.skills) == (True, ())
    assert len(site.requests) == before + 1
