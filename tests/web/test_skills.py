"""The list of skills: filter, search, import, live changes, and thousands of rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from prowess.skill.draft import SkillDraft

from .site import Site, View

ROW = ".skills-row a"


def _document(slug: str, description: str, *tags: str, body: str = "Do it well.") -> str:
    return f"---\nname: {slug}\ndescription: {description}\ntags: [{', '.join(tags)}]\n---\n\n# {slug}\n\n{body}\n"


def _write(site: Site, slug: str, description: str = "What it is for.", *tags: str, scope: Any = "org") -> None:
    draft = SkillDraft(content=_document(slug, description, *tags))
    site.do(site.engine.skills.create_row(draft, scope=scope))


def _fill(site: Site) -> None:
    _write(site, "incident-comms", "Writes updates for customers during an outage.", "sre", "comms")
    _write(site, "postgres-triage", "Diagnoses slow queries and lock waits in PostgreSQL.", "sre", "database")
    _write(site, "my-notes", "Keeps my meeting notes short.", scope="user")


def test_skills_are_filtered_by_scope_and_tag_and_found_by_what_they_are_for(
    each_site: Site, look: Callable[..., View]
) -> None:
    _fill(each_site)
    view = look(each_site)
    page = view.go("/skills")
    expect(page.locator(ROW)).to_have_text(["incident-comms", "my-notes", "postgres-triage"])
    view.check_access()
    page.get_by_text("My skills 1", exact=True).click()
    expect(page.locator(ROW)).to_have_text(["my-notes"])
    page.get_by_text("All 3", exact=True).click()
    page.get_by_role("button", name="database 1").click()
    expect(page.locator(ROW)).to_have_text(["postgres-triage"])
    page.get_by_role("button", name="database", exact=False).click()

    page.keyboard.press("/")
    page.keyboard.type("tell our customers about the outage")
    expect(page.locator(".skills-row").first).to_contain_text("description: customers, outage")
    view.check_access()
    page.keyboard.press("ArrowDown")
    expect(page.locator(ROW).first).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("incident-comms")
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("tell our customers about the outage")
    # The menu leads to all skills.
    page.get_by_role("link", name="Skills", exact=True).click()
    expect(page.get_by_role("searchbox")).to_have_value("")
    expect(page.locator(ROW)).to_have_count(3)


@pytest.mark.long
def test_an_empty_list_says_how_to_get_skills_and_takes_a_file(
    site: Site, look: Callable[..., View], tmp_path: Path
) -> None:
    file = tmp_path / "handover.md"
    file.write_text(_document("on-call-handover", "Writes the handover of an on-call shift."))
    view = look(site)
    page = view.go("/skills")
    expect(page.get_by_text("No skills yet")).to_be_visible()
    view.check_access()
    _choose_file(page, file)
    expect(page.get_by_role("dialog")).to_contain_text("Writes the handover of an on-call shift.")
    view.check_access()
    page.get_by_role("button", name="Import 1 skill").click()
    expect(page.locator(ROW)).to_have_text(["on-call-handover"])

    file.write_text(_document("on-call-handover", "Something else."))
    _choose_file(page, file)
    page.get_by_role("button", name="Import 1 skill").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("already")


def _choose_file(page: Page, file: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import", exact=True).first.click()
    chooser.value.set_files(file)


@pytest.mark.long
def test_a_skill_that_somebody_writes_appears_without_losing_the_place(site: Site, look: Callable[..., View]) -> None:
    for number in range(60):
        _write(site, f"skill-{number:02}")
    page = look(site, viewport={"width": 1000, "height": 500}).go("/skills")
    row = page.get_by_role("link", name="skill-40", exact=True)
    page.locator(ROW).first.wait_for()
    page.evaluate("scrollTo(0, 2600)")
    before = row.bounding_box()
    _write(site, "aaa-first")
    expect(page.get_by_role("status").filter(has_text="61 skills")).to_be_visible()
    after = row.bounding_box()
    assert before
    assert after
    assert abs(before["y"] - after["y"]) < 2
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator(ROW).first).to_have_text("aaa-first")


@pytest.mark.long
def test_skills_in_folders_that_nobody_has_accepted_lead_to_the_approvals(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    place.skill("found-here")
    place.environment["PROWESS_TRUSTED_FOLDERS"] = ""
    view = look(serve(place))
    page = view.go("/skills")
    expect(page.get_by_text("1 skill in a folder needs your review.")).to_be_visible()
    expect(page.locator(".skills-row")).to_contain_text("not accepted")
    view.check_access()
    page.get_by_role("link", name="Review").click()
    expect(page.get_by_role("tab", name="Found skills")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("article", name="found-here")).to_be_visible()


@pytest.mark.long
def test_the_first_view_of_thousands_of_skills_takes_at_most_200_ms_of_the_main_thread(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    for number in range(3_000):
        place.skill(f"skill-{number:05}", fields=f"tags: [tag-{number % 40}]\n")
    site = serve(place)
    site.do(site.engine.skills.cards())
    view = look(site)
    page = view.go("/people")  # what all pages share is loaded
    page.wait_for_load_state("networkidle")
    cdp: Any = view.context.new_cdp_session(page)
    # The processor time of the main thread, which other programs do not change.
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    start = _busy(cdp)
    page.get_by_role("link", name="Skills", exact=True).click()
    page.get_by_text("3,000 skills").wait_for()
    took = {name: round((value - start[name]) * 1000) for name, value in _busy(cdp).items()}
    assert page.locator(".skills-row").count() < 60
    assert took["ScriptDuration"] + took["LayoutDuration"] + took["RecalcStyleDuration"] <= 200, took

    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="skill-02999", exact=True)).to_be_visible()


def _busy(cdp: Any) -> dict[str, float]:
    found = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    return {name: found[name] for name in ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")}


@pytest.mark.long
def test_on_a_phone_nothing_is_wider_than_the_screen(site: Site, look: Callable[..., View]) -> None:
    tags = [f"a-tag-with-a-name-{number}" for number in range(8)]
    _write(site, "long", "Words and words. " * 30, *tags)
    view = look(site, viewport={"width": 360, "height": 700}, color_scheme="dark", locale="de-DE")
    for path in ("/skills", "/skills?q=words", "/skills/long", "/skills/long?tab=files", "/skills/long?tab=versions"):
        page = view.go(path)
        page.locator(".skills-row, .skill-main").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        view.check_access()
