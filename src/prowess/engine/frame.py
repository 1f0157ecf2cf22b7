"""What every part of the engine stands on, and the one place where blocking work is handed to a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from prowess.catalog.catalog import Catalog
from prowess.catalog.intake import Progress, Watch
from prowess.catalog.store import Store
from prowess.errors import Refused
from prowess.policy.actor import Actor
from prowess.skill.limits import Limits
from prowess.skill.model import Scope

if TYPE_CHECKING:
    from prowess.delivery.feed import EventFeed
    from prowess.delivery.recorder import LoadRecorder
    from prowess.match.matcher import Matcher
    from prowess.storage.database import Connections

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is made of. What takes long to open is opened when it is first needed."""

    catalog: Catalog
    limits: Limits
    packs: Path
    """The skills that come with Prowess."""
    actor: Actor
    writable: Callable[[Scope], Store]
    matcher: Callable[[], Matcher]
    records: Callable[[], Connections]
    """The database of sessions, approvals, events and the audit."""
    has_records: Callable[[], bool]
    feed: Callable[[], EventFeed]
    recorder: Callable[[], LoadRecorder]
    close: Callable[[], None]


class Frame:
    """Holds the parts. Stores and records are plain blocking code; `_blocking` hands their work to a thread."""

    def __init__(self, parts: Parts) -> None:
        self.catalog = parts.catalog
        self.actor = parts.actor
        self._parts = parts
        self._limits = parts.limits
        self._opened_matcher: Matcher | None = None
        self._opening = threading.Lock()

    async def _blocking(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(work, *args, **kwargs)

    async def _stoppable(self, work: Callable[[Watch], T], watch: Watch) -> T:
        """Work that can be cancelled: it ends at its next step, and what it has kept by then stays."""
        stop = threading.Event()

        def step(progress: Progress) -> None:
            if stop.is_set():
                raise Refused("Stopped.", hint="What was kept by then stays.")
            watch(progress)

        try:
            return await self._blocking(work, step)
        except asyncio.CancelledError:
            stop.set()
            raise

    def _matcher(self) -> Matcher:
        with self._opening:
            if self._opened_matcher is None:
                self._opened_matcher = self._parts.matcher()
            return self._opened_matcher

    def _changed(self) -> None:
        """Let the next match see what was just written."""
        if self._opened_matcher is not None:
            self._opened_matcher.look_again()
