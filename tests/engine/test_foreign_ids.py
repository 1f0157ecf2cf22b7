"""What belongs to another organization, or to another user, answers exactly as what does not exist."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import ApprovalRequired, ProwessError
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor, agent_of
from prowess.skill.kinds import Instructions, PromptTemplate
from prowess.skill.model import Skill

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann")
BEN = Actor(
    name="ben",
    organization="acme",
    user="ben",
    permissions=frozenset({"skills.read", "skills.write", "skills.run", "approvals.resolve"}),
)
BOB = Actor(name="bob", organization="borg", user="ann")


@pytest.fixture
async def ann(each_place: Any) -> AsyncIterator[Any]:
    """Ann's engine. She has a private skill with two versions, a session in which it is enabled, a run and an approval."""
    async with each_place.open(ANN) as engine:
        parts = (
            Instructions(name="instructions", content="Heat the crucible."),
            PromptTemplate(name="ask", content="Assay {{ topic }}."),
        )
        made = await engine.skills.create(
            Skill(slug="assay", title="Assay", description="Assays metal ore.", artifacts=parts), scope="user"
        )
        await engine.skills.update(made.model_copy(update={"description": "Assays metal ore in a crucible."}))
        session = await engine.sessions.open("talk")
        await engine.enable("assay", session=session)
        await engine.load("assay", session=session)
        await engine.run("assay", {"topic": "gold"}, artifacts="ask", session=session, model=ScriptedModel(["Fine."]))
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        agent = engine.as_actor(agent_of(ANN))
        with pytest.raises(ApprovalRequired):
            await agent.enable("assay", session=await agent.sessions.open("other"))
        yield engine


CALLS: dict[str, Callable[[Any, dict[str, str]], Awaitable[object]]] = {
    "skills.get": lambda e, i: e.skills.get(i["slug"]),
    "skills.row": lambda e, i: e.skills.row(i["slug"]),
    "skills.get in the scope": lambda e, i: e.skills.get(f"user:{i['slug']}"),
    "skills.locate": lambda e, i: e.skills.locate(i["skill"]),
    "skills.outline": lambda e, i: e.skills.outline(i["slug"]),
    "skills.history": lambda e, i: e.skills.history(i["slug"]),
    "skills.version": lambda e, i: e.skills.version(i["slug"], 1),
    "skills.diff": lambda e, i: e.skills.diff(i["slug"], 1, 2),
    "skills.part": lambda e, i: e.skills.part(i["slug"], "ask"),
    "skills.read_file": lambda e, i: e.skills.read_file(i["slug"], "SKILL.md"),
    "skills.resource": lambda e, i: e.skills.resource(i["slug"], "SKILL.md"),
    "skills.findings": lambda e, i: e.skills.findings(i["slug"]),
    "skills.fork": lambda e, i: e.skills.fork(i["slug"], scope="user"),
    "skills.delete": lambda e, i: e.skills.delete(i["slug"]),
    "skills.rollback": lambda e, i: e.skills.rollback(i["slug"], 1),
    "load": lambda e, i: e.load(i["slug"]),
    "run": lambda e, i: e.run(i["slug"], {}, model=ScriptedModel([])),
    "run resumed": lambda e, i: e.run("own", resume=i["trace"], model=ScriptedModel([])),
    "enable": lambda e, i: e.enable(i["slug"], session="mine"),
    "enable in a session": lambda e, i: e.enable("own", session=i["session"]),
    "disable in a session": lambda e, i: e.disable("own", session=i["session"]),
    "prompt": lambda e, i: e.prompt(i["session"]),
    "index": lambda e, i: e.index("gold", session=i["session"]),
    "why": lambda e, i: e.why("gold", session=i["session"]),
    "sessions.get": lambda e, i: e.sessions.get(i["session"]),
    "sessions.find": lambda e, i: e.sessions.find(i["session"]),
    "sessions.acting": lambda e, i: e.sessions.acting(i["session"]),
    "sessions.change": lambda e, i: e.sessions.change(i["session"], budget=5),
    "sessions.close": lambda e, i: e.sessions.close(i["session"]),
    "sessions.text": lambda e, i: e.sessions.text(i["slug"], session=i["session"]),
    "events.list": lambda e, i: e.events.list(session=i["session"]),
    "approvals.get": lambda e, i: e.approvals.get(i["approval"]),
    "approvals.resolve": lambda e, i: e.approvals.resolve(i["approval"], approved=True),
    "approvals.revoke": lambda e, i: e.approvals.revoke(i["approval"]),
    "approvals.diff": lambda e, i: e.approvals.diff(i["approval"]),
    "approvals.package": lambda e, i: e.approvals.package(i["approval"]),
    "traces.get": lambda e, i: e.traces.get(i["trace"]),
    "traces.list": lambda e, i: e.traces.list(session=i["session"]),
    "runs.can_resume": lambda e, i: e.runs.can_resume(i["trace"]),
    "trust.preview": lambda e, i: e.trust.preview(i["slug"]),
    "trust.revoke": lambda e, i: e.trust.revoke(i["slug"]),
    "env.allow": lambda e, i: e.env.allow(i["slug"], "TOKEN"),
    "audit.skill": lambda e, i: e.audit.skill(i["slug"]),
}
OF_THE_ORGANIZATION = {"approvals", "audit"}
"""Parts that a colleague who may resolve approvals, or read the audit, shares with the whole organization."""


async def answer(call: Awaitable[object], asked: dict[str, str]) -> object:
    """Return the result of a call or its error, without what was asked for."""
    try:
        told = repr(await call)
    except ProwessError as error:
        told = repr((type(error).__name__, error.code, error.message, error.hint))
    for name, value in asked.items():
        told = told.replace(value, f"<{name}>")
    return told


@pytest.mark.parametrize("stranger", [BEN, BOB], ids=["a colleague", "another organization"])
async def test_a_foreign_id_answers_as_an_unknown_one(ann: Any, stranger: Actor):
    [trace], [approval] = await ann.traces.list(), await ann.approvals.list()
    theirs = {
        "slug": "assay",
        "skill": (await ann.skills.get("assay")).id,
        "session": (await ann.sessions.get("talk")).id,
        "trace": trace.id,
        "approval": approval.id,
    }
    unknown = {name: str(uuid.uuid4()).replace("-", "-" if "-" in theirs[name] else "") for name in theirs}
    nobodys = {**{name: unknown[name][: len(theirs[name])] for name in theirs}, "slug": "query"}
    for name in ("skills.get", "skills.locate", "sessions.get", "traces.get", "approvals.get", "skills.version"):
        assert await answer(CALLS[name](ann, theirs), theirs) != await answer(CALLS[name](ann, nobodys), nobodys)
    engine = ann.as_actor(stranger)
    own = Skill(
        slug="own", title="Own", description="Sews.", artifacts=(Instructions(name="instructions", content="Sew."),)
    )
    await engine.skills.create(own, scope="user")
    await engine.sessions.open("mine")
    different: dict[str, tuple[object, object]] = {}
    for name, call in CALLS.items():
        if stranger is BEN and name.partition(".")[0] in OF_THE_ORGANIZATION:
            continue
        told = await answer(call(engine, theirs), theirs), await answer(call(engine, nobodys), nobodys)
        if told[0] != told[1]:
            different[name] = told
    assert different == {}


@pytest.mark.parametrize("stranger", [BEN, BOB], ids=["a colleague", "another organization"])
async def test_lists_searches_and_exports_have_nothing_of_a_stranger(ann: Any, stranger: Actor, tmp_path: Path):
    engine = ann.as_actor(stranger)
    seen = [
        await engine.skills.cards(),
        await engine.skills.faults(),
        await engine.skills.documents(),
        await engine.skills.search(""),
        await engine.skills.search("metal ore"),
        await engine.skills.rank("assay this metal ore in a crucible"),
        await engine.skills.inventory(),
        await engine.skills.unused(days=0),
        await engine.match("assay this metal ore in a crucible"),
        await engine.index("assay this metal ore"),
        await engine.why("assay this metal ore"),
        await engine.sessions.list(),
        await engine.traces.list(),
        await engine.traces.stats(),
        [row async for row in engine.traces.export()],
        await engine.events.list(),
        await engine.registry.list("prompt"),
        await engine.registry.list("rubric"),
        await engine.skills.usage(),
    ]
    assert [one for one in seen if "assay" in repr(one).replace("assay this metal ore", "")] == []
