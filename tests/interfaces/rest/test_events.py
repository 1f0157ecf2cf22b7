"""Events over HTTP: streamed with ids, resumed without loss, and ended cleanly."""

from __future__ import annotations

import asyncio

import pytest

from prowess.interfaces.auth import guard
from prowess.interfaces.rest import streams
from prowess.policy.actor import Actor, agent_of
from prowess.storage.ledger import EventEntry, append
from prowess.storage.retention import delete_batch, read_batch

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
BOB = Actor(name="bob", organization="acme", user="bob", channel="http", permissions=frozenset({"skills.read"}))


def publish(site, *texts, user="ann", session="", organization="acme"):
    """Write events of an organization, as another process would."""
    resources = site.engine._context.resources
    entries = [EventEntry(name="skill_loaded", data={"name": text}, user_id=user, session_id=session) for text in texts]
    with resources.records().write() as connection:
        append(connection, organization, events=entries)
    resources.wake(organization)


def names(frames):
    return [frame.data["name"] for frame in frames]


async def test_an_event_has_its_number_its_name_and_its_payload(site):
    site.write("triage")
    session = await site.post("/sessions", {"conversation": "c"}, ANN)
    stream = await site.stream("/events", ANN)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-store"
    first = await stream.next()
    assert first.fields == {"retry": "2000", "id": "0"}

    enabled = await site.post(f"/sessions/{session['id']}/enable", {"skill_slug": "triage"}, ANN)
    (frame,) = await stream.events(1)
    assert (frame.fields["id"], frame.fields["event"]) == ("1", "skills_state_changed")
    shown = ("name", "slug", "content_length", "source_type")
    assert frame.data == {
        "enabled_skills": [{name: skill[name] for name in shown} for skill in enabled["enabled_skills"]],
        "budget_used_chars": enabled["budget_used_chars"],
        "budget_max_chars": enabled["budget_max_chars"],
    }
    await stream.close()


@pytest.mark.parametrize("how", ["header", "parameter"])
async def test_a_client_resumes_after_its_last_event(site, how):
    publish(site, "a", "b", "c")
    headers = {"last-event-id": "1"} if how == "header" else {}
    # The header is newer than the parameter, which is part of the address that a browser connects to again.
    stream = await site.stream(f"/events?after={0 if how == 'header' else 1}", ANN, headers=headers)
    assert names(await stream.events(2)) == ["b", "c"]
    publish(site, "d")
    (frame,) = await stream.events(1)
    assert (frame.data["name"], frame.fields["id"]) == ("d", "4")
    await stream.close()


async def test_a_client_that_resumes_before_what_is_kept_is_told(site):
    publish(site, "a", "b", "c", "d")
    with site.engine._context.resources.records().write() as connection:
        delete_batch(connection, "acme", read_batch(connection, "events", "acme", upto=2, limit=9))

    stream = await site.stream("/events?names=skill_loaded", ANN, headers={"last-event-id": "1"})
    told, *rest = await stream.events(3)
    assert (told.fields["id"], told.fields["event"], told.data) == ("2", "events_pruned", {"after": 1, "first": 3})
    assert names(rest) == ["c", "d"]
    await stream.close()
    listed = await site.get("/events/list?after=1", ANN)
    assert (listed["first"], listed["last"], [item["number"] for item in listed["items"]]) == (3, 4, [3, 4])


async def test_a_client_without_a_position_begins_with_what_happens_next(site):
    publish(site, "before")
    stream = await site.stream("/events", ANN)
    assert (await stream.next()).fields["id"] == "1"
    publish(site, "after")
    assert names(await stream.events(1)) == ["after"]
    await stream.close()


async def test_a_person_sees_events_of_their_own_user_and_an_administrator_all(site):
    of_bob, of_ann = await site.stream("/events", BOB), await site.stream("/events", ANN)
    of_eve = await site.stream("/events", Actor(name="eve", organization="other", user="ann", channel="http"))
    publish(site, "for ann", user="ann")
    publish(site, "for bob", user="bob")
    publish(site, "elsewhere", user="ann", organization="other")

    assert names(await of_bob.events(1)) == ["for bob"]
    assert names(await of_ann.events(2)) == ["for ann", "for bob"]
    assert names(await of_eve.events(1)) == ["elsewhere"]
    for stream in (of_bob, of_ann, of_eve):
        await stream.close()


async def test_the_stream_of_a_session_has_its_events_only(site):
    mine = await site.post("/sessions", {"conversation": "mine"}, ANN)
    stream = await site.stream("/sessions/mine/events?names=skill_loaded", ANN)
    publish(site, "other", session="another")
    publish(site, "mine", session=mine["id"])
    assert names(await stream.events(1)) == ["mine"]
    await stream.close()

    foreign = await site.stream(f"/sessions/{mine['id']}/events", BOB)
    assert foreign.status == 404


async def test_unknown_names_and_positions_are_refused(site):
    assert (await site.send("GET", "/events?names=nothing", ANN)).status_code == 422
    assert (await site.send("GET", "/events?after=-1", ANN)).status_code == 422
    assert (await site.stream("/events", ANN, headers={"last-event-id": "x"})).status == 422


async def test_an_idle_stream_has_heartbeats(site, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.01)
    stream = await site.stream("/events", ANN)
    await stream.next()
    assert [(await stream.next()).comment for _ in range(3)] == ["heartbeat"] * 3
    await stream.close()


async def test_a_stream_ends_when_its_token_is_revoked(site, monkeypatch):
    monkeypatch.setattr(guard, "CHECK_SECONDS", 0.01)
    publish(site, "a")
    stream = await site.stream("/events?after=0", ANN)
    await stream.events(1)
    site.callers.clear()
    assert await stream.rest() == []


async def test_only_the_guard_looks_up_the_caller_of_a_stream(site, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.01)
    stream = await site.stream("/events", ANN)
    await stream.next()
    # The guard checks again only after 15 seconds.
    site.callers.clear()
    assert [(await stream.next()).comment for _ in range(3)] == ["heartbeat"] * 3
    await stream.close()


async def test_a_slow_client_is_dropped_with_a_position_and_loses_nothing(site, monkeypatch):
    monkeypatch.setattr(streams, "MAX_BEHIND_EVENTS", 10)
    quick, slow = await site.stream("/events", ANN), await site.stream("/events", ANN, slow=True)
    slow.take_one()
    texts = [f"event {number}" for number in range(60)]
    publish(site, texts[0])
    seen = await slow.events(1)
    publish(site, *texts[1:])
    assert names(await quick.events(60)) == texts

    slow.take_all()
    received = await slow.rest()
    seen += [frame for frame in received if "data" in frame.fields]
    assert received[-1].comment == f"closed: too slow; resume after {len(seen)}"
    again = await site.stream("/events", ANN, headers={"last-event-id": str(len(seen))})
    assert names(seen) + names(await again.events(60 - len(seen))) == texts
    await quick.close()
    await again.close()


async def test_a_client_that_receives_nothing_is_closed_and_keeps_nobody_waiting(site, monkeypatch):
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.01)
    stuck, quick = await site.stream("/events", ANN, slow=True), await site.stream("/events", ANN)
    publish(site, "a")
    assert names(await quick.events(1)) == ["a"]
    await asyncio.wait([stuck.task])
    await quick.close()


async def test_streams_end_with_the_engine_and_say_where_to_resume(site):
    publish(site, "a")
    stream = await site.stream("/events?after=0", ANN)
    await stream.events(1)
    closing = asyncio.create_task(site.engine.close())
    assert (await stream.rest())[-1].comment == "closed: the server is closing; resume after 1"
    await closing


async def test_events_are_read_page_by_page(site):
    publish(site, "a", "b", "c")
    first = await site.get("/events/list?limit=2", ANN)
    rest = await site.get(f"/events/list?after={first['next_after']}", ANN)
    assert [event["data"]["name"] for event in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert (rest["next_after"], rest["last"]) == (3, 3)
    assert (await site.get("/events/list", agent_of(BOB)))["items"] == []


async def test_one_event_is_encoded_once_for_all_clients(site, monkeypatch):
    encoded = []
    original = streams.frame
    monkeypatch.setattr(streams, "frame", lambda *args, **options: encoded.append(args) or original(*args, **options))
    opened = [await site.stream("/events", ANN) for _ in range(20)]
    publish(site, "a")
    for stream in opened:
        assert names(await stream.events(1)) == ["a"]
        await stream.close()
    assert len(encoded) == 1
