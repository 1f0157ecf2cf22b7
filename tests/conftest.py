"""What all tests share: a clean home, and the data that lies beside the project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is not a fault: no example is judged by the clock.
settings.register_profile("prowess", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("prowess")

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A path under the shared data; the test is skipped, with the reason, where that data is absent."""

    def find(path: str) -> Path:
        found = SHARED / path
        if not found.exists():
            pytest.skip(f"shared/{path} does not lie beside this checkout")
        return found

    return find


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for every test, so that nothing of the person who runs them is read or written."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PROWESS_HOME", str(folder / ".prowess"))
    for name in ("PROWESS_WORKSPACE", "PROWESS_DATABASE_URL", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder
