"""Skills enter and leave the prompt of a session; whatever becomes of their files, only admitted bytes are in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import ApprovalDenied, ApprovalRequired, BudgetExceeded, Conflict, Invalid, NotFound, Refused
from prowess.policy.actor import Actor, agent_of
from prowess.skill.package import Package

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
AGENT = agent_of(ANN)
FILES: dict[str, str | bytes] = {"references/locks.md": "Locks.\n", "scripts/top.sh": "ps\n"}
NEW = "Do it otherwise."


def alter(folder: Path, path: str, change: Callable[[bytes], bytes]) -> None:
    file = folder / path
    file.write_bytes(change(file.read_bytes()))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte of the text": lambda folder: alter(folder, "SKILL.md", lambda old: old.replace(b"well", b"bell")),
    "the whole text": lambda folder: alter(folder, "SKILL.md", lambda old: old + NEW.encode()),
    "the frontmatter only": lambda folder: alter(folder, "SKILL.md", lambda old: old.replace(b"What", b"All")),
    "a byte of another file": lambda folder: alter(folder, "scripts/top.sh", lambda _: b"rm\n"),
    "the path of a file": lambda folder: (folder / "scripts/top.sh").rename(folder / "scripts/pot.sh"),
    "the mode of a file": lambda folder: (folder / "scripts/top.sh").chmod(0o755),
    "two files exchanged": lambda folder: [
        (folder / "references/locks.md").write_bytes(b"ps\n"),
        (folder / "scripts/top.sh").write_bytes(b"Locks.\n"),
    ],
    "an added file": lambda folder: (folder / "references/more.md").write_text("More.\n"),
    "a removed file": lambda folder: (folder / "references/locks.md").unlink(),
}
ENDS: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "renamed": lambda folder: [
        alter(folder, "SKILL.md", lambda old: old.replace(b"name: triage", b"name: other")),
        folder.rename(folder.with_name("other")),
    ],
    "broken": lambda folder: (folder / "SKILL.md").write_text("---\nname: triage\n---\n"),
}


async def exact(engine: Any, session: Any) -> tuple[str, ...]:
    """The blocks of a prompt, which are what the budget counts, to the character."""
    blocks = await engine.sessions.blocks(session)
    now = await engine.sessions.get(session)
    assert [len(block) for block in blocks] == [skill.content_length for skill in now.enabled]
    assert now.budget.used == sum(map(len, blocks))
    assert now.budget.used <= now.budget.limit
    return blocks


async def enable_with_a_yes(engine: Any, session: Any, slug: str, actor: Actor | None = None) -> str:
    """Enable a skill, approved where the policy has a person asked; the id of the approval."""
    try:
        await engine.as_actor(actor).enable(slug, session=session)
    except ApprovalRequired as question:
        await engine.approvals.resolve(question.approval_id, approved=True)
        await engine.as_actor(actor).enable(slug, session=session)
        return question.approval_id
    return ""


async def test_a_skill_enters_in_the_order_of_enabling_and_leaves(each_place: Any):
    for slug in ("b", "a", "c"):
        each_place.skill(slug)
    async with each_place.open() as engine:
        session = await engine.sessions.open("chat")
        for slug in ("b", "a", "c"):
            session = await engine.enable(slug, session=session)
        assert [block.splitlines()[0] for block in await exact(engine, session)] == [
            '<skill name="b">',
            '<skill name="a">',
            '<skill name="c">',
        ]
        await engine.disable("a", session=session)
        assert [block.splitlines()[0] for block in await exact(engine, session)] == [
            '<skill name="b">',
            '<skill name="c">',
        ]
        with pytest.raises(NotFound, match="not enabled") as caught:
            await engine.disable("a", session=session)
        assert caught.value.hint == "Enabled skills: b, c."


async def test_enabling_what_is_enabled_changes_nothing_and_tells_nobody(each_place: Any):
    each_place.skill("triage")
    async with each_place.open() as engine:
        first = await engine.enable("triage", session=await engine.sessions.open("chat"))
        assert await engine.enable("triage", session="chat") == first
        assert len(await engine.events.list()) == 1
        assert len(await engine.audit.rows()) == 1


@pytest.mark.parametrize("change", CHANGES)
async def test_under_auto_a_changed_skill_is_there_with_its_new_bytes(place: Any, change: str):
    folder = place.skill("triage", files=FILES)
    async with place.open() as engine:
        before = await engine.enable("triage", session=await engine.sessions.open("chat"))
        CHANGES[change](folder)
        (block,) = await exact(engine, "chat")
        now = await engine.skills.get("triage")
        after = await engine.sessions.get("chat")
        assert now.digest[:12] in block
        assert (await engine.load("triage"))["body"] in block
        assert after.enabled[0].digest == now.digest != before.enabled[0].digest
        assert [event.data for event in await engine.events.list(names=["skills_state_changed"])] == [
            before.state,
            after.state,
        ]


@pytest.mark.parametrize("change", CHANGES)
async def test_under_prompt_user_a_changed_skill_leaves_and_enters_again_once_approved(place: Any, change: str):
    folder = place.skill("triage", files=FILES)
    async with place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as caught:
            await engine.as_actor(AGENT).enable("triage", session="chat")
        await engine.approvals.resolve(caught.value.approval_id, approved=True)
        await engine.as_actor(AGENT).enable("triage", session="chat")
        CHANGES[change](folder)
        assert await engine.as_actor(AGENT).prompt("chat") == ""
        state = await engine.sessions.get("chat")
        assert (state.enabled, state.budget.used) == ((), 0)
        (card,) = await engine.approvals.list()
        assert card.digest == (await engine.skills.get("triage")).digest
        assert card.detail["previous"]["digest"] != card.digest
        assert any(card.detail["previous"][how] for how in ("added", "removed", "changed"))
        with pytest.raises(ApprovalRequired, match="has changed since the last approval") as again:
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert again.value.approval_id == card.id
        await engine.approvals.resolve(card.id, approved=True)
        await engine.as_actor(AGENT).enable("triage", session="chat")
        (block,) = await exact(engine, "chat")
        assert card.digest[:12] in block


async def test_a_skill_whose_approval_is_taken_back_leaves_the_prompt(each_place: Any):
    each_place.skill("triage")
    async with each_place.open() as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        session = await engine.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as asked:
            await engine.enable("triage", session=session)
        await engine.approvals.resolve(asked.value.approval_id, approved=True)
        await engine.enable("triage", session=session)
        assert await exact(engine, session)
        await engine.approvals.revoke(asked.value.approval_id, note="not any more")
        assert await exact(engine, session) == ()
        last = (await engine.audit.rows())[-1]
        assert (last.action, last.slug, last.outcome) == ("disable", "triage", "revoked")
        with pytest.raises(ApprovalRequired):
            await engine.enable("triage", session=session)


async def test_a_session_is_the_same_from_another_workspace(place: Any, tmp_path: Path):
    place.skill("triage")
    elsewhere = tmp_path / "elsewhere"
    other = type(place)(elsewhere, {**place.environment, "PROWESS_WORKSPACE": str(elsewhere)})
    other.skill("triage", "Something else.")
    async with place.open() as engine, other.open() as second:
        session = await engine.sessions.open("chat")
        await engine.enable("triage", session=session)
        blocks = await exact(engine, session)
        assert await exact(second, "chat") == blocks
        assert await exact(engine, session) == blocks


async def test_a_skill_whose_whole_folder_of_skills_is_gone_leaves(place: Any):
    place.skill("triage")
    async with place.open() as engine:
        session = await engine.sessions.open("chat")
        await engine.enable("triage", session=session)
        shutil.rmtree(place.workspace / ".agents")
        assert await exact(engine, session) == ()


async def test_the_role_of_a_session_outlives_its_closing(each_place: Any):
    each_place.skill("triage", files=FILES)
    async with each_place.open(ANN) as engine:
        await engine.sessions.open("chat", role="scout")
        await engine.sessions.close("chat")
        refused = await engine.as_actor(AGENT).load("triage", script="top.sh", session="chat")
        assert "scout" in (refused["error"] or "")
        assert (await engine.as_actor(AGENT).sessions.open("chat")).role == "scout"


async def test_who_is_asked_about_a_changed_skill_sees_what_changed(each_place: Any):
    async with each_place.open(ANN) as engine:
        skill = await _kept(engine, each_place, "Look at the locks.")
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as caught:
            await engine.as_actor(AGENT).enable("kept", session="chat")
        assert "diff" not in (await engine.approvals.get(caught.value.approval_id)).detail
        await engine.approvals.resolve(caught.value.approval_id, approved=True)
        await engine.as_actor(AGENT).enable("kept", session="chat")
        text = skill.artifacts[0].model_copy(update={"content": "Look away."})
        await engine.skills.update(skill.model_copy(update={"artifacts": (text,)}))
        assert await engine.as_actor(AGENT).prompt("chat") == ""
        (card,) = await engine.approvals.list()
        assert "-Look at the locks." in card.detail["diff"]
        assert "+Look away." in card.detail["diff"]


async def _kept(engine: Any, place: Any, body: str) -> Any:
    """A skill that is kept with its versions."""
    folder = place.workspace.parent / "given" / "kept"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: kept\ndescription: What it is for.\n---\n\n{body}\n")
    await engine.skills.import_path(folder)
    return await engine.skills.get("kept")


@pytest.mark.parametrize("policy", ["auto", "prompt-user"])
@pytest.mark.parametrize("end", ENDS)
async def test_a_skill_that_is_there_no_more_leaves_and_says_so(place: Any, end: str, policy: str):
    folder = place.skill("triage", files=FILES)
    place.skill("stays")
    async with place.open() as engine:
        session = await engine.sessions.open("chat")
        await engine.policy.set("skill_enablement_policy", policy)
        for slug in ("triage", "stays"):
            await enable_with_a_yes(engine, session, slug)
        ENDS[end](folder)
        (block,) = await exact(engine, session)
        assert block.startswith('<skill name="stays">')
        last = (await engine.events.list())[-1]
        assert last.data == (await engine.sessions.get(session)).state
        assert (await engine.audit.rows())[-1].outcome == "changed"
        assert await engine.approvals.list() == []


async def test_a_skill_that_grew_beyond_the_budget_leaves_with_an_event(each_place: Any):
    folder = each_place.skill("triage")
    each_place.skill("other")
    async with each_place.open() as engine:
        session = await engine.sessions.open("chat", budget=300)
        for slug in ("other", "triage"):
            await engine.enable(slug, session=session)
        alter(folder, "SKILL.md", lambda old: old + b"x" * 200)
        (block,) = await exact(engine, session)
        assert block.startswith('<skill name="other">')
        last = (await engine.events.list())[-1]
        assert (last.name, [skill["slug"] for skill in last.data["enabled_skills"]]) == (
            "skills_state_changed",
            ["other"],
        )
        told = [(row.action, row.outcome) for row in await engine.audit.rows()][-2:]
        assert told == [("enable", "over-budget"), ("disable", "changed")]
        assert (await engine.audit.verify()).ok


async def test_a_skill_that_shrank_stays_also_where_the_budget_was_lowered(place: Any):
    folder = place.skill("triage", "x" * 300)
    async with place.open() as engine:
        await engine.enable("triage", session=await engine.sessions.open("chat"))
        await engine.sessions.change("chat", budget=10)
        alter(folder, "SKILL.md", lambda old: old.replace(b"x" * 300, b"x" * 200))
        (block,) = await engine.sessions.blocks("chat")
        assert "x" * 200 in block
        assert (await engine.sessions.get("chat")).budget.used == len(block)


async def test_a_skill_enabled_by_its_scope_stays_that_one_though_a_nearer_hides_it(place: Any):
    place.skill("triage", "The near one.")
    async with place.open() as engine:
        folder = place.workspace.parent / "given" / "triage"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\nname: triage\ndescription: Far.\n---\n\nThe far one.\n")
        await engine.skills.import_path(folder, scope="account")
        session = await engine.enable("account:triage", session=await engine.sessions.open("chat"))
        for _ in range(2):
            (block,) = await exact(engine, session)
            assert "The far one." in block
        await engine.enable("triage", session=session)
        (block,) = await exact(engine, session)
        assert "The near one." in block


async def test_a_nearer_skill_that_appears_later_does_not_take_the_place_of_an_enabled_one(place: Any):
    async with place.open() as engine:
        await _kept(engine, place, "The first one.")
        await engine.enable("kept", session=await engine.sessions.open("chat"))
        user = Path(place.environment["HOME"]) / ".agents" / "skills" / "kept"
        user.mkdir(parents=True)
        (user / "SKILL.md").write_text("---\nname: kept\ndescription: Far.\n---\n\nThe second one.\n")
        assert "The first one." in await engine.prompt("chat")


async def test_a_skill_whose_place_does_not_answer_stays_as_it_was_admitted(place: Any):
    async with place.open() as engine:
        await _kept(engine, place, "Kept in a database.")
        await engine.enable("kept", session=await engine.sessions.open("chat"))
        prompt = await engine.prompt("chat")
    database = place.workspace / ".prowess" / "agents.db"
    for rest in database.parent.glob("agents.db-*"):
        rest.unlink()
    whole = database.read_bytes()
    database.write_bytes(b"no database at all" * 500)
    async with place.open() as engine:
        assert await engine.prompt("chat") == prompt
        names = [event.name for event in await engine.events.list()]
        assert names == ["catalog_changed", "skills_state_changed"]
    database.unlink()
    database.write_bytes(whole)
    async with place.open() as engine:
        assert await engine.prompt("chat") == prompt


async def test_one_without_text_does_not_enter(place: Any):
    place.write(
        "tool",
        {"skill.json": '{"id":"tool","name":"Tool","description":"Runs."}', "execute.ts": "export const execute = 1"},
    )
    async with place.open() as engine:
        with pytest.raises(Invalid, match="no text"):
            await engine.enable("tool", session=await engine.sessions.open("chat"))
        with pytest.raises(NotFound):
            await engine.enable("nothing", session="chat")
        with pytest.raises(NotFound):
            await engine.disable("tool", session="chat")


async def test_nobody_is_asked_about_a_skill_that_has_no_room(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat", budget=10)
        with pytest.raises(BudgetExceeded):
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert await engine.approvals.list() == []
        await engine.policy.set("skill_enablement_policy", "admin-only")
        with pytest.raises(Refused) as caught:
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert not isinstance(caught.value, BudgetExceeded)


async def test_the_role_of_a_session_holds_for_whoever_brings_none(place: Any):
    place.skill("triage", files=FILES)
    place.skill("letters", fields="metadata:\n  tags: communication\n")
    async with place.open(ANN) as engine:
        await engine.sessions.open("chat", role="communicator")
        with pytest.raises(Refused, match="communication"):
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert "communication" in (await engine.as_actor(AGENT).load("triage", session="chat"))["error"]
        with pytest.raises(Refused, match="communication"):
            await engine.as_actor(AGENT).skills.resource("triage", "references/locks.md", session="chat")
        await engine.sessions.open("scouting", role="scout")
        told = await engine.as_actor(AGENT).load("triage", script="top.sh", session="scouting")
        assert (told["script_content"], bool(told["hint"])) == (None, True)
        assert "scout" in told["error"]


def fetched(body: str = "Fetched.", slug: str = "live") -> Package:
    return Package.of_texts(slug, {"SKILL.md": f"---\nname: {slug}\ndescription: Live.\n---\n\n{body}\n"})


async def test_a_fetched_skill_is_in_the_prompt_and_in_no_store(each_place: Any):
    async with each_place.open(ANN) as engine:
        session = await engine.sessions.open("chat")
        with pytest.raises(Refused, match="skills_dynamic_search_enabled"):
            await engine.sessions.enable_fetched(fetched(), session=session, origin="https://example.org/live")
        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        with pytest.raises(ApprovalRequired) as caught:
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched(), session=session, origin="https://example.org/live"
            )
        await engine.approvals.resolve(caught.value.approval_id, approved=True)
        state = await engine.as_actor(AGENT).sessions.enable_fetched(
            fetched(), session=session, origin="https://example.org/live"
        )
        assert state.state["enabled_skills"][0]["source_type"] == "registry"
        (block,) = await exact(engine, session)
        assert "from https://example.org/live" in block.splitlines()[1]
        assert await engine.skills.cards() == []
        assert (
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched(), session=session, origin="https://example.org/live"
            )
            == state
        )
        with pytest.raises(ApprovalRequired):
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched("Other."), session=session, origin="https://example.org/live"
            )
        assert await exact(engine, session) == (block,)


async def test_a_yes_for_a_fetched_skill_is_not_used_up_where_there_is_no_room(place: Any):
    async with place.open(ANN) as engine:
        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        await engine.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as caught:
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched(), session="chat", origin="https://example.org"
            )
        await engine.approvals.resolve(caught.value.approval_id, approved=True)
        await engine.sessions.change("chat", budget=10)
        with pytest.raises(BudgetExceeded):
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched(), session="chat", origin="https://example.org"
            )
        await engine.sessions.change("chat", budget=1_000)
        assert (
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched(), session="chat", origin="https://example.org"
            )
        ).has("live")


async def test_a_fetched_skill_never_takes_the_place_of_one_that_is_there(place: Any):
    place.skill("triage")
    async with place.open(ANN) as engine:
        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        await engine.policy.set("skills_dynamic_search_policy", "auto")
        session = await engine.enable("triage", session=await engine.sessions.open("chat"))
        with pytest.raises(Conflict) as caught:
            await engine.sessions.enable_fetched(fetched(slug="triage"), session=session, origin="https://example.org")
        assert "triage" in caught.value.hint
        assert "Fetched." not in await engine.prompt(session)
        broken = Package.of_texts("live", {"SKILL.md": "---\nname: live\n---\n"})
        with pytest.raises(Invalid):
            await engine.sessions.enable_fetched(broken, session=session, origin="https://example.org")


async def test_a_no_stands_for_the_agent_that_asked(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as caught:
            await engine.as_actor(AGENT).enable("triage", session="chat")
        with pytest.raises(Refused, match="Agents may not"):
            await engine.as_actor(AGENT).approvals.resolve(caught.value.approval_id, approved=True)
        await engine.approvals.resolve(caught.value.approval_id, approved=False, note="not now")
        with pytest.raises(ApprovalDenied, match="not now"):
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert await engine.prompt("chat") == ""


async def test_enabling_again_after_a_yes_was_taken_back_asks_anew_and_hands_over_nothing(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        approval = await enable_with_a_yes(engine, "chat", "triage", AGENT)
        assert await engine.as_actor(AGENT).sessions.text("triage", session="chat") == (await exact(engine, "chat"))[0]
        await engine.approvals.revoke(approval)
        with pytest.raises(NotFound):
            await engine.as_actor(AGENT).sessions.text("triage", session="chat")
        with pytest.raises(ApprovalRequired):
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert not (await engine.sessions.get("chat")).has("triage")
        told = [(row.action, row.outcome) for row in await engine.audit.rows()][-2:]
        assert told == [("enable", "asked"), ("disable", "revoked")]
        await engine.policy.set("skill_enablement_policy", "auto")
        await engine.as_actor(AGENT).enable("workspace:triage", session="chat")
        assert "Do it well." in await engine.as_actor(AGENT).sessions.text("workspace:triage", session="chat")


async def test_a_skill_leaves_at_the_next_prompt_where_the_policy_no_longer_lets_it_in(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        await engine.as_actor(AGENT).enable("triage", session=await engine.sessions.open("chat"))
        await engine.policy.set("skill_enablement_policy", "admin-only")
        assert await exact(engine, "chat") == ()
        told = [(row.actor, row.action, row.outcome) for row in await engine.audit.rows()][-2:]
        assert told == [("agent:agent", "enable", "denied"), ("ann", "disable", "policy-changed")]
        await engine.enable("triage", session="chat")
        assert len(await exact(engine, "chat")) == 1


async def test_what_an_administrator_enabled_stays_under_a_new_policy_though_an_agent_asks_for_the_prompt(place: Any):
    folder = place.skill("triage")
    async with place.open(ANN) as engine:
        await engine.enable("triage", session=await engine.sessions.open("chat"))
        await engine.policy.set("skill_enablement_policy", "admin-only")
        assert len(await engine.as_actor(AGENT).sessions.blocks("chat")) == 1
        alter(folder, "SKILL.md", lambda old: old + NEW.encode())
        assert await engine.as_actor(AGENT).sessions.blocks("chat") == ()


async def test_a_skill_leaves_and_is_asked_about_where_the_policy_now_has_a_person_asked(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        await engine.as_actor(AGENT).enable("triage", session=await engine.sessions.open("chat"))
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        assert await engine.as_actor(AGENT).sessions.blocks("chat") == ()
        (asked,) = await engine.approvals.list()
        assert (asked.requester, asked.slug, asked.reason) == ("agent:agent", "triage", "the policy changed")


async def test_a_skill_that_the_new_policy_lets_in_as_well_stays_without_a_word(each_place: Any):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        approval = await enable_with_a_yes(engine, "chat", "triage", AGENT)
        before = await exact(engine, "chat")
        events, rows = len(await engine.events.list()), len(await engine.audit.rows())
        for name, value in (("skill_enablement_policy", "auto"), ("skill_synced_policy", "admin-only")):
            await engine.policy.set(name, value)
            assert await exact(engine, "chat") == before
        assert (len(await engine.events.list()), len(await engine.audit.rows())) == (events + 2, rows + 2)
        await engine.approvals.revoke(approval)
        assert await exact(engine, "chat") == ()


async def test_a_fetched_skill_leaves_where_nothing_is_fetched_any_more(place: Any):
    async with place.open(ANN) as engine:
        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        await engine.sessions.open("chat")
        with pytest.raises(ApprovalRequired) as caught:
            await engine.as_actor(AGENT).sessions.enable_fetched(
                fetched(), session="chat", origin="https://example.org"
            )
        await engine.approvals.resolve(caught.value.approval_id, approved=True)
        await engine.as_actor(AGENT).sessions.enable_fetched(fetched(), session="chat", origin="https://example.org")
        await engine.policy.set("skill_synced_policy", "auto")
        assert len(await exact(engine, "chat")) == 1
        await engine.policy.set("skills_dynamic_search_enabled", value=False)
        assert await exact(engine, "chat") == ()
