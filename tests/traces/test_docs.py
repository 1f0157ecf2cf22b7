"""The page on traces has every column and every status."""

from __future__ import annotations

from pathlib import Path

from prowess.policy.organization import OrgPolicy
from prowess.storage.traces import COLUMNS, STATUSES
from prowess.traces.trace_row import MAX_TEXT_CHARS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "traces.md").read_text()


def test_every_column_is_told_of():
    assert [column for column in COLUMNS if f"`{column}`" not in PAGE] == []


def test_every_status_is_told_of():
    assert [status for status in STATUSES if f"| `{status}` |" not in PAGE] == []


def test_the_limits_are_those_that_hold():
    assert f"up to {MAX_TEXT_CHARS:,} characters" in PAGE
    assert f"kept for {OrgPolicy().trace_days} days, or for" in PAGE
