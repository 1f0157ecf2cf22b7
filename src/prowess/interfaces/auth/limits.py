"""Limits of requests per minute. The extra `server` brings the library."""

from __future__ import annotations

import ipaddress
import math
import time

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from prowess.interfaces.auth.refusal import Refusal, retry_later

REQUESTS_PER_MINUTE = 30_000
"""The default for each caller."""
ANONYMOUS_PER_MINUTE = 600
"""Requests without a token, for each address."""
FAILURES_PER_MINUTE = 60
"""Requests with a wrong token, for each address. Tokens cannot be guessed; this saves the database the work."""
SIGN_INS_PER_MINUTE = 10
"""Attempts to sign in, for each address."""


class RateLimits:
    """Count requests in this process, per caller if there is one, otherwise per address."""

    def __init__(self, requests_per_minute: int = REQUESTS_PER_MINUTE) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._items: dict[str, RateLimitItem] = {
            "caller": RateLimitItemPerMinute(requests_per_minute, namespace="caller"),
            "anonymous": RateLimitItemPerMinute(ANONYMOUS_PER_MINUTE, namespace="anonymous"),
            "failure": RateLimitItemPerMinute(FAILURES_PER_MINUTE, namespace="failure"),
            "sign-in": RateLimitItemPerMinute(SIGN_INS_PER_MINUTE, namespace="sign-in"),
        }

    def of_caller(self, key: str) -> Refusal | None:
        """Count a request of a caller. Return a refusal if there were too many."""
        return self._count("caller", key, "Raise PROWESS_REQUESTS_PER_MINUTE, or send fewer requests.")

    def of_address(self, kind: str, address: str) -> Refusal | None:
        """Count a request of an address: `anonymous`, `failure` or `sign-in`. Return a refusal if there were too many."""
        return self._count(kind, _network(address), "Wait before the next attempt.")

    def _count(self, kind: str, key: str, hint: str) -> Refusal | None:
        item = self._items[kind]
        if self._limiter.hit(item, key):
            return None
        wait = self._limiter.get_window_stats(item, key).reset_time - time.time()
        return retry_later(429, "too-many-requests", "Too many requests.", math.ceil(wait), hint=hint)


def _network(address: str) -> str:
    """Return the part of an address that its owner cannot choose freely: of IPv6, the first half."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
