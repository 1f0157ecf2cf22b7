"""A place in which nobody has accepted anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest


@pytest.fixture
def untrusted(place: Any) -> Any:
    """A workspace without standing rules: what lies in its folders was found there."""
    return replace(place, environment={**place.environment, "PROWESS_TRUSTED_FOLDERS": ""})
