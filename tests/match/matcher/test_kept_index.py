"""A matcher that finds an index on disk reads only what changed since."""

from __future__ import annotations

import json
import logging
import struct

import pytest

from prowess.match import array_file
from prowess.match.matcher import FRESHNESS_SECONDS, Matcher
from prowess.match.ranking import rank
from prowess.match.snapshot import Snapshot


def test_a_new_matcher_reads_only_what_changed_since_the_snapshot(near, clock, tmp_path, pack, counting, best):
    first, second = counting(near), counting(near)
    matcher = Matcher(lambda: first, first, clock=clock, snapshot=Snapshot(tmp_path / "snapshot"))
    best(matcher, "slow database queries")
    near.save(pack("plant-care", "Waters the plants of the balcony."))
    newer = Matcher(lambda: second, second, clock=clock, snapshot=Snapshot(tmp_path / "snapshot"))
    assert best(newer, "water the balcony plants") == "plant-care"
    assert (first.read, second.read) == ([None], [{"plant-care"}])


def test_a_snapshot_of_another_catalog_is_brought_up_to_date(near, clock, tmp_path, pack, store, counting, best, built):
    other = counting(store(pack("plant-care", "Waters the plants of the balcony."), pack("sql-tuner"), scope="account"))
    catalog = counting(near)
    best(Matcher(lambda: other, other, snapshot=Snapshot(tmp_path)), "anything")
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=Snapshot(tmp_path))
    assert best(matcher, "water the balcony plants") == ""
    assert matcher.index().digest == built(catalog).digest
    assert matcher.rank("slow database queries") == rank(built(catalog), "slow database queries", limit=10)


def test_where_the_places_are_as_they_were_the_catalog_is_not_even_opened(near, clock, tmp_path, told, best):
    catalog = told(near)
    assert best(Matcher(lambda: catalog, catalog, snapshot=Snapshot(tmp_path)), "slow queries") == "sql-tuner"

    def never():
        raise AssertionError("opened")

    matcher = Matcher(never, catalog, clock=clock, snapshot=Snapshot(tmp_path))
    for _ in range(3):
        assert best(matcher, "slow queries") == "sql-tuner"
        clock.now += FRESHNESS_SECONDS
    catalog.standing = b"2"
    clock.now += FRESHNESS_SECONDS
    with pytest.raises(AssertionError, match="opened"):
        matcher.match("slow queries")


def test_damage_that_shows_only_in_use_is_mended_by_building_anew(near, clock, tmp_path, monkeypatch, caplog, counting):
    # As with a file that is too large to be checked to the last byte whenever it is opened.
    monkeypatch.setattr(array_file, "FULL_CHECK_BYTES", 0)
    monkeypatch.setattr(array_file, "CHECKED_END_BYTES", 0)
    catalog = counting(near)
    expected = Matcher(lambda: catalog, catalog, clock=clock, snapshot=Snapshot(tmp_path)).rank("slow database queries")
    spoil(next(tmp_path.glob("*.segment")), "postings")
    later = Matcher(lambda: catalog, catalog, clock=clock, snapshot=Snapshot(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert later.rank("slow database queries") == expected
    assert "damaged" in caplog.text
    assert later.rank("slow database queries") == expected


def spoil(file, array):
    """Write nonsense over one array of a segment."""
    content = bytearray(file.read_bytes())
    _, length, _, _ = struct.unpack_from("<8sIII", content)
    kind, shape, place = json.loads(content[20 : 20 + length])["arrays"][array]
    start = -(-(20 + length) // 64) * 64 + place
    size = shape[0] * int(kind[-1])
    content[start : start + size] = b"\xff" * size
    file.write_bytes(content)
