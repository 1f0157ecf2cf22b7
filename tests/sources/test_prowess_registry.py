"""A registry server of Prowess is searched like the others, and delivers only what its signed index states."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sources.registry_world import Clock, World, make_package, open_world

from prowess.errors import Invalid, NotFound, Refused, Unavailable
from prowess.net.request import HttpResponse
from prowess.sources import signature
from prowess.sources.registries.prowess_registry import ProwessRegistry
from prowess.sources.registries.table import RegistrySettings, find_registry_skill, open_registry


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path / "registry", clock=Clock(datetime.now(UTC))) as opened:
        yield opened


def open_prowess(world: World, key: str = "") -> ProwessRegistry:
    return ProwessRegistry(world.client, url=world.url, key=key or world.shelf.key)


def test_it_finds_and_lists_packages(world: World):
    registry = open_prowess(world)

    found = asyncio.run(registry.search("greet", limit=5))
    asyncio.run(registry.download("wave"))
    trending = asyncio.run(registry.trending(limit=5))

    assert [(one.id, one.version, one.description) for one in found] == [
        ("greet", "1.0.0", "Greets people politely."),
        ("wave", "1.0.0", "Greets people politely."),
    ]
    assert [(one.id, one.installs) for one in trending] == [("wave", 1), ("greet", 0)]


def test_it_delivers_the_newest_version_with_its_signature(world: World):
    world.publish("greet", "1.1.0")

    detail = asyncio.run(open_prowess(world).metadata("greet"))

    assert (detail.entry.version, detail.skill.package) == ("1.1.0", make_package("greet", "1.1.0"))
    assert signature.verify(detail.skill.package.digest, detail.skill.signature, [world.shelf.key])


def test_other_bytes_than_those_of_the_index_are_refused(world: World):
    other = world.shelf.archive("wave", "1.0.0")[1]
    url = f"{world.url}/api/v1/skills/greet/1.0.0/archive"
    world.client.answers = {"/greet/1.0.0/archive": HttpResponse(status=200, headers={}, body=other, url=url)}

    with pytest.raises((Refused, Unavailable)):
        asyncio.run(open_prowess(world).download("greet"))


def test_another_key_is_refused(world: World):
    other = signature.public_key(signature.generate_private_key())

    with pytest.raises(Refused, match="another key"):
        asyncio.run(open_prowess(world, other).download("greet"))


def test_an_unknown_skill_and_an_invalid_id_are_reported(world: World):
    with pytest.raises(NotFound):
        asyncio.run(open_prowess(world).download("nothing"))
    with pytest.raises(Invalid):
        asyncio.run(open_prowess(world).download("../x"))


def test_a_skill_is_named_by_the_registry_or_by_its_address(world: World):
    settings = RegistrySettings(prowess_url=world.url)

    named = find_registry_skill("prowess:greet", settings, world.client)
    addressed = find_registry_skill(f"{world.url}/api/v1/skills/greet", settings, world.client)

    assert [(one.registry.name, one.id) for one in (named, addressed)] == [("prowess", "greet")] * 2
    with pytest.raises(Invalid):
        find_registry_skill("https://elsewhere.example/api/v1/skills/greet", settings, world.client)


def test_without_a_configured_address_the_message_says_what_to_set(world: World):
    registry = open_registry("prowess", replace(RegistrySettings()), world.client)

    with pytest.raises(Unavailable) as raised:
        asyncio.run(registry.search("greet", limit=1))
    assert "PROWESS_REGISTRY_URL" in raised.value.hint
