"""A sync that is killed at any point leaves whole skills, and the next one finishes the work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("source_kill_points.py")
OLD = {"same": "A.", "changed": "A.", "gone": "A."}
NEW = {"same": "A.", "changed": "B.", "new": "B."}


@pytest.mark.long
def test_a_sync_that_is_killed_anywhere_leaves_whole_skills_and_heals(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, str(PROGRAM), str(tmp_path), "7"], capture_output=True, text=True, check=True)
    reports = [json.loads(line) for line in ran.stdout.splitlines()]

    assert len(reports) >= 5
    assert [report["killed"] for report in reports] == [True] * (len(reports) - 1) + [False]
    for report in reports:
        found = report["after"]["skills"]
        assert found["same"] == "A."
        assert found["changed"] in ("A.", "B.")
        assert found.get("new") in (None, "B.")
        assert found.get("gone") in (None, "A.")
        assert (report["after"]["agree"], report["after"]["audit"]) == (True, True)
        assert report["healed"] == {"status": "ok", "skills": NEW, "agree": True, "audit": True}
