"""The grants of a run outside the sandbox: the skill's declared needs, checked against the organization's policy.

Hosts are granted as declared, because the gate showed them. A visible folder in the workspace is, too. Everything else needs
an administrator's permission: a variable, a program, a hidden folder, a credential store, a folder outside the workspace.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prowess.errors import Invalid, NotFound
from prowess.paths import real_path
from prowess.policy.actor import Actor
from prowess.policy.configuration import admit_settings, read_policy
from prowess.policy.organization import OrgPolicy, check_setting
from prowess.sandbox.roots import Root, is_credential_store, is_hidden, is_private
from prowess.skill.needs import Needs, split_root
from prowess.storage import org_settings
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append, settings_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Everything that one run may reach. The rest is refused; `denied` says why and what to do, by name."""

    hosts: tuple[str, ...] = ()
    """Hosts that the skill declares; the gate let it pass with them."""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where requests for a host are sent instead, by decision of an administrator. The target may be private."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Values of the variables that the skill declares and an administrator allowed."""
    roots: tuple[Root, ...] = ()
    binaries: tuple[str, ...] = ()
    """Programs that the skill declares and an administrator allows."""
    denied: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a declared name is not granted, such as a variable that nobody allowed."""


OWN_PREFIX = "PROWESS_"
"""Variables with this prefix are Prowess's own settings, including keys. No skill reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantContext:
    """Where runs happen. All paths are absolute and without links.

    `find` returns the folder at a path in that form, or None. A granted folder never contains anything `closed`. It never
    contains anything `hidden` either, except for a function that reads the whole workspace, which is not given names that
    start with a dot. Folders with `skills` are never writable. `homes` are the home folders of the person: no folder that
    contains one is granted because a skill declares it.
    """

    environment: Mapping[str, str] = field(repr=False)
    workspace: Path
    find: Callable[[Path], Path | None]
    closed: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    skills: Sequence[Path] = ()
    homes: Sequence[Path] = ()


def resolve_grants(
    needs: Needs, policy: OrgPolicy, around: GrantContext, *, slug: str, digest: str, program: bool = False
) -> Grants:
    """Return what the bytes of this digest are granted. A `program` opens files itself, so it gets a folder with all below."""
    denied: dict[str, str] = {}
    env: dict[str, str] = {}
    for name in needs.env:
        why = _env_refusal(name, policy, around, slug, digest)
        if why:
            denied[name] = why
        else:
            env[name] = around.environment[name]
    roots: list[Root] = []
    for declared in needs.roots:
        found = _resolve_root(declared, policy, around, program=program)
        if isinstance(found, Root):
            roots.append(found)
        else:
            denied[split_root(declared)[0]] = found
    binaries = tuple(name for name in needs.binaries if name in policy.allowed_binaries)
    denied |= {name: _binary_refusal(name, policy) for name in needs.binaries if name not in binaries}
    return Grants(
        hosts=needs.hosts,
        routes=_select_routes(needs.hosts, policy.host_routes),
        env=env,
        roots=tuple(roots),
        binaries=binaries,
        denied=denied,
    )


def _env_refusal(name: str, policy: OrgPolicy, around: GrantContext, slug: str, digest: str) -> str:
    """Return why a variable is not granted, or ''."""
    if name.upper().startswith(OWN_PREFIX):
        return f"{name} is a Prowess setting. Skills may not read it."
    # The permission is for exact bytes: otherwise an update of the skill could send the value anywhere.
    digests = policy.skill_env.get(slug, {}).get(name)
    if digests is None:
        return f"{slug!r} may not read {name}. An administrator can allow it: `prowess env allow {slug} {name}`."
    if digest not in digests:
        return (
            f"{slug!r} has changed since it was allowed to read {name}. An administrator can review it and allow it again: "
            f"`prowess env allow {slug} {name}`."
        )
    if name not in around.environment:
        return f"{slug!r} may read {name}, but {name} is not set in the environment of Prowess."
    return ""


def _binary_refusal(name: str, policy: OrgPolicy) -> str:
    allowed = json.dumps([*policy.allowed_binaries, name])
    return f"The program {name!r} is not allowed. An administrator can allow it: `prowess policy set allowed_binaries '{allowed}'`."


def _select_routes(hosts: Sequence[str], routes: Mapping[str, str]) -> dict[str, str]:
    """Return the routes of declared hosts, including hosts below a `*.`."""
    # A route may lead to a private address, so a run gets only those for hosts that its skill declares.
    names = [host.partition(":")[0] for host in hosts]
    return {host: to for host, to in routes.items() if any(_matches_host(name, host) for name in names)}


def _matches_host(name: str, host: str) -> bool:
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _resolve_root(declared: str, policy: OrgPolicy, around: GrantContext, *, program: bool) -> Root | str:
    """Return the folder of a root, or why it is not granted."""
    name, writable = split_root(declared)
    path = around.find(around.workspace / name)
    if path is None:
        return f"Folder {name!r} not found."
    # Links are resolved on both sides before they are compared, so that no link leads out of an allowed folder.
    allowed = [found for folder in policy.skill_roots if (found := around.find(Path(folder)))]
    if path not in allowed and _holds_home(path, around):
        return (
            f"The folder {name!r} contains your whole home folder, which skills may not access. "
            "List the folders that the skill needs under `roots` in its manifest, or run it from a project folder."
        )
    # A program opens files itself, and the hidden files at the top of a workspace are what tools run and trust.
    if program and path == around.workspace:
        return "A program may not access the whole workspace with its hidden files. List folders in it under `roots`."
    # A function that reads the whole workspace sees no names that start with a dot, so Prowess's own folder in it
    # stays hidden.
    hidden = () if path == around.workspace else around.hidden
    if any(_overlap(path, private) for private in (*around.closed, *hidden)):
        return f"The folder {name!r} contains Prowess's own data, or is part of it. Skills may not access it."
    base = next((base for base in allowed if _gives(base, path)), None)
    if base is None and (kept_from := _workspace_refusal(path, around)):
        allow = shlex.quote(json.dumps([*policy.skill_roots, str(path)]))
        return (
            f"The folder {name!r} {kept_from}. An administrator can allow it: `prowess policy set skill_roots {allow}`."
        )
    why = _write_refusal(path, base or around.workspace, around) if writable else ""
    return f"The folder {name!r} is not writable: {why}." if why else Root(name=name, path=path, writable=writable)


def _gives(base: Path, path: Path) -> bool:
    """Return True if allowing a folder allows another: `/srv/data` gives `/srv/data/notes`, but not `/srv/data/.keys`."""
    return path.is_relative_to(base) and not is_private(path.relative_to(base).parts, above=base.name)


def _workspace_refusal(path: Path, around: GrantContext) -> str:
    """Return why declaring a folder is not enough to access it, or ''."""
    if not path.is_relative_to(around.workspace):
        return "is not in the workspace"
    # The workspace may lie below a hidden folder, as worktrees of agents do, but not in a credential store.
    hidden = is_hidden(path.relative_to(around.workspace).parts)
    of_home = any(path.is_relative_to(home / store) for home in around.homes for store in _HOME_STORES)
    if hidden or of_home or is_credential_store(path.parts):
        return "is hidden or a credential store"
    return ""


def _holds_home(path: Path, around: GrantContext) -> bool:
    return path.parent == path or any(home.is_relative_to(path) for home in around.homes)


_HOME_STORES = ("Library", "AppData")
"""Folders in a home folder in which macOS and Windows keep keys, mail and browser profiles."""


def _write_refusal(path: Path, base: Path, around: GrantContext) -> str:
    """Return why a readable folder may not be written, or ''. Others would run or trust what is written there."""
    if path == around.workspace:
        return "it is the whole workspace; list a folder in it"
    # Also if an administrator allows a hidden folder of the workspace: that is for reading.
    if is_hidden(path.relative_to(around.workspace if path.is_relative_to(around.workspace) else base).parts):
        return "it is hidden, and tools run files from hidden folders"
    if any(_overlap(path, skills) for skills in around.skills):
        return "it contains skills"
    return ""


def _overlap(path: Path, other: Path) -> bool:
    return path.is_relative_to(other) or other.is_relative_to(path)


class GrantResolver:
    """Resolves grants where Prowess runs: with its environment, its workspace and its own folders.

    `closed` are the folders and files in which Prowess keeps its own data, `hidden` what it keeps in the workspace; `skills`
    returns the folders that contain skills.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        workspace: Path,
        closed: Sequence[Path],
        hidden: Sequence[Path] = (),
        skills: Callable[[], Sequence[Path]] = tuple,
        user_home: Path | None = None,
    ) -> None:
        self._environment = environment
        self._workspace = workspace
        self._closed = closed
        self._hidden = hidden
        self._skills = skills
        self._homes = list_homes(user_home)

    def resolve(self, needs: Needs, policy: OrgPolicy, *, slug: str, digest: str, program: bool = False) -> Grants:
        """Return what the bytes of this digest are granted now. Blocking if the skill needs folders."""
        # Links are resolved each time: the artifact that ran before may have changed a folder into a link.
        around = GrantContext(
            environment=self._environment,
            workspace=real_path(self._workspace),
            find=_find_folder,
            closed=_resolve_all(self._closed),
            hidden=_resolve_all(self._hidden),
            skills=_resolve_all(self._skills()),
            homes=_resolve_all(self._homes),
        )
        return resolve_grants(needs, policy, around, slug=slug, digest=digest, program=program)


def list_homes(named: Path | None) -> list[Path]:
    """Return the home folders of the person: the named one, and that of the system's user database."""
    homes = [] if named is None else [named]
    with suppress(KeyError):  # a container may run as a user id without a name
        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    # Service accounts have `/` or nothing as their home.
    return [home for home in homes if home.is_absolute() and home != Path("/")]


def _resolve_all(paths: Sequence[Path]) -> list[Path]:
    return [real_path(path) for path in paths]


def _find_folder(path: Path) -> Path | None:
    """Return the folder at a path with all links resolved; None if there is none."""
    try:
        found = path.resolve(strict=True)
        return found if found.is_dir() else None
    except (OSError, RuntimeError, ValueError):
        return None


ENV_SETTING = "skill_env"

EnvState = Literal["allowed", "unset", "changed", "asked", "unused"]
"""`unset`: allowed, but without a value here; `changed`: allowed for other bytes; `asked`: declared, not allowed; `unused`: allowed, not declared."""

_EnvGrantMap = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvGrant:
    """One environment variable of one skill."""

    slug: str
    name: str
    state: EnvState


def list_env_grants(
    slug: str, digest: str, declared: Sequence[str], allowed: Mapping[str, Sequence[str]], *, there: Collection[str]
) -> tuple[EnvGrant, ...]:
    """Return the state of each variable that the skill declares or was allowed; `there` are those with a value."""
    states: dict[str, EnvState] = {}
    for name in (*declared, *allowed):
        if name not in declared:
            states[name] = "unused"
        elif name not in allowed:
            states[name] = "asked"
        elif digest not in allowed[name]:
            states[name] = "changed"
        else:
            states[name] = "allowed" if name in there else "unset"
    return tuple(EnvGrant(slug=slug, name=name, state=state) for name, state in states.items())


class EnvGrants:
    """The grants of all organizations in one database. Blocking.

    Raise `Refused` unless the actor is a person with `admin`. The change, or the refused attempt, is written together
    with its audit entry.
    """

    def __init__(self, database: Connections, *, wake: Callable[[str], None] = lambda _: None) -> None:
        self._database = database
        self._wake = wake

    def allow(self, actor: Actor, *, slug: str, digest: str, declared: Sequence[str], name: str) -> None:
        """Let exactly these bytes read a variable that the skill declares, and no other bytes.

        Raise `Invalid` for a variable that it does not declare.
        """

        def put(grants: _EnvGrantMap) -> None:
            _check_declared(slug, declared, name)
            # Replaces older digests: bytes that were allowed before the skill changed must not come back.
            grants.setdefault(slug, {})[name] = [digest]

        self._change(actor, slug, digest, name, "allowed", put)

    def forbid(self, actor: Actor, *, slug: str, name: str) -> None:
        """Let no bytes of the skill read a variable any more. Raise `NotFound` if none may."""

        def take(grants: _EnvGrantMap) -> None:
            if name not in grants.get(slug, {}):
                raise NotFound(
                    f"{slug[:80]!r} is not allowed to read {name[:80]!r}, so there is nothing to revoke.",
                    hint="Run `prowess env list` to see what is allowed.",
                )
            del grants[slug][name]
            if not grants[slug]:
                del grants[slug]

        self._change(actor, slug, "", name, "forbidden", take)

    def _change(
        self, actor: Actor, slug: str, digest: str, name: str, outcome: str, change: Callable[[_EnvGrantMap], None]
    ) -> None:
        organization = actor.organization
        with self._database.write() as connection:
            # All grants are one setting: without the lock, one of two concurrent changes would be lost.
            org_settings.hold(connection, organization, ENV_SETTING)
            policy = read_policy(connection, organization)
            action = f"environment {name[:80]} for {slug[:80]}"
            admission = admit_settings(connection, actor, (ENV_SETTING,), policy=policy, reason=action)
            audits = admission.audits
            if admission.error is None:
                grants: _EnvGrantMap = {
                    of: {each: list(digests) for each, digests in names.items()}
                    for of, names in policy.skill_env.items()
                }
                change(grants)
                if grants:
                    check_setting(ENV_SETTING, grants)
                    org_settings.set_setting(connection, organization, ENV_SETTING, grants, actor.label)
                else:
                    org_settings.unset_setting(connection, organization, ENV_SETTING)
                audits = (
                    AuditEntry(
                        actor=actor.label,
                        channel=actor.channel,
                        action="configure",
                        slug=slug,
                        digest=digest,
                        outcome=outcome,
                        detail={"setting": ENV_SETTING, "name": name},
                    ),
                )
            changed = () if admission.error else (settings_event((ENV_SETTING,)),)
            append(connection, organization, audits=audits, events=changed)
        if admission.error is not None:
            raise admission.error
        self._wake(organization)


def _check_declared(slug: str, declared: Sequence[str], name: str) -> None:
    if name.upper().startswith(OWN_PREFIX):
        raise Invalid(
            f"{name[:80]!r} is a Prowess setting. Skills may not read it.",
            hint="Use another variable name in the skill.",
        )
    if name not in declared:
        there = f"It declares: {', '.join(declared)}." if declared else "It declares no variables."
        raise Invalid(
            f"The skill {slug!r} does not declare the variable {name[:80]!r}.",
            hint=f"{there} Add it under `env` in the manifest.",
        )
