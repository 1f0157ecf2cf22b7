"""A process that is killed in the middle of its runs loses no trace that was acknowledged, and leaves none open."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.traces.cleanup import close_interrupted

PROGRAM = Path(__file__).with_name("killed.py")
KILLS = 6


def killed_after(lines: int, url: str) -> dict[str, set[str]]:
    """What the process said until it was killed."""
    said: dict[str, set[str]] = {"began": set(), "kept": set()}
    with subprocess.Popen([sys.executable, str(PROGRAM), url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            if number == lines:
                process.kill()
            if line.endswith("\n"):
                what, trace = line.split()
                said[what].add(trace)
    return said


@pytest.mark.long
def test_what_was_acknowledged_is_there_and_what_was_not_ends_as_interrupted(database, database_url, kept):
    chance = random.Random(11)
    acknowledged: set[str] = set()
    endless: set[str] = set()
    for _ in range(KILLS):
        said = killed_after(chance.randrange(4, 400), database_url)
        acknowledged |= said["kept"]
        endless |= said["began"]
        assert close_interrupted(database) >= 3
    for _ in range(100):  # a server may still be committing what the last of them sent
        close_interrupted(database)
    found = {trace.id: trace.status for trace in kept()}
    assert len(acknowledged) > KILLS
    assert {found.get(trace) for trace in acknowledged} == {"ok"}
    assert {found.get(trace) for trace in endless} == {"interrupted"}
    assert set(found.values()) == {"ok", "interrupted"}
