"""The MCP interface: tools and skills over stdio and HTTP. It needs the extra `prowess[mcp]`."""
