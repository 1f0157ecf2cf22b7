"""Tokens and people: the own account, tokens with a secret that is shown once, members and organizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from prowess.policy.actor import Actor

from .site import ME, Site, View

BOB = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}), channel="http")


@pytest.mark.long
def test_a_token_is_shown_once_and_refused_after_it_was_revoked(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    page = view.go("/people?tab=tokens")
    expect(page.get_by_text("No tokens")).to_be_visible()
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("nightly")
    expect(dialog.get_by_text("approvals.resolve")).to_have_count(0)
    view.check_access()
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_contain_text("It is shown only once")
    secret = dialog.locator("pre").inner_text().strip()
    view.check_access()
    dialog.get_by_role("button", name="Done").click()
    assert secret not in page.content()

    (token,) = site.do(site.engine.tokens.list())
    assert (token.name, token.kind, "admin" in token.scopes) == ("nightly", "agent", False)
    page.get_by_role("row", name="nightly").get_by_role("button", name="Revoke").click()
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row", name="nightly")).to_contain_text("revoked")
    view.check_access()


def test_an_answer_of_a_dialog_that_fails_is_said_in_the_dialog_which_keeps_the_focus(
    site: Site, look: Callable[..., View]
) -> None:
    site.do(site.engine.tokens.create("nightly"))
    page = look(site).go("/people?tab=tokens")
    page.route("**/api/v1/tokens/*", lambda route: route.fulfill(status=503, json={"detail": "The database is busy."}))
    page.get_by_role("button", name="Revoke").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Revoke").press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("The database is busy.")
    expect(dialog.get_by_role("button", name="Revoke")).to_be_focused()
    dialog.get_by_role("status").get_by_role("button", name="Close").click()
    expect(dialog.get_by_role("status")).to_be_empty()


@pytest.mark.long
def test_the_operator_creates_an_organization_and_manages_its_members(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    page = view.go("/people?tab=members")
    expect(page.get_by_text("This server has no organizations")).to_be_visible()
    view.check_access()
    page.get_by_role("tab", name="Organizations").click()
    page.get_by_role("button", name="New organization").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Id").fill("Not valid")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("lowercase letters")
    dialog.get_by_label("Id").fill("acme")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("row", name="acme").get_by_role("button", name="Members").click()

    page.get_by_role("button", name="Add a member").click()
    dialog.get_by_label("User id").fill("ann")
    dialog.get_by_label("Name").fill("Ann")
    dialog.get_by_label("admin", exact=False).check()
    dialog.get_by_role("button", name="Add").click()
    row = page.get_by_role("row", name="Ann")
    expect(row).to_contain_text("approvals.resolve")
    row.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    # The last administrator stays.
    expect(dialog.get_by_role("status")).to_contain_text("Make another member admin first")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Add a member").click()
    dialog.get_by_label("User id").fill("bob")
    dialog.get_by_role("button", name="Add").click()
    bob = page.get_by_role("row", name="bob")
    expect(page.get_by_text("prowess user sign-in USER --org acme")).to_be_visible()
    bob.get_by_role("button", name="Change").click()
    dialog.get_by_label("skills.write", exact=False).uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(bob).not_to_contain_text("skills.write")
    view.check_access()
    bob.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(bob).to_contain_text("removed")


@pytest.mark.long
def test_a_session_of_another_browser_is_ended_and_this_one_signs_out(site: Site, look: Callable[..., View]) -> None:
    code = site.do(site.engine.sign_ins.create_code())
    site.do(site.engine.sign_ins.use_code(code, client="Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"))
    view = look(site)
    page = view.go("/people")
    row = page.get_by_role("row", name="Firefox, Linux")
    expect(row).to_contain_text("by link")
    view.check_access()
    row.get_by_role("button", name="End").click()
    expect(row).to_have_count(0)
    assert site.do(site.engine.sign_ins.list()) == []

    page.get_by_role("navigation", name="Menu").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Prowess")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Prowess")


@pytest.mark.long
def test_a_member_without_admin_sees_only_their_own_things(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    site = serve(place, {"me": ME, "bob": BOB})
    site.do(site.engine.organizations.create("acme", name="Acme"))
    site.do(site.engine.users.add("bob", organization="acme", permissions=["skills.read"]))
    view = look(site, "bob", viewport={"width": 360, "height": 700})
    page = view.go("/people")
    expect(page.get_by_role("tab")).to_have_text(["Your account", "Tokens"])
    page.goto("/people?tab=members")
    expect(page.get_by_role("tab", name="Your account")).to_have_attribute("aria-selected", "true")
    view.check_access()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    answer = httpx2.get(f"{site.url}/api/v1/members", headers={"authorization": "Bearer token-bob"})
    assert answer.status_code == 403


@pytest.mark.long
def test_a_link_to_the_account_of_somebody_else_is_not_followed_silently(site: Site, look: Callable[..., View]) -> None:
    site.do(site.engine.organizations.create("acme", name="Acme"))
    site.do(site.engine.users.add("bob", organization="acme", permissions=["skills.read"]))
    view = look(site)

    def open_link() -> Page:
        code = site.do(site.engine.sign_ins.create_code(organization="acme", user="bob"))
        return view.go(f"/sign-in#{code}")

    page = open_link()
    expect(page.get_by_text("You are signed in as bob of acme.")).to_be_visible()
    expect(page.get_by_text("Before, you were signed in as me")).to_be_visible()
    expect(page.get_by_role("link", name="Continue")).to_be_visible()
    view.check_access()
    open_link()
    expect(page).to_have_url(f"{site.url}/")


@pytest.mark.long
def test_on_a_phone_the_buttons_of_members_and_tokens_are_on_the_screen(site: Site, look: Callable[..., View]) -> None:
    site.do(site.engine.organizations.create("acme", name="Acme"))
    site.do(site.engine.users.add("ann", organization="acme", name="Ann", email="ann.of.acme@mail.example", admin=True))
    site.do(site.engine.tokens.create("nightly"))
    view = look(site, viewport={"width": 360, "height": 700})
    for tab, names in {"members": ["Change", "Remove"], "tokens": ["Revoke"], "organizations": ["Deactivate"]}.items():
        page = view.go(f"/people?tab={tab}")
        for name in names:
            expect(page.locator("table").get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("tab", selected=True)).to_be_in_viewport(ratio=0.95)
        view.check_access()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
