"""The MCP door: the tools and the skills, over stdio and HTTP. It needs the extra `prowess[mcp]`."""
