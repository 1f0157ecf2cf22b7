"""Configure connectors, look at their tools, and call them, as one actor may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prowess.connectors.admission import (
    Connector,
    ConnectorScope,
    call_subject,
    connect_subject,
    mark_allowed,
    pass_gate,
)
from prowess.connectors.config import (
    ConnectorConfig,
    ImportedConnector,
    check_name,
    parse_config,
    read_import,
    resolve_references,
)
from prowess.connectors.pool import Link, Opener, Pool
from prowess.connectors.records import ConnectorRecords
from prowess.connectors.results import CallResult, read_result
from prowess.connectors.tool_list import ConnectorTool, read_tools, search_tools
from prowess.engine.context import Context
from prowess.errors import Invalid, NotFound, ProwessError, Refused
from prowess.policy.text import clean_text
from prowess.redaction.redactor import Redactor
from prowess.threads import offload

if TYPE_CHECKING:
    from mcp.client.client import Client

    from prowess.connectors.hosted.skills import HostedList, HostedSkills


class Connectors:
    """The connectors in reach of one actor: those of the organization, and those of the workspace."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._actor = context.actor
        self._records = ConnectorRecords(context)

    @property
    def _pool(self) -> Pool:
        return cast("Pool", self._context.resources.connector_pool())

    async def list(self) -> list[Connector]:
        """Return all connectors, by name. Nothing is started."""
        return await offload(self._records.read)

    async def get(self, name: str) -> Connector:
        """Return a connector, or raise `NotFound`."""
        return await offload(self._records.find, name)

    async def add(
        self, name: str, config: ConnectorConfig | Mapping[str, Any], *, scope: ConnectorScope = "org"
    ) -> Connector:
        """Store a connector, replacing one with the same name, and return it. Only a person can do this.

        A connector of the organization needs an administrator. A connector of the workspace is stored in `.prowess/connectors.json`,
        and is accepted with it. Raise `Refused` for a command or a secret of the server from a person at another machine.
        """
        checked = config if isinstance(config, ConnectorConfig) else parse_config(name, dict(config))
        check_name(name)
        await offload(self._records.add, name, checked, scope)
        await self._pool.close_connector(self._key(name))
        return await self.get(name)

    async def remove(self, name: str) -> Connector:
        """Remove a connector and everything that was allowed for it, and return it. Only a person can do this."""
        gone = await offload(self._records.remove, name)
        await self._pool.close_connector(self._key(name))
        return gone

    async def import_text(self, text: str, *, scope: ConnectorScope = "org") -> list[ImportedConnector]:
        """Add the servers of another product's file, given as its text, and return them. If one is invalid, none is added."""
        found = read_import(text)
        for connector in found:
            await offload(self._records.check_new, connector.name, connector.config, scope)
        for connector in found:
            await self.add(connector.name, connector.config, scope=scope)
        return found

    async def tools(self, name: str) -> tuple[list[ConnectorTool], list[str]]:
        """Return the tools of a connector in its order, and notes about what was left out. This starts the connector.

        Names, descriptions and schemas were written by the server: treat them as data.
        """
        connector = await self.request_access(name)
        async with self._pool.use(self._opener(connector)) as client:
            found, notes = await read_tools(client, connector.name, self._secrets(connector))
        return mark_allowed(connector, found), notes

    async def search(self, query: str, *, connector: str = "", limit: int = 10) -> list[tuple[ConnectorTool, float]]:
        """Return the tools of one or all accepted connectors that fit a query, best first, with scores.

        With one connector, raise its error; without, skip those that cannot be used.
        """
        if connector:
            tools, _ = await self.tools(connector)
        else:
            usable = [one.name for one in await self.list() if one.accepted and not one.problem]
            groups = await asyncio.gather(*(self._tools_or_none(one) for one in usable))
            tools = [tool for group in groups for tool in group]
        return await offload(lambda: search_tools(query, tools, limit=limit))

    async def call(
        self,
        name: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        session: str = "",
        reason: str = "",
        seconds: float = 0.0,
    ) -> CallResult:
        """Call a tool of a connector, and return its result, cleaned and within a limit.

        Raise `ApprovalRequired` if a person has to be asked: the approval is for this configuration, this definition of the
        tool and exactly these arguments, once. `session` is the id of the session it is for.
        """
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        connector = await self.request_access(name, reason, session=session)
        config, values = _config_of(connector), dict(arguments or {})
        async with self._pool.use(self._opener(connector), seconds=seconds) as client:
            # Read again before each call: a server may change what a tool does after someone has allowed it.
            tools, _ = await read_tools(client, connector.name, self._secrets(connector))
            found = _find_tool(mark_allowed(connector, tools), connector, tool)
            subject = call_subject(connector, config, found, values)
            action = "read_tool" if found.reads else "call_tool"
            await offload(lambda: pass_gate(self._context, action, subject, session=session, reason=reason))
            # Not `client.call_tool`, which checks the answer against a schema of the server: a hostile one takes forever.
            request = CallToolRequest(params=CallToolRequestParams(name=found.name, arguments=values))
            result = await client.session.send_request(request, CallToolResult)
        return await offload(read_result, connector.name, found.name, result, Redactor(self._secrets(connector)))

    async def allow(self, name: str, tools: Sequence[str] = (), *, reads: bool = False) -> Connector:
        """Accept the configuration of a connector, and allow tools as they are defined now, without asking again.

        With `reads`, allow all tools that the server declares read-only. Only a person who may approve can. An
        administrator allows tools of the organization's connectors for everyone in it.
        """
        connector = await offload(self._records.find, name)
        _config_of(connector)
        self._require_approver()
        await offload(self._records.grant, connector, [])
        if tools or reads:
            found, _ = await self.tools(name)
            chosen = [_find_tool(found, connector, tool) for tool in tools]
            chosen += [tool for tool in found if reads and tool.reads and tool not in chosen]
            await offload(self._records.grant, connector, chosen)
        return await self.get(name)

    async def disallow(self, name: str, tools: Sequence[str] = ()) -> Connector:
        """Stop allowing some tools, or, without any, the connector with all its tools."""
        connector = await offload(self._records.find, name)
        self._require_approver()
        await offload(self._records.revoke, connector, list(tools))
        if not tools:
            await self._pool.close_connector(self._key(name))
        return await self.get(name)

    async def request_access(self, name: str, reason: str = "", *, session: str = "") -> Connector:
        """Return a connector if it is accepted; otherwise ask a person to accept it, and raise `ApprovalRequired`."""

        def admit() -> Connector:
            connector = self._records.find(name)
            subject = connect_subject(connector, _config_of(connector))
            pass_gate(self._context, "connect", subject, session=session, reason=reason)
            return connector

        return await offload(admit)

    @asynccontextmanager
    async def session(self, name: str, *, seconds: float = 0.0) -> AsyncGenerator[Client]:
        """Yield the client of an open connector; see the package. The block ends after `seconds`."""
        connector = await self.request_access(name)
        async with self._pool.use(self._opener(connector), seconds=seconds) as client:
            yield client

    @cached_property
    def hosted(self) -> HostedSkills:
        """Skills that connectors serve: read, fetch into a session, and read their files there."""
        from prowess.connectors.hosted.reader import ClientSkillServer
        from prowess.connectors.hosted.skills import HostedSkills

        @asynccontextmanager
        async def connect(name: str) -> AsyncGenerator[ClientSkillServer]:
            async with self.session(name) as client:
                yield ClientSkillServer(name, client)

        return HostedSkills(self._context, connect)

    async def skills(self, name: str) -> HostedList:
        """Return the skills that a connector serves, and the decision about each. Only a person can see them."""
        return await self.hosted.list(name)

    def state(self, connector: Connector) -> str:
        """Return why a connector is refused for a while after failures; '' if it is not."""
        return self._pool.state(self._key(connector.name, connector.digest))

    async def _tools_or_none(self, name: str) -> Sequence[ConnectorTool]:
        try:
            return (await self.tools(name))[0]
        except ProwessError:
            return ()

    def _opener(self, connector: Connector) -> Opener:
        config = _config_of(connector)
        context, resources = self._context, self._context.resources

        def connect() -> Link:
            if config.command:
                from prowess.connectors.stdio import ServerProcess, process_environment, process_streams

                chosen = resolve_references(config.env, resources.environment, connector.name)
                env = process_environment(resources.environment, chosen)
                process = ServerProcess([config.command, *config.args], env=env, cwd=self._folder(connector))
                return Link(streams=process_streams(process), process=process)
            from prowess.connectors.http import GuardedTransport, http_streams

            headers = resolve_references(config.headers, resources.environment, connector.name)
            client = resources.fetch_context().client
            transport = GuardedTransport(config, client, routes=routes, party=f"connector:{connector.name}")
            http_client, streams = http_streams(config, transport, headers)
            return Link(streams=streams, http=transport, client=http_client)

        routes = context.read_policy().host_routes if config.url else dict[str, str]()
        key = self._key(connector.name, connector.digest)

        def redact(text: str) -> str:
            return Redactor(self._secrets(connector)).text(text)

        return Opener(key=key, name=connector.name, seconds=float(config.seconds), connect=connect, redact=redact)

    def _folder(self, connector: Connector) -> Path:
        """Return the folder in which a connector starts: the workspace only if it was accepted together with it.

        `python -m`, `npx` and others run what they find in the current folder, which may be a repository of anyone.
        """
        if connector.scope == "workspace":
            return self._context.resources.workspace
        folder = self._context.resources.home / "connectors"
        with suppress(OSError):  # then the program cannot be started, which is reported
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _key(self, *parts: str) -> tuple[str, ...]:
        return (self._actor.organization, self._actor.user, *parts)

    def _secrets(self, connector: Connector) -> Sequence[str]:
        """Return the values that the server of a connector is given, which it may repeat in all that it says."""
        environment = self._context.resources.environment
        return [environment[name] for name in _config_of(connector).variables if environment.get(name)]

    def _require_approver(self) -> None:
        if not self._actor.is_person:
            raise Refused("Only a person may allow this.", hint="Call request_connector_access to ask for it.")
        self._actor.require("approvals.resolve")


def _config_of(connector: Connector) -> ConnectorConfig:
    if connector.config is None:
        raise Invalid(connector.problem or f"The connector {connector.name!r} cannot be read.", hint="Fix its file.")
    return connector.config


def _find_tool(tools: Sequence[ConnectorTool], connector: Connector, name: str) -> ConnectorTool:
    for tool in tools:
        if tool.name == name:
            return tool
    # Names of tools are the server's words, so they are not part of the message.
    raise NotFound(
        f"The connector {connector.name!r} has no tool {clean_text(name, limit=80)!r}.",
        hint=f"Call search_connector_tools, or run `prowess connector tools {connector.name}`, to find its name.",
    )
