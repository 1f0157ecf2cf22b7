"""The context of the engine's parts: resources that are opened once and shared, and the actor."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.catalog import Catalog
from prowess.catalog.store import Store
from prowess.errors import Invalid, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import Actor
from prowess.skill.limits import Limits
from prowess.skill.model import Scope

if TYPE_CHECKING:
    from prowess.engine.answers import RecentAnswers
    from prowess.engine.callables import Inventory
    from prowess.engine.runs import RecentDecisions
    from prowess.engine.search import IndexPlanner
    from prowess.engine.skill_rows import SkillLists
    from prowess.engine.visibility import Visibility
    from prowess.feed.event_feed import EventFeed
    from prowess.feed.event_recorder import EventRecorder
    from prowess.feed.metrics import Metrics
    from prowess.match.matcher import Matcher
    from prowess.policy.approvals import Approvals
    from prowess.policy.configuration import Policies
    from prowess.policy.grants import EnvGrants
    from prowess.policy.organization import OrgPolicy
    from prowess.prompts.registry import Registry
    from prowess.run.model_client import ModelClient
    from prowess.run.runner import Runner
    from prowess.sandbox.protocol import Sandbox
    from prowess.session.activate import Activation
    from prowess.session.admission import Gate
    from prowess.session.load import Loader
    from prowess.session.role_prompt import RolePrompts
    from prowess.session.session import Session
    from prowess.session.sessions import Sessions
    from prowess.sidecar.protocol import Sidecar
    from prowess.sources.fetch import Fetcher
    from prowess.sources.fetch_context import FetchContext
    from prowess.sources.registries.table import RegistrySettings
    from prowess.storage.database import Connections
    from prowess.traces.trace_recorder import TraceRecorder

DEFAULT_CONVERSATION = "default"
"""The conversation that each workspace has for itself. Every other name means the same session in all folders."""
_FOLDER_CHARS = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketplaceSettings:
    """The registries that the operator has configured: one of the organization, and one of system skills."""

    url: str = ""
    key: str = ""
    token: str = field(default="", repr=False)
    system_url: str = ""
    system_key: str = ""
    home: Path
    bundled: Path
    """The folder of skills that come with Prowess."""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Resources:
    """Everything that an engine opens once and shares between the actors of one user of an organization.

    Slow things are opened on first use. All of it is plain blocking code, safe to call from several threads. What reads
    skills (catalog, runner, caches over them) exists once per organization and user, so that nothing of one can be found
    from another. What does not (databases, models, sandboxes, recorders, metrics) is shared, behind the callables.
    """

    of: Callable[[str, str], Resources]
    """Return the resources of an organization and a user. Those that were not used for long are made anew."""
    catalog: Catalog
    limits: Limits
    packs: Path
    """The folder of skills that come with Prowess."""
    plugin_of: Callable[[str], str]
    """Return the name of the plugin that brings a folder or store, by its location; '' if none does."""
    plugin_packs: tuple[Path, ...]
    """The folders of skills that plugins bring."""
    writable: Callable[[Scope], Store]
    """Return the store that keeps new skills of a scope."""
    find_matcher: Callable[[], Matcher]
    """Return the matcher over the skills of the user: the organization's, if the user has no their own skills."""
    find_lists: Callable[[], tuple[SkillLists, str]]
    """Return what is known of all skills in the catalog, shared like the matcher.

    The text stays the same as long as no skill has changed; '' if that is unknown.
    """
    answers: RecentAnswers
    """The answers that may be given again, of all users."""
    mark_changed: Callable[[], None]
    """Make the next match of everyone see what was just written."""
    records: Callable[[], Connections]
    """Return the database of sessions, approvals, events and the audit log; create it on first use."""
    records_url: str
    """The URL of that database, with its password."""
    has_records: Callable[[], bool]
    unopened_records: Callable[[], str]
    """Return the path of that database if it is a SQLite file that is not open yet; '' otherwise."""
    snapshot: Callable[[], AbstractContextManager[None]]
    """Let the reads that a thread makes inside the block share one transaction for each database."""
    release: Callable[[], None]
    """Close idle connections to databases, so that their files stay as they are until the next write."""
    feed: Callable[[str], EventFeed]
    """Return the event feed of an organization."""
    wake: Callable[[str], None]
    """Notify subscribers of an organization that there may be new events."""
    recorder: Callable[[], EventRecorder]
    metrics: Callable[[str], Metrics]
    """Return the metrics of an organization. They are kept, so that only new events are counted next time."""
    build_runner: Callable[[Catalog, Registry], Runner]
    model_client: Callable[[], ModelClient]
    """Return what sends model requests of runs, within their limits."""
    traces: Callable[[], TraceRecorder]
    """Return what writes traces in the background."""
    open_registry: Callable[[Catalog], Registry]
    render: Callable[..., Awaitable[str]]
    """Render a template with values, in a process that can be killed; `syntax` is that of the template."""
    fetch_source: Fetcher
    """Fetches the skills of a source."""
    sandbox: Callable[[], Sandbox]
    """Return the sandbox for code that reaches nothing outside."""
    build_sandbox: Callable[[Callable[[str], None]], None]
    """Build the interpreter that scripts run in if it is missing, and report progress."""
    sidecar: Callable[[], Sidecar]
    """Return the DSPy sidecar. Its process starts with the first request, which raises `Unavailable` if it cannot."""
    after_checked_run: Callable[[str, str], Awaitable[None]]
    """Receives the organization and the skill of each run whose output was checked. Never raises."""
    install_sidecar: Callable[[Callable[[str], None]], None]
    """Install the DSPy sidecar if it is missing, and report progress; `Unavailable` if that fails, or it is off."""
    fetch_context: Callable[[], FetchContext]
    """Return what fetches from sources work with: the guarded HTTP client, limits and a cache."""
    marketplace: MarketplaceSettings
    """The registries that the operator has configured."""
    workspace: Path
    home: Path
    """Where Prowess keeps its own data."""
    user_home: Path
    trusted_folders: tuple[str, ...]
    """The folders that the operator trusts, by real path."""
    environment: Mapping[str, str] = field(repr=False)
    """Environment variables that skills may be granted."""
    registries: Callable[[], RegistrySettings]
    """Return where the registries of skills are."""
    connector_pool: Callable[[], object]
    """Return the open connectors, a `prowess.connectors.pool.Pool`; that package is above this one."""
    clean_up: Callable[[], None]
    """Close the traces of interrupted runs, and delete records that are no longer kept, in all organizations. Never raises."""
    aclose: Callable[[], Awaitable[None]]
    """Close models and workers."""
    close: Callable[[], None]
    is_closed: Callable[[], bool]
    """Return True once everything was closed."""
    _seen_tools: Inventory | None = field(default=None, init=False, repr=False)
    is_sandbox_built: bool = field(default=False, init=False)
    """True once this process has made sure that the interpreter of the sandbox exists."""
    is_sidecar_installed: bool = field(default=False, init=False)
    """True once this process has made sure that the DSPy sidecar is installed."""
    acting: dict[tuple[Actor, str], tuple[float, Actor]] = field(
        default_factory=dict["tuple[Actor, str]", "tuple[float, Actor]"], init=False, repr=False
    )
    """Actors in the role of their conversation, each with the time until which that may be used."""
    role_prompts: dict[tuple[Actor, Path | None], RolePrompts] = field(
        default_factory=dict["tuple[Actor, Path | None]", "RolePrompts"], init=False, repr=False
    )
    """The role prompts of each actor and folder of templates that was asked for."""

    @property
    def matcher(self) -> Matcher:
        """The matcher over the catalog. Ask for it each time: a user may get their own skills."""
        return self.find_matcher()

    @cached_property
    def registry(self) -> Registry:
        """The prompts and rubrics in reach, by id and version."""
        return self.open_registry(self.catalog)

    def check_records(self) -> None:
        """Raise `Unavailable` unless the database answers and its tables are those of this version. Blocking."""
        from prowess.storage.database import check_revision, revision

        records = self.records()
        with records.read() as connection:
            if not check_revision(revision(connection), records.location):
                raise Unavailable(
                    f"The tables of the database {records.location} are older than this version of Prowess.",
                    hint="Restart the server to update them.",
                )

    @cached_property
    def decisions(self) -> RecentDecisions:
        """Recent decisions of the gate that allowed a run."""
        from prowess.engine.runs import RecentDecisions

        return RecentDecisions()

    @cached_property
    def runner(self) -> Runner:
        """Runs skills of the catalog."""
        return self.build_runner(self.catalog, self.registry)

    @cached_property
    def sessions(self) -> Sessions:
        """Reads and writes sessions."""
        from prowess.session.sessions import Sessions

        return Sessions(records=self.records(), wake=self.wake)

    @cached_property
    def activation(self) -> Activation:
        """Enables and disables skills."""
        from prowess.session.activate import Activation

        return Activation(records=self.records(), catalog=self.catalog, wake=self.wake, folders=self.trusted_folders)

    @cached_property
    def gate(self) -> Gate:
        """Decides about actions outside a session change."""
        from prowess.session.admission import Gate

        return Gate(records=self.records(), present=self.has_records, wake=self.wake, folders=self.trusted_folders)

    @cached_property
    def loader(self) -> Loader:
        """Loads texts and files of skills."""
        from prowess.session.load import Loader

        return Loader(catalog=self.catalog, gate=self.gate, plugin_of=self.plugin_of)

    @cached_property
    def approvals(self) -> Approvals:
        """Reads and answers approvals."""
        from prowess.policy.approvals import Approvals

        return Approvals(self.records(), wake=self.wake)

    @cached_property
    def policies(self) -> Policies:
        """Reads and changes the policies of organizations."""
        from prowess.policy.configuration import Policies

        return Policies(self.records(), wake=self.wake)

    @cached_property
    def env_grants(self) -> EnvGrants:
        """Changes which skills may read which environment variables."""
        from prowess.policy.grants import EnvGrants

        return EnvGrants(self.records(), wake=self.wake)

    @cached_property
    def planner(self) -> IndexPlanner:
        """Plans the index of skills for a prompt."""
        from prowess.engine.search import IndexPlanner

        return IndexPlanner(matcher=lambda: self.matcher, records=self.records, has_records=self.has_records)

    def look_for_tools(self, *, recent: float = 0.0) -> Inventory:
        """Return what agents can work with now, or could at most `recent` seconds ago; see `CallableIndex.look`."""
        self._seen_tools = self.find_lists()[0].callables.look(recent=recent)
        return self._seen_tools

    @property
    def last_tools(self) -> Inventory:
        """The result of the last `look_for_tools`; empty before the first."""
        from prowess.engine.callables import Inventory

        return self._seen_tools or Inventory()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The shared resources and the actor, for one part of the engine."""

    opened: Resources
    actor: Actor

    @property
    def resources(self) -> Resources:
        """What the parts share. Raise `RuntimeError` once it was closed, because nothing is recorded any more then."""
        if self.opened.is_closed():
            raise RuntimeError("This engine was closed. Open another one with `Prowess.open(…)`.")
        return self.opened

    @property
    def catalog(self) -> Catalog:
        """The skills in reach of the actor."""
        return self.resources.catalog

    def read_policy(self) -> OrgPolicy:
        """Return the policy of the actor's organization, or the defaults if nothing was ever recorded. Blocking."""
        if self.resources.has_records():
            return self.resources.policies.read(self.actor)
        from prowess.policy.organization import OrgPolicy

        return OrgPolicy()

    def fetch_context(self) -> FetchContext:
        """Return what fetches from sources work with, with the organization's routes of hosts. Blocking."""
        return replace(self.resources.fetch_context(), routes=self.read_policy().host_routes)

    @property
    def visibility(self) -> Visibility:
        """Marks and redacts lists of skills for the actor."""
        from prowess.engine.visibility import Visibility

        return Visibility(self)

    def find_session(self, session: Session | str) -> Session | None:
        """Return a session as it is now, or None for ''. Blocking."""
        return self.resources.sessions.get(self.actor, self.session_key(session)) if session else None

    def session_key(self, session: Session | str) -> str:
        """Return the id or the stored conversation of a session, given as itself, by its id or by its conversation."""
        if not isinstance(session, str):
            if not isinstance(getattr(session, "id", None), str):
                raise Invalid(
                    f"Not a session: {type(session).__name__}.",
                    hint="Pass a session, its id, or the name of its conversation.",
                )
            return session.id
        return _default_conversation(self.resources.workspace) if session == DEFAULT_CONVERSATION else session


class Part:
    """A part of the engine."""

    def __init__(self, context: Context) -> None:
        self._context = context


def _default_conversation(workspace: Path) -> str:
    """Return the stored name of a workspace's own conversation. A folder is the same through every link to it."""
    folder = os.path.realpath(workspace)
    if len(folder) > _FOLDER_CHARS or not folder.isprintable():
        folder = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
    return f"{DEFAULT_CONVERSATION}:{folder}"


def check_message(message: str, limit: int) -> None:
    """Raise `Invalid` for a blank message: no skill fits it, which is not the same as that none was found."""
    check_string(message, "The message")
    check_limit(limit)
    if not message.strip():
        raise Invalid("The message is empty.", hint="Write what you need a skill for.")


def check_string(value: str, what: str) -> None:
    """Raise `Invalid` if an argument is not a string."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Invalid(f"{what} must be a string, not {type(value).__name__}.")


def check_type(value: object, expected: type, hint: str) -> None:
    """Raise `Invalid` with a hint if an argument has another type."""
    if not isinstance(value, expected):
        raise Invalid(f"Not a {expected.__name__}: {type(value).__name__}.", hint=hint)


def check_limit(limit: int) -> None:
    """Raise `Invalid` if a limit is not an integer, or is negative, which databases read in different ways."""
    if not isinstance(limit, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Invalid(f"The limit must be an integer, not {type(limit).__name__}.")
    if limit < 0:
        raise Invalid(f"The limit must not be negative: {limit}.")
