"""Why: every step of the decision about a message, in words that a newcomer understands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from prowess.agent.decision import decide_turn

from .site import Site, View


@pytest.fixture
def shelf(place: Any, serve: Callable[..., Site]) -> Site:
    """A server with two skills, one of them too long for the prompt."""
    place.skill("release-notes", fields="tags: [release]\n")
    place.skill("poem", body="Rhyme. " * 4_000)
    return serve(place)


@pytest.mark.long
def test_a_message_is_explained_skill_by_skill(shelf: Site, look: Callable[..., View]) -> None:
    view = look(shelf)
    page = view.go("/why")
    expect(page.get_by_text("How a skill is chosen")).to_be_visible()
    page.get_by_role("textbox", name="Message").fill("write the release notes")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("message=write"))
    rows = page.get_by_role("list", name="Skills, best first").locator("summary")
    expect(rows.first).to_contain_text("release-notes")
    expect(rows.first).to_contain_text("Offered")
    expect(page.get_by_role("heading", name="1 skill fits and can be used")).to_be_visible()
    rows.first.click()
    expect(page.get_by_text("Yes, with its whole description.").first).to_be_visible()
    view.check_access()


@pytest.mark.long
def test_a_link_asks_about_one_skill_and_says_what_holds_it_back(shelf: Site, look: Callable[..., View]) -> None:
    view = look(shelf, viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = view.go("/why?message=write a poem&skill=poem")
    asked = page.get_by_role("region", name="Why poem?")
    expect(asked).to_contain_text("its text does not fit into the budget")
    expect(asked).to_contain_text("16,000 are free")
    view.check_access()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto("/why?message=write a poem&skill=unknown")
    expect(page.get_by_role("region", name="Why unknown?")).to_contain_text("not among the skills")


@pytest.mark.long
def test_a_score_just_below_an_offer_is_not_shown_as_one(shelf: Site, look: Callable[..., View]) -> None:
    view = look(shelf)

    def answer(route: Route) -> None:
        found = route.fetch().json()
        found["steps"][0] |= {"score": 0.4996, "decision": "maybe", "choice": "possible"}
        route.fulfill(json=found)

    view.page.route("**/api/v1/why", answer)
    page = view.go("/why?message=write the release notes")
    first = page.get_by_role("list", name="Skills, best first").locator("summary").first
    expect(first).to_contain_text("49.9%")


@pytest.mark.long
def test_the_last_decisions_of_conversations_are_listed_as_they_happen(shelf: Site, look: Callable[..., View]) -> None:
    view = look(shelf)
    page = view.go("/why")
    page.get_by_role("tab", name="Last decisions").click()
    expect(page.get_by_text("No decisions yet")).to_be_visible()
    session = shelf.do(shelf.engine.sessions.open("one"))
    shelf.do(decide_turn(shelf.engine, session, "write the release notes"))
    row = page.get_by_role("list", name="Last decisions").get_by_role("listitem")
    expect(row).to_contain_text("release-notes")
    expect(row.get_by_role("link", name="Conversation")).to_have_attribute("href", f"/chat/{session.id}")
    view.check_access()
