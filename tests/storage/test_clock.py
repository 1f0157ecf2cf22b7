"""Times as they are stored."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from prowess.storage.clock import now

START = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
        datetime(2026, 3, 1, 9, 30, 0, 7, tzinfo=UTC),
        datetime(2026, 3, 1, 9, 30, 0, 999_999, tzinfo=UTC),
        datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
    ],
)
def test_the_current_time_always_has_microseconds_in_utc(moment: datetime, monkeypatch: pytest.MonkeyPatch):
    microseconds = (moment - START) // timedelta(microseconds=1)
    monkeypatch.setattr(time, "time_ns", lambda: microseconds * 1000 + 999)

    assert now() == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
