"""Run our server with the fixtures of the conformance suite in addition to its own tools and skills.

Everything else is served as usual, except that no token is required, because the suite cannot send one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import mcp_types as types

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.listener import open_listener, serve_http
from prowess.interfaces.mcp.http import DEFAULT_PATH, NOBODY, wrap_server
from prowess.interfaces.mcp.server import ProwessServer, make_security, make_server
from prowess.open import Prowess
from prowess.policy.actor import agent_of, local_person


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fixtures = load("fixtures")


def add_fixtures(server: ProwessServer) -> None:
    tools = fixtures.tools(server.backend.notices.announce)
    ours = {
        method: server.get_request_handler(method).handler
        for method in ("tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read")
    }

    async def list_tools(context, params):
        listed = await ours["tools/list"](context, params)
        extra = [
            types.Tool(name=name, description="A tool for testing.", input_schema=schema)
            for name, (schema, _) in tools.items()
        ]
        return listed.model_copy(update={"tools": [*listed.tools, *extra]})

    async def call_tool(context, params):
        if params.name in tools:
            return await tools[params.name][1](context, params)
        return await ours["tools/call"](context, params)

    async def list_resources(context, params):
        listed = await ours["resources/list"](context, params)
        return listed.model_copy(update={"resources": [*listed.resources, *fixtures.RESOURCES]})

    async def list_templates(context, params):
        listed = await ours["resources/templates/list"](context, params)
        return listed.model_copy(update={"resource_templates": [*listed.resource_templates, fixtures.TEMPLATE]})

    async def read_resource(context, params):
        handler = fixtures.read_resource if params.uri.startswith("test://") else ours["resources/read"]
        return await handler(context, params)

    page = types.PaginatedRequestParams
    server.add_request_handler("tools/list", page, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("resources/list", page, list_resources)
    server.add_request_handler("resources/templates/list", page, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    server.add_request_handler("prompts/list", page, fixtures.list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, fixtures.get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, fixtures.complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, fixtures.set_level)
    server.get_tool_input_schema = lambda name: tools[name][0] if name in tools else None


async def main(workspace: str) -> None:
    person = local_person("ann")
    caller = Caller(actor=agent_of(person), person=person, approvals_by=("mcp",))
    async with Prowess.open(workspace) as engine:
        server = make_server(engine, NOBODY, security=make_security([b"conformance" * 3], NOBODY))
        add_fixtures(server)
        listener = open_listener("127.0.0.1", 0)
        sys.stderr.write(f"http://localhost:{listener.getsockname()[1]}{DEFAULT_PATH}\n")
        await serve_http(wrap_server(server, callers=lambda _: caller, streams=True), listener)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
