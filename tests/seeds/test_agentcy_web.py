"""Agentcy: the stories of its page in a browser, from a written skill to one that is fetched for a conversation only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.sources.registry_stubs import SkillsShStub, skill_md
from tests.web.conftest import look, open_browser, serve
from tests.web.site import Site, View

__all__ = ["browser", "look", "serve"]

browser = pytest.fixture(open_browser, scope="module", name="browser")

SLUG = "postgres.health-triage"
SOURCE, LIVE = "acme/runbooks", "kafka-lag"


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


SCRIPT = [
    call("enable_skill", skill_slug=SLUG, reason="user reports slow Postgres"),
    "Check the locks first.",
    call("enable_skill", skill_slug="other", reason="just in case"),
    "I go on without it.",
    call("fetch_registry_skill", source=SOURCE, skill_id=LIVE, reason="the consumers lag"),
    "Look at the consumer groups.",
]


@pytest.fixture
def registry() -> Iterator[SkillsShStub]:
    with SkillsShStub().served() as stub:
        stub.add(f"{SOURCE}/{LIVE}", files={"SKILL.md": skill_md(LIVE, "Find out why Kafka lags.", "Look at groups.")})
        yield stub


def write(page: Page, text: str) -> None:
    field = page.get_by_role("textbox", name="Message", exact=True)
    field.fill(text)
    field.press("Enter")


@pytest.mark.long
def test_the_stories_of_the_page_from_a_written_skill_to_a_live_one(
    printed: Any,
    each_place: Any,
    serve: Callable[..., Site],
    look: Callable[..., View],
    registry: SkillsShStub,
    tmp_path: Path,
) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(SCRIPT))
    each_place.skill("other", "x" * 500)
    each_place.skill("book", "x" * 16_000)
    urls = {"SKILLS_API_URL": registry.url, "SKILLS_DOWNLOAD_URL": registry.url}
    environment = {**each_place.environment, **urls, "PROWESS_MODEL": f"scripted:{script}"}
    site = serve(replace(each_place, environment=environment))
    for name, value in (("skill_enablement_policy", "prompt-user"), ("skills_dynamic_search_enabled", True)):
        site.do(site.engine.policy.set(name, value))
    view = look(site)
    page = view.go("/chat")

    # Write a skill, as the editor saves it.
    text = printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")
    saved = page.request.post(
        f"{site.url}/api/v1/skills", data={"content": text, "scope": "org"}, headers={"Origin": site.url}
    )
    assert saved.status == 201, saved.text()

    # Enable it within the budget, after a person approves.
    write(page, "hello")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".chat-answer").last).to_contain_text("Check the locks first.")
    pill = page.locator(".chat-pill")
    expect(pill).not_to_contain_text("Skills (0")
    used = pill.inner_text()
    assert re.search(r"Skills \(\d+ / 16,000\)|Skills \(\d,\d{3} / 16,000\)", used)

    # Refuse what does not fit.
    pill.click()
    panel = page.get_by_role("region", name="Skills in this conversation")
    panel.get_by_role("searchbox").fill("book")
    panel.get_by_role("button", name="Enable book").click()
    expect(panel.get_by_role("alert")).to_contain_text("budget")
    expect(pill).to_have_text(used)
    panel.get_by_role("button", name="Close").click()

    # Deny: the agent goes on without it.
    write(page, "and now")
    page.get_by_role("button", name="Deny").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".chat-answer").last).to_contain_text("I go on without it.")
    expect(pill).to_have_text(used)

    # Fetch a live skill from a registry: for this conversation only, in the same budget.
    write(page, "thanks")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".chat-answer").last).to_contain_text("Look at the consumer groups.")
    expect(pill).not_to_have_text(used)
    pill.click()
    expect(panel).to_contain_text("for this conversation only")
    view.check_access()

    # Disable: the budget is free again.
    panel.get_by_role("button", name=f"Disable {LIVE}").click()
    expect(pill).to_have_text(used)
    panel.get_by_role("button", name="Disable PostgreSQL Health Triage").click()
    expect(pill).to_contain_text("Skills (0 / 16,000)")
    assert LIVE not in [card.slug for card in site.do(site.engine.skills.cards())]
