"""An engine with the skill `line`, whose artifacts run in the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prowess import plugins
from prowess.jobs import jobs, system, worker
from prowess.run.request import RunRequest

from .station import Station, skill_files


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at queues and jobs more often, so that tests do not wait."""
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(system, "LISTEN_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.02)


@pytest.fixture
def station(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Station:
    """Run the artifacts of `line` here."""
    made = Station(tmp_path / "witness.txt")
    found = [plugins.Plugin(name="station", handlers=(made,))]
    monkeypatch.setattr(plugins, "working_plugins", lambda: found)
    return made


@pytest.fixture
def line(place) -> Callable[..., RunRequest]:
    """Write the skill `line`, and make requests to run it."""

    def request(*artifacts: str, **fields: object) -> RunRequest:
        place.write("line", skill_files())
        return RunRequest(slug="line", artifacts=artifacts, **fields)

    return request
