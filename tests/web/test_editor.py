"""The editor: form and text in step, live checks, files and artifacts, and saving that never loses what was typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from prowess.skill.draft import SkillDraft

from .site import Site, View

GUIDE = """---
# How we speak to customers.
name: Incident Comms Style Guide # shown in lists
slug: comms.incident-style
description: Tone of updates for customers during incidents.
tags:
  - sre # the team
  - comms
x-owner: {team: sre, since: 2024}
---

# Style guide

Say what happened.
"""
ADDRESS = "org:comms.incident-style"


def add_guide(site: Site, content: str = GUIDE, **fields: Any) -> None:
    site.do(site.engine.skills.create_row(SkillDraft(content=content, **fields), scope="org", enabled=True))


def stored_text(site: Site, address: str = ADDRESS) -> str:
    return site.do(site.engine.skills.row(address)).content or ""


def text_box(page: Page, path: str = "SKILL.md") -> Locator:
    return page.get_by_role("textbox", name=f"Text of {path}")


def write(page: Page, text: str, path: str = "SKILL.md") -> None:
    """Replace the text of a file, as a person who pastes does."""
    text_box(page, path).focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def test_a_skill_is_written_with_form_and_text_in_step(each_site: Site, look: Callable[..., View]) -> None:
    view = look(each_site)
    page = view.go("/skills/new")
    page.get_by_label("Name", exact=True).fill("bake-bread")
    page.get_by_label("Description").fill("Bakes bread: rolls and loaves.")
    page.get_by_label("Tags").fill("food, baking, ")
    expect(text_box(page)).to_contain_text('description: "Bakes bread: rolls and loaves."')
    expect(text_box(page)).to_contain_text("tags: [food, baking]")
    view.check_access()

    write(page, "---\nname: bake-bread\ndescription: Bakes rolls.\nversion: 2.0.1\n---\n\nKnead.\n")
    expect(page.get_by_label("Description")).to_have_value("Bakes rolls.")
    expect(page.get_by_label("Version")).to_have_value("2.0.1")
    expect(page.get_by_label("Tags")).to_have_value("")
    expect(page.get_by_text("No problems.")).to_be_visible()
    page.get_by_role("tab", name="Prompt").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("Knead.")
    expect(page.get_by_role("tabpanel")).to_contain_text("of 16,000 characters")
    page.get_by_role("tab", name="Trigger test").click()
    page.get_by_label("Messages to try").fill("bake rolls\nfly to the moon")
    trials = page.get_by_role("list", name="Results").locator("> li")
    expect(trials.nth(0)).to_contain_text("Offered")
    expect(trials.nth(1)).to_contain_text("Not offered")
    view.check_access()

    page.get_by_role("button", name="Create skill").click()
    expect(page).to_have_url(f"{each_site.url}/skills/bake-bread/edit")
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    assert "version: 2.0.1" in stored_text(each_site, "org:bake-bread")


def test_a_change_in_the_form_leaves_every_other_line_as_it_was(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    page.get_by_label("Name", exact=True).fill("How we speak")
    page.get_by_label("Tags").fill("sre, outage")
    page.get_by_label("Version").fill("1.1.0")
    page.get_by_label("Author").fill("Ada")
    page.get_by_label("Author").fill("")
    page.get_by_label("License").focus()
    page.keyboard.press("ControlOrMeta+s")
    expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    expected = GUIDE.replace("Incident Comms Style Guide #", "How we speak #").replace("- comms", "- outage")
    expected = expected.replace("tags:", "version: 1.1.0\ntags:")
    assert stored_text(site) == expected


def test_a_problem_is_marked_where_it_is_and_leads_there(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    page = view.go("/skills/new")
    write(page, "---\nname: My Skill\ndescription: Does it.\n---\n\nDo it.\n")
    place = page.get_by_role("button", name="SKILL.md, line 2")
    place.click()
    expect(text_box(page)).to_be_focused()
    expect(page.locator(".cm-activeLine")).to_have_text("name: My Skill")
    expect(page.locator(".cm-lintRange-warning")).to_have_text("My Skill")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("my-skill")
    expect(page.get_by_text("No problems.")).to_be_visible()


def test_a_draft_outlives_a_reload_and_a_server_that_is_gone(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    page.get_by_label("Description").fill("How to speak in a crisis.")
    expect(page.get_by_text("Not saved · draft kept here")).to_be_visible()
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    expect(page.get_by_label("Description")).to_have_value("How to speak in a crisis.")
    expect(page.get_by_text("were restored")).to_be_visible()

    site.stop()
    page.keyboard.press("ControlOrMeta+s")
    expect(page.get_by_text("Your text is kept in this browser")).to_be_visible()
    site.start()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    assert "description: How to speak in a crisis." in stored_text(site)
    page.reload()
    expect(page.get_by_text("were restored")).to_have_count(0)


def test_whoever_saves_second_sees_both_texts_and_chooses(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    one, other = look(site), look(site)
    first = one.go("/skills/comms.incident-style/edit")
    second = other.go("/skills/comms.incident-style/edit")
    first.get_by_label("Description").fill("From the first.")
    second.get_by_label("Description").fill("From the second.")
    second.get_by_label("Tags").fill("sre, second")
    first.get_by_role("button", name="Save", exact=True).click()
    expect(first.get_by_text("Saved", exact=True)).to_be_visible()

    second.keyboard.press("ControlOrMeta+s")
    dialog = second.get_by_role("dialog", name="Someone else saved first")
    expect(dialog).to_contain_text("description: From the first.")
    expect(dialog).to_contain_text("description: From the second.")
    other.check_access()
    dialog.get_by_role("button", name="Merge by hand").click()
    merge = second.get_by_role("region", name="Merge by hand")
    expect(merge.get_by_role("button", name="Take theirs here")).to_have_count(2)
    merge.get_by_role("button", name="Take theirs here").first.click()
    expect(second.get_by_label("Description")).to_have_value("From the first.")
    second.keyboard.press("ControlOrMeta+s")
    expect(second.get_by_text("Saved", exact=True)).to_be_visible()
    text = stored_text(site)
    assert "description: From the first." in text
    assert "- second" in text


@pytest.mark.long
def test_keep_mine_overwrites_and_take_theirs_gives_up_the_own_text(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    for choice, expected in (("Take theirs", "Stored meanwhile 0."), ("Keep mine", "Mine 1.")):
        number = int(choice == "Keep mine")
        page.get_by_label("Description").fill(f"Mine {number}.")
        change = SkillDraft(description=f"Stored meanwhile {number}.")
        site.do(site.engine.skills.update_document(ADDRESS, change))
        page.keyboard.press("ControlOrMeta+s")
        page.get_by_role("dialog").get_by_role("button", name=choice).click()
        expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        expect(page.get_by_label("Description")).to_have_value(expected)
        assert f"description: {expected}" in stored_text(site)
