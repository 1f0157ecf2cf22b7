"""How a run finds what it is given of what its skill asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prowess.policy.grants import Grants
from prowess.run.call import Call

__all__ = ["Grants", "GrantsOf"]

GrantsOf = Callable[[Call], Awaitable[Grants]]
"""Finds what a call is given."""
