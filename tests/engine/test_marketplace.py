"""Skills of a registry are kept in step in the account, by ETag, and the user's own skills are never touched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.sources.registry_world import Clock, World, make_package, open_world

from prowess.errors import ApprovalRequired, Refused
from prowess.open import Prowess
from prowess.policy.actor import Actor, agent_of
from prowess.settings import read_settings
from prowess.skill.draft import SkillDraft
from prowess.sources.package_shelf import DATABASE_FILE

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path / "registry", listen=True, clock=Clock(datetime.now(UTC))) as opened:
        yield opened


@pytest.fixture
async def engine(place: Any) -> AsyncIterator[Prowess]:
    async with Prowess.open(settings=read_settings(place.environment)) as opened:
        yield opened


async def add(engine: Prowess, world: World, **config: Any) -> str:
    return (await engine.sources.create("Market", "marketplace", {"base_url": world.url, **config})).id


async def test_skills_arrive_in_the_account_with_their_marketplace_id_and_etag(engine: Prowess, world: World) -> None:
    source = await add(engine, world)

    result = await engine.sources.sync(source)

    greet = await engine.skills.get("greet")
    assert (result.status, result.counts) == ("ok", {"added": 2})
    assert (greet.scope, greet.digest) == ("account", make_package("greet").digest)
    origin = greet.provenance
    assert (origin.source_type, origin.source_id, origin.source_ref) == ("marketplace", source, "1.0.0")
    assert (origin.marketplace_id or "").endswith("/greet")
    assert origin.sync_etag == f'"{world.shelf.archive("greet", "1.0.0")[0].archive}"'
    assert (await engine.sources.get(source)).pinned_key == world.shelf.key


async def test_a_second_sync_is_answered_by_etag_and_a_change_brings_only_what_changed(
    engine: Prowess, world: World
) -> None:
    source = await add(engine, world)
    await engine.sources.sync(source)

    again = await engine.sources.sync(source)
    world.publish("wave", "1.1.0")
    changed = await engine.sources.sync(source)

    assert (again.unchanged, changed.unchanged) == (True, False)
    assert changed.counts == {"unchanged": 1, "updated": 1}
    assert (await engine.skills.get("wave")).version == "1.1.0"
    assert (await engine.skills.get("greet")).provenance.source_ref == "1.0.0"


async def test_a_workspace_override_is_never_touched(engine: Prowess, world: World) -> None:
    draft = SkillDraft(
        content=next(f for f in make_package("greet", "9.0.0", "Mine.").files if "SKILL" in f.path).content.decode()
    )
    await engine.skills.create_document(draft, scope="workspace")
    own = await engine.skills.get("greet")
    source = await add(engine, world)

    await engine.sources.sync(source)
    world.publish("greet", "1.1.0")
    await engine.sources.sync(source)

    now = await engine.skills.get("greet")
    assert (now.scope, now.digest) == ("workspace", own.digest)
    assert (await engine.skills.get("account:greet")).version == "1.1.0"


async def test_synced_skills_wait_for_a_person_however_they_are_signed(engine: Prowess, world: World) -> None:
    await engine.sources.sync(await add(engine, world))
    session = await engine.sessions.open("a")

    with pytest.raises(ApprovalRequired):
        await engine.as_actor(agent_of(engine.actor)).enable("greet", session=session)


async def test_skills_stay_usable_offline(engine: Prowess, tmp_path: Path) -> None:
    with open_world(tmp_path / "other", listen=True, clock=Clock(datetime.now(UTC))) as world:
        source = await add(engine, world)
        await engine.sources.sync(source)

    result = await engine.sources.sync(source)

    assert (result.status, result.error is not None) == ("failed", True)
    assert (await engine.skills.get("greet")).digest == make_package("greet").digest


async def test_a_registry_that_goes_back_changes_nothing(engine: Prowess, world: World, tmp_path: Path) -> None:
    database = tmp_path / "registry" / DATABASE_FILE
    world.shelf.index()
    old = {path: path.read_bytes() for path in database.parent.glob(f"{DATABASE_FILE}*")}
    source = await add(engine, world)
    world.publish("greet", "1.1.0")
    await engine.sources.sync(source)
    for path in database.parent.glob(f"{DATABASE_FILE}*"):
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)

    result = await engine.sources.sync(source)

    assert (result.status, "went back" in (result.error.message if result.error else "")) == ("failed", True)
    assert (await engine.skills.get("greet")).version == "1.1.0"
    assert "went back" in ((await engine.sources.get(source)).last_sync_error or "")


async def test_a_key_of_the_configuration_must_be_the_registrys(engine: Prowess, world: World) -> None:
    source = await add(engine, world, key="ed25519:" + "A" * 43 + "=")

    result = await engine.sources.sync(source)

    assert "another key" in (result.error.message if result.error else "")


async def test_an_organization_reaches_a_private_registry_only_if_the_operator_configured_it(
    place: Any, world: World
) -> None:
    ann = Actor(name="ann", organization="acme")
    statuses: list[str] = []
    for variables in ({}, {"PROWESS_REGISTRY_URL": world.url}):
        settings = read_settings({**place.environment, **variables})
        async with Prowess.open(settings=settings, actor=ann) as engine:
            statuses.append((await engine.sources.sync(await add(engine, world))).status)

    assert statuses == ["failed", "ok"]


async def test_a_private_registry_gets_the_token_that_is_configured_for_it(place: Any, tmp_path: Path) -> None:
    with open_world(tmp_path / "private", listen=True, clock=Clock(datetime.now(UTC)), private=True) as world:
        settings = {**place.environment, "PROWESS_REGISTRY_TOKEN": world.token}
        async with Prowess.open(settings=read_settings(settings)) as engine:
            source = await add(engine, world)
            refused = await engine.sources.sync(source)
        settings["PROWESS_REGISTRY_URL"] = world.url
        async with Prowess.open(settings=read_settings(settings)) as engine:
            allowed = await engine.sources.sync(source)

    assert (refused.status, allowed.status) == ("failed", "ok")


async def test_one_call_syncs_automatic_marketplaces_and_refreshes_system_skills(place: Any, world: World) -> None:
    variables = {"PROWESS_SYSTEM_REGISTRY_URL": world.url, "PROWESS_SYSTEM_REGISTRY_KEY": world.shelf.key}
    async with Prowess.open(settings=read_settings({**place.environment, **variables})) as engine:
        await add(engine, world, sync_policy="auto")
        await engine.sources.create("Manual", "marketplace", {"base_url": world.url})
        result = await engine.marketplace.sync()
        with pytest.raises(Refused):
            await engine.as_actor(organization="acme").marketplace.sync()

    assert [one.status for one in result.sources] == ["ok"]
    assert result.as_json()["system"] == {"updated": [], "unchanged": False}
    assert result.system_error is None


async def test_a_failing_registry_of_system_skills_does_not_stop_the_others(place: Any, world: World) -> None:
    variables = {"PROWESS_SYSTEM_REGISTRY_URL": world.url}
    async with Prowess.open(settings=read_settings({**place.environment, **variables})) as engine:
        await add(engine, world, sync_policy="auto")
        result = await engine.marketplace.sync()

    assert ([one.status for one in result.sources], result.system) == (["ok"], None)
    assert result.as_json()["system_error"]["code"] == "invalid"
