"""Open Prowess: build an engine from settings. This is the composition root."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prowess.catalog.catalog import Catalog
from prowess.catalog.scans import Scans
from prowess.engine.context import Resources
from prowess.engine.engine import Engine
from prowess.engine.places import PACKS, find_plugin
from prowess.engine.runtime import RunComponents
from prowess.engine.stores import Stores
from prowess.plugins import working_plugins
from prowess.policy.actor import Actor, local_person
from prowess.settings import Settings, read_settings, real_folders

if TYPE_CHECKING:
    from prowess.feed.event_feed import EventFeed
    from prowess.feed.event_recorder import EventRecorder
    from prowess.feed.wakeups import Wakeups
    from prowess.match.matcher import Matcher
    from prowess.run.call import Call


class Feeds:
    """Event feeds and the load recorder: one feed per organization, all with the same wake-ups."""

    def __init__(self, stores: Stores, organization: str) -> None:
        self._stores = stores
        self._organization = organization
        self._lock = threading.RLock()
        self._feeds: dict[str, EventFeed] = {}
        self._wakeups: Wakeups | None = None
        self._recorder: EventRecorder | None = None

    def feed(self, organization: str) -> EventFeed:
        """Return the event feed of an organization."""
        with self._lock:
            if organization not in self._feeds:
                from prowess.feed.event_feed import EventFeed

                self._feeds[organization] = EventFeed(
                    self._stores.records(), organization, wakeups=self._shared_wakeups()
                )
            return self._feeds[organization]

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
            recorder, feeds, wakeups = self._recorder, list(self._feeds.values()), self._wakeups
        # Not under the lock: while the recorder writes its last events, its thread calls `wake`, which takes the
        # lock.
        if recorder is not None:
            recorder.close()
        for feed in feeds:
            feed.close()
        if wakeups is not None:
            wakeups.close()

    def _shared_wakeups(self) -> Wakeups:
        with self._lock:
            if self._wakeups is None:
                from prowess.feed.wakeups import open_wakeups

                self._wakeups = open_wakeups(self._stores.records())
            return self._wakeups


class Prowess(Engine):
    """The engine, opened for a workspace."""

    @classmethod
    def open(
        cls,
        workspace: str | Path | None = None,
        *,
        settings: Settings | None = None,
        actor: Actor | None = None,
        channel: str = "library",
        trusted_folders: Sequence[str | Path] = (),
    ) -> Self:
        """Open Prowess with the settings of the environment. Opening writes nothing.

        `actor` defaults to the person at this machine. `channel` is recorded with everything that this person does.
        Skills in `trusted_folders` count as accepted. Pass only folders that ship with the application, never one that
        others can write to.
        """
        chosen = settings or read_settings(workspace=workspace)
        stores = Stores(replace(chosen, trusted_folders=(*chosen.trusted_folders, *real_folders(trusted_folders))))
        who = actor or local_person(_local_name(), channel=channel)
        feeds = Feeds(stores, who.organization)
        # A lambda, because components and resources need each other; `resources` is defined below.
        components = RunComponents(stores, lambda organization: resources(organization).catalog, feeds.recorder)

        def close() -> None:
            # Traces and events that are still pending go into the databases, so those are closed last.
            components.close()
            feeds.close()
            stores.close()

        lock = threading.Lock()
        opened: dict[str, Resources] = {}

        def resources(organization: str) -> Resources:
            with lock:
                if organization not in opened:
                    opened[organization] = make_resources(organization)
                return opened[organization]

        def make_resources(organization: str) -> Resources:
            own = stores.of(organization)
            matched = Catalog(own.matched, strict=stores.settings.strict)

            def open_matcher() -> Matcher:
                from prowess.engine.matcher import make_matcher

                return make_matcher(stores.settings, lambda: matched, own, organization=organization)

            return Resources(
                of=resources,
                catalog=Catalog(own.present, Scans(stores.scan_folder), strict=stores.settings.strict),
                limits=stores.limits,
                packs=PACKS,
                plugin_of=find_plugin,
                plugin_packs=tuple(pack for plugin in working_plugins() for pack in plugin.packs),
                writable=own.writable,
                open_matcher=open_matcher,
                records=stores.records,
                records_url=stores.settings.account_database,
                has_records=stores.has_records,
                snapshot=stores.snapshot,
                release=stores.release,
                feed=feeds.feed,
                wake=feeds.wake,
                recorder=feeds.recorder,
                runner=lambda: components.runner(organization),
                registry=lambda: components.registry(organization),
                render=components.render,
                build_sandbox=components.sandboxes.build,
                workspace=stores.settings.workspace,
                user_home=stores.settings.user_home,
                trusted_folders=stores.settings.trusted_folders,
                environment=stores.settings.environment,
                aclose=components.aclose,
                close=close,
            )

        engine = cls(resources(who.organization), who)

        async def run_skill(call: Call, slug: str, inputs: Mapping[str, Any]) -> Any:
            return await engine.as_actor(call.actor).runs.run_for_script(call, slug, inputs)

        # Set last: it needs the engine, which needs the components.
        components.run_skill = run_skill
        return engine


def _local_name() -> str:
    """Return the name of the person at this machine."""
    try:
        return getpass.getuser()
    # In a container, the user may have no entry in the password database.
    except (OSError, KeyError, ImportError):
        return "me"
