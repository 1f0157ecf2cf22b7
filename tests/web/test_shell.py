"""The frame of every page: menu, keyboard, theme, language, connection, sign-in."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from prowess.interfaces.rest.web_app import FOLDER, PAGES
from prowess.policy.actor import Actor

from .site import ROOT, Site, View

MENU = ("/", *(f"/{page}" for page in PAGES if page != "optimizations"))


def test_every_page_of_the_menu_opens_without_a_fault(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    for path in MENU:
        page = view.go(path)
        expect(page.locator("nav a[aria-current=page]").first).to_have_attribute("href", path)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_of_the_menu_opens_without_a_fault_and_passes_axe(
    site: Site, look: Callable[..., View], scheme: str
) -> None:
    view = look(site, color_scheme=scheme)
    for path in MENU:
        page = view.go(path)
        expect(page.locator("nav a[aria-current=page]").first).to_have_attribute("href", path)
        view.check_access()


def test_letters_open_pages_and_a_question_mark_lists_them(site: Site, look: Callable[..., View]) -> None:
    page = look(site).go("/skills")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(site.url + "/traces")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.long
def test_a_german_browser_gets_german_words(site: Site, look: Callable[..., View]) -> None:
    page = look(site, locale="de-DE").go("/approvals")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.get_by_role("heading", level=1)).to_have_text("Freigaben")


@pytest.mark.long
def test_a_chosen_theme_is_kept(site: Site, look: Callable[..., View]) -> None:
    page = look(site, color_scheme="light").go("/")
    for _ in range(2):
        page.get_by_role("button", name=re.compile("^Theme")).click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.long
def test_on_a_phone_the_menu_opens_with_a_button(site: Site, look: Callable[..., View]) -> None:
    page = look(site, viewport={"width": 360, "height": 700}).go("/")
    expect(page.get_by_role("link", name="Skills", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Skills", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Skills")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for leave in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.get_by_role("link", name="Skills", exact=True).click(),  # the page that is open
        lambda: page.mouse.click(345, 60),  # beside the menu
    ):
        page.get_by_role("button", name="Menu").click()
        expect(page.get_by_role("button", name="Menu")).to_have_attribute("aria-expanded", "true")
        leave()
        expect(page.get_by_role("button", name="Menu")).to_have_attribute("aria-expanded", "false")


def test_a_lost_connection_is_shown_and_healed(site: Site, look: Callable[..., View]) -> None:
    page = look(site, viewport={"width": 360, "height": 500}).go("/settings")
    expect(page.get_by_role("heading", name="Connectors")).to_be_attached()
    page.evaluate("scrollTo(0, 400)")
    site.stop()
    lost = page.get_by_text("The server is not responding. Trying again")
    # In sight on a phone too, also far down on the page.
    lost.click(trial=True)
    assert page.evaluate("scrollY") >= 400
    site.start()
    expect(lost).to_have_count(0)


def test_whose_session_ends_while_a_page_is_open_is_asked_to_sign_in(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    page = view.go("/settings")
    view.context.clear_cookies()
    site.stop()
    site.start()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Prowess")


def test_someone_who_is_not_signed_in_is_told_how_to(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    view.context.clear_cookies()
    page = view.go("/skills")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Prowess")
    view.check_access()


def test_an_unknown_address_says_so(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    for address in ("/skills/a/b/c/d", "/skils"):
        expect(view.go(address).get_by_role("heading", level=1)).to_have_text("Page not found")


def test_the_server_has_a_page_for_every_address_of_the_application() -> None:
    paths = re.findall(r'\["/([a-z]+)', (ROOT / "ui/src/routes.ts").read_text())
    assert set(paths) == set(PAGES)


@pytest.mark.long
def test_the_first_load_takes_at_most_60_kb_and_all_of_it_350(site: Site, look: Callable[..., View]) -> None:
    sizes: dict[str, int] = {}
    view = look(site)
    view.page.on(
        "response",
        lambda answer: (
            sizes.update({answer.url: int(answer.headers.get("content-length", "0"))})
            if "/app/" in answer.url
            else None
        ),
    )
    view.go("/skills")
    view.page.wait_for_load_state("load")
    assert 10_000 < sum(sizes.values()) <= 60_000, sizes

    whole = sum(len(gzip.compress(path.read_bytes(), 9)) for path in FOLDER.iterdir())
    assert whole <= 350_000


@pytest.mark.long
def test_the_tabs_of_a_browser_share_one_connection_and_the_next_one_takes_it_over(
    site: Site, look: Callable[..., View]
) -> None:
    view = look(site)
    view.go("/skills")
    second = view.context.new_page()
    opened: list[str] = []
    # Each tab asks which event is the newest, but only one follows them.
    follows = re.compile(r"/api/v1/events(\?|$)")
    second.on("request", lambda request: opened.append(request.url) if follows.search(request.url) else None)
    second.goto("/traces")
    expect(second.get_by_role("heading", level=1)).to_have_text("Traces")
    assert opened == []
    with second.expect_request("**/api/v1/events*"):
        view.page.close()


@pytest.mark.long
def test_a_reader_is_offered_nothing_that_would_be_refused(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    reader = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}), channel="http")
    view = look(serve(place, {"bob": reader}), "bob")
    refused: list[str] = []
    view.page.on("response", lambda answer: refused.append(answer.url) if answer.status == 403 else None)
    page = view.go("/")
    expect(page.get_by_role("region", name="First steps").get_by_role("link")).to_have_text(
        "Look at the skills that you have"
    )
    page = view.go("/chat")
    expect(page.get_by_text("You may read conversations, but not write messages.")).to_be_visible()
    expect(page.get_by_role("link", name="New conversation")).to_have_count(0)
    page = view.go("/skills/new")
    expect(page.get_by_text("You may read skills, but not write them.")).to_be_visible()
    page = view.go("/settings")
    expect(page.get_by_role("group", name="Enabling skills").get_by_role("radio").first).to_be_disabled()
    assert refused == []
