"""The chat: streaming answers, tool calls, approvals, the skills in the prompt, and what happens when something breaks off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from prowess.llm import scripted
from prowess.llm.model import Reply, Request
from prowess.llm.scripted import CHUNK_CHARACTERS, ScriptedModel
from prowess.skill.draft import SkillDraft

from .site import Site, View

Look = Callable[..., View]
ANSWER = "## Result\n\nIt is **done**, see `notes.md`.\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1))"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def talking(place: Any, serve: Callable[..., Site], tmp_path: Path) -> Callable[..., Site]:
    """Return a function that serves a workspace whose model answers from a script."""

    def start(*steps: Any) -> Site:
        script = tmp_path / "answers.json"
        script.write_text(json.dumps(list(steps)))
        return serve(replace(place, environment={**place.environment, "PROWESS_MODEL": f"scripted:{script}"}))

    return start


class Gate:
    """Holds the answers of a model after their first piece of text, until it is opened."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self._site = site
        self._opened: asyncio.Event = asyncio.Event()
        stream = ScriptedModel.stream

        async def slowly(model: ScriptedModel, request: Request) -> AsyncGenerator[str | Reply]:
            pieces = [piece async for piece in stream(model, request)]
            yield pieces[0]
            if len(pieces) > 1:  # a call has no text
                await self._opened.wait()
            for piece in pieces[1:]:
                yield piece

        monkeypatch.setattr(ScriptedModel, "stream", slowly)

    def open(self) -> None:
        """Let the rest of every answer through."""

        async def release() -> None:
            self._opened.set()

        self._site.do(release())


def write(page: Page, text: str) -> None:
    field = page.get_by_role("textbox", name="Message", exact=True)
    field.fill(text)
    field.press("Enter")


def answer(page: Page) -> Locator:
    return page.locator(".chat-answer").last


@pytest.mark.long
def test_a_message_is_answered_and_the_conversation_is_kept_exported_and_deleted(
    talking: Callable[..., Site], look: Look
) -> None:
    site = talking(ANSWER, "And again.")
    view = look(site)
    page = view.go("/chat")
    view.check_access()
    write(page, "sum it up")
    expect(answer(page).get_by_role("heading", name="Result")).to_be_visible()
    expect(answer(page).locator("strong")).to_have_text("done")
    # Nothing of a text is a script or a link to one.
    expect(answer(page)).to_contain_text("<script>alert(1)</script>")
    assert answer(page).locator("script, a").count() == 0
    expect(page.locator(".chat-decision")).to_contain_text("No skill fits the message.")
    expect(page.locator(".chat-spent")).to_contain_text("1 step")
    expect(page.get_by_role("heading", level=1)).to_have_text("sum it up")
    view.check_access()

    # What is being written survives a reload, and a line break does not send.
    field = page.get_by_role("textbox", name="Message", exact=True)
    field.fill("one")
    field.press("Shift+Enter")
    field.press_sequentially("two")
    page.reload()
    expect(field).to_have_value("one\ntwo")
    expect(answer(page)).to_contain_text("It is done")
    field.press("Enter")
    expect(answer(page)).to_contain_text("And again.")
    expect(field).to_have_value("")
    expect(page.locator(".chat-turn")).to_have_count(2)

    page.get_by_text("More", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as Markdown").click()
    assert "And again." in Path(download.value.path()).read_text()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No conversations yet.")).to_be_visible()


@pytest.mark.long
def test_what_is_typed_while_a_message_is_sent_stays_for_the_next_one(talking: Callable[..., Site], look: Look) -> None:
    page = look(talking("Paris.", "Rome.")).go("/chat")
    write(page, "France?")
    expect(answer(page)).to_contain_text("Paris.")
    held: list[Route] = []
    page.route("**/messages", lambda route: held.append(route) if route.request.method == "POST" else route.fallback())
    field = page.get_by_role("textbox", name="Message", exact=True)
    with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/messages")):
        write(page, "Italy?")
    field.press_sequentially(" And Japan?")
    held.pop().fallback()
    expect(answer(page)).to_contain_text("Rome.")
    expect(field).to_have_value("And Japan?")


@pytest.mark.long
def test_a_call_waits_for_an_approval_and_goes_on_when_it_is_answered_in_another_browser(
    talking: Callable[..., Site], look: Look, place: Any
) -> None:
    place.skill("triage", "Check the locks first.")
    site = talking(call("enable_skill", skill_slug="triage", reason="it is slow"), "Look at the locks.")
    site.do(site.engine.policy.set("skill_enablement_policy", "prompt-user"))
    view = look(site)
    page = view.go("/chat")
    write(page, "hello there")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    expect(page.locator(".chat-call")).to_contain_text("needs approval")
    view.check_access()

    # The same conversation elsewhere shows the same request. It is answered there.
    other = look(site).go(page.url)
    other.get_by_role("button", name="Approve").click()
    for one in (page, other):
        expect(answer(one)).to_contain_text("Look at the locks.")
        expect(one.get_by_role("button", name="Approve")).to_have_count(0)
        expect(one.locator(".chat-pill")).not_to_contain_text("(0 /")
    page.locator(".chat-call summary").click()
    expect(page.locator(".chat-call")).to_contain_text("it is slow")
    expect(page.locator(".chat-call")).to_contain_text("enabled")
    assert len(site.do(site.engine.agent.list())) == 1


@pytest.mark.long
def test_on_a_phone_a_request_in_the_chat_stays_between_the_title_and_the_field(
    talking: Callable[..., Site], look: Look, place: Any
) -> None:
    place.skill("triage", "Check the locks first.\n\n" * 50)
    site = talking(call("enable_skill", skill_slug="triage", reason="it is slow"))
    site.do(site.engine.policy.set("skill_enablement_policy", "prompt-user"))
    view = look(site, viewport={"width": 390, "height": 700})
    page = view.go("/chat")
    write(page, "hello there")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    view.check_access()


@pytest.mark.long
def test_skills_are_enabled_and_disabled_by_hand_within_the_budget(
    talking: Callable[..., Site], look: Look, place: Any
) -> None:
    for slug, size in (("small", 2_000), ("large", 14_500)):
        place.skill(slug, "x" * size)
    site = talking("Hello.")
    session = site.do(site.engine.sessions.open("budget"))
    view = look(site)
    page = view.go(f"/chat/{session.id}")
    page.get_by_role("button", name="Skills (0 / 16,000)").click()
    page.get_by_role("searchbox", name="Find a skill").fill("small")
    page.get_by_role("button", name="Enable small").click()
    expect(page.get_by_role("button", name="Disable small")).to_be_visible()
    expect(page.locator(".chat-pill")).to_contain_text("Skills (2,")
    page.get_by_role("searchbox", name="Find a skill").fill("large")
    page.get_by_role("button", name="Enable large").click()
    expect(page.get_by_role("alert")).to_contain_text("budget")
    view.check_access()
    page.get_by_role("button", name="Disable small and enable large").click()
    expect(page.get_by_role("button", name="Disable large")).to_be_visible()
    expect(page.locator(".chat-pill")).to_contain_text("Skills (14,")
    # A skill that somebody adds is found without another search.
    page.get_by_role("searchbox", name="Find a skill").fill("letters")
    expect(page.get_by_text("No matching skill.")).to_be_visible()
    added = SkillDraft(slug="letters", content="---\nname: letters\ndescription: Sorts letters.\n---\nSort them.\n")
    site.do(site.engine.skills.create_document(added, scope="workspace"))
    expect(page.get_by_role("button", name="Enable letters")).to_be_visible()
    # Another process changes it, and the pill follows.
    site.do(site.engine.disable("large", session=session.id))
    expect(page.locator(".chat-pill")).to_contain_text("Skills (0 / 16,000)")


@pytest.mark.long
def test_an_answer_is_stopped_and_continued(
    talking: Callable[..., Site], look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "A long answer that comes in many pieces, one after the other."
    site = talking(long, long)
    gate = Gate(site, monkeypatch)
    page = look(site).go("/chat")
    write(page, "tell me")
    expect(answer(page)).to_contain_text(long[:CHUNK_CHARACTERS].strip())
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("The turn was stopped before it finished.")).to_be_visible()
    gate.open()
    page.get_by_role("button", name="Continue").click()
    expect(answer(page)).to_contain_text(long)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


@pytest.mark.long
def test_a_reload_in_the_middle_of_an_answer_and_a_second_browser_show_the_whole_of_it(
    talking: Callable[..., Site], look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "A long answer that comes in many pieces, one after the other."
    site = talking(long)
    gate = Gate(site, monkeypatch)
    page = look(site).go("/chat")
    write(page, "tell me")
    expect(answer(page)).to_contain_text(long[:CHUNK_CHARACTERS].strip())
    page.reload()
    other = look(site).go(page.url)
    for one in (page, other):
        expect(answer(one)).to_contain_text(long[:CHUNK_CHARACTERS].strip())
        expect(one.get_by_role("button", name="Stop")).to_be_visible()
    gate.open()
    for one in (page, other):
        expect(answer(one)).to_contain_text(long)
        expect(one.get_by_role("button", name="Send")).to_be_visible()
        expect(one.locator(".chat-turn")).to_have_count(1)


@pytest.mark.long
def test_a_turn_that_a_stopped_server_broke_off_is_continued_when_it_is_back(
    talking: Callable[..., Site], look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "A long answer that comes in many pieces, one after the other."
    site = talking(long, long)
    gate = Gate(site, monkeypatch)
    page = look(site).go("/chat")
    write(page, "tell me")
    expect(answer(page)).to_contain_text(long[:CHUNK_CHARACTERS].strip())
    site.stop()
    expect(page.locator(".connection")).to_be_visible()
    expect(page.locator(".chat-question")).to_have_text("You: tell me")
    site.start()
    gate.open()
    page.get_by_role("button", name="Continue").click()
    expect(answer(page)).to_contain_text(long)
    expect(page.locator(".chat-turn")).to_have_count(1)


@pytest.mark.long
def test_a_first_message_that_met_no_server_is_sent_when_the_server_is_back(
    talking: Callable[..., Site], look: Look
) -> None:
    site = talking("Here I am.")
    page = look(site).go("/chat")
    site.stop()
    write(page, "are you there?")
    expect(page.get_by_role("alert")).to_contain_text("The server is not responding.")
    site.start()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("textbox", name="Message", exact=True).press("Enter")
    expect(answer(page)).to_contain_text("Here I am.")


@pytest.mark.long
def test_a_failed_turn_says_why_after_a_reload_and_is_tried_again_with_another_title_and_model(
    talking: Callable[..., Site], look: Look
) -> None:
    site = talking({"error": {"code": "unavailable", "message": "The model is away."}}, "Here I am.")
    view = look(site)
    page = view.go("/chat")
    write(page, "are you there?")
    expect(page.get_by_role("alert")).to_contain_text("The model is away.")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The model is away.")
    view.check_access()

    # Another browser shows a new title at once. It was typed without a mouse.
    other = look(site).go(page.url)
    page.get_by_text("More", exact=True).press("Enter")
    page.get_by_role("button", name="Rename").press("Enter")
    field = page.get_by_role("textbox", name="Title")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(field).to_have_count(0)
    page.get_by_text("More", exact=True).press("Enter")
    page.get_by_role("button", name="Rename").press("Enter")
    view.check_access()
    field.fill("A check")
    field.press("Enter")
    for one in (page, other):
        expect(one.get_by_role("heading", level=1)).to_have_text("A check")

    # A model that does not exist is refused, and what was typed stays.
    page.get_by_label("Model").select_option(label="Another model …")
    page.get_by_role("textbox", name="Model").fill("nonsense")
    page.get_by_role("textbox", name="Model").press("Enter")
    expect(page.get_by_text("Invalid model name 'nonsense'")).to_be_visible()
    page.get_by_role("textbox", name="Model").press("Escape")
    expect(page.get_by_role("combobox", name="Model")).to_contain_text("default: scripted:answers.json")

    page.get_by_role("button", name="Try again").click()
    expect(answer(page)).to_contain_text("Here I am.")
    expect(page.locator(".chat-turn")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("A check")


@pytest.mark.long
def test_skills_and_settings_that_somebody_changes_are_seen_in_open_pages(site: Site, look: Look, place: Any) -> None:
    place.skill("triage", "Check the locks first.")
    skills = look(site).go("/skills")
    settings = look(site).go("/settings")
    expect(skills.get_by_text("triage").first).to_be_visible()
    row = settings.locator("form", has=settings.get_by_text("skills_max_prompt_chars", exact=True))
    expect(row.locator("input")).to_have_value("16000")
    site.do(site.engine.policy.set("skills_max_prompt_chars", 12_345))
    expect(row.locator("input")).to_have_value("12345")
    site.do(site.engine.policy.set("disabled_skills", ["triage"]))
    expect(skills.get_by_text("switched off").first).to_be_visible()


@pytest.mark.long
def test_without_a_model_the_chat_says_what_to_do_in_german_on_a_phone(site: Site, look: Look) -> None:
    view = look(site, locale="de-DE", viewport={"width": 360, "height": 700})
    page = view.go("/chat")
    page.get_by_role("textbox", name="Nachricht", exact=True).fill("Hallo")
    page.get_by_role("button", name="Senden").click()
    expect(page.get_by_role("alert")).to_contain_text("No model is configured.")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("PROWESS_MODEL")
    expect(page.get_by_role("button", name="Noch einmal")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    view.check_access()


@pytest.mark.long
def test_a_conversation_of_some_hundred_messages_shows_the_newest_and_earlier_ones_on_demand(
    talking: Callable[..., Site], look: Look
) -> None:
    turns = 130
    site = talking(*(f"Answer {number}." for number in range(1, turns + 1)))

    async def talk() -> str:
        agent = site.engine.agent
        conversation = await agent.start()
        for number in range(1, turns + 1):
            async for _ in agent.send(conversation.id, f"Question {number}"):
                pass
        return conversation.id

    view = look(site)
    asked: list[str] = []
    view.page.on("response", lambda answer: asked.append(answer.url) if "/messages?" in answer.url else None)
    page = view.go(f"/chat/{site.do(talk())}")
    expect(answer(page)).to_contain_text(f"Answer {turns}.")
    expect(page.locator(".chat-turn")).to_have_count(30)
    assert len(asked) == 1
    page.get_by_role("button", name="Show earlier messages").click()
    expect(page.locator(".chat-turn")).to_have_count(130)
    expect(page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    expect(page.locator(".chat-question").first).to_contain_text("Question 1")


@pytest.mark.long
def test_of_a_huge_answer_the_beginning_is_shown_and_the_rest_on_demand(
    talking: Callable[..., Site], look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "CHUNK_CHARACTERS", 1 << 20)
    site = talking("**begin** " + "word\n" * 50_000 + "end of it")

    async def talk() -> str:
        conversation = await site.engine.agent.start()
        async for _ in site.engine.agent.send(conversation.id, "Everything, please"):
            pass
        return conversation.id

    page = look(site).go(f"/chat/{site.do(talk())}")
    expect(answer(page).locator("strong").first).to_have_text("begin")
    expect(answer(page)).not_to_contain_text("end of it")
    answer(page).get_by_role("button", name="Show all").click()
    expect(answer(page)).to_contain_text("end of it")


@pytest.mark.long
def test_the_work_of_a_helper_is_shown_with_its_role_while_it_works_and_its_conversation_after(
    talking: Callable[..., Site], look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = "There are no skills for tides, and nothing about them in the catalog."
    site = talking(
        call("delegate", role="scout", task="Look for skills about tides."),
        call("search_skills", query="tides"),
        report,
        "The scout found nothing.",
    )
    gate = Gate(site, monkeypatch)
    session = site.do(site.engine.sessions.open("tides", role="coordinator"))
    view = look(site, reduced_motion="reduce")  # text that fades has too little contrast now and then
    page = view.go(f"/chat/{session.id}")
    write(page, "hello there")
    helper = page.get_by_role("group", name="Work of the scout")
    # The scout called a tool, and is writing its report. The coordinator has not said anything yet.
    expect(helper).to_contain_text(report[:CHUNK_CHARACTERS].strip())
    expect(helper.locator(".chat-call")).to_have_count(1)
    expect(helper.locator(".chat-call")).to_contain_text("search_skills")
    expect(helper.locator(".badge").first).to_have_text("scout")
    expect(page.locator(".chat-answer > .chat-call")).to_contain_text("running")
    # Another browser that comes later shows the same.
    other = look(site).go(page.url)
    expect(other.get_by_role("group", name="Work of the scout")).to_contain_text("search_skills")
    view.check_access()
    gate.open()

    expect(answer(page)).to_contain_text("The scout found nothing.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.locator(".chat-call summary").click()
    page.get_by_role("link", name="Open the conversation of the scout").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("scout: Look for skills about tides.")
    expect(answer(page)).to_contain_text(report)


@pytest.mark.long
def test_a_turn_in_another_process_is_followed_to_its_end(
    each_place: Any, serve: Callable[..., Site], look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["From the other process, in many pieces."]))
    both = replace(each_place, environment={**each_place.environment, "PROWESS_MODEL": f"scripted:{script}"})
    working, other = serve(both), serve(both)
    gate = Gate(working, monkeypatch)
    page = look(working).go("/chat")
    write(page, "tell me")
    expect(answer(page)).to_contain_text("From")
    # The second server does not have the turn. It reads what the first one stores.
    follower = look(other).go(f"/chat/{page.url.rpartition('/')[2]}")
    expect(follower.locator(".chat-question")).to_contain_text("tell me")
    gate.open()
    expect(answer(follower)).to_contain_text("From the other process, in many pieces.")
    expect(follower.get_by_role("button", name="Send")).to_be_visible()
