"""Prowess for scripts and notebooks, without `await`.

    from prowess.sync import Prowess

    with Prowess.open(workspace=".") as prowess:
        print(prowess.match("are there contradictions in my notes?"))

The API is the same as `prowess.Prowess`. Calls run on an event loop in a separate thread, so this also works where a loop is
already running, as in a notebook. Asynchronous iterators become iterators. `sync.pyi` has the
types; `scripts/sync_stub.py` generates it from the asynchronous classes.
"""

from __future__ import annotations

from typing import Any, Self

from prowess.blocking import BlockingProxy, BlockingResource, LoopThread
from prowess.errors import Invalid
from prowess.open import NOT_OPENED
from prowess.open import Prowess as AsyncProwess
from prowess.tools.toolbox import Toolbox as AsyncToolbox


class Prowess(BlockingResource):
    """Prowess without `await`. Open it with `open`, as a context manager."""

    def __init__(self, *given: Any, **named: Any) -> None:
        if named or len(given) != 2 or not isinstance(given[0], AsyncProwess):
            raise Invalid(NOT_OPENED, hint="Use `with Prowess.open(…) as prowess:`.")
        super().__init__(*given)

    @classmethod
    def open(cls, *args: Any, **kwargs: Any) -> Self:
        """Open Prowess as `prowess.Prowess.open` does."""
        return cls(AsyncProwess.open(*args, **kwargs), LoopThread())

    def as_actor(self, *args: Any, **kwargs: Any) -> Self:
        """Return this engine for another actor."""
        return type(self)(self._target.as_actor(*args, **kwargs), self._loop)


class Toolbox(BlockingProxy):
    """The tools of one agent, without `await`."""

    def __init__(self, prowess: Prowess, **options: Any) -> None:
        # Both are proxies of this module, over the same loop.
        super().__init__(AsyncToolbox(prowess._target, **options), prowess._loop)  # noqa: SLF001
