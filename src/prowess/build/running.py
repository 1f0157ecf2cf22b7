"""What runs skills: models, templates, registries, handlers and traces, each opened when it is first used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from prowess.build.sandboxes import Sandboxes
from prowess.build.stores import Stores
from prowess.catalog.catalog import Catalog
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.delivery.recorder import EventRecorder
    from prowess.engine.granting import RunGrants
    from prowess.handlers.host_module import RunSkill
    from prowess.llm.models import Models
    from prowess.redaction.redactor import Redactor
    from prowess.run.asking import Asker
    from prowess.run.handler import Handler
    from prowess.run.runner import Runner
    from prowess.run.spending import Caps
    from prowess.run.telemetry import Telemetry
    from prowess.skill.kinds import Kind
    from prowess.skill.model import Skill
    from prowess.templates.registry import Registry
    from prowess.templates.rendering import WorkerRenderer
    from prowess.traces.recorder import TraceRecorder


_TIDY_SECONDS = 3_600.0
_CLOSE_SECONDS = 1.0


class Workshop:
    """Everything that a run needs, made once."""

    def __init__(self, stores: Stores, catalog: Catalog, recorder: Callable[[], EventRecorder]) -> None:
        self._stores = stores
        self._settings = stores.settings
        self._catalog = catalog
        self._recorder = recorder
        self._lock = threading.RLock()
        self.sandboxes = Sandboxes(stores.settings)
        self.run_skill: RunSkill | None = None
        """How a script runs another skill."""
        self._opened_traces: TraceRecorder | None = None
        self._tidying: threading.Thread | None = None
        self._tidying_ended = threading.Event()
        self._tidy_again = 0.0

    @cached_property
    def runner(self) -> Runner:
        """Runs skills."""
        from prowess.run.allowance import DEFAULT_SECONDS
        from prowess.run.asking import Asker
        from prowess.run.assertions.runner import AssertionRunner
        from prowess.run.dispatch import Dispatcher
        from prowess.run.runner import Runner
        from prowess.run.spending import Spending

        spending = Spending(records=self._stores.records, caps=self._caps)
        asker = Asker(self.models, spending, self._telemetry)
        dispatcher = Dispatcher(
            self._handlers(asker),
            assertions=AssertionRunner(asker),
            traces=self.traces,
            announce=lambda news: self._recorder().record(news),
            redactor=self._redactor,
            telemetry=self._telemetry,
        )
        return Runner(dispatcher, seconds=self._settings.run_seconds or DEFAULT_SECONDS)

    @cached_property
    def models(self) -> Models:
        """The models that can be asked."""
        from prowess.build.models import model_config
        from prowess.llm.models import Models

        return Models(model_config(self._settings))

    @cached_property
    def registry(self) -> Registry:
        """Prompts and rubrics by id and version."""
        from prowess.build.registering import registry_of

        return registry_of(self._stores, self._catalog)

    def traces(self) -> TraceRecorder:
        """Writes traces; every hour or so, rows that another process left open are closed and old ones removed."""
        with self._lock:
            if self._opened_traces is None:
                from prowess.traces.recorder import TraceRecorder

                self._opened_traces = TraceRecorder(self._stores.records(), self._redactor)
            if monotonic() >= self._tidy_again:
                self._tidy_again = monotonic() + _TIDY_SECONDS
                self._tidy()
            return self._opened_traces

    async def aclose(self) -> None:
        """Let go of models and workers, and send the spans that wait."""
        opened = vars(self)
        if "_renderer" in opened:
            await self._renderer.close()
        if "models" in opened:
            await self.models.close()
        await self.sandboxes.aclose()
        if "_telemetry" in opened:
            await asyncio.to_thread(self._telemetry.close)

    def close(self) -> None:
        """Write the traces that wait."""
        with self._lock:
            self._tidying_ended.set()
            if self._tidying is not None:
                self._tidying.join(_CLOSE_SECONDS)
            if self._opened_traces is not None:
                self._opened_traces.close()

    @cached_property
    def _renderer(self) -> WorkerRenderer:
        from prowess.templates.rendering import WorkerRenderer

        return WorkerRenderer()

    @cached_property
    def _redactor(self) -> Redactor:
        from prowess.redaction.environment import secrets_in
        from prowess.redaction.redactor import Redactor

        settings = self._settings
        own = [key for key in (settings.model_key, settings.embedder_key) if key]
        return Redactor([*secrets_in({**settings.environment, "DATABASE_URL": settings.database_url}), *own])

    @cached_property
    def _telemetry(self) -> Telemetry:
        from prowess.run.telemetry import open_telemetry

        return open_telemetry(self._settings.environment, self._redactor, on=self._settings.telemetry)

    def _handlers(self, asker: Asker) -> dict[Kind, Handler]:
        from prowess.handlers.host_module import HostModule
        from prowess.handlers.table import handlers_of
        from prowess.plugins import plugins
        from prowess.run.checkpoints import Checkpoints
        from prowess.workspace.workspace import Workspace

        return handlers_of(
            asker=asker,
            renderer=self._renderer,
            registry=self.registry.without_other_skills(),
            sandboxes=self.sandboxes.by_runtime,
            commands=self.sandboxes.commands,
            outbound=self.sandboxes.outbound,
            grants_of=self._grants.of,
            provision=self.sandboxes.provision,
            host=HostModule(asker, Workspace(self._settings.workspace), self.run_skill),
            checkpoints=Checkpoints(self._stores.records, self._redactor),
            read_file=self._read_file,
            files=self._files,
            brought=[handler for plugin in plugins() for handler in plugin.handlers],
        )

    async def _read_file(self, skill: Skill, path: str) -> bytes:
        """A file of exactly the skill that is run."""
        from prowess.session.load import file_of
        from prowess.skill.outline import Outline

        def read() -> bytes:
            store, _ = self._catalog.find_outline(f"{skill.scope}:{skill.slug}")
            return file_of(store, Outline.of(skill), path)

        return await asyncio.to_thread(read)

    async def _files(self, skill: Skill) -> Mapping[str, bytes]:
        """Every file of exactly the skill that is run."""
        from prowess.errors import Conflict

        def read() -> Mapping[str, bytes]:
            store, found = self._catalog.find(f"{skill.scope}:{skill.slug}")
            package = store.get_package(found.id)
            if package is None or package.digest != skill.digest:
                raise Conflict(f"The skill {skill.slug!r} is being changed.", hint="Run it again.")
            return {file.path: file.content for file in package.files}

        return await asyncio.to_thread(read)

    @cached_property
    def _grants(self) -> RunGrants:
        from prowess.engine.granting import RunGrants

        places = self._stores.places
        return RunGrants(
            records=self._stores.records,
            has_records=self._stores.has_records,
            environment=self._settings.environment,
            workspace=self._settings.workspace,
            closed=places.kept,
            hidden=[places.kept_in_workspace],
            skills=lambda: [Path(place.address) for place in places.present() if place.kind == "folder"],
        )

    def _caps(self, actor: Actor) -> Caps:
        from prowess.policy.policies import read_policy
        from prowess.run.spending import Caps

        with self._stores.records().read() as connection:
            policy = read_policy(connection, actor.organization)
        return Caps(per_session=policy.spend_per_session_usd, per_day=policy.spend_per_day_usd)

    def _tidy(self) -> None:
        """Close what was interrupted and remove what is old, beside whatever else goes on."""
        from prowess.traces.retention import DAYS
        from prowess.traces.tidying import tidy

        days = self._settings.trace_days or DAYS
        self._tidying = threading.Thread(
            target=tidy,
            args=(self._stores.records(), days, self._tidying_ended),
            name="prowess-traces-tidy",
            daemon=True,
        )
        self._tidying.start()
