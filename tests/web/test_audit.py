"""Audit: newest first, filtered, unfolded, verified, and the account of one skill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from playwright.sync_api import expect

from prowess.policy.actor import Actor
from prowess.storage.database import open_database
from prowess.storage.sql.ledger import audit

from .site import ME, Site, View

BOB = Actor(name="bob", permissions=frozenset({"skills.read"}), channel="http")
ANN = Actor(name="ann", channel="http")


@pytest.mark.long
def test_entries_are_filtered_unfolded_and_verified(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    place.skill("alpha")
    site = serve(place)
    site.do(site.engine.policy.set("approval_days", 3))
    site.do(site.engine.as_actor(ANN).policy.set("approval_days", 4))
    site.do(site.engine.policy.switch("alpha", on=False))
    view = look(site)
    page = view.go("/audit")
    entries = page.get_by_role("list", name="Entries").get_by_role("listitem")
    expect(entries).to_have_count(3)
    expect(entries.first).to_contain_text("disabled_skills")
    view.check_access()

    page.get_by_label("Actor").fill("AN")
    expect(entries).to_have_count(1)
    entries.first.locator("summary").click()
    expect(entries.first).to_contain_text("approval_days")
    expect(entries.first).to_contain_text("Previous hash")
    view.check_access()
    page.get_by_label("Action").select_option("run")
    expect(page.get_by_text("No matching entries")).to_be_visible()

    page.get_by_role("button", name="Verify the chain").click()
    expect(page.get_by_text("Intact: 3 entries checked.")).to_be_visible()
    view.check_access()

    _change_entry(place, 2, actor="eve")
    page.get_by_role("button", name="Verify the chain").click()
    expect(page.get_by_text("Broken at entry 2.")).to_be_visible()
    view.check_access()


def _change_entry(place: Any, number: int, **values: Any) -> None:
    (file,) = Path(place.environment["PROWESS_HOME"]).glob("*.db")
    database = open_database(f"sqlite:///{file}")
    with database.write() as connection:
        connection.execute(sa.update(audit).where(audit.c.number == number).values(**values))
    database.close()


@pytest.mark.long
def test_older_entries_come_with_a_button_and_a_skill_has_an_account(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    place.skill("alpha")
    site = serve(place)
    for days in range(1, 103):
        site.do(site.engine.policy.set("approval_days", days))
    session = site.do(site.engine.sessions.open("c"))
    site.do(site.engine.enable("alpha", session=session))
    view = look(site)
    page = view.go("/audit")
    entries = page.get_by_role("list", name="Entries").locator("> li")
    expect(entries).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(entries).to_have_count(103)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)

    page.get_by_label("Skill").fill("alph")
    expect(entries).to_have_count(1)
    entries.first.locator("summary").click()
    entries.first.get_by_role("button", name="Account of alpha").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("PROWESS_TRUSTED_FOLDERS")
    view.check_access()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


@pytest.mark.long
def test_long_texts_without_spaces_do_not_make_the_page_wider_than_the_screen(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    site = serve(place)
    place.skill("s" * 64)
    author = Actor(name="a" * 190, channel="c" * 190)
    site.do(site.engine.as_actor(author).policy.switch("s" * 64, on=False))
    _change_entry(place, 1, slug="s" * 64, detail={"n" * 200: {"k" * 200: "v" * 200}})
    page = look(site).go("/audit")
    entry = page.get_by_role("list", name="Entries").get_by_role("listitem")
    entry.locator("summary").click()
    expect(entry).to_contain_text("Previous hash")
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert page.locator("main").evaluate("one => one.scrollWidth <= one.clientWidth"), width


@pytest.mark.long
def test_someone_who_is_not_an_administrator_is_told_so(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    view = look(serve(place, {"me": ME, "bob": BOB}), "bob")
    page = view.go("/audit")
    expect(page.get_by_text("Only an administrator can read the audit")).to_be_visible()
    view.check_access()
