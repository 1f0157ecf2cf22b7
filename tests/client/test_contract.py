"""The client and the engine agree: the same calls give the same values and raise the same errors."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

import pytest

from prowess import Prowess, ProwessError
from prowess.client.client import AsyncClient
from prowess.engine.engine import Engine
from prowess.policy.actor import Actor
from prowess.run.request import RunRequest
from prowess.view import to_json

pytestmark = pytest.mark.anyio
ME = Actor(name="me", channel="http")

Call = Callable[[Any], Awaitable[Any]]


async def _enabled(api: Any) -> Any:
    session = await api.sessions.open("chat")
    return await api.enable("triage", session=session)


async def _prompt(api: Any) -> Any:
    await _enabled(api)
    return await api.prompt("chat", policies="Answer in English.")


async def _disabled(api: Any) -> Any:
    await _enabled(api)
    return await api.disable("triage", session="chat")


async def _changed(api: Any) -> Any:
    await api.sessions.open("chat", budget=500)
    return await api.sessions.change("chat", budget=700, model="anthropic:x", window=1000)


async def _blocks(api: Any) -> Any:
    await _enabled(api)
    return await api.sessions.blocks("chat", memory="The user is Ann.")


async def _run_in_a_new_session(api: Any) -> Any:
    planned = await api.run("triage", artifacts="instructions", session="new", dry_run=True)
    before = await api.sessions.find("new")
    await api.runs.attempt(RunRequest(slug="triage", artifacts=("instructions",), session="new"))
    session = await api.sessions.get("new")
    [trace] = await api.traces.list()
    return planned.ok, before, session, trace.session_id == session.id


async def _dry_run(api: Any) -> Any:
    return (await api.run("triage", {"text": "It broke."}, dry_run=True)).as_json()


READS: dict[str, Call] = {
    "cards": lambda api: api.skills.cards(),
    "look": lambda api: api.skills.look(),
    "list": lambda api: api.skills.list(),
    "list by words": lambda api: api.skills.list("RELEASE notes", scope="workspace", enabled=True),
    "list by tag": lambda api: api.skills.list(tags=["notes"]),
    "get": lambda api: api.skills.get("triage"),
    "get by scope": lambda api: api.skills.get("workspace:triage"),
    "part": lambda api: api.skills.part("triage", "instructions"),
    "read_file": lambda api: api.skills.read_file("triage", "SKILL.md"),
    "findings": lambda api: api.skills.findings("triage"),
    "row": lambda api: api.skills.row("triage"),
    "match": lambda api: api.match("write release notes for these commits"),
    "match with tags": lambda api: api.match("bug reports", tags=["notes"], limit=1),
    "rank": lambda api: api.skills.rank("sort the bugs", limit=2),
    "search": lambda api: api.skills.search("release"),
    "search by tag": lambda api: api.skills.search(tags=["notes"]),
    "why": lambda api: api.why("sort these bug reports"),
    "why one skill": lambda api: api.why("sort these bug reports", skill="triage"),
    "policy": lambda api: api.policy.get(),
    "sessions": lambda api: api.sessions.list(),
    "no session": lambda api: api.sessions.find("nothing"),
    "approvals": lambda api: api.approvals.list(),
    "load": lambda api: api.load("triage"),
    "load nothing": lambda api: api.load("nothing"),
    "load no reference": lambda api: api.load("triage", reference="nothing.md"),
    "events": lambda api: api.events.list(),
    "last event": lambda api: api.events.last(),
    "index": lambda api: api.index("sort these bug reports"),
    "index in a budget": lambda api: api.index(budget=40),
    "traces": lambda api: api.traces.list(),
    "stats": lambda api: api.traces.stats("model", skill="triage"),
    "audit": lambda api: api.audit.rows(),
    "last audit": lambda api: api.audit.last(),
    "verdict": lambda api: api.audit.verify(),
    "account": lambda api: api.audit.skill("triage"),
    "organizations": lambda api: api.organizations.list(),
    "tokens": lambda api: api.tokens.list(),
    "evals": lambda api: api.evals.list(),
    "optimizations": lambda api: api.optimize.list(),
    "compositions": lambda api: api.compose.list(),
}

WRITES: dict[str, Call] = {
    "set": lambda api: api.policy.set("approval_days", 3),
    "reset": lambda api: api.policy.set("approval_days", None),
    "switch": lambda api: api.policy.switch("triage", on=False),
    "open": lambda api: api.sessions.open("chat", role="scout", budget=500),
    "change": _changed,
    "enable": _enabled,
    "disable": _disabled,
    "prompt": _prompt,
    "blocks": _blocks,
    "run in a new session": _run_in_a_new_session,
}

FAILURES: dict[str, Call] = {
    "a blank message": lambda api: api.match(" "),
    "a blank message to rank": lambda api: api.skills.rank(""),
    "a blank message to explain": lambda api: api.why(""),
    "unknown skill": lambda api: api.skills.get("nothing"),
    "unknown session": lambda api: api.sessions.get("nothing"),
    "unknown setting": lambda api: api.policy.set("nothing", 1),
    "wrong setting": lambda api: api.policy.set("approval_days", "many"),
    "unknown approval": lambda api: api.approvals.get("nothing"),
    "unknown trace": lambda api: api.traces.get("nothing"),
    "unknown account": lambda api: api.audit.skill("nothing"),
    "unknown version": lambda api: api.skills.rollback("nothing", 1),
    "delete nothing": lambda api: api.skills.delete("nothing"),
    "unknown evaluation": lambda api: api.evals.get("nothing"),
    "unknown optimization": lambda api: api.optimize.get("nothing"),
    "unknown composition": lambda api: api.compose.show("nothing"),
}


def comparable(value: Any) -> Any:
    """Return a result without what is different in each process: ids, times, and places of files."""
    if isinstance(value, dict):
        left_out = {"id", "created_at", "updated_at", "location", "enabled_at", "place", "rules", "by_admin"}
        return {name: comparable(part) for name, part in value.items() if name not in left_out}
    if isinstance(value, list | tuple):
        return [comparable(part) for part in value]
    if hasattr(value, "__dataclass_fields__"):
        return comparable({name: getattr(value, name) for name in value.__dataclass_fields__})
    return comparable(to_json(value)) if hasattr(value, "model_dump") else value


@pytest.mark.parametrize("name", READS)
async def test_a_reading_call_returns_what_the_engine_returns(place, name: str):
    async with place.open(actor=ME) as engine, place.client() as client:
        expected, got = await READS[name](engine), await READS[name](client)
    assert type(got) is type(expected)
    assert comparable(got) == comparable(expected)


@pytest.mark.parametrize("name", WRITES)
async def test_a_changing_call_returns_what_the_engine_returns(each_side, name: str):
    async with each_side() as (engine, client):
        expected, got = await WRITES[name](engine), await WRITES[name](client)
    assert type(got) is type(expected)
    assert comparable(got) == comparable(expected)


@pytest.mark.parametrize("name", FAILURES)
async def test_a_call_that_fails_raises_what_the_engine_raises(place, name: str):
    async with place.open(actor=ME) as engine, place.client() as client:
        raised: list[ProwessError] = []
        for api in (engine, client):
            with pytest.raises(ProwessError) as error:
                await FAILURES[name](api)
            raised.append(error.value)
    expected, got = raised
    assert (type(got), got.message, got.hint) == (type(expected), expected.message, expected.hint)


def parts(kind: type) -> dict[str, type]:
    """Return the parts of a client or an engine with their classes."""
    from importlib import import_module

    found: dict[str, type] = {}
    for name, value in vars(kind).items():
        if isinstance(value, cached_property):
            wanted = inspect.signature(value.func).return_annotation
            lines = inspect.getsource(value.func).splitlines()
            home = next((line.split()[1] for line in lines if line.strip().startswith("from prowess")), "")
            if home:  # a second name for a part imports nothing
                found[name] = getattr(import_module(home), wanted)
    return found


ENGINE_PARTS, CLIENT_PARTS = {**parts(Engine), **parts(Prowess)}, parts(AsyncClient)
CLIENT_ONLY = {("AsyncClient", "url"), ("AsyncClient", "me")}
METHODS = [
    (owner, ENGINE_PARTS.get(part, Engine), name)
    for part, owner in {"": AsyncClient, **CLIENT_PARTS}.items()
    for name in vars(owner)
    if not name.startswith("_") and inspect.isfunction(vars(owner)[name])
]


@pytest.mark.parametrize(("owner", "engine", "name"), METHODS, ids=lambda one: getattr(one, "__name__", one))
def test_a_method_takes_the_arguments_of_the_engines(owner: type, engine: type, name: str):
    if not hasattr(engine, name):
        return
    ours = list(inspect.signature(getattr(owner, name)).parameters)
    theirs = list(inspect.signature(getattr(engine, name)).parameters)
    assert [one for one in ours if one not in theirs] == []
    assert ours == [one for one in theirs if one in ours]


async def test_what_only_the_engine_has_is_refused_with_what_to_do(place):
    async with place.client() as client:
        with pytest.raises(ProwessError, match="`trust` is not available over HTTP"):
            await client.trust.preview("triage")
        with pytest.raises(ProwessError, match=r"`skills\.inventory` is not available over HTTP"):
            await client.skills.inventory()
        with pytest.raises(AttributeError):
            _ = client.nothing
