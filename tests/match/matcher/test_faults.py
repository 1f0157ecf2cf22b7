"""What a matcher does while a store, or the catalog, does not answer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from prowess.catalog.catalog import CatalogChanges
from prowess.errors import Unavailable
from prowess.match.matcher import FRESHNESS_SECONDS, Matcher
from prowess.match.snapshot import Snapshot


@pytest.mark.parametrize("kept", [False, True])
def test_while_a_store_is_away_the_others_match_and_then_it_does_again(
    clock, tmp_path, kept, pack, store, counting, sleepy, best
):
    near, far = store(pack("sql-tuner")), store(pack("invoice-reader"), scope="account", kind=sleepy)
    catalog = counting(near, far)
    snapshot = Snapshot(tmp_path / "snapshot") if kept else None
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=snapshot)
    for away in (True, False, True, False):
        far.away = away
        clock.now += FRESHNESS_SECONDS
        assert best(matcher, "slow database queries") == "sql-tuner"
        assert best(matcher, "totals of supplier invoices") == ("" if away else "invoice-reader")
        fresh = Matcher(lambda: catalog, catalog, clock=clock, snapshot=snapshot)
        assert best(fresh, "totals of supplier invoices") == ("" if away else "invoice-reader")


def test_a_store_that_goes_while_it_is_read_is_read_again(clock, pack, store, counting, sleepy, best):
    near, far = store(pack("sql-tuner")), store(pack("invoice-reader"), scope="account", kind=sleepy)
    catalog = counting(near, far)
    asked = catalog.catalog.changes
    matcher = Matcher(lambda: catalog, catalog, clock=clock)

    def then_away(since: Mapping[str, str]) -> CatalogChanges:
        found = asked(since)
        far.away = True
        return found

    catalog.changes = then_away
    assert best(matcher, "totals of supplier invoices") == ""
    assert best(matcher, "slow database queries") == "sql-tuner"
    del catalog.changes
    far.away = False
    clock.now += FRESHNESS_SECONDS
    assert best(matcher, "totals of supplier invoices") == "invoice-reader"


def test_what_fails_once_is_tried_again(near, clock, counting, best):
    catalog = counting(near)
    broken = [True]

    def opened():
        if broken[0]:
            raise Unavailable("The catalog does not answer.", hint="Wait.")
        return catalog

    matcher = Matcher(opened, catalog, clock=clock)
    with pytest.raises(Unavailable):
        matcher.match("slow queries")
    broken[0] = False
    assert best(matcher, "slow queries") == "sql-tuner"
