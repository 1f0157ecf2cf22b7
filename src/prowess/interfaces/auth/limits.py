"""Limits of requests per minute, counted in this process.

A counter of our own, because the in-memory storage of the library `limits` starts a thread for every request that it counts.
"""

from __future__ import annotations

import ipaddress
import math
import time

from prowess.interfaces.auth.refusal import Refusal, retry_later
from prowess.shares import groups_of

REQUESTS_PER_MINUTE = 30_000
"""The default for each caller. All callers of a user together may send twice as many: everyone can create more tokens."""
ANONYMOUS_PER_MINUTE = 600
"""Requests without a token, for each address."""
FAILURES_PER_MINUTE = 60
"""Requests with a wrong token, for each address. Tokens cannot be guessed; this saves the database the work."""
SIGN_INS_PER_MINUTE = 10
"""Attempts to sign in, for each address."""
_WINDOW_SECONDS = 60.0
_MAX_COUNTERS = 50_000
"""How many callers and addresses are counted at once. Beyond that, those of past minutes are forgotten early."""


class SlidingWindow:
    """Counts the hits of keys in this minute and the one before, which counts in proportion to what is left of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._window = 0
        self._hits: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def hit(self, key: str) -> float:
        """Count a hit and return 0; if there were too many, return how many seconds to wait instead."""
        window, passed = divmod(time.monotonic(), _WINDOW_SECONDS)
        if window != self._window:
            self._before = self._hits if window == self._window + 1 else {}
            self._hits = {}
            self._window = int(window)
        hits = self._hits.get(key, 0)
        rest = 1.0 - passed / _WINDOW_SECONDS
        if hits + self._before.get(key, 0) * rest >= self._limit:
            return _WINDOW_SECONDS - passed
        if hits == 0 and len(self._hits) + len(self._before) >= _MAX_COUNTERS:
            self._before = {}
        self._hits[key] = hits + 1
        return 0.0


class RateLimits:
    """Count requests in this process, per caller if there is one, otherwise per address."""

    def __init__(self, requests_per_minute: int = REQUESTS_PER_MINUTE) -> None:
        self._windows = {
            "caller": SlidingWindow(requests_per_minute),
            "user": SlidingWindow(2 * requests_per_minute),
            "anonymous": SlidingWindow(ANONYMOUS_PER_MINUTE),
            "failure": SlidingWindow(FAILURES_PER_MINUTE),
            "sign-in": SlidingWindow(SIGN_INS_PER_MINUTE),
        }

    def of_caller(self, key: str) -> Refusal | None:
        """Count a request of a caller. Return a refusal if there were too many, also of all callers of its user."""
        hint = "Raise PROWESS_REQUESTS_PER_MINUTE, or send fewer requests."
        user, _ = groups_of(key)[-2:][0]  # or the caller, if it has none
        return self._count("caller", key, hint) or self._count("user", user, hint)

    def of_address(self, kind: str, address: str) -> Refusal | None:
        """Count a request of an address: `anonymous`, `failure` or `sign-in`. Return a refusal if there were too many."""
        return self._count(kind, _network(address), "Wait before the next attempt.")

    def _count(self, kind: str, key: str, hint: str) -> Refusal | None:
        wait = self._windows[kind].hit(key)
        if not wait:
            return None
        return retry_later(429, "too-many-requests", "Too many requests.", math.ceil(wait), hint=hint)


def _network(address: str) -> str:
    """Return the part of an address that its owner cannot choose freely: of IPv6, the first half."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
