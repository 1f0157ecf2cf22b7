"""Connectors: MCP servers whose tools agents may call, over stdio and HTTP.

To use an open one in Python (`mcp.Client` of the SDK, kept open and shared, with time limits):

    async with prowess.connectors.session("github") as client:
        page = await client.list_resources()

`session` raises `NotFound`, `ApprovalRequired` if nobody has accepted the configuration, and `TryLater` or `RunFailed` if
the server cannot be reached or breaks the protocol. Inside the block, errors of the server become errors of Prowess, too.
Everything that a server sends is untrusted: pass texts through `connectors.results.clean`.
"""
