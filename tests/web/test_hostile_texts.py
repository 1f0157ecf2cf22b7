"""Texts of skills, models and registries that attack the page. They are shown, and nothing of them works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .hostile_texts import HTML, TEXTS
from .site import Site, View

BODY = "\n\n".join(f"Number {number}.\n\n{text}" for number, text in enumerate(TEXTS))
END = "The end of the text."


def _check(page: Page, scope: str) -> None:
    """Fail if anything in this part of the page came alive."""
    assert page.evaluate("window.hit") is None
    alive = (
        "script, iframe, object, embed, form, meta, base, link, style, video, audio, img, svg:not(.icon), dialog[open]"
    )
    assert page.locator(scope).locator(alive).count() == 0
    links = page.locator(scope).locator("a").evaluate_all("all => all.map((one) => one.getAttribute('href') || '')")
    assert [link for link in links if not link.startswith(("http://", "https://", "mailto:", "#", "/"))] == []
    names = (
        page.locator(scope)
        .locator("*")
        .evaluate_all("all => all.flatMap((one) => one.getAttributeNames().filter((name) => name.startsWith('on')))")
    )
    assert names == []


def _add(place: Any, slug: str, description: str = "Shows texts.") -> None:
    quoted = description.replace("'", "''")
    text = f"---\nname: {slug}\ndescription: '{quoted}'\n---\n\n{BODY}\n\n{END}\n"
    place.write(slug, {"SKILL.md": text, "references/more.md": BODY})


def test_the_text_of_a_skill_cannot_act_on_its_page(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    _add(place, "attacker")
    page = look(serve(place)).go("/skills/attacker")
    expect(page.get_by_text(END)).to_be_visible()
    _check(page, "main")


@pytest.mark.long
def test_descriptions_cannot_act_on_the_list(place: Any, serve: Callable[..., Site], look: Callable[..., View]) -> None:
    for number, text in enumerate(HTML):
        _add(place, f"attacker-{number}", text.replace("\n", " "))
    page = look(serve(place)).go("/skills")
    expect(page.get_by_text("attacker-0", exact=True).first).to_be_visible()
    _check(page, "main")


@pytest.mark.long
def test_the_editor_shows_them_as_text(place: Any, serve: Callable[..., Site], look: Callable[..., View]) -> None:
    _add(place, "attacker")
    page = look(serve(place)).go("/skills/attacker/edit")
    expect(page.locator(".code-editor").first).to_contain_text("Number 0.")
    assert page.evaluate("window.hit") is None
