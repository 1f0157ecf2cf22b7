"""Everything a run needs: models, sandboxes, handlers and traces, each opened when it is first used."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from prowess.catalog.catalog import Catalog
from prowess.engine.sandboxes import Sandboxes
from prowess.engine.stores import Stores
from prowess.errors import Conflict, ProwessError
from prowess.settings import FOLDER, Settings
from prowess.skill.outline import SkillOutline
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.feed.event_recorder import EventRecorder
    from prowess.handlers.host_functions import SkillCalls
    from prowess.llm.model import ModelConfig
    from prowess.llm.models import Models
    from prowess.policy.grants import GrantResolver
    from prowess.prompts.registry import Registry
    from prowess.prompts.renderer import Renderer
    from prowess.prompts.shelf import EntryKind, Shelf
    from prowess.redaction.redactor import Redactor
    from prowess.run.assertions.evaluation import AssertionRunner
    from prowess.run.handler import Handler
    from prowess.run.model_client import ModelClient
    from prowess.run.runner import Runner
    from prowess.run.telemetry import Telemetry
    from prowess.sidecar.environment import SidecarEnvironment
    from prowess.sidecar.protocol import Sidecar
    from prowess.skill.kinds import Kind
    from prowess.skill.limits import Limits
    from prowess.skill.model import Skill
    from prowess.skill.template import TemplateSyntax
    from prowess.sources.fetch_context import FetchContext
    from prowess.sources.registries.table import RegistrySettings
    from prowess.traces.trace_recorder import TraceRecorder


def make_model_config(settings: Settings) -> ModelConfig:
    """Return what the settings say about models."""
    from prowess.llm.model import ModelConfig  # most commands ask no model, and its classes take time to build

    return ModelConfig(
        default=settings.model,
        evaluation=settings.evaluation_model,
        offered=settings.models,
        base_url=settings.model_url,
        key=settings.model_key,
        environment=settings.environment,
        requests_per_minute=settings.model_requests_per_minute,
        home=settings.home,
    )


def make_sidecar_environment(settings: Settings) -> SidecarEnvironment:
    """Return where the program of the DSPy sidecar is, by the settings."""
    from prowess.sidecar.environment import SidecarEnvironment

    return SidecarEnvironment(settings.home, named=settings.sidecar, environment=settings.environment)


def make_registry_settings(settings: Settings, limits: Limits) -> RegistrySettings:
    """Return what the settings say about registries of skills."""
    from prowess.sources.registries.table import RegistrySettings

    return RegistrySettings(
        default=settings.registry,
        skills_sh_key=settings.skills_sh_key,
        prowess_url=settings.registry_url,
        prowess_key=settings.registry_key,
        prowess_token=settings.registry_token,
        environment=settings.environment,
        limits=limits,
    )


_CLEANUP_INTERVAL_SECONDS = 3_600.0
_OVERDUE_SECONDS = 24 * 3_600.0
_CLEANUP_DELAY_SECONDS = 1.0
"""A process that ends sooner does not look for old records, which would take it longer than the rest of its work."""
_CLOSE_TIMEOUT_SECONDS = 1.0
_OVERDUE_TIMEOUT_SECONDS = 10.0


class RunComponents:
    """Everything that a run needs, made once.

    Organizations share models, sandboxes and recorders. Each user has a runner and a registry over their own catalog.
    """

    def __init__(self, stores: Stores, recorder: Callable[[], EventRecorder], sidecar: Sidecar | None = None) -> None:
        self._stores = stores
        self._settings = stores.settings
        self._recorder = recorder
        self._given_sidecar = sidecar
        self._lock = threading.Lock()
        self.sandboxes = Sandboxes(stores.settings)
        self.skill_calls: Callable[[], SkillCalls | None] = lambda: None
        """Runs other skills for a script."""
        self._opened_traces: TraceRecorder | None = None
        self._cleanup: threading.Thread | None = None
        self._is_cleanup_overdue = False
        self._cleanup_ended = threading.Event()
        self._next_cleanup = 0.0

    def open_registry(self, catalog: Catalog) -> Registry:
        """Return the prompts and rubrics in reach, by id and version, with those of the skills in a catalog."""
        return _open_registry(self._stores, catalog)

    def build_runner(self, catalog: Catalog, registry: Registry) -> Runner:
        """Return what runs the skills of a catalog."""
        from prowess.plugins import working_plugins
        from prowess.run.allowance import DEFAULT_SECONDS
        from prowess.run.assertions.evaluation import AssertionRunner
        from prowess.run.pipeline import build_pipeline
        from prowess.run.runner import Runner

        assertions = AssertionRunner(
            self.model_client, [assertion for plugin in working_plugins() for assertion in plugin.assertions]
        )
        run_artifact = build_pipeline(
            self._handlers(catalog, registry, assertions),
            assertions=assertions,
            traces=self.traces,
            # The recorder is opened by the first event, not when the runner is built.
            publish=lambda event: self._recorder().record(event),
            redactor=self._redactor,
            telemetry=self._telemetry,
        )
        seconds = self._settings.run_seconds or DEFAULT_SECONDS
        return Runner(run_artifact, seconds=seconds, redactor=self._redactor, assertions=assertions)

    @cached_property
    def models(self) -> Models:
        """The models that can be asked."""
        from prowess.llm.models import Models

        return Models(make_model_config(self._settings))

    @cached_property
    def sidecar(self) -> Sidecar:
        """The DSPy sidecar. Its process starts with the first request, and is installed before if necessary."""
        from prowess.sidecar.process import ProcessSidecar

        environment = make_sidecar_environment(self._settings)
        return self._given_sidecar or ProcessSidecar(lambda: environment.ensure(lambda _: None))

    def prepare_sidecar(self, progress: Callable[[str], None]) -> None:
        """Install the DSPy sidecar if it is missing; raise `Unavailable` if that fails, or it is switched off."""
        if self._given_sidecar is None:
            make_sidecar_environment(self._settings).ensure(progress)

    def traces(self) -> TraceRecorder:
        """Return the trace recorder. About every hour, clean up in the background."""
        with self._lock:
            if self._opened_traces is None:
                from prowess.traces.trace_recorder import TraceRecorder

                self._opened_traces = TraceRecorder(self._stores.records(), self._redactor)
            if monotonic() >= self._next_cleanup:
                self._next_cleanup = monotonic() + _CLEANUP_INTERVAL_SECONDS
                self._start_cleanup()
            return self._opened_traces

    def fetch_context(self) -> FetchContext:
        """Return what fetches from sources work with. Repositories are cached in the home folder."""
        from prowess.sources.fetch_context import FetchContext

        return FetchContext(
            client=self.sandboxes.outbound,
            cache=self._settings.home / "cache" / "sources",
            limits=self._stores.limits,
            environment=self._settings.environment,
            protocols=frozenset(self._settings.git_protocols),
        )

    async def render(self, template: str, values: Mapping[str, Any], *, syntax: TemplateSyntax = "jinja") -> str:
        """Render a template; one that is not plain in a worker process, which starts on first use."""
        return await self._renderer.render(template, values, syntax=syntax)

    async def aclose(self) -> None:
        """Close models and workers, and send pending spans."""
        opened = vars(self)
        if "_renderer" in opened:
            await self._renderer.close()
        if "sidecar" in opened:
            await self.sidecar.close()
        if "models" in opened:
            await self.models.close()
        await self.sandboxes.aclose()
        if "_telemetry" in opened:
            await offload(self._telemetry.close)

    def close(self) -> None:
        """Write pending traces."""
        with self._lock:
            if self._cleanup is not None and self._is_cleanup_overdue:
                self._cleanup.join(_OVERDUE_TIMEOUT_SECONDS)
            self._cleanup_ended.set()
            if self._cleanup is not None:
                # The cleanup uses the database, which is closed next; it checks the event between its steps.
                self._cleanup.join(_CLOSE_TIMEOUT_SECONDS)
            if self._opened_traces is not None:
                self._opened_traces.close()

    @cached_property
    def _renderer(self) -> Renderer:
        from prowess.prompts.plain_renderer import PlainRenderer
        from prowess.prompts.renderer import WorkerRenderer

        return PlainRenderer(WorkerRenderer())

    @cached_property
    def _redactor(self) -> Redactor:
        from prowess.redaction.redactor import Redactor, find_secrets

        settings = self._settings
        own = [key for key in (settings.model_key, settings.embedder_key, settings.secret_key) if key]
        # A database URL may hold a password.
        return Redactor([*find_secrets({**settings.environment, "DATABASE_URL": settings.database_url}), *own])

    @cached_property
    def _telemetry(self) -> Telemetry:
        from prowess.run.telemetry import open_telemetry

        return open_telemetry(self._settings.environment, self._redactor, on=self._settings.telemetry)

    @cached_property
    def model_client(self) -> ModelClient:
        """Sends model requests of runs, within their limits."""
        from prowess.run.model_client import ModelClient
        from prowess.run.spending import Spending

        return ModelClient(self.models, Spending(self._stores.records), self._telemetry)

    def _handlers(self, catalog: Catalog, registry: Registry, assertions: AssertionRunner) -> dict[Kind, Handler]:
        from prowess.handlers.host_functions import HostModule
        from prowess.handlers.requirements import look_up_grants
        from prowess.handlers.table import build_handlers
        from prowess.plugins import working_plugins
        from prowess.run.checkpoints import Checkpoints
        from prowess.workspace.workspace import Workspace

        return build_handlers(
            models=self.model_client,
            renderer=self._renderer,
            # An approval covers the bytes of one skill, so its runs must not use prompts of others.
            registry=registry.without_other_skills(),
            sandboxes=self.sandboxes.by_runtime,
            commands=self.sandboxes.commands,
            outbound=self.sandboxes.outbound,
            grants_of=look_up_grants(self._grants(self._workspace), self._grants(self._no_pages)),
            provision=self.sandboxes.provision,
            host=HostModule(
                self.model_client, Workspace(self._workspace), self.skill_calls(), tenants=Workspace(self._no_pages)
            ),
            checkpoints=Checkpoints(self._stores.records, self._redactor),
            read_file=partial(_read_file, catalog),
            files=partial(_read_files, catalog),
            assertions=assertions,
            sidecar=None if self._settings.sidecar == "off" and not self._given_sidecar else self.sidecar,
            brought=[handler for plugin in working_plugins() for handler in plugin.handlers],
        )

    @cached_property
    def _no_pages(self) -> Path:
        """An empty folder instead of the workspace, for members of a server's organizations: it is the operator's."""
        empty = self._settings.home / "cache" / "empty"
        # Without a home, or in a read-only one, reading fails, which has the same effect.
        if self._settings.home.is_dir():
            with suppress(OSError):
                empty.mkdir(mode=0o700, parents=True, exist_ok=True)
        return empty

    @property
    def _workspace(self) -> Path:
        """The folder that skills may read: the workspace, or an empty one if this machine's folders are not served."""
        return self._settings.workspace if self._settings.skill_folders else self._no_pages

    def _grants(self, workspace: Path) -> GrantResolver:
        from prowess.policy.grants import GrantResolver

        places = self._stores.places
        return GrantResolver(
            environment=self._settings.environment,
            workspace=workspace,
            closed=places.kept,
            hidden=[places.kept_in_workspace],
            skills=lambda: [Path(place.address) for place in places.present() if place.kind == "folder"],
            user_home=self._settings.user_home,
        )

    def clean_up(self) -> None:
        """Close interrupted traces and delete records that are no longer kept. Blocking; never raises; ends with `close`."""
        from prowess.policy.retention import clean_up

        clean_up(self._stores.records(), trace_days=self._settings.trace_days, ended=self._cleanup_ended)

    def _start_cleanup(self) -> None:
        """Clean up in a background thread, unless another process did so within the last hour."""
        records = self._stores.records()
        mark = self._settings.home / "cache" / f"pruned-{hashlib.sha256(records.url.encode()).hexdigest()[:16]}"
        age = _seconds_since(mark)
        self._is_cleanup_overdue = age is not None and not 0 <= age < _OVERDUE_SECONDS
        self._cleanup = threading.Thread(
            target=self._clean_up_if_due, args=(mark, age), name="prowess-cleanup", daemon=True
        )
        self._cleanup.start()

    def _clean_up_if_due(self, mark: Path, age: float | None) -> None:
        """Close interrupted traces. Prune, too, if the mark is older than an hour, and leave a new mark.

        Short processes leave it to one that takes longer, but not for more than a day: there may be only short ones.
        """
        from prowess.traces.cleanup import close_interrupted

        with suppress(ProwessError):
            close_interrupted(self._stores.records())
        if age is not None and 0 <= age < _CLEANUP_INTERVAL_SECONDS:
            return
        if self._is_cleanup_overdue or not self._cleanup_ended.wait(_CLEANUP_DELAY_SECONDS):
            self.clean_up()
            if self._cleanup_ended.is_set():
                return  # perhaps before everything was looked at
        elif age is not None:
            return
        with suppress(OSError):
            mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mark.touch(mode=0o600)


def _seconds_since(mark: Path) -> float | None:
    """Return how long ago a file was written; None if there is none."""
    try:
        return time() - mark.lstat().st_mtime
    except OSError:
        return None


async def _read_file(catalog: Catalog, skill: Skill, path: str) -> bytes:
    """Return a file of exactly the skill that is run; raise `Conflict` if it has changed since."""
    from prowess.session.load import read_verified_file

    def read() -> bytes:
        store, _ = catalog.find_outline(f"{skill.scope}:{skill.slug}")
        return read_verified_file(store, SkillOutline.of(skill), path)

    return await offload(read)


async def _read_files(catalog: Catalog, skill: Skill) -> Mapping[str, bytes]:
    """Return every file of exactly the skill that is run; raise `Conflict` if it has changed since."""

    def read() -> Mapping[str, bytes]:
        store, found = catalog.find(f"{skill.scope}:{skill.slug}")
        package = store.get_package(found.id)
        if package is None or package.digest != skill.digest:
            raise Conflict(f"The skill {skill.slug!r} changed during the run.", hint="Run the skill again.")
        return {file.path: file.content for file in package.files}

    return await offload(read)


def _open_registry(stores: Stores, catalog: Catalog) -> Registry:
    """Return the registry over the folders of the workspace and the home folder, and the account's database."""
    from prowess.prompts.database_shelf import DatabaseShelf
    from prowess.prompts.folder_shelf import FolderShelf
    from prowess.prompts.registry import Registry

    settings, limits = stores.settings, stores.limits
    near = ["", f"{FOLDER}/"]
    shelves: list[Shelf] = []
    if settings.skill_folders:
        shelves.append(FolderShelf(settings.workspace, _registry_folders(near), origin="workspace", limits=limits))
    # A home inside the workspace is one of its folders already; its entries must not appear twice.
    if settings.skill_folders and not any(settings.home == settings.workspace / prefix for prefix in near):
        home = FolderShelf(settings.home, _registry_folders([""]), origin="home", limits=limits, shared=False)
        shelves.append(home)
    shelves.append(DatabaseShelf(stores.records, stores.has_records))
    return Registry(lambda: shelves, catalog)


def _registry_folders(prefixes: list[str]) -> dict[EntryKind, list[str]]:
    return {
        "prompt": [f"{prefix}prompts" for prefix in prefixes],
        "rubric": [f"{prefix}rubrics" for prefix in prefixes],
    }
