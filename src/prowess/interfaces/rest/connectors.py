"""Routes of connectors: the MCP servers of the organization, their tools, and calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.connectors.config import ConnectorConfig, parse_config
from prowess.interfaces.rest.request import (
    Admin,
    Approver,
    Body,
    FewMembers,
    Page,
    PageShape,
    Reader,
    Runner,
    Shape,
    paginate,
    respond,
)

router = APIRouter(prefix="/connectors", tags=["connectors"])

ConnectorName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", max_length=64)]
ToolName = Annotated[str, Field(min_length=1, max_length=128)]


class ConnectorShape(Shape):
    """A connector. `variables` has the names of its secrets; their values are never stored."""

    name: str
    scope: Literal["org", "workspace"]
    transport: Literal["", "stdio", "http"]
    where: str
    description: str
    variables: list[str]
    accepted: bool
    allowed_tools: list[str]
    problem: str
    digest: str


class ToolShape(Shape):
    """A tool of a connector, as its server describes it. `reads` is the server's claim."""

    connector: str
    tool: str
    title: str
    description: str
    reads: bool
    allowed: bool
    arguments: dict[str, Any] | None
    digest: str
    origin: str


class ConnectorToolsShape(Shape):
    """Tools of a connector, and notes about what was left out."""

    tools: list[ToolShape]
    notes: list[str]


class CallShape(Shape):
    """The result of a call, cleaned and cut. It is untrusted data of the server that `origin` names."""

    connector: str
    tool: str
    is_error: bool
    content: str
    origin: str


class ConnectorBody(Body):
    """A server that supports streamable HTTP. Values of headers contain a reference, `${CONNECTOR_…}`."""

    url: Annotated[str, Field(max_length=4096, examples=["https://mcp.example.com/mcp"])]
    headers: Annotated[dict[str, str], FewMembers] = Field(default_factory=dict[str, str])
    seconds: Annotated[int, Field(ge=1, le=600)] = 60
    description: Annotated[str, Field(max_length=500)] = ""


class ConnectorCallBody(Body):
    """A call of a tool. `reason` is shown to the person who has to approve it."""

    tool: ToolName
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    reason: Annotated[str, Field(max_length=500)] = ""


class AllowBody(Body):
    """Tools to allow as they are defined now; with `reads`, also all that the server declares read-only."""

    tools: list[ToolName] = Field(default_factory=list[str], max_length=500)
    reads: StrictBool = False


@router.get("", response_model=PageShape[ConnectorShape])
async def list_connectors(engine: Reader, page: Page) -> Response:
    """Return the connectors of the organization, by name. Nothing is started."""
    return respond(paginate(await engine.connectors.list(), page, lambda row: row.name))


@router.get("/{name}", response_model=ConnectorShape)
async def get_connector(name: ConnectorName, engine: Reader) -> Response:
    """Return a connector."""
    return respond((await engine.connectors.get(name)).as_json())


@router.put("/{name}", response_model=ConnectorShape)
async def put_connector(name: ConnectorName, body: ConnectorBody, engine: Admin) -> Response:
    """Add a connector, or replace it. Commands can only be configured on the machine itself."""
    config: ConnectorConfig = parse_config(name, body.model_dump())
    return respond((await engine.connectors.add(name, config)).as_json())


@router.delete("/{name}", status_code=204, response_class=Response)
async def delete_connector(name: ConnectorName, engine: Admin) -> Response:
    """Remove a connector and everything that was allowed for it."""
    await engine.connectors.remove(name)
    return Response(status_code=204)


@router.get("/{name}/tools", response_model=ConnectorToolsShape)
async def list_tools(
    name: ConnectorName,
    engine: Reader,
    q: Annotated[str, Query(max_length=300, description="Only matching tools, best first.")] = "",
) -> Response:
    """Return the tools of a connector, as its server describes them."""
    connectors = engine.connectors
    if q.strip():
        found, notes = [tool for tool, _ in await connectors.search(q, connector=name, limit=50)], list[str]()
    else:
        found, notes = await connectors.tools(name)
    return respond({"tools": [tool.as_json() for tool in found], "notes": notes})


@router.post("/{name}/call", response_model=CallShape)
async def call_tool(name: ConnectorName, body: ConnectorCallBody, engine: Runner) -> Response:
    """Call a tool. An agent needs an approval unless a person has allowed the tool."""
    result = await engine.connectors.call(name, body.tool, body.arguments, reason=body.reason)
    return respond(result.as_json())


@router.post("/{name}/allowed", response_model=ConnectorShape)
async def allow_tools(name: ConnectorName, body: AllowBody, engine: Approver) -> Response:
    """Let agents call tools without asking, as long as their definitions stay the same."""
    return respond((await engine.connectors.allow(name, body.tools, reads=body.reads)).as_json())


@router.delete("/{name}/allowed", response_model=ConnectorShape)
async def disallow_tools(
    name: ConnectorName,
    engine: Approver,
    tool: Annotated[str, Query(max_length=128, description="Only this one.")] = "",
) -> Response:
    """Stop allowing one tool, or all tools."""
    return respond((await engine.connectors.disallow(name, [tool] if tool else ())).as_json())
