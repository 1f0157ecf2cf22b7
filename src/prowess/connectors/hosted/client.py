"""A connected MCP server as a `SkillServer`. Results are passed on as the JSON that came; the reader checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prowess.errors import Invalid, NotFound, RunFailed, Unavailable

if TYPE_CHECKING:
    from mcp.client.client import Client

EXTENSION_ID = "io.modelcontextprotocol/skills"


class ClientSkillServer:
    """The skills of a server that a client of the MCP SDK is connected to. `name` is the host's name for it."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client
        capabilities = client.server_capabilities
        # The extension is used only where a server declares it, together with resources.
        if EXTENSION_ID not in (capabilities.extensions or {}) or capabilities.resources is None:
            raise Unavailable(
                f"The connector {name!r} serves no skills: it does not declare the extension {EXTENSION_ID}.",
                hint="Its tools can still be used: `prowess connector tools`.",
            )

    async def list_skills(self, cursor: str | None) -> object:
        """Send `skills/list`."""
        return await self._send("skills/list", {} if cursor is None else {"cursor": cursor})

    async def get_skill(self, uri: str) -> object:
        """Send `skills/get`."""
        return await self._send("skills/get", {"uri": uri})

    async def read_resource(self, uri: str) -> object:
        """Send `resources/read`."""
        return await self._send("resources/read", {"uri": uri})

    async def _send(self, method: str, params: dict[str, Any]) -> object:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, Request
        from pydantic import TypeAdapter, ValidationError

        request = Request[dict[str, Any], str](method=method, params=params)
        try:
            # Not through the client's own methods: they answer from a cache, and leave out what they do not know. The SDK
            # wants a model, but takes any type.
            whole: Any = TypeAdapter(dict[str, Any])
            return await self._client.session.send_request(request, whole)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise
            # Its message is the server's words, which nobody has accepted.
            if error.code == INVALID_PARAMS:
                raise NotFound(
                    f"The connector {self.name!r} has no such skill or file.",
                    hint=f"Run `prowess connector skills {self.name}` to list its skills.",
                ) from None
            raise RunFailed(
                f"The connector {self.name!r} answered `{method}` with the error {error.code}.",
                hint="Tell the operator of the server.",
            ) from None
        except ValidationError:
            raise Invalid(
                f"The answer of the connector {self.name!r} to `{method}` breaks the protocol.",
                hint="Tell the operator of the server.",
            ) from None
