"""Events, approvals, runs and their traces, over a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prowess import ApprovalRequired, BudgetExceeded, Event, NotFound, Refused, RunFailed
from prowess.client import Client
from prowess.policy.actor import Actor, agent_of
from prowess.run.request import Step

TOKEN = "a-token-of-the-tests-that-is-long-enough"
BOT = "a-token-of-an-agent-that-is-long-enough-too"
ME = Actor(name="me", channel="http")
SIDECAR = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
"""


def greeter(place: Any, tmp_path: Path, *answers: object) -> None:
    """Add a skill that greets, and a model that gives these answers."""
    folder = place.skill("greeter")
    (folder / "agents").mkdir()
    (folder / "prompts").mkdir()
    (folder / "agents" / "prowess.yaml").write_text(SIDECAR)
    (folder / "prompts" / "greet.j2").write_text("Greet {{ name }}.")
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(list(answers)))
    place.environment["PROWESS_MODEL"] = f"scripted:{script}"


def take(events: Iterator[Event], count: int) -> list[Event]:
    return [next(events) for _ in range(count)]


def test_a_run_streams_its_text_and_returns_the_result_of_the_engine(
    place: Any, tmp_path: Path, connect: Callable[..., Client]
):
    greeter(place, tmp_path, "Hello Ann, nice to see you.")
    client = connect()
    steps: list[Step] = []
    result = client.run("greeter", {"name": "Ann"}, on_step=steps.append)

    assert (result.ok, result.text, result.skill) == (True, "Hello Ann, nice to see you.", "greeter")
    assert "".join(step.text for step in steps) == result.text
    (part,) = result.parts
    assert (part.artifact, part.kind, part.status, part.traced) == ("greet", "prompt_template", "ok", True)

    (listed,) = client.traces.list(skill="greeter")
    whole = client.traces.get(part.trace[:8])
    assert (listed.id, listed.raw_output, whole.raw_output) == (part.trace, None, result.text)
    assert client.traces.stats(skill="greeter").total.runs == 1
    assert [row["id"] for row in client.traces.export()] == [part.trace]
    assert not client.runs.can_resume(part.trace)


def test_an_exported_text_keeps_its_line_separators(place: Any, tmp_path: Path, connect: Callable[..., Client]):
    text = "one\u2028two\u2029three\x85four\nfive"
    greeter(place, tmp_path, text)
    client = connect()
    assert client.run("greeter", {"name": "Ann"}).text == text
    assert [row["raw_output"] for row in client.traces.export()] == [text]


def test_a_dry_run_says_what_would_be_sent(place: Any, tmp_path: Path, connect: Callable[..., Client]):
    greeter(place, tmp_path)
    (part,) = connect().run("greeter", {"name": "Ann"}, dry_run=True).parts
    assert [message.text for message in part.sent[0].request.messages][-1] == "Greet Ann."


def test_a_run_that_fails_raises_its_error_and_one_that_cannot_start_too(
    place: Any, tmp_path: Path, connect: Callable[..., Client]
):
    greeter(place, tmp_path)  # a model without any answer
    client = connect()
    with pytest.raises(RunFailed) as failed:
        client.run("greeter", {"name": "Ann"})
    assert failed.value.hint or failed.value.message
    with pytest.raises(NotFound, match="nothing"):
        client.run("nothing")


def test_a_skill_too_long_for_the_budget_is_refused_with_the_numbers(place: Any, connect: Callable[..., Client]):
    place.skill("long", body="word " * 200)
    client = connect()
    session = client.sessions.open("small", budget=100)
    with pytest.raises(BudgetExceeded) as refused:
        client.enable("long", session=session)
    assert (refused.value.limit, refused.value.used) == (100, 0)
    assert refused.value.need > 1_000


def test_an_agent_asks_and_a_person_answers(place: Any, connect: Callable[..., Client]):
    place.tokens = {TOKEN: ME, BOT: agent_of(ME, name="bot")}
    client = connect()
    client.policy.set("skill_enablement_policy", "prompt-user")
    with Client(client.url, token=BOT) as agent:
        session = agent.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as asked:
            agent.enable("triage", session=session, reason="The user has bugs.")
        waiting = asked.value.approval_id
        with pytest.raises(Refused):
            agent.approvals.resolve(waiting, approved=True)

        (row,) = client.approvals.list()
        assert (row.id, row.slug, row.reason) == (waiting, "triage", "The user has bugs.")
        package = client.approvals.package(waiting)
        assert package is not None
        assert package.digest == row.digest
        assert client.approvals.diff(waiting) == ""
        answered = client.approvals.resolve(waiting, approved=True, shown="the card", note="fine")
        assert (answered.state, answered.note) == ("approved", "fine")
        assert "shown" in client.approvals.get(waiting).detail["answer"]["proof"]
        assert client.approvals.wait(waiting, seconds=60).state == "approved"

        assert agent.enable("triage", session=session).has("triage")
        assert client.approvals.revoke(waiting).state == "revoked"
        assert client.approvals.list(("revoked", "denied"))[0].id == waiting


def test_events_are_listed_and_followed_over_a_restart_of_the_server(place: Any):
    """Nothing is missed and nothing comes twice, although the server goes away and comes back in between."""
    with place.server() as url:
        port = int(url.rpartition(":")[2])
        client = Client(url, token=TOKEN)
        session = client.sessions.open("chat")
        client.enable("triage", session=session)
        events = client.events.follow(after=0)
        seen = take(events, 1)
    # The server is gone; the events of another process happen meanwhile.
    with place.server(0) as other, Client(other, token=TOKEN) as second:
        second.disable("triage", session="chat")
        second.enable("release-notes", session="chat")
    arrived = threading.Event()

    def follow() -> None:
        seen.extend(take(events, 3))
        arrived.set()

    thread = threading.Thread(target=follow)
    thread.start()
    with place.server(port):
        with Client(url, token=TOKEN) as third:
            third.disable("release-notes", session="chat")
            assert arrived.wait(120)
            thread.join()
            listed = third.events.list()
            assert third.events.last() == 4
        events.close()
        client.close()
    assert [event.number for event in seen] == [1, 2, 3, 4]
    assert seen == listed
    assert all(event.at for event in seen)


def test_runs_are_followed(place: Any, tmp_path: Path, connect: Callable[..., Client]):
    greeter(place, tmp_path, *["Hello Ann."] * 50)
    client = connect()
    followed = client.traces.follow(skill="greeter", status="ok")
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(next(followed).raw_output or ""))
    thread.start()
    # Only runs that end after the subscription has begun are followed, so there are some more.
    for _ in range(50):
        if not seen:
            client.run("greeter", {"name": "Ann"})
    thread.join(60)
    followed.close()
    assert seen == ["Hello Ann."]


def test_events_from_now_on_and_by_name_and_session(connect: Callable[..., Client]):
    client = connect()
    client.load("triage")
    session = client.sessions.open("chat")
    assert client.events.list(after=0, names=["skills_state_changed"]) == []
    client.enable("triage", session=session)
    (event,) = client.events.list(names=["skills_state_changed"], session="chat")
    assert event.data["enabled_skills"][0]["slug"] == "triage"
    follower = client.events.follow(after=event.number - 1, session="chat")
    assert next(follower) == event
    follower.close()


def test_a_log_that_ends_before_the_position_was_replaced_and_is_followed_from_its_start(
    connect: Callable[..., Client],
):
    client = connect()
    client.enable("triage", session=client.sessions.open("chat"))
    follower = client.events.follow(after=1_000)
    first = next(follower)
    assert [first] == client.events.list(limit=1)
    follower.close()
