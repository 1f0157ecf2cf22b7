"""The printed examples of the five source designs, cut out of their pages where they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PAGES = {
    "inklings": "seeds/000_b29b30952881a603.txt",
    "agentcy": "seeds/001_b14a48f19f18c9c5.txt",
    "devai": "seeds/002_64228e59879dbe20.txt",
    "bernstein": "seeds/003_60c48be15a1e487c.txt",
    "agentlayerrules": "seeds/004_759ef97dabc50935.txt",
}


@pytest.fixture
def printed(shared: Callable[[str], Path]) -> Callable[..., str]:
    """The text of a page between two markers: from the first one (left out, unless it is kept) up to the second."""

    def cut(page: str, start: str, end: str, *, keep: str = "", after: str = "") -> str:
        text = shared(PAGES[page]).read_text(encoding="utf-8")
        begin = text.index(start, text.index(after) if after else 0) + len(start)
        return keep + text[begin : text.index(end, begin)]

    return cut
