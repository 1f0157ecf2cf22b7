"""Settings: values with their defaults and sources, problems at their fields, variables of skills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from prowess.policy.actor import Actor

from .site import ME, Site, View

READER = Actor(name="bob", permissions=frozenset({"skills.read"}), channel="http")


def row(page: Page, name: str) -> Locator:
    return page.locator("form", has=page.get_by_text(name, exact=True))


@pytest.mark.long
def test_a_setting_is_changed_with_its_source_shown_refused_at_its_field_and_reset(
    site: Site, look: Callable[..., View]
) -> None:
    view = look(site)
    page = view.go("/settings")
    days = row(page, "approval_days")
    expect(days).to_contain_text("Default")
    days.get_by_label("Days that an approval is valid").fill("soon")
    days.get_by_label("Days that an approval is valid").press("Enter")
    expect(days).to_contain_text("Use a whole number from 1 to 3,650.")
    expect(days.get_by_label("Days that an approval is valid")).to_have_value("soon")
    view.check_access()

    days.get_by_label("Days that an approval is valid").fill("3")
    days.get_by_role("button", name="Save").click()
    expect(days).to_contain_text("Set by me")
    expect(days).to_contain_text("default: 30")
    assert site.do(site.engine.policy.get()).approval_days == 3

    policy = row(page, "skill_enablement_policy")
    policy.get_by_text("Ask a person").click()
    # Somebody else is faster. What was chosen here stays, and the difference is shown.
    site.do(site.engine.policy.set("skill_enablement_policy", "admin-only"))
    days.get_by_role("button", name="Reset to default").click()
    expect(days).to_contain_text("Default")
    expect(policy).to_contain_text("The stored value is now: admin-only")
    policy.get_by_role("button", name="Save").click()
    expect(policy).to_contain_text("Set by me")
    assert site.do(site.engine.policy.get()).skill_enablement_policy == "prompt-user"

    page.get_by_label("Find a setting").fill("binaries")
    expect(page.locator("form.settings-row")).to_have_count(1)
    programs = row(page, "allowed_binaries")
    programs.get_by_label("Programs").fill("git\nrg\n")
    programs.get_by_role("button", name="Save").click()
    expect(programs).to_contain_text("Set by me")
    assert site.do(site.engine.policy.get()).allowed_binaries == ("git", "rg")


def test_the_focus_stays_near_a_button_that_disappears(site: Site, look: Callable[..., View]) -> None:
    page = look(site).go("/settings")
    days = row(page, "approval_days")
    days.get_by_label("Days that an approval is valid").fill("3")
    days.get_by_role("button", name="Save").press("Enter")
    expect(days).to_contain_text("Set by me")
    expect(days).to_be_focused()
    page.keyboard.press("Tab")
    expect(days.get_by_role("textbox")).to_be_focused()


@pytest.mark.long
def test_variables_of_a_skill_are_allowed_and_forbidden(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    place.skill("caller", files={"agents/prowess.yaml": "title: Caller\nenv: [API_KEY]\n"})
    site = serve(place)
    page = look(site).go("/settings")
    page.get_by_label("Skill (slug)").fill("caller")
    page.get_by_role("button", name="Show its variables").click()
    table = page.get_by_role("region", name="caller")
    table.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("region", name="Environment variables").get_by_text("API_KEY")).to_be_visible()
    table.get_by_role("button", name="Forbid").click()
    expect(page.get_by_text("No skill is allowed to read a variable.")).to_be_visible()


@pytest.mark.long
def test_a_fact_is_remembered_shown_and_forgotten(site: Site, look: Callable[..., View]) -> None:
    site.do(site.engine.agent.remember("The team drinks tea."))
    view = look(site)
    page = view.go("/settings")
    facts = page.get_by_role("region", name="Remembered facts")
    expect(facts).to_contain_text("The team drinks tea.")
    page.get_by_label("New fact").fill("Releases are on Mondays.")
    page.get_by_role("button", name="Remember", exact=True).click()
    expect(facts).to_contain_text("Releases are on Mondays.")
    view.check_access()
    facts.get_by_role("row", name="The team drinks tea.").get_by_role("button", name="Forget").click()
    expect(facts.get_by_text("The team drinks tea.")).to_have_count(0)
    assert [fact.text for fact in site.do(site.engine.agent.memories())] == ["Releases are on Mondays."]


@pytest.mark.long
def test_a_reader_sees_the_settings_and_cannot_change_them(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    view = look(serve(place, {"me": ME, "bob": READER}), "bob", viewport={"width": 360, "height": 700})
    page = view.go("/settings")
    expect(page.get_by_text("Only an administrator can change them.")).to_be_visible()
    expect(page.get_by_label("Minutes to answer")).not_to_be_editable()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    view.check_access()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_a_chosen_language_and_theme_are_kept(site: Site, look: Callable[..., View]) -> None:
    page = look(site).go("/settings")
    page.get_by_text("Dark", exact=True).click()
    page.get_by_text("Deutsch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Einstellungen")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
