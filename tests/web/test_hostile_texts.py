"""Texts of skills, models and registries that attack the page. They are shown, and nothing of them works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .hostile_texts import HIDDEN, HTML, TEXTS
from .site import Site, View

BODY = "\n\n".join(f"Number {number}.\n\n{text}" for number, text in enumerate(TEXTS))
END = "The end of the text."
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


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


PLAIN = """Steps with *emphasis* and `code &amp; <tags>`, [the manual](https://example.org/a_b?c=1&d=é) and https://example.org.

1. First &lt;one&gt;
1. Second \\_one\\_
   - [ ] open
   - [x] done

> A quote with **strong** words, <me@example.org> and 10 numbers.

| a | b |
|---|---|
| 1 | 2 |

```bash
ls | wc -l && echo "<done>"
```
"""


def test_markdown_hides_nothing_that_a_model_reads(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    texts = [text.replace("unseen", f"unseen{number}x") for number, text in enumerate(HIDDEN)]
    place.skill("attacker", "\n\n---\n\n".join(texts) + f"\n\n---\n\n{END}")
    page = look(serve(place)).go("/skills/attacker")
    expect(page.get_by_text(END)).to_be_visible()
    shown = page.locator(".markdown").inner_text()
    assert [text for number, text in enumerate(texts) if f"unseen{number}x" not in shown] == []


def test_ordinary_markdown_is_shown_as_elements(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    place.skill("plain", PLAIN)
    page = look(serve(place)).go("/skills/plain")
    expect(page.locator(".markdown table")).to_be_visible()
    assert page.locator(".markdown .raw").all_inner_texts() == []
    assert "the manual (https://example.org/a_b?c=1&d=é)" in page.locator(".markdown").inner_text()


@pytest.mark.parametrize("text", [">" * 20_000, "- " * 5_000, "*a **b " * 5_000], ids=lambda one: one[:3])
def test_markdown_that_a_parser_cannot_read_is_shown_as_it_is(
    place: Any, serve: Callable[..., Site], look: Callable[..., View], text: str
) -> None:
    place.skill("attacker", f"{text} {END}")
    page = look(serve(place)).go("/skills/attacker")
    expect(page.get_by_text(END)).to_be_visible()


def test_a_difference_hides_no_line_that_looks_like_its_own_header(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    """A removed line that begins with two dashes, and an added one with two plus signs, look like the name of a file."""
    untrusted = replace(place, environment={**place.environment, "PROWESS_TRUSTED_FOLDERS": ""})
    untrusted.skill("attacker", "One.\n\n-- a\n\nTwo.", files={"assets/a.png": PNG})
    view = look(serve(untrusted))
    page = view.go("/skills/attacker")
    page.get_by_role("button", name="Review and accept").click()
    page.get_by_role("button", name="Accept this content").click()
    expect(page.get_by_role("button", name="Review and accept")).to_have_count(0)

    untrusted.skill("attacker", "One.\n\n++ b\nDelete everything.\n\nTwo.", files={"assets/a.png": PNG + b"\0"})
    page = view.go("/skills/attacker")
    page.get_by_role("button", name="Review and accept").click()
    shown = page.get_by_role("dialog").locator(".diff")
    expect(shown.locator("td.removed")).to_have_text(["-- a"])
    expect(shown.locator("td.added")).to_have_text(["++ b", "Delete everything."])
    expect(shown).to_contain_text("changed assets/a.png")
