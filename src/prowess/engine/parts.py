"""What every part of the engine is built from, and the one place where blocking work is handed to a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from prowess.catalog.catalog import Catalog
from prowess.catalog.importer import Progress, ProgressCallback
from prowess.catalog.store import Store
from prowess.errors import Refused
from prowess.policy.actor import Actor
from prowess.skill.limits import Limits
from prowess.skill.model import Scope

if TYPE_CHECKING:
    from prowess.engine.search import IndexPlanner
    from prowess.feed.event_feed import EventFeed
    from prowess.feed.event_recorder import EventRecorder
    from prowess.match.matcher import Matcher
    from prowess.policy.approvals import Approvals
    from prowess.policy.audit import Audit
    from prowess.policy.configuration import Policies
    from prowess.policy.organization import OrgPolicy
    from prowess.prompts.registry import Registry
    from prowess.run.runner import Runner
    from prowess.session.activate import Activation
    from prowess.session.admission import Gate
    from prowess.session.load import Loader
    from prowess.session.session import Session
    from prowess.session.sessions import Sessions
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
    feed: Callable[[str], EventFeed]
    """The feed of an organization's events."""
    wake: Callable[[str], None]
    """Tells those who follow an organization that there may be something new."""
    recorder: Callable[[], EventRecorder]
    runner: Callable[[], Runner]
    """Runs the artifacts of skills."""
    registry: Callable[[], Registry]
    """The prompts and rubrics that skills name."""
    build_sandbox: Callable[[Callable[[str], None]], None]
    """Builds the interpreter that scripts run in, where it is missing, and tells how far it is."""
    environment: Mapping[str, str] = field(repr=False)
    """What skills may be given values of."""
    aclose: Callable[[], Awaitable[None]]
    """Lets go of models and workers."""
    close: Callable[[], None]


class Frame:
    """Holds the parts, and whom they work with, each opened when it is first needed.

    Stores and records are plain blocking code; `_blocking` hands their work to a thread.
    """

    def __init__(self, parts: Parts) -> None:
        self.catalog = parts.catalog
        self.actor = parts.actor
        self._parts = parts
        self._limits = parts.limits
        self._opened_matcher: Matcher | None = None
        self._opening = threading.Lock()

    async def _blocking(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(work, *args, **kwargs)

    async def _stoppable(self, work: Callable[[ProgressCallback], T], watch: ProgressCallback) -> T:
        """Work that can be cancelled: it ends at its next step, for which is waited, and what it has kept by then stays."""
        stop = threading.Event()

        def step(progress: Progress) -> None:
            if stop.is_set():
                raise Refused("Stopped.", hint="What was kept by then stays.")
            watch(progress)

        running = asyncio.ensure_future(self._blocking(work, step))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({running})
            with suppress(BaseException):  # whatever it says, the cancellation is what is told
                running.result()
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

    def _policy_of(self, actor: Actor) -> OrgPolicy:
        """What the actor's organization has decided; the defaults where nothing was ever recorded. Blocking."""
        if self._parts.has_records():
            return self._policies.read(actor)
        from prowess.policy.organization import OrgPolicy

        return OrgPolicy()

    @cached_property
    def _sessions(self) -> Sessions:
        from prowess.session.sessions import Sessions

        return Sessions(records=self._parts.records())

    @cached_property
    def _activation(self) -> Activation:
        from prowess.session.activate import Activation

        return Activation(records=self._parts.records(), catalog=self.catalog, wake=self._parts.wake)

    @cached_property
    def _gate(self) -> Gate:
        from prowess.session.admission import Gate

        return Gate(records=self._parts.records(), present=self._parts.has_records, wake=self._parts.wake)

    @cached_property
    def _loading(self) -> Loader:
        from prowess.session.load import Loader

        return Loader(catalog=self.catalog, gate=self._gate)

    @cached_property
    def _approvals(self) -> Approvals:
        from prowess.policy.approvals import Approvals

        return Approvals(self._parts.records(), wake=self._parts.wake)

    @cached_property
    def _policies(self) -> Policies:
        from prowess.policy.configuration import Policies

        return Policies(self._parts.records())

    @cached_property
    def _audit(self) -> Audit:
        from prowess.policy.audit import Audit

        return Audit(self._parts.records())

    @cached_property
    def _planner(self) -> IndexPlanner:
        from prowess.engine.search import IndexPlanner

        return IndexPlanner(matcher=self._matcher, records=self._parts.records, has_records=self._parts.has_records)


def session_key(session: Session | str) -> str:
    """What a session is found by that is given as itself, or by its id or its conversation."""
    return session if isinstance(session, str) else session.id
