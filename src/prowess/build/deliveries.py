"""The feeds of events and the recorder of loads, each opened when it is first used."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prowess.build.stores import Stores

if TYPE_CHECKING:
    from prowess.delivery.feed import EventFeed
    from prowess.delivery.recorder import EventRecorder
    from prowess.delivery.wakeups import Wakeups


class Deliveries:
    """What runs beside the engine: one feed for each organization, all with the same wake-ups."""

    def __init__(self, stores: Stores, organization: str) -> None:
        self._stores = stores
        self._organization = organization
        self._lock = threading.RLock()
        self._feeds: dict[str, EventFeed] = {}
        self._wakeups: Wakeups | None = None
        self._recorder: EventRecorder | None = None

    def feed(self, organization: str) -> EventFeed:
        """The feed of an organization's events."""
        with self._lock:
            if organization not in self._feeds:
                from prowess.delivery.feed import EventFeed

                self._feeds[organization] = EventFeed(
                    self._stores.records(), organization, wakeups=self._shared_wakeups()
                )
            return self._feeds[organization]

    def recorder(self) -> EventRecorder:
        """Writes loads down in the background."""
        with self._lock:
            if self._recorder is None:
                from prowess.delivery.recorder import EventRecorder

                self._recorder = EventRecorder(self._stores.records(), self._organization, written=self.wake)
            return self._recorder

    def wake(self, organization: str) -> None:
        """Say that events of an organization were committed; takes no time."""
        with self._lock:
            wakeups = self._shared_wakeups()
        wakeups.tell(organization)

    def close(self) -> None:
        """Write what waits, tell who follows, and end all of it."""
        with self._lock:
            recorder, feeds, wakeups = self._recorder, list(self._feeds.values()), self._wakeups
        if recorder is not None:
            recorder.close()
        for feed in feeds:
            feed.close()
        if wakeups is not None:
            wakeups.close()

    def _shared_wakeups(self) -> Wakeups:
        with self._lock:
            if self._wakeups is None:
                from prowess.delivery.wakeups import open_wakeups

                self._wakeups = open_wakeups(self._stores.records())
            return self._wakeups
