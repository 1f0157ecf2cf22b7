"""The feed of events and the recorder of loads, each opened when it is first used."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prowess.build.stores import Stores

if TYPE_CHECKING:
    from prowess.delivery.feed import EventFeed
    from prowess.delivery.recorder import LoadRecorder


class Deliveries:
    """What runs beside the engine, for one organization."""

    def __init__(self, stores: Stores, organization: str) -> None:
        self._stores = stores
        self._organization = organization
        self._lock = threading.RLock()
        self._feed: EventFeed | None = None
        self._recorder: LoadRecorder | None = None

    def feed(self) -> EventFeed:
        """The feed of the organization's events."""
        with self._lock:
            if self._feed is None:
                from prowess.delivery.feed import EventFeed

                self._feed = EventFeed(self._stores.records(), self._organization)
            return self._feed

    def recorder(self) -> LoadRecorder:
        """Writes loads down in the background."""
        with self._lock:
            if self._recorder is None:
                from prowess.delivery.recorder import LoadRecorder

                self._recorder = LoadRecorder(
                    self._stores.records(), self._organization, written=lambda: self.feed().wake()
                )
            return self._recorder

    def close(self) -> None:
        """Write what waits, tell who follows, and end both."""
        with self._lock:
            recorder, feed = self._recorder, self._feed
        if recorder is not None:
            recorder.close()
        if feed is not None:
            feed.close()
