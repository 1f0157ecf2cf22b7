"""Open Prowess: build an engine from settings. This is the composition root."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from prowess.catalog.catalog import Catalog
from prowess.catalog.scans import Scans
from prowess.engine.answers import RecentAnswers
from prowess.engine.context import MarketplaceSettings, Resources
from prowess.engine.engine import Engine
from prowess.engine.places import PACKS, find_plugin
from prowess.engine.runtime import RunComponents, make_registry_settings
from prowess.engine.stores import Stores
from prowess.engine.tenants import MAX_RESOURCES, Listings, Matchers, OnDemand, RecentlyUsed
from prowess.errors import Invalid, ProwessError
from prowess.plugins import working_plugins
from prowess.policy.actor import Actor, local_name, local_person
from prowess.settings import Settings, read_settings, real_folders
from prowess.storage.database_url import sqlite_path
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.agent.agent import Agent
    from prowess.agent.parts import AgentParts
    from prowess.authoring.compose.composer import Composer
    from prowess.authoring.evals.evals import Evals
    from prowess.authoring.optimize.optimizations import Optimizations
    from prowess.connectors.connectors import Connectors
    from prowess.connectors.pool import Pool
    from prowess.feed.event_feed import EventFeed
    from prowess.feed.event_recorder import EventRecorder
    from prowess.feed.metrics import Metrics
    from prowess.feed.wakeups import Wakeups
    from prowess.handlers.host_functions import SkillCalls
    from prowess.jobs.jobs import Jobs
    from prowess.jobs.worker import JobWorker
    from prowess.sidecar.protocol import Sidecar
    from prowess.sources.fetch import Fetcher
    from prowess.sources.fetch_context import FetchContext
    from prowess.sources.fetched import Fetched, SourceState
    from prowess.sources.reference import SourceReference


_WATCH_SECONDS = 60.0
_WATCH_RUNS = 5
"""A skill that is watched is looked at once in so many runs of a process."""
_MAX_FEEDS = 1_000
_MAX_METRICS = 64
"""How many organizations have their counts kept. Those of another one are counted from the start when they are asked for."""


NOT_OPENED = "`Prowess(…)` opens nothing."


class Feeds:
    """Event feeds and the load recorder: one feed per organization, all with the same wake-ups."""

    def __init__(self, stores: Stores, organization: str) -> None:
        self._stores = stores
        self._organization = organization
        self._lock = threading.RLock()
        # A feed that was dropped may get a subscriber who already held it, so all are closed in the end.
        self._opened_feeds: WeakSet[EventFeed] = WeakSet()
        self._feeds = RecentlyUsed(self._open_feed, _MAX_FEEDS, in_use=lambda feed: feed.is_followed)
        self._metrics = RecentlyUsed(self._open_metrics, _MAX_METRICS)
        self._wakeups: Wakeups | None = None
        self._recorder: EventRecorder | None = None

    def feed(self, organization: str) -> EventFeed:
        """Return the event feed of an organization."""
        return self._feeds[organization]

    def metrics(self, organization: str) -> Metrics:
        """Return the metrics of an organization. They are kept, so that only new events are counted next time."""
        return self._metrics[organization]

    def recorder(self) -> EventRecorder:
        """Return the recorder that writes loads in the background."""
        with self._lock:
            if self._recorder is None:
                from prowess.feed.event_recorder import EventRecorder

                self._recorder = EventRecorder(self._stores.records(), self._organization, written=self.wake)
            return self._recorder

    def wake(self, organization: str) -> None:
        """Notify subscribers that events of an organization were committed. Returns at once."""
        with self._lock:
            wakeups = self._shared_wakeups()
        wakeups.tell(organization)

    def close(self) -> None:
        """Write pending events, notify subscribers, and stop everything."""
        with self._lock:
            recorder, feeds, wakeups = self._recorder, list(self._opened_feeds), self._wakeups
        # Not under the lock: while the recorder writes its last events, its thread calls `wake`, which takes the
        # lock.
        if recorder is not None:
            recorder.close()
        for feed in feeds:
            feed.close()
        if wakeups is not None:
            wakeups.close()

    def _open_feed(self, organization: str) -> EventFeed:
        from prowess.feed.event_feed import EventFeed

        feed = EventFeed(self._stores.records(), organization, wakeups=self._shared_wakeups())
        self._opened_feeds.add(feed)
        return feed

    def _open_metrics(self, organization: str) -> Metrics:
        from prowess.feed.metrics import Metrics

        return Metrics(self._stores.records(), organization)

    def _shared_wakeups(self) -> Wakeups:
        with self._lock:
            if self._wakeups is None:
                from prowess.feed.wakeups import open_wakeups

                self._wakeups = open_wakeups(self._stores.records())
            return self._wakeups


class LiveWatch:
    """Looks at approved optimizations when a skill has run, so that one that does worse is rolled back without a worker.

    Which skills are watched is read once a minute. A skill that is not costs nothing else.
    """

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._watched: frozenset[tuple[str, str]] = frozenset()
        self._read_again = 0.0
        self._runs: Counter[tuple[str, str]] = Counter()

    async def notice(self, organization: str, skill: str) -> None:
        """Note a live run whose output was checked. Never raises."""
        from prowess.storage import watched

        def read() -> frozenset[tuple[str, str]]:
            with self._engine().context.resources.records().read() as connection:
                return watched.list_watched_skills(connection)

        try:
            if monotonic() >= self._read_again:
                self._read_again = monotonic() + _WATCH_SECONDS
                self._watched = await offload(read)
            key = (organization, skill)
            if key not in self._watched:
                return
            self._runs[key] += 1
            # Also after the first: the process of a command has no other.
            if self._runs[key] % _WATCH_RUNS == 1:
                from prowess.authoring.optimize.watch import watch_approved

                await watch_approved(self._engine(), organization=organization, skill=skill)
        except ProwessError as error:
            import logging  # only here, as in `plugins`

            logging.getLogger(__name__).warning("The live runs of %s could not be compared: %s", skill, error.message)


class Prowess(Engine):
    """The engine, opened for a workspace."""

    # Shared by the engines of all actors: the worker for jobs, and what the application set for conversations.
    _worker: OnDemand[JobWorker]
    _agent_parts: OnDemand[AgentParts]

    def __init__(self, *given: Any, **named: Any) -> None:
        if named or len(given) != 2 or not isinstance(given[0], Resources):
            raise Invalid(NOT_OPENED, hint="Use `async with Prowess.open(…) as prowess:`.")
        super().__init__(*given)

    @cached_property
    def jobs(self) -> Jobs:
        """Start, list, cancel and retry durable jobs. Needs the extra `jobs` for everything that starts one."""
        from prowess.jobs.jobs import Jobs

        return Jobs(self, self._context, self._worker.find())

    @cached_property
    def agent(self) -> Agent:
        """Have conversations with a model that finds, enables and uses skills."""
        from prowess.agent.agent import Agent

        return Agent(self, self._agent_parts.find())

    @cached_property
    def evals(self) -> Evals:
        """Run, list and compare evaluations of skills, and read their scores."""
        from prowess.authoring.evals.evals import Evals

        return Evals(self._context)

    @cached_property
    def compose(self) -> Composer:
        """Draft skills with a model, refine them in words, and save what a person approves."""
        from prowess.authoring.compose.composer import Composer

        return Composer(self._context)

    @cached_property
    def connectors(self) -> Connectors:
        """Configure MCP servers, and call their tools. Needs the extra `mcp` for everything that opens one."""
        from prowess.connectors.connectors import Connectors

        return Connectors(self._context)

    @cached_property
    def optimize(self) -> Optimizations:
        """Optimize skills, test candidates on held-out cases, and decide about proposals."""
        from prowess.authoring.optimize.optimizations import Optimizations

        return Optimizations(self)

    def as_actor(
        self,
        actor: Actor | None = None,
        *,
        organization: str | None = None,
        user: str | None = None,
        role: str | None = None,
        channel: str | None = None,
    ) -> Self:
        """Return this engine for another actor; see `Engine.as_actor`."""
        other = super().as_actor(actor, organization=organization, user=user, role=role, channel=channel)
        other._worker, other._agent_parts = self._worker, self._agent_parts  # noqa: SLF001  (of this class, too)
        return other

    @classmethod
    def open(
        cls,
        workspace: str | Path | None = None,
        *,
        settings: Settings | None = None,
        actor: Actor | None = None,
        channel: str = "library",
        trusted_folders: Sequence[str | Path] = (),
        fetcher: Fetcher | None = None,
        sidecar: Sidecar | None = None,
    ) -> Self:
        """Open Prowess with the settings of the environment. Opening writes nothing.

        `actor` defaults to the person at this machine. `channel` is recorded with everything that this person does.
        Skills in `trusted_folders` count as accepted. Pass only folders that ship with the application, never one that
        others can write to. `fetcher` replaces fetching sources over the network, and `sidecar` replaces the
        DSPy sidecar's process; it is closed with this engine.
        """
        chosen = settings or read_settings(workspace=workspace)
        stores = Stores(replace(chosen, trusted_folders=(*chosen.trusted_folders, *real_folders(trusted_folders))))
        who = actor or local_person(local_name(), channel=channel)
        feeds = Feeds(stores, who.organization)
        components = RunComponents(stores, feeds.recorder, sidecar)
        scans = Scans(stores.scan_folder)
        answers = RecentAnswers(sqlite_path(stores.settings.account_database))
        listings = Listings(stores, scans, answers)
        matchers = Matchers(stores, answers, listings)

        def make_worker() -> JobWorker:
            from prowess.jobs.worker import JobWorker

            def redact(value: Any) -> Any:
                # The runner is expensive to make, and not needed to look at jobs.
                return opened[who.organization, who.user].runner.redact(value)

            return JobWorker(
                lambda: engine,
                records=stores.records,
                wake=feeds.wake,
                redact=redact,
                url=stores.settings.account_database,
                workspace=stores.settings.workspace,
            )

        worker, pool, closed = OnDemand(make_worker), OnDemand(_make_pool), threading.Event()
        live_watch = LiveWatch(lambda: engine)

        def close() -> None:
            # Traces and events that are still pending go into the databases, so those are closed last.
            if pool.made is not None:
                pool.made.close()
            components.close()
            feeds.close()
            answers.close()
            stores.close()
            closed.set()

        async def aclose() -> None:
            # Jobs use everything else, so they end first.
            if worker.made is not None:
                await worker.made.close()
            if pool.made is not None:
                await pool.made.aclose()
            await components.aclose()

        def make_resources(key: tuple[str, str]) -> Resources:
            own = stores.of(*key)
            return Resources(
                of=lambda organization, user: opened[organization, user],
                catalog=Catalog(own.present, scans, strict=stores.settings.strict, emptied=own.emptied),
                limits=stores.limits,
                packs=stores.places.packs,
                plugin_of=find_plugin,
                plugin_packs=tuple(pack for plugin in working_plugins() for pack in plugin.packs),
                writable=own.writable,
                find_matcher=lambda: matchers.find(own),
                find_lists=lambda: listings.find(own),
                answers=answers,
                mark_changed=matchers.mark_changed,
                records=stores.records,
                records_url=stores.settings.account_database,
                has_records=stores.has_records,
                unopened_records=stores.unopened_records,
                snapshot=stores.snapshot,
                release=stores.release,
                feed=feeds.feed,
                wake=feeds.wake,
                recorder=feeds.recorder,
                metrics=feeds.metrics,
                build_runner=components.build_runner,
                model_client=lambda: components.model_client,
                traces=components.traces,
                open_registry=components.open_registry,
                render=components.render,
                fetch_source=fetcher or _fetch,
                sandbox=lambda: components.sandboxes.wasm,
                build_sandbox=components.sandboxes.build,
                sidecar=lambda: components.sidecar,
                after_checked_run=live_watch.notice,
                install_sidecar=components.prepare_sidecar,
                fetch_context=components.fetch_context,
                marketplace=_read_marketplace(stores.settings),
                workspace=stores.settings.workspace,
                home=stores.settings.home,
                user_home=stores.settings.user_home,
                trusted_folders=stores.settings.trusted_folders,
                environment=stores.settings.environment,
                registries=lambda: make_registry_settings(stores.settings, stores.limits),
                connector_pool=pool.find,
                clean_up=components.clean_up,
                aclose=aclose,
                close=close,
                is_closed=closed.is_set,
            )

        opened = RecentlyUsed(make_resources, MAX_RESOURCES)
        engine = cls(opened[who.organization, who.user], who)

        # Set last: it needs the engine, which needs the components.
        components.skill_calls = lambda: _make_skill_calls(engine)
        engine._worker, engine._agent_parts = worker, OnDemand(_make_agent_parts)
        return engine


def _make_skill_calls(engine: Prowess) -> SkillCalls:
    from prowess.engine.runs import make_skill_calls

    return make_skill_calls(engine.as_actor)


def _make_pool() -> Pool:
    from prowess.connectors.pool import Pool

    return Pool()


def _make_agent_parts() -> AgentParts:
    from prowess.agent.parts import AgentParts

    return AgentParts()


async def _fetch(reference: SourceReference, context: FetchContext, last: SourceState | None = None) -> Fetched:
    from prowess.sources.fetch import fetch  # only where something is fetched

    return await fetch(reference, context, last)


def _read_marketplace(settings: Settings) -> MarketplaceSettings:
    return MarketplaceSettings(
        url=settings.registry_url,
        key=settings.registry_key,
        token=settings.registry_token,
        system_url=settings.system_registry_url,
        system_key=settings.system_registry_key,
        home=settings.home,
        bundled=PACKS,
    )
