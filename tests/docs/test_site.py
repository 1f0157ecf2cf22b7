"""The pages hang together: every page is in the navigation, every link leads somewhere, and the site builds."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


def nav_pages(entry: Any) -> Iterator[tuple[str, str]]:
    """Yield the title and the path of each page of the navigation, in its order."""
    for item in entry if isinstance(entry, list) else [entry]:
        for title, value in item.items():
            if isinstance(value, str):
                yield title, value
            else:
                yield from nav_pages(value)


NAVIGATION = list(nav_pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(`{3,}).*?^\1`*$", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_page_is_in_the_navigation_and_in_the_index():
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert pages == {path for _, path in NAVIGATION}
    index = re.findall(r"^\| \[([^]]+)\]\(([^)]+)\) \|", (DOCS / "README.md").read_text(), re.MULTILINE)
    assert index == [entry for entry in NAVIGATION if entry[1] != "README.md"]


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_every_link_leads_to_a_page_and_a_heading(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
        # A link out of docs/ works on the forge, and is a dead end on the site.
        assert DOCS not in path.parents or DOCS in target.parents, link


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_a_list_or_table_follows_an_empty_line(path):
    # GitHub renders it either way; the generator of the site does not.
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for before, line in zip(text.splitlines(), text.splitlines()[1:], strict=False):
        if re.match(r"([-*] |1\. )", line):
            assert not before.strip() or re.match(r"\s|[-*] |\d+\. ", before), line


@pytest.mark.long
def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere():
    built = subprocess.run([ROOT / "scripts/docs"], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    for page in (ROOT / "site").rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?([^\" >]+)", page.read_text())
        assert [address for address in loaded if "//" in address] == [], page.name
