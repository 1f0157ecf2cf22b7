"""Places that match by words alone: loading the encoder would take most of the time of these tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def place(place):
    place.environment["PROWESS_EMBEDDER"] = "none"
    return place


@pytest.fixture
def each_place(each_place):
    each_place.environment["PROWESS_EMBEDDER"] = "none"
    return each_place
