"""Notice that files in skill folders have changed, and publish it to those who follow the events.

People edit skills with other programs, which publish nothing. Everything that Prowess itself stores is published where it
is stored.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import NoReturn

from prowess.catalog.directory_store import DirectoryStore
from prowess.engine.context import Context
from prowess.errors import ProwessError
from prowess.storage.files.freshness import fingerprint_folders, first_difference
from prowess.storage.ledger import append, catalog_events
from prowess.threads import offload

LOOK_SECONDS = 2.0
"""How often folders are looked at, at most."""
_SHARE = 50
"""Looking takes at most 1/50 of the time of one processor: large folders are looked at less often."""


class FolderWatch:
    """Watches the skill folders of a server, with one `lstat` for each file, and only while someone follows the events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._roots: list[str] = []
        self._known = b""

    async def run(self) -> NoReturn:
        """Look again and again, until cancelled."""
        feed = self._context.resources.feed(self._context.actor.organization)
        while True:
            began = time.perf_counter()
            if feed.is_followed:
                # A database that is away for a while must not end the watch. What changed in the meantime is published later.
                with suppress(ProwessError):
                    await offload(self.look)
            await asyncio.sleep(max(LOOK_SECONDS, _SHARE * (time.perf_counter() - began)))

    def look(self) -> bool:
        """Publish a change since the last look, and return True if there was one. Blocking."""
        stores = self._context.resources.catalog.stores()
        roots = [store.location for store in stores if isinstance(store, DirectoryStore) and store.scope != "system"]
        if roots == self._roots and self._known and first_difference(self._known) is None:
            return False
        now = fingerprint_folders(roots)
        # Empty while files are being written. They are looked at again when that is over.
        if not now or now == self._known:
            return False
        is_first, self._roots, self._known = not self._known, roots, now
        if is_first:
            return False
        resources, organization = self._context.resources, self._context.actor.organization
        with resources.records().write() as connection:
            append(connection, organization, events=catalog_events("folder", 1))
        resources.wake(organization)
        return True
