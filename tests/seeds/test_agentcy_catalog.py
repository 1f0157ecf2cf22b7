"""Agentcy: the columns of its table of skills, the one size that a skill has, and what a search finds."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import NotFound, Refused
from prowess.policy.actor import Actor, agent_of
from prowess.skill.package import Package
from prowess.storage.database import Database
from prowess.storage.tables import skills
from prowess.tools.toolbox import Toolbox

ANN = Actor(name="ann", organization="acme", user="ann")
EMPTY = hashlib.sha256(b"").hexdigest()

DOCUMENTS = {
    "agentcy": ("brief.md", "---\nname: A brief\nslug: acme.brief\ndescription: Writes briefs.\n---\n\nBe brief.\n"),
    "agentskills": ("SKILL.md", "---\nname: notes\ndescription: Writes notes.\n---\n\nWrite them.\n"),
    "inklings": (
        "package.json",
        json.dumps(
            {
                "name": "Check",
                "slug": "check",
                "description": "Checks claims.",
                "artifacts": [{"kind": "approach", "name": "How", "ordinal": 0, "content": "Look twice."}],
            }
        ),
    ),
    "devai": ("skill.json", json.dumps({"id": "count", "name": "Count", "description": "Counts.", "parameters": {}})),
}


def make_package(form: str) -> Package:
    path, text = DOCUMENTS[form]
    more = {"execute.ts": "export async function execute() { return 1 }\n"} if form == "devai" else {}
    return Package.of_texts(path if form == "agentcy" else "one", {path: text, **more})


def read_rows(database: Database) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(sa.select(skills)))


@pytest.mark.few(3)
@pytest.mark.parametrize("form", DOCUMENTS)
def test_the_content_is_the_whole_document_and_its_hash_tells_a_sync_whether_it_changed(
    database: Database, form: str
) -> None:
    saved = DatabaseStore(database, scope="account").save(make_package(form))

    (row,) = read_rows(database)

    assert saved.form == form
    assert row.content == DOCUMENTS[form][1]
    assert row.content_hash == hashlib.sha256(row.content.encode()).hexdigest()


def test_rows_of_an_older_version_get_their_content_at_the_next_read(database: Database) -> None:
    store = DatabaseStore(database, scope="account")
    saved = store.save(make_package("inklings"))
    with database.write() as connection:
        connection.execute(sa.update(skills).values(content="", content_hash=EMPTY, content_length=0, reader="1"))

    assert [card.chars for card in store.list_skills()] == [saved.content_length]

    (row,) = read_rows(database)
    assert (row.content, row.content_length) == (DOCUMENTS["inklings"][1], saved.content_length)
    assert row.content_hash != EMPTY


TEXTS = {
    "instructions": {"SKILL.md": "---\nname: one\ndescription: Triages slow queries.\n---\n\nBegin <skill> here.\n"},
    "description": {
        "skill.json": json.dumps(
            {
                "name": "One",
                "slug": "one",
                "description": "Triages slow queries.",
                "artifacts": [{"kind": "description", "name": "About", "content": "It triages slow queries."}],
            }
        )
    },
}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("stored", [False, True])
async def test_the_length_of_a_skill_is_the_number_that_drives_the_budget_wherever_it_is_told(
    place: Any, kind: str, stored: bool
) -> None:
    folder = place.write("one", TEXTS[kind])
    async with place.open(ANN) as engine:
        if stored:
            await engine.skills.import_path(folder, scope="account")
            shutil.rmtree(folder)
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        box = Toolbox(engine, actor=agent_of(ANN), conversation="chat")
        (found,) = (await box.call("search_skills", {"query": "slow queries"})).data["skills"]
        (matched,) = await engine.match("slow queries")
        (card,) = await engine.skills.cards()
        shown = await engine.skills.get("one")
        asked = await box.call("enable_skill", {"skill_slug": "one", "reason": "slow"})
        (question,) = await engine.events.list(names=["approval_required"])
        await engine.approvals.resolve(asked.data["approval_id"], approved=True)
        enabled = await box.call("enable_skill", {"skill_slug": "one", "reason": "slow"})
        (event,) = await engine.events.list(names=["skills_state_changed"])
        charged = len(await engine.prompt("chat"))

    assert charged > 0
    assert {
        "search": found["chars"],
        "match": matched.chars,
        "list": card.chars,
        "show": shown.content_length,
        "approval": question.data["skill"]["content_length"],
        "enable": enabled.data["content_length"],
        "event": event.data["enabled_skills"][0]["content_length"],
        "budget": enabled.data["budget_used_chars"],
    } == dict.fromkeys(("search", "match", "list", "show", "approval", "enable", "event", "budget"), charged)


@pytest.mark.anyio
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("field", ["", "description:\n", 'description: "  "\n'])
async def test_a_skill_with_an_empty_description_is_kept_and_listed_but_not_ranked(
    place: Any, field: str, stored: bool
) -> None:
    text = f"---\nname: triage\n{field}tags: [sql]\n---\n\nTriages slow database queries.\n"
    folder = place.write("triage", {"SKILL.md": text})
    place.skill("other", "Something else.")
    async with place.open(ANN) as engine:
        if stored:
            (result,) = await engine.skills.import_path(folder, scope="account")
            assert result.error is None
            shutil.rmtree(folder)
        else:
            (checked,) = await engine.skills.check(folder)
            assert checked.ok
            assert "search and match do not rank the skill" in " ".join(problem.message for problem in checked.problems)
        box = Toolbox(engine, actor=agent_of(ANN), conversation="chat")
        found = (await box.call("search_skills", {"query": "triage slow database queries"})).data["skills"]
        tagged = (await box.call("search_skills", {"tags": ["sql"]})).data["skills"]
        ranked = await engine.skills.rank("triage slow database queries")

        assert "triage" not in [skill["skill"] for skill in found]
        assert "triage" not in [item.slug for item in ranked]
        assert [skill["skill"] for skill in tagged] == ["triage"]
        assert (await engine.skills.get("triage")).description == "Triages slow database queries."
        assert not (await engine.load("triage")).get("error")


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_skill_that_the_organization_does_not_have_enabled_is_not_found_by_anybody_who_would_use_it(
    request: pytest.FixtureRequest, place: Any, kind: str
) -> None:
    if kind == "postgres":
        place.environment["PROWESS_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    place.write("one", TEXTS["instructions"])
    place.skill("other", "Something else.")
    async with place.open(ANN) as engine:
        session = await engine.enable("one", session=await engine.sessions.open("chat"))
        policy = await engine.policy.switch("one", on=False)
        assert policy.disabled_skills == ("one",)
        agent = engine.as_actor(agent_of(ANN))
        box = Toolbox(engine, actor=agent_of(ANN), conversation="mine")
        for asked in (engine, agent):
            assert await asked.match("slow queries") == []
            assert "one" not in [item.slug for item in await asked.skills.rank("slow queries")]
            assert "one" not in [item.slug for item in await asked.skills.search("slow queries")]
            assert "- one" not in (await asked.index("slow queries")).text
            assert "switched off" in (await asked.load("one"))["error"]
            with pytest.raises(NotFound, match="switched off"):
                await asked.enable("one", session=await asked.sessions.open("more"))
        assert "one" not in [card.slug for card in await agent.skills.cards()]
        assert [skill["skill"] for skill in (await box.call("list_skills", {})).data["skills"]] == ["other"]
        assert {card.slug: card.enabled for card in await engine.skills.cards()} == {"one": False, "other": True}
        assert await engine.prompt(session) == ""
        with pytest.raises(NotFound):
            await engine.policy.switch("nothing-like-it", on=False)
        with pytest.raises(Refused):
            await agent.policy.switch("one", on=True)

        await engine.policy.switch("one", on=True)
        assert [item.slug for item in await agent.match("slow queries")] == ["one"]
        assert (await engine.sessions.get(await engine.enable("one", session=session))).has("one")
