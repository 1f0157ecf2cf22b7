"""Writing skills through the engine: no change without an audit row, none by whoever may not, none of outdated bytes."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.errors import Conflict, DuplicateSkill, Invalid, NotFound, ProwessError, Refused
from prowess.policy.actor import Actor, agent_of
from prowess.skill.draft import SkillDraft
from prowess.skill.kinds import Instructions
from prowess.skill.model import Skill
from prowess.storage.database import open_database

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
AGENT = agent_of(ANN)


def skill(slug: str = "tidy", text: str = "Tidy up.") -> Skill:
    return Skill(
        slug=slug,
        title="Tidy",
        description="What tidying is for.",
        artifacts=(Instructions(name="instructions", content=text),),
    )


def document(text: str, slug: str = "tidy") -> SkillDraft:
    return SkillDraft(content=f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n{text}\n")


def changed(kept: Skill, text: str) -> Skill:
    (only,) = kept.artifacts
    return kept.model_copy(update={"artifacts": (only.model_copy(update={"content": text}),)})


async def outcomes(engine: Any) -> list[tuple[str, str, str]]:
    return [(row.actor, row.action, row.outcome) for row in await engine.audit.rows()]


async def test_a_person_creates_changes_and_removes_and_each_has_its_rows(each_place: Any):
    async with each_place.open(ANN) as engine:
        made = await engine.skills.create(skill())
        later = await engine.skills.update(changed(made, "Tidy up twice."))
        gone = await engine.skills.delete("tidy")
        assert (made.scope, later.digest != made.digest, gone.digest) == ("workspace", True, later.digest)
        assert await outcomes(engine) == [
            ("ann", "install", "allowed"),
            ("ann", "install", "done"),
            ("ann", "update", "allowed"),
            ("ann", "update", "done"),
            ("ann", "delete", "allowed"),
            ("ann", "delete", "done"),
        ]
        digests = [row.digest for row in await engine.audit.rows()]
        assert digests == [made.digest] * 2 + [later.digest] * 4
        assert [version.actor for version in await engine.skills.history("tidy")] == ["ann"] * 3
        assert (await engine.audit.verify()).ok


async def test_a_change_that_fails_is_told_after_the_row_that_announced_it(place: Any):
    async with place.open(ANN) as engine:
        await engine.skills.create(skill())
        with pytest.raises(DuplicateSkill):
            await engine.skills.create(skill(text="Another."))
        assert (await outcomes(engine))[-2:] == [
            ("ann", "install", "allowed"),
            ("ann", "install", "failed: duplicate-skill"),
        ]
        with pytest.raises(NotFound):
            await engine.skills.delete("nothing")
        with pytest.raises(Invalid):
            await engine.skills.create(skill("b").model_copy(update={"slug": "Not A Slug"}))


async def test_a_skill_that_was_changed_meanwhile_is_not_overwritten(each_place: Any):
    async with each_place.open(ANN) as engine:
        made = await engine.skills.create(skill())
        await engine.skills.update(changed(made, "First."))
        with pytest.raises(Conflict):
            await engine.skills.update(changed(made, "Second."))
        assert (await engine.skills.get("tidy")).body.strip() == "First."


async def test_who_may_not_write_changes_nothing_and_leaves_a_row(place: Any):
    reader = Actor(name="bob", permissions=frozenset({"skills.read"}))
    async with place.open(ANN) as engine:
        made = await engine.skills.create(skill())
        for call in (
            engine.as_actor(reader).skills.create(skill("other")),
            engine.as_actor(reader).skills.update(changed(made, "Mine.")),
            engine.as_actor(reader).skills.delete("tidy"),
            engine.as_actor(agent_of(ANN, role="scout")).skills.create(skill("other")),
            engine.as_actor(reader).policy.set("skill_enablement_policy", "admin-only"),
            engine.as_actor(AGENT).policy.set("skill_enablement_policy", "admin-only"),
        ):
            with pytest.raises(Refused) as caught:
                await call
            assert caught.value.hint
        assert [row.outcome for row in await engine.audit.rows()][2:] == ["denied"] * 6
        assert [card.digest for card in await engine.skills.cards()] == [made.digest]
        assert (await engine.policy.get()).skill_enablement_policy == "auto"


async def test_nothing_changes_where_the_audit_cannot_be_written(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        made = await engine.skills.create(skill())
        session = await engine.sessions.open("chat")
        url = each_place.environment["PROWESS_DATABASE_URL"]
        database = open_database(url or f"sqlite:///{each_place.environment['PROWESS_HOME']}/agents.db")
        with database.write() as connection:
            connection.execute(sa.text("ALTER TABLE audit RENAME TO elsewhere"))
        for call in (
            engine.skills.create(skill("other")),
            engine.skills.update(changed(made, "Unseen.")),
            engine.skills.delete("tidy"),
            engine.enable("triage", session=session),
            engine.policy.set("skill_enablement_policy", "admin-only"),
        ):
            with pytest.raises(ProwessError):
                await call
        with database.write() as connection:
            connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO audit"))
        database.close()
        assert sorted((card.slug, card.digest) for card in await engine.skills.cards() if card.slug == "tidy") == [
            ("tidy", made.digest)
        ]
        assert [card.slug for card in await engine.skills.cards()] == ["tidy", "triage"]
        assert await engine.sessions.get(session) == session
        assert [event.name for event in await engine.events.list()] == ["catalog_changed"]
        assert len(await engine.audit.rows()) == 2
        assert (await engine.audit.verify()).ok


async def test_a_skill_in_the_database_of_the_audit_changes_together_with_its_last_row(each_place: Any):
    async with each_place.open(ANN) as engine:
        made = await engine.skills.create_document(document("Tidy up."), scope="account")
        url = each_place.environment["PROWESS_DATABASE_URL"]
        database = open_database(url or f"sqlite:///{each_place.environment['PROWESS_HOME']}/agents.db")
        with database.write() as connection:
            connection.execute(sa.text("ALTER TABLE events RENAME TO elsewhere"))
        with pytest.raises(ProwessError):
            await engine.skills.update_document("tidy", document("Unseen."))
        with pytest.raises(ProwessError):
            await engine.skills.create_document(document("Another.", "other"), scope="account")
        with database.write() as connection:
            connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO events"))
        database.close()
        assert [(card.slug, card.digest) for card in await engine.skills.cards()] == [("tidy", made.digest)]
        assert len(await engine.skills.history("tidy")) == 1
        later = await engine.skills.update_document("tidy", document("Tidy up twice."))
        assert await outcomes(engine) == [
            ("ann", "install", "allowed"),
            ("ann", "install", "done"),
            ("ann", "update", "allowed"),
            ("ann", "update", "failed: unavailable"),
            ("ann", "install", "allowed"),
            ("ann", "install", "failed: unavailable"),
            ("ann", "update", "allowed"),
            ("ann", "update", "done"),
        ]
        assert [(card.digest, card.trust) for card in await engine.skills.cards()] == [(later.digest, "local")]
        assert [event.name for event in await engine.events.list()] == ["catalog_changed"] * 2
        assert (await engine.audit.verify()).ok


async def test_each_change_of_a_skill_is_announced_but_no_failed_one(each_place: Any):
    async with each_place.open(ANN) as engine:
        made = await engine.skills.create(skill())
        await engine.skills.update(changed(made, "Other."))
        with pytest.raises(ProwessError):
            await engine.skills.update(changed(made, "Too late."))
        await engine.skills.delete("tidy")
        events = [(event.name, event.data) for event in await engine.events.list()]
    assert events == [
        ("catalog_changed", {"action": action, "skill": "tidy", "count": 1})
        for action in ("install", "update", "delete")
    ]


async def test_an_answer_is_given_by_a_person_who_may_see_the_question(place: Any):
    place.skill("triage")
    ann = Actor(name="ann", organization="acme", user="ann")
    bob = Actor(
        name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read", "approvals.resolve"})
    )
    rival = Actor(name="eve", organization="rival", user="ann")
    async with place.open(ann) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        with pytest.raises(Refused) as caught:
            await engine.as_actor(agent_of(ann)).enable("triage", session="chat")
        approval = caught.value.approval_id
        for other in (bob, rival):
            for call in (
                engine.as_actor(other).approvals.get(approval),
                engine.as_actor(other).approvals.resolve(approval, approved=True),
            ):
                with pytest.raises(NotFound):
                    await call
            assert await engine.as_actor(other).approvals.list() == []
        with pytest.raises(Refused):
            await engine.as_actor(agent_of(ann)).approvals.resolve(approval, approved=True)
        assert (await engine.approvals.resolve(approval, approved=True)).state == "approved"


def given(folder: Path, *slugs: str) -> Path:
    """Skills in a folder, to be imported."""
    for slug in slugs:
        (folder / slug).mkdir(parents=True)
        (folder / slug / "SKILL.md").write_text(f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\nDo.\n")
    return folder


async def test_what_is_left_to_administrators_is_not_imported_by_others(place: Any, tmp_path: Path):
    bob = Actor(name="bob", permissions=frozenset({"skills.read", "skills.write"}))
    folder = given(tmp_path / "given", "a")
    async with place.open(ANN) as engine:
        await engine.policy.set("skill_synced_policy", "admin-only")
        with pytest.raises(Refused, match="administrators") as caught:
            await engine.as_actor(bob).skills.import_path(folder)
        assert caught.value.hint
        assert await engine.skills.cards() == []
        assert (await outcomes(engine))[-1] == ("bob", "install", "denied")
        assert len(await engine.skills.import_path(folder)) == 1
        await engine.policy.set("skill_synced_policy", "prompt-user")
        assert len(await engine.as_actor(bob).skills.import_path(given(tmp_path / "more", "b"))) == 1
        with pytest.raises(Refused, match="at once"):
            await engine.as_actor(AGENT).skills.import_path(folder)


async def test_paths_may_be_plain_text(place: Any, tmp_path: Path):
    folder = given(tmp_path / "given", "a")
    async with place.open(ANN) as engine:
        assert [one.ok for one in await engine.skills.check(str(folder))] == [True]
        assert [one.slug for one in await engine.skills.import_path(str(folder))] == ["a"]
        await engine.skills.export("a", str(tmp_path / "out"))
    assert (tmp_path / "out" / "a" / "SKILL.md").is_file()


async def test_an_import_that_fails_says_so_in_the_audit(place: Any, tmp_path: Path):
    async with place.open(ANN) as engine:
        with pytest.raises(NotFound):
            await engine.skills.import_path(tmp_path / "nowhere")
        assert (await outcomes(engine)) == [("ann", "install", "begun"), ("ann", "install", "failed: not-found")]


async def test_an_import_that_is_cancelled_says_so_in_the_audit(place: Any, tmp_path: Path):
    folder = given(tmp_path / "given", "a", "b", "c")
    begun, go_on = threading.Event(), threading.Event()

    def watch(_: object) -> None:
        begun.set()
        go_on.wait(10)

    async with place.open(ANN) as engine:
        importing = asyncio.create_task(engine.skills.import_path(folder, watch=watch))
        await asyncio.to_thread(begun.wait, 10)
        importing.cancel()
        await asyncio.wait({importing}, timeout=0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await importing
        assert (await outcomes(engine)) == [("ann", "install", "begun"), ("ann", "install", "failed: cancelled")]


async def test_a_change_that_breaks_off_in_whatever_way_is_told_in_the_audit(place: Any, tmp_path: Path):
    def watch(_: object) -> None:
        raise RuntimeError("out of paper")

    async with place.open(ANN) as engine:
        with pytest.raises(RuntimeError, match="paper"):
            await engine.skills.import_path(given(tmp_path / "given", "a"), watch=watch)
        assert (await outcomes(engine))[-1] == ("ann", "install", "failed: error")


@pytest.mark.parametrize(
    "content", ["#" * 600_000, "/* \0 */ steal()", "#\n" * 40_000], ids=["a long line", "a NUL", "many lines"]
)
async def test_no_person_is_asked_about_a_change_that_they_could_not_see(place: Any, content: str):
    async with place.open(ANN) as engine:
        await engine.skills.create_document(replace(document("Tidy up."), files=(("scripts/run.js", "tidy()"),)))
        agent = engine.as_actor(AGENT)

        with pytest.raises(Refused, match="review"):
            await agent.skills.update_document("tidy", SkillDraft(files=(("scripts/run.js", content),)))

        assert await engine.approvals.list() == []
