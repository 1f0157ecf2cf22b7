"""Writers of one process take turns at a SQLite file.

SQLite lets waiting writers try again at random, so that among many threads some are passed over until their time is up.
"""

from __future__ import annotations

import os
import threading
import weakref
from time import monotonic

from prowess.errors import Unavailable

PATIENCE = 60.0
"""How many seconds a writer waits for those before it in this process."""

LONG = 5.0
"""A writer that waited so long, while the one before it waited for another program in vain, does not begin to wait anew."""


class Turns:
    """A lock that is given up on after a while; a forked child begins with a free one. A thread may hold it twice."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._refused = False
        _every.add(self)

    def __enter__(self) -> None:
        began = monotonic()
        if not self._lock.acquire(timeout=PATIENCE):
            raise Unavailable(
                f"Other writers of this process did not let go of the database for {PATIENCE:.0f} seconds.",
                hint="Try again when there is less to do.",
            )
        if self._refused and monotonic() > began + LONG:
            self._lock.release()
            raise Unavailable(
                "The database is locked by another program.", hint="Let the other one finish, then try again."
            )

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        cause = str(getattr(getattr(error, "orig", error), "sqlite_errorname", ""))
        self._refused = cause.startswith("SQLITE_BUSY")
        self._lock.release()

    def renew(self) -> None:
        """Begin anew, whoever held it."""
        self._lock = threading.RLock()


_every: weakref.WeakSet[Turns] = weakref.WeakSet()


def _renew_all() -> None:
    """Those who held a lock in the parent are not there in a forked child."""
    for turns in _every:
        turns.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
