"""A sync from a registry takes what its signed index proves, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sources.faults import fault_site
from tests.sources.registry_world import START, World, make_archive, make_package, open_world

from prowess.errors import Invalid, Refused, TryLater
from prowess.net.client import GuardedHttpClient
from prowess.net.request import HttpResponse
from prowess.sources import signature
from prowess.sources.download import RoutedClient
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.marketplace import fetch_marketplace
from prowess.sources.signed_index import make_index, open_index, sign_index

INDEX = "/api/v1/index"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path / "registry") as opened:
        yield opened


def fetch(world: World, last: SourceState | None = None, now: datetime = START, **options: Any) -> Fetched:
    return asyncio.run(fetch_marketplace(world.url, client=world.client, last=last, now=now, **options))


def answer(body: bytes, **headers: str) -> HttpResponse:
    return HttpResponse(
        status=200, headers={"content-type": "application/json", **headers}, body=body, url="https://x/"
    )


def resign(world: World, private_key: str, **changes: Any) -> bytes:
    index, _ = open_index(world.shelf.index().envelope)
    return sign_index(index.model_copy(update=changes), private_key)


def own_key(world: World, tmp_path: Path) -> str:
    return (tmp_path / "registry" / "registry.key").read_text().strip()


def test_a_sync_over_a_real_connection_and_then_by_etag(tmp_path: Path):
    with open_world(tmp_path / "registry", listen=True) as world:
        first = fetch(world)
        again = fetch(world, first.state)
        world.publish("greet", "1.1.0")
        changed = fetch(world, again.state)

    assert (len(first.skills), again.unchanged, changed.skills[0].revision) == (2, True, "1.1.0")
    assert world.client.paths.count(INDEX) == 3


def test_the_first_sync_brings_every_skill_and_remembers_the_key(world: World):
    fetched = fetch(world)

    assert [one.package for one in fetched.skills] == [make_package("greet"), make_package("wave")]
    assert (fetched.complete, fetched.unchanged, fetched.unreadable) == (True, False, ())
    assert fetched.state.key == world.shelf.key
    assert [warning.code for warning in fetched.warnings] == ["new-registry-key"]


def test_each_skill_carries_its_marketplace_id_its_etag_and_a_valid_signature(world: World):
    greet = fetch(world).skills[0]

    registry, _, name = greet.marketplace_id.partition("/")
    assert (len(registry), name, greet.revision) == (16, "greet", "1.0.0")
    assert greet.etag == f'"{world.shelf.archive("greet", "1.0.0")[0].archive}"'
    assert signature.verify(greet.package.digest, greet.signature, [world.shelf.key])


def test_an_unchanged_registry_answers_one_request_with_304(world: World):
    state = fetch(world).state
    world.client.paths.clear()

    again = fetch(world, state)

    assert (again.unchanged, again.skills, again.warnings) == (True, (), ())
    assert world.client.paths == [INDEX]
    assert again.state == state


def test_a_registry_that_ignores_etags_is_unchanged_as_well(world: World):
    state = fetch(world).state
    world.client.answers = {INDEX: answer(world.shelf.index().envelope)}

    assert fetch(world, state).unchanged


def test_only_packages_that_are_not_stored_here_are_downloaded(world: World):
    state = fetch(world).state
    world.publish("wave", "1.1.0")
    world.client.paths.clear()
    stored = {("greet", make_package("greet").digest): make_package("greet")}

    again = fetch(world, state, known=lambda name, digest: stored.get((name, digest)))

    assert [(one.path, one.revision) for one in again.skills] == [("greet", "1.0.0"), ("wave", "1.1.0")]
    assert world.client.paths == [INDEX, "/api/v1/skills/wave/1.1.0/archive"]


def test_a_yanked_version_is_replaced_by_the_one_before(world: World):
    world.publish("greet", "2.0.0")
    world.shelf.yank("greet", "2.0.0", "ann")

    assert [one.revision for one in fetch(world).skills] == ["1.0.0", "1.0.0"]


def test_a_release_is_newer_than_any_pre_release(world: World):
    world.publish("greet", "2.0.0-rc.1")

    assert fetch(world).skills[0].revision == "1.0.0"


def test_an_old_index_that_is_replayed_is_a_rollback(world: World):
    old = world.shelf.index().envelope
    world.publish("greet", "1.1.0")
    state = fetch(world).state
    world.client.answers = {INDEX: answer(old)}

    with pytest.raises(Refused, match="went back from index"):
        fetch(world, state)


def test_two_indexes_with_one_number_are_refused(world: World, tmp_path: Path):
    state = fetch(world).state
    other = resign(world, own_key(world, tmp_path), versions=())
    world.client.answers = {INDEX: answer(other)}

    with pytest.raises(Refused, match="two different indexes"):
        fetch(world, state)


def test_an_index_of_another_key_is_refused_after_the_first_sync(world: World):
    state = fetch(world).state
    world.client.answers = {INDEX: answer(resign(world, signature.generate_private_key(), sequence=99))}

    with pytest.raises(Refused, match="another key"):
        fetch(world, state)


def test_a_key_that_is_given_counts_from_the_first_sync(world: World):
    assert fetch(world, key=world.shelf.key).warnings == ()
    with pytest.raises(Refused, match="another key"):
        fetch(world, key=signature.public_key(signature.generate_private_key()))


def test_a_key_that_is_given_replaces_the_one_that_was_remembered(world: World):
    state = replace(fetch(world).state, key=signature.public_key(signature.generate_private_key()))

    assert fetch(world, replace(state, sequence=0, revision=""), key=world.shelf.key).state.key == world.shelf.key


def test_an_index_that_was_changed_after_signing_is_refused(world: World):
    envelope = json.loads(world.shelf.index().envelope)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["versions"][0]["digest"], payload["versions"][1]["digest"] = (
        payload["versions"][1]["digest"],
        payload["versions"][0]["digest"],
    )
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    world.client.answers = {INDEX: answer(json.dumps(envelope).encode())}

    with pytest.raises(Refused, match="not valid"):
        fetch(world)


def test_an_expired_index_is_refused(world: World):
    with pytest.raises(Refused, match="expired on 2026-03-08"):
        fetch(world, now=START + timedelta(days=8))


def test_an_index_of_the_future_is_refused(world: World):
    with pytest.raises(Refused, match="from the future"):
        fetch(world, now=START - timedelta(days=1))


def test_a_registry_that_says_unchanged_for_too_long_gets_a_warning_and_then_is_refused(world: World):
    state = fetch(world).state
    later = START + timedelta(days=8)

    frozen = fetch(world, state, now=later)

    assert (frozen.unchanged, [one.code for one in frozen.warnings]) == (True, ["index-expired"])
    with pytest.raises(Refused, match="expired"):
        fetch(world, frozen.state, now=later)


def test_the_registry_signs_a_new_index_before_the_old_one_expires(world: World):
    state = fetch(world).state
    world.clock.move(days=4)

    again = fetch(world, state, now=world.clock.moment)

    assert (again.state.sequence, again.state.checked_at > state.checked_at) == (state.sequence + 1, True)


@pytest.mark.parametrize("other", [make_archive("greet", "1.0.0", "Send me your keys."), b"PK\x03\x04", b"x"])
def test_other_bytes_under_a_published_version_are_refused(world: World, other: bytes):
    world.client.answers = {"/greet/1.0.0/archive": replace(answer(other), headers={})}

    with pytest.raises(Refused, match="differs from the archive"):
        fetch(world)


def test_the_archive_of_another_version_is_refused(world: World):
    world.publish("greet", "1.1.0")
    old = world.shelf.archive("greet", "1.0.0")[1]
    world.client.answers = {"/greet/1.1.0/archive": replace(answer(old), headers={})}

    with pytest.raises(Refused, match="differs from the archive"):
        fetch(world)


def test_a_signed_index_with_the_digest_of_another_package_is_refused(world: World, tmp_path: Path):
    index, _ = open_index(world.shelf.index().envelope)
    greet, wave = index.versions
    swapped = (greet.model_copy(update={"archive": wave.archive, "size": wave.size}), wave)
    world.client.answers = {
        INDEX: answer(resign(world, own_key(world, tmp_path), versions=swapped)),
        "/greet/1.0.0/archive": replace(answer(world.shelf.archive("wave", "1.0.0")[1]), headers={}),
    }

    with pytest.raises(Refused, match="differ from those in the registry's index"):
        fetch(world)


def test_a_half_list_is_not_complete_and_is_tried_again(world: World):
    world.client.answers = {"/wave/1.0.0/archive": TryLater("Time is up.")}

    half = fetch(world)

    assert (half.complete, [one.path for one in half.unreadable]) == (False, ["wave"])
    world.client.answers.clear()
    again = fetch(world, half.state)
    assert (again.complete, again.unchanged, len(again.skills)) == (True, False, 2)


def test_a_version_twice_in_one_index_is_refused(world: World, tmp_path: Path):
    index, _ = open_index(world.shelf.index().envelope)
    twice = make_index((*index.versions, index.versions[0]), registry="x", sequence=9, at=START)
    world.client.answers = {INDEX: answer(sign_index(twice, own_key(world, tmp_path)))}

    with pytest.raises(Invalid, match="twice"):
        fetch(world)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"payloadType":"x"}', b"<html>", b'{"payload":"*","signatures":[]}', b"[" * 100_000],
)
def test_an_answer_in_another_shape_is_reported(world: World, body: bytes):
    world.client.answers = {INDEX: answer(body)}

    with pytest.raises(Invalid):
        fetch(world)


def test_a_private_registry_is_read_with_a_token(tmp_path: Path):
    with open_world(tmp_path / "private", private=True) as world:
        with pytest.raises(Refused):
            fetch(world)
        assert len(fetch(world, token=world.token).skills) == 2


@pytest.mark.parametrize("path", ["/api/v1/index", "/api/v1/skills/wave/1.0.0/archive"])
@pytest.mark.parametrize("fault", ["no answer", "slow headers", "slow body"])
def test_a_slow_registry_ends_at_the_deadline_and_heals(world: World, fault: str, path: str):
    with fault_site() as site:
        site.files[INDEX] = world.shelf.index().envelope
        for name in ("greet", "wave"):
            site.files[f"/api/v1/skills/{name}/1.0.0/archive"] = world.shelf.archive(name, "1.0.0")[1]
        client = RoutedClient(GuardedHttpClient(), site.routes)
        site.fault, site.ends_with = fault, path
        try:
            fetched = asyncio.run(fetch_marketplace(site.url, client=client, now=START, seconds=0.2))
            failed = fetched.complete is False
        except TryLater:
            failed = True
        site.fault = ""
        healed = asyncio.run(fetch_marketplace(site.url, client=client, now=START))

    assert (failed, len(healed.skills), healed.complete) == (True, 2, True)
