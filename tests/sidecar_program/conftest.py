"""A sidecar process for the tests of this folder, in the environment that `scripts/setup` makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .driver import Driver

PYTHON = Path(__file__).resolve().parents[2] / ".venv" / "sidecar" / "bin" / "python"


@pytest.fixture(scope="session")
def sidecar_python() -> Path:
    if not PYTHON.exists():
        pytest.skip("There is no .venv/sidecar. Run: scripts/setup")
    return PYTHON


@pytest.fixture(scope="session")
def process(sidecar_python: Path) -> Iterator[Driver]:
    """One process for all tests: each request leaves nothing behind. PROWESS_TEST_SIDECAR names a binary to test instead."""
    binary = os.environ.get("PROWESS_TEST_SIDECAR")
    driver = Driver(sidecar_python, command=[binary] if binary else None)
    yield driver
    driver.close()


@pytest.fixture
def sidecar(process: Driver) -> Driver:
    assert process.process.poll() is None, "an earlier test ended the sidecar"
    return process


@pytest.fixture
def own_sidecar(sidecar_python: Path) -> Iterator[Driver]:
    """A process that the test may end."""
    driver = Driver(sidecar_python, OPENAI_API_KEY="sk-of-the-test")
    yield driver
    driver.close()
