"""What a matcher does while the embedder that was asked for is missing or does not answer."""

from __future__ import annotations

import logging

import pytest

from prowess.errors import Unavailable
from prowess.match.matcher import FRESHNESS_SECONDS, Matcher
from prowess.match.snapshot import Snapshot
from prowess.match.vectors.encoder import Encoder


def test_without_the_embedder_that_was_asked_for_words_alone_decide(near, clock, caplog, counting, best):
    class Away:
        name = "away"
        dimensions = 3

        def embed(self, texts):  # noqa: ARG002
            raise Unavailable("The server of embeddings does not answer.", hint="Start it.")

    catalog = counting(near)
    matcher = Matcher(lambda: catalog, catalog, clock=clock, embedder=Away)
    with caplog.at_level(logging.WARNING):
        assert best(matcher, "slow database queries") == "sql-tuner"
    assert "does not answer" in caplog.text


class Wavering(Encoder):
    """An embedder whose server goes away."""

    away = False

    def embed(self, texts):
        if self.away:
            raise Unavailable("The server of embeddings does not answer.", hint="Start it.")
        return super().embed(texts)

    def embed_parts(self, cards):
        self.embed([])
        return super().embed_parts(cards)


@pytest.mark.parametrize("changed", [False, True])
def test_an_embedder_that_goes_away_later_does_not_stop_matching(near, clock, changed, pack, counting, best):
    embedder, catalog = Wavering(), counting(near)
    matcher = Matcher(lambda: catalog, catalog, clock=clock, embedder=lambda: embedder)
    assert best(matcher, "slow database queries") == "sql-tuner"
    embedder.away = True
    if changed:
        near.save(pack("plant-care", "Waters the plants of the balcony."))
        clock.now += FRESHNESS_SECONDS
    assert matcher.rank("explain a slow query")[0].slug == "sql-tuner"


@pytest.mark.parametrize("kept", [False, True])
def test_an_embedder_that_cannot_be_opened_does_not_stop_matching(near, clock, tmp_path, kept, counting, best):
    def missing() -> Encoder:
        raise Unavailable("The library of the model is not installed.", hint="Install prowess[semantic].")

    catalog = counting(near)
    snapshot = Snapshot(tmp_path) if kept else None
    matcher = Matcher(lambda: catalog, catalog, clock=clock, embedder=missing, snapshot=snapshot)
    assert best(matcher, "slow database queries") == "sql-tuner"
