"""The terminal sessions that pages show are what the commands print today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
PLAYED = [str(path.relative_to(ROOT)) for path in PAGES if "```console\n" in path.read_text()]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("console", ROOT / "scripts/console.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONSOLE = load_script()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PLAYED)
def test_the_commands_of_a_page_print_what_it_shows(name, tmp_path):
    page = (ROOT / name).read_text()
    played = CONSOLE.play(page, CONSOLE.Terminal(tmp_path / "home"))
    assert page == played, f"run: .venv/bin/python scripts/console.py {name}"


def test_every_path_of_the_architecture_page_is_there():
    text = (ROOT / "docs/architecture.md").read_text()
    paths = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`", text))
    assert len(paths) > 30
    missing = [path for path in paths if not any((ROOT / start / path).exists() for start in ("src/prowess", "."))]
    assert missing == []
