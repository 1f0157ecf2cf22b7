"""Bad upstream through the engine: the catalog stays as it is, the reason is stored with the source, and one good sync heals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from prowess.settings import read_settings
from prowess.skill.archive import write_archive
from prowess.skill.package import Package
from prowess.sources.fetch import fetch
from prowess.sources.package_shelf import PackageShelf
from prowess.sync import Prowess

from .faults import FAULTS, HARMLESS, LIST_FAULTS, QUICK, FaultSite, fault_site

SECONDS = 0.3
SLOW = frozenset({"no answer", "slow headers", "slow body"})
INDEX, ARCHIVE = "/api/v1/index", "/api/v1/skills/{}/1.0.0/archive"
URLS = {"file": "https://skills.test/alpha/SKILL.md", "site": "https://skills.test"}


def cases() -> Iterator[object]:
    for name, path, faults in (
        ("file", "alpha/SKILL.md", FAULTS),
        ("site", "index.json", {**FAULTS, **LIST_FAULTS}),
        ("site", "beta/SKILL.md", FAULTS),
        # A registry has a deadline of its own for each request, which is longer than a test should take.
        ("registry", INDEX, {**FAULTS, **LIST_FAULTS}.keys() - SLOW),
        ("registry", ARCHIVE.format("two"), FAULTS.keys() - SLOW),
    ):
        for fault in sorted(faults):
            yield pytest.param(name, path, fault, marks=[] if fault in QUICK else pytest.mark.long)


def document(name: str, body: str) -> bytes:
    return f"---\nname: {name}\ndescription: Use this for {name} work.\n---\n# {name}\n\n{body}\n".encode()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultSite]:
    """A site with skills as files, in a well-known index, and others as a registry."""
    shelf = PackageShelf(tmp_path_factory.mktemp("registry"))
    with fault_site() as made:
        made.publish({name: document(name, "One.") for name in ("alpha", "beta", "gamma")})
        for name in ("one", "two"):
            package = Package.of_texts(name, {"SKILL.md": document(name, "One.")})
            shelf.publish(write_archive(package, "zip"), "ann")
            made.files[ARCHIVE.format(name)] = shelf.archive(name, "1.0.0")[1]
        made.files[INDEX] = shelf.index().envelope
        yield made


@pytest.fixture(scope="module")
def prowess(site: FaultSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prowess]:
    """An engine with all three sources, synced once."""
    root = tmp_path_factory.mktemp("engine")
    environment = {"HOME": str(root), "PROWESS_WORKSPACE": str(root), "PROWESS_SYSTEM_SKILLS": "off"}

    async def fetch_quickly(reference, context, last=None):
        return await fetch(reference, replace(context, seconds=SECONDS if site.fault in SLOW else 60.0), last)

    settings = read_settings({**environment, "PROWESS_BACKGROUND": "off"})
    with Prowess.open(settings=settings, fetcher=fetch_quickly) as opened:
        opened.policy.set("host_routes", {"skills.test": site.url})
        for name, scope in (("file", "user"), ("site", "account")):
            source = opened.sources.create(name, "url", {"url": URLS[name]}, scope=scope)
            assert opened.sources.sync(source.id).status == "ok"
        source = opened.sources.create("registry", "marketplace", {"base_url": site.url})
        assert opened.sources.sync(source.id).status == "ok"
        yield opened


def catalog(prowess: Prowess) -> dict[str, tuple[str, str]]:
    """Return everything that is stored of every skill: its digest and its files."""
    return {
        card.slug: (card.digest, prowess.skills.read_file(card.slug, "SKILL.md").decode())
        for card in prowess.skills.cards()
    }


@pytest.mark.few(12)
@pytest.mark.parametrize(("name", "path", "fault"), list(cases()))
def test_a_fault_changes_nothing_is_recorded_and_heals(prowess, site, name, path, fault):
    (source,) = [one for one in prowess.sources.list() if one.name == name]
    before = catalog(prowess)
    site.fault, site.ends_with = fault, path
    try:
        # A person who asks again although nothing seems to have changed: no ETag is sent.
        prowess.sources.sync(source.id, take=["alpha"])
    finally:
        site.fault = ""
    assert catalog(prowess) == before
    after = prowess.sources.get(source.id)
    reasons = [after.last_sync_error, *(problem["message"] for problem in after.problems)]
    # The index of a site has no count: half of it is a list like any other, and deletes nothing.
    # The index of a registry is signed, so nothing around it matters.
    proven = name == "registry" and after.last_sync_status == "ok"
    if fault not in HARMLESS | {"half list"} and not proven:
        assert after.last_sync_status in {"failed", "partial"}
        assert any(reasons)
    healed = prowess.sources.sync(source.id)
    assert (healed.status, catalog(prowess)) == ("ok", before)


def test_a_change_after_a_fault_arrives_with_the_next_sync(prowess, site):
    (source,) = [one for one in prowess.sources.list() if one.name == "site"]
    before = catalog(prowess)
    site.publish({name: document(name, "Two." if name == "beta" else "One.") for name in ("alpha", "beta", "gamma")})
    site.fault, site.ends_with = "truncated", "beta/SKILL.md"
    assert prowess.sources.sync(source.id).status == "partial"
    assert catalog(prowess) == before
    site.fault = ""
    assert prowess.sources.sync(source.id).counts["updated"] == 1
    assert "Two." in catalog(prowess)["beta"][1]
