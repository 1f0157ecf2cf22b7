"""A workspace to write pages into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prowess.workspace.workspace import Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    return made


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """Write a page: its frontmatter, then its text."""

    def page(path: str, text: str = "", **fields: str) -> Path:
        head = "".join(f"{name}: {value}\n" for name, value in fields.items())
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"---\n{head}---\n{text}" if head else text)
        return target

    return page


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    """The pages as they are at every call."""
    return Workspace(folder, hold_seconds=0)
