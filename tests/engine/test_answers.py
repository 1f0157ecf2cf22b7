"""Answers are given again until what they were made from has changed, by this process or another."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from prowess import Prowess
from prowess.engine.skill_changes import SkillChange
from prowess.engine.skill_rows import SkillQuery
from prowess.policy.actor import Actor
from prowess.settings import Settings, read_settings
from prowess.skill.draft import SkillDraft
from prowess.skill.package import File, Package

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
EVE = Actor(name="eve", organization="evil", user="eve", channel="http")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    environment = {
        "HOME": str(tmp_path),
        "PROWESS_HOME": str(tmp_path / ".prowess"),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SKILL_FOLDERS": "off",
        "PROWESS_SYSTEM_SKILLS": "off",
    }
    return read_settings(environment, workspace=tmp_path)


def draft(slug: str, description: str) -> SkillDraft:
    return SkillDraft(content=f"---\nname: {slug}\ndescription: {description}\n---\n\nDo it.\n", slug=slug)


async def test_a_row_and_a_page_are_the_same_objects_until_their_skill_changes(settings):
    async with Prowess.open(settings=settings) as operator:
        ann = operator.as_actor(ANN)
        for slug in ("one", "two"):
            await ann.skills.create_row(draft(slug, "First."))
        one, page = await ann.skills.row("one"), await ann.skills.page(SkillQuery())

        assert await ann.skills.row("one") is one
        assert await ann.skills.page(SkillQuery()) is page

        await ann.skills.change_row("two", SkillChange(draft=draft("two", "Second.")))
        assert await ann.skills.row("one") is one
        assert (await ann.skills.row("two")).description == "Second."
        assert [row.description for row in (await ann.skills.page(SkillQuery())).rows] == ["First.", "Second."]


async def test_who_asks_while_the_same_answer_is_being_made_gets_that_one_and_nobody_an_old_one(settings):
    async with Prowess.open(settings=settings) as operator:
        ann = operator.as_actor(ANN)
        await ann.skills.create_row(draft("one", "First."))

        pages = await asyncio.gather(*(ann.skills.page(SkillQuery(limit=7)) for _ in range(5)))
        rows = await asyncio.gather(*(ann.skills.row("one") for _ in range(5)))
        assert len({id(page) for page in pages}) == len({id(row) for row in rows}) == 1

        reading = asyncio.create_task(ann.skills.row("one"))
        await ann.skills.change_row("one", SkillChange(draft=draft("one", "Second.")))
        assert (await ann.skills.row("one")).description == "Second."
        await reading

        for asked in [asyncio.create_task(ann.skills.page(SkillQuery(limit=9))) for _ in range(3)]:
            asked.cancel()
        assert (await ann.skills.page(SkillQuery(limit=9))).rows[0].description == "Second."


async def test_what_another_organization_writes_changes_nothing_and_is_not_seen(settings):
    async with Prowess.open(settings=settings) as operator:
        ann, eve = operator.as_actor(ANN), operator.as_actor(EVE)
        await ann.skills.create_row(draft("one", "Of Ann."))
        row, page = await ann.skills.row("one"), await ann.skills.page(SkillQuery())

        await eve.skills.create_row(draft("one", "Of Eve."))

        assert await ann.skills.row("one") is row
        assert await ann.skills.page(SkillQuery()) is page
        assert (await eve.skills.row("one")).description == "Of Eve."


async def test_every_kind_of_change_by_another_process_is_seen_by_the_next_answer(settings):
    async with Prowess.open(settings=settings) as first, Prowess.open(settings=settings) as second:
        ann, other = first.as_actor(ANN), second.as_actor(ANN)
        await ann.skills.create_row(draft("one", "First."))
        assert (await ann.skills.row("one")).enabled
        assert (await ann.skills.page(SkillQuery())).total == 1

        await other.policy.switch("one", on=False)
        assert not (await ann.skills.row("one")).enabled
        assert not (await ann.skills.page(SkillQuery())).rows[0].enabled
        await other.policy.switch("one", on=True)
        await other.skills.change_row("one", SkillChange(draft=draft("one", "Second.")))
        assert (await ann.skills.row("one")).description == "Second."
        assert [item.description for item in await ann.match("second one")] == ["Second."]
        await other.skills.create_row(draft("two", "Third."))
        assert (await ann.skills.page(SkillQuery())).total == 2
        await other.skills.delete("one")
        assert [row.slug for row in (await ann.skills.page(SkillQuery())).rows] == ["two"]
        await other.skills.rollback("one", 1)
        assert (await ann.skills.row("one")).description == "First."


async def test_an_audit_that_was_replaced_makes_every_answer_old(settings):
    async with Prowess.open(settings=settings) as operator:
        ann = operator.as_actor(ANN)
        await ann.skills.create_row(draft("one", "First."))
        row = await ann.skills.row("one")
        path = settings.account_database.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE audit SET hash = 'x' || hash")

        again = await ann.skills.row("one")

        assert again is not row
        assert again == row


async def test_a_revoked_token_is_refused_at_once_in_every_process(settings):
    async with Prowess.open(settings=settings) as first, Prowess.open(settings=settings) as second:
        await first.organizations.create("acme")
        await first.users.add("ann", organization="acme")
        token = await first.tokens.create(organization="acme", user="ann", days=1)
        for _ in range(2):
            assert (await first.tokens.authenticate(token.secret)) is not None
            assert (await second.tokens.authenticate(token.secret)) is not None

        await second.tokens.revoke(token.token.id)

        assert await first.tokens.authenticate(token.secret) is None
        assert await second.tokens.authenticate(token.secret) is None


async def test_a_token_expires_although_nothing_was_written(settings, monkeypatch):
    async with Prowess.open(settings=settings) as operator:
        await operator.organizations.create("acme")
        await operator.users.add("ann", organization="acme")
        token = await operator.tokens.create(organization="acme", user="ann", days=1)
        assert await operator.tokens.authenticate(token.secret) is not None

        for module in ("clock", "credentials"):
            monkeypatch.setattr(f"prowess.storage.{module}.now", lambda: "9000-01-01T00:00:00.000000Z")

        assert await operator.tokens.authenticate(token.secret) is None


async def test_a_skill_that_is_created_switched_off_is_never_on_and_a_failed_attempt_switches_nothing(settings):
    async with Prowess.open(settings=settings) as operator:
        ann = operator.as_actor(ANN)
        assert not (await ann.skills.create_row(draft("one", "First."), enabled=False)).enabled
        await ann.skills.create_row(draft("two", "Second."))

        with pytest.raises(Exception, match="already taken"):
            await ann.skills.create_row(draft("two", "Other."), enabled=False)

        assert (await ann.skills.row("two")).enabled
        assert list((await ann.policy.get()).disabled_skills or ()) == ["one"]


async def test_a_commit_that_leaves_the_audit_empty_changes_no_state(settings):
    async with Prowess.open(settings=settings) as operator:
        ann = operator.as_actor(ANN)
        answers = ann.context.resources.answers
        await ann.sessions.open("talk")
        answers.committed()
        before = answers.state(ANN.owner)
        await ann.sessions.open("another")

        assert before is not None
        assert answers.state(ANN.owner) == before
        await ann.skills.create_row(draft("one", "First."))
        assert answers.state(ANN.owner) != before


@pytest.mark.parametrize("many", [1, 20])
async def test_a_list_says_of_few_and_of_many_stored_skills_that_nobody_has_accepted_them(settings, many):
    async with Prowess.open(settings=settings) as operator:
        ann = operator.as_actor(ANN)
        await ann.skills.create_row(draft("accepted", "By Ann."))
        store = ann.context.resources.writable("org")
        for number in range(many):
            text = f"---\nname: found-{number}\ndescription: Of nobody.\n---\n\nDo it.\n"
            store.save(Package(name=f"found-{number}", files=(File(path="SKILL.md", content=text.encode()),)))
        ann.context.resources.mark_changed()

        rows = (await ann.skills.page(SkillQuery())).rows

        assert [row.trust for row in rows] == ["local", *["found"] * many]
        assert {(await ann.skills.row(row.slug)).trust for row in rows[1:]} == {"found"}
