"""Read and write the configuration of connectors, and what people have allowed. Everything here blocks.

A repository may ship the connectors of a workspace, in the file `.prowess/connectors.json`, so nothing in it is trusted: a
person accepts a connector by the digest of its configuration, together with the files of the workspace that its command
line names.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from prowess.connectors.admission import Connector, ConnectorScope
from prowess.connectors.config import ConnectorConfig, parse_config
from prowess.connectors.tool_list import ConnectorTool
from prowess.engine.context import Context
from prowess.errors import Invalid, NotFound, Refused, Unavailable
from prowess.paths import real_path
from prowess.policy.text import clean_text
from prowess.skill.json_values import json_object
from prowess.storage import connectors as stored
from prowess.storage import ledger
from prowess.storage.approvals import find_granted
from prowess.storage.files.folder_lock import lock_folder
from prowess.suggestions import did_you_mean

REMOTE_PREFIX = "CONNECTOR_"
"""A person at another machine may refer only to variables of the server whose names start like this."""


class ConnectorRecords:
    """The connectors in reach of one actor, as they are stored."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._actor = context.actor

    def find(self, name: str) -> Connector:
        """Return a connector, or raise `NotFound`."""
        found = {connector.name: connector for connector in self.read()}
        if name in found:
            return found[name]
        # Over HTTP an unknown name and one of another organization are answered alike, to the byte.
        near = "" if self._actor.is_remote else did_you_mean(name, found, count=1)
        hint = near or "Call list_connectors, or run `prowess connector list`."
        raise NotFound(f"There is no connector {clean_text(name, limit=80)!r}.", hint=hint)

    def read(self) -> list[Connector]:
        """Return all connectors, by name. One of the organization hides one of the workspace."""
        self._actor.require("skills.read")
        resources = self._context.resources
        rows: list[stored.ConnectorRow] = []
        grants: list[stored.ConnectorGrant] = []
        if resources.has_records():
            with resources.records().read() as connection:
                rows = stored.list_connectors(connection, self._actor.organization)
                grants = stored.list_grants(connection, self._actor.owner)
        found = self._read_workspace(grants) | {row.name: _from_row(row, grants) for row in rows}
        return [found[name] for name in sorted(found)]

    def _read_workspace(self, grants: Sequence[stored.ConnectorGrant]) -> dict[str, Connector]:
        # The workspace of a server is a folder of its operator, and of no concern to people at other machines.
        if self._actor.is_remote:
            return {}
        workspace = self._context.resources.workspace
        try:
            entries = read_workspace(workspace)
        except Invalid as error:
            return {"workspace": Connector(name="workspace", scope="workspace", problem=error.message)}
        found: dict[str, Connector] = {}
        for name, config in entries.items():
            display_name = clean_text(name, limit=64)
            if isinstance(config, Invalid):
                found[display_name] = Connector(name=display_name, scope="workspace", problem=config.message)
                continue
            digest = config.digest(program_files(workspace, config))
            found[name] = _with_grants(
                Connector(name=name, scope="workspace", config=config, digest=digest), grants, needs_acceptance=True
            )
        return {name: self._with_approval(one) for name, one in found.items()}

    def _with_approval(self, connector: Connector) -> Connector:
        """Return a connector as accepted if a person has approved this actor's request to open exactly this one."""
        resources, actor = self._context.resources, self._actor
        if connector.accepted or not connector.digest or not resources.has_records():
            return connector
        with resources.records().read() as connection:
            approved = find_granted(
                connection,
                actor.owner,
                action_group="connect",
                slug=f"connector:{connector.name}",
                digest=connector.digest,
                requester=actor.label,
            )
        return replace(connector, accepted=approved is not None)

    def check_writer(self, config: ConnectorConfig, scope: ConnectorScope) -> None:
        """Raise `Refused` unless the actor may add or remove this connector."""
        actor = self._actor
        if not actor.is_person:
            raise Refused("Only a person may configure connectors.", hint="Tell the user what to add.")
        actor.require("admin" if scope == "org" else "skills.write")
        if not actor.is_remote:
            return
        if scope == "workspace" or config.command:
            raise Refused(
                "A command or a workspace can only be configured on the machine itself.",
                hint="Run `prowess connector add` there, or use a server with a URL.",
            )
        foreign = [name for name in config.variables if not name.startswith(REMOTE_PREFIX)]
        if foreign or config.private:
            raise Refused(
                f"The server's variable {foreign[0]} cannot be used from another machine."
                if foreign
                else "An address that is not public can only be allowed on the machine itself.",
                hint=f"The operator can set a variable whose name begins with {REMOTE_PREFIX}.",
            )

    def check_new(self, name: str, config: ConnectorConfig, scope: ConnectorScope) -> None:
        """Raise `Refused` unless the actor may add this under its name, and `Invalid` if it needs a workspace to start in."""
        self.check_writer(config, scope)
        named = workspace_paths(self._context.resources.workspace, config) if scope == "org" else []
        if named:
            raise Invalid(
                f"{clean_text(named[0], limit=80)!r} is in this workspace, but a connector of the organization does not start in a workspace.",
                hint="Add `--scope workspace`, or give the full path.",
            )
        if scope == "workspace" and any(one.name == name and one.scope == "org" for one in self.read()):
            raise Refused(
                f"The organization has a connector {name!r}, which would hide this one.", hint="Use another name."
            )

    def add(self, name: str, config: ConnectorConfig, scope: ConnectorScope) -> None:
        """Store a connector. One of the workspace is accepted with it."""
        self.check_new(name, config, scope)
        actor, resources = self._actor, self._context.resources
        if scope == "workspace":
            write_workspace(resources.workspace, {name: config})
        with resources.records().write() as connection:
            if scope == "org":
                row = stored.ConnectorRow(
                    organization_id=actor.organization, name=name, config=config.as_json(), created_by=actor.label
                )
                stored.put_connector(connection, row)
            else:
                digest = config.digest(program_files(resources.workspace, config))
                stored.put_grants(connection, [self._make_grant(name, scope, digest)])
            ledger.append(
                connection, actor.organization, audits=[self._entry(name, "connector-added", config.digest())]
            )

    def remove(self, name: str) -> Connector:
        """Remove a connector with everything that was allowed for it, and return what it was."""
        connector = self.find(name)
        self.check_writer(connector.config or ConnectorConfig(url="https://localhost/"), connector.scope)
        actor, resources = self._actor, self._context.resources
        if connector.scope == "workspace":
            write_workspace(resources.workspace, {name: None})
        with resources.records().write() as connection:
            if connector.scope == "org":
                stored.remove_connector(connection, actor.organization, name)
            stored.remove_all_grants(connection, actor.organization, name)
            entry = self._entry(name, "connector-removed", connector.digest)
            ledger.append(connection, actor.organization, audits=[entry])
        return connector

    def grant(self, connector: Connector, tools: Sequence[ConnectorTool]) -> None:
        """Allow tools of a connector, or, without any, the connector itself."""
        grants = [self._make_grant(connector.name, connector.scope, connector.digest, tool) for tool in tools]
        if not tools:
            grants = [self._make_grant(connector.name, connector.scope, connector.digest)]
        with self._context.resources.records().write() as connection:
            stored.put_grants(connection, grants)
            names = [tool.name for tool in tools]
            entry = self._entry(connector.name, "connector-allowed", connector.digest, tools=names)
            ledger.append(connection, self._actor.organization, audits=[entry])

    def revoke(self, connector: Connector, tools: list[str]) -> None:
        """Take back what was allowed: some tools, or everything."""
        everyone = connector.scope == "org" and self._actor.admin
        with self._context.resources.records().write() as connection:
            owners = [self._actor.owner, *([replace(self._actor.owner, user_id="")] if everyone else [])]
            for owner in owners:
                stored.remove_grants(connection, owner, connector.name, tools)
            entry = self._entry(connector.name, "connector-disallowed", connector.digest, tools=tools)
            ledger.append(connection, self._actor.organization, audits=[entry])

    def _make_grant(
        self, name: str, scope: ConnectorScope, digest: str, tool: ConnectorTool | None = None
    ) -> stored.ConnectorGrant:
        actor = self._actor
        return stored.ConnectorGrant(
            organization_id=actor.organization,
            user_id="" if scope == "org" and actor.admin else actor.user,
            connector=name,
            config_digest=digest,
            tool=tool.name if tool else "",
            tool_digest=tool.digest if tool else "",
            granted_by=actor.label,
        )

    def _entry(self, name: str, outcome: str, digest: str, **detail: Any) -> ledger.AuditEntry:
        return ledger.AuditEntry(
            actor=self._actor.label,
            channel=self._actor.channel,
            action="configure",
            slug=f"connector:{name}",
            digest=digest,
            outcome=outcome,
            detail=detail,
        )


def _from_row(row: stored.ConnectorRow, grants: Sequence[stored.ConnectorGrant]) -> Connector:
    try:
        config = parse_config(row.name, row.config)
    except Invalid as error:
        return Connector(name=row.name, scope="org", problem=error.message)
    connector = Connector(name=row.name, scope="org", config=config, digest=config.digest())
    return _with_grants(connector, grants, needs_acceptance=False)


def _with_grants(connector: Connector, grants: Sequence[stored.ConnectorGrant], *, needs_acceptance: bool) -> Connector:
    """Return a connector with what is allowed for exactly this digest of it."""
    own = [grant for grant in grants if grant.connector == connector.name and grant.config_digest == connector.digest]
    accepted = not needs_acceptance or any(not grant.tool for grant in own)
    tools = tuple((grant.tool, grant.tool_digest) for grant in own if grant.tool) if accepted else ()
    return replace(connector, accepted=accepted, tools=tools)


FILE = Path(".prowess") / "connectors.json"
MAX_BYTES = 256 * 1024
MAX_CONNECTORS = 100


def read_workspace(workspace: Path) -> dict[str, ConnectorConfig | Invalid]:
    """Return the connectors of the file by name, with the error of each that is not valid; none without a file.

    Raise `Invalid` if the file as a whole cannot be read.
    """
    text = _read_file(workspace / FILE, MAX_BYTES)
    if text is None:
        return {}
    found: dict[str, ConnectorConfig | Invalid] = {}
    for name, entry in _parse(text).items():
        try:
            found[name] = parse_config(name, entry)
        except Invalid as error:
            found[name] = error
    return found


def write_workspace(workspace: Path, changes: Mapping[str, ConnectorConfig | None]) -> None:
    """Add, replace or (with None) remove connectors in the file, atomically. Other entries stay as they are.

    Raise `Unavailable` if another process writes the file for long.
    """
    path = workspace / FILE
    try:
        path.parent.mkdir(exist_ok=True)
        # From reading to writing, or the change of another process in between would be lost.
        with lock_folder(path.parent):
            _change(path, changes)
    except OSError as error:
        raise Unavailable(f"{FILE} could not be written ({error.strerror}).") from error


def _change(path: Path, changes: Mapping[str, ConnectorConfig | None]) -> None:
    text = _read_file(path, MAX_BYTES)
    entries: dict[str, Any] = dict(_parse(text)) if text is not None else {}
    for name, config in changes.items():
        if config is None:
            entries.pop(name, None)
        else:
            entries[name] = config.as_json()
    if len(entries) > MAX_CONNECTORS:
        raise Invalid(f"A workspace has at most {MAX_CONNECTORS} connectors.", hint="Remove some first.")
    # In the same folder, so that the rename is atomic. A concurrent reader sees either all of the old file or all of the new one.
    temporary = path.with_name(f".connectors-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(json.dumps({"connectors": entries}, indent=2, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def program_files(workspace: Path, config: ConnectorConfig) -> dict[str, str]:
    """Return the digests of files in the workspace that a command line names, by name.

    They are what is run, so a change of theirs is a change of the connector. Files that a program reads by itself are not
    known here.
    """
    root = real_path(workspace)
    found: dict[str, str] = {}
    for word in _names(config):
        with suppress(OSError, ValueError):
            path = real_path(root / word)
            if path.is_relative_to(root) and path.is_file():
                with path.open("rb") as file:
                    found[word] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def workspace_paths(workspace: Path, config: ConnectorConfig) -> list[str]:
    """Return the words of a command line that name a file or folder relative to the workspace."""
    found: list[str] = []
    for word in _names(config):
        # A plain word such as `time` is rarely a path, even if there is a folder of that name.
        with suppress(OSError, ValueError):
            if not word.startswith("/") and ("/" in word or "." in word) and (workspace / word).exists():
                found.append(word)
    return found


def _names(config: ConnectorConfig) -> list[str]:
    """Return the words of a command line that may name files, also those after the `=` of an option."""
    words = (word.partition("=")[2] if word.startswith("-") else word for word in (config.command, *config.args))
    return [word for word in words if word]


def _parse(text: str) -> dict[str, Any]:
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid(f"{FILE} is not valid JSON.", hint="Fix the file, or delete it.") from None
    entries: Any = json_object(whole).get("connectors")
    if not isinstance(entries, dict):
        raise Invalid(f'{FILE} has no object "connectors".', hint="Fix the file, or delete it.")
    named = cast("dict[str, Any]", entries)
    if len(named) > MAX_CONNECTORS:
        raise Invalid(f"{FILE} has more than {MAX_CONNECTORS} connectors.", hint="Remove some.")
    return named


def _read_file(path: Path, most: int) -> str | None:
    """Return the text of a regular file; None if there is none. Links are not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Invalid(f"{FILE} cannot be read ({error.strerror}).", hint="Fix the file, or delete it.") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Invalid(f"{FILE} is not a file.", hint="Delete it.")
        content = file.read(most + 1)
    if len(content) > most:
        raise Invalid(f"{FILE} has more than {most:,} bytes.", hint="Remove connectors that are not used.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{FILE} is not UTF-8 text.", hint="Fix the file, or delete it.") from None
