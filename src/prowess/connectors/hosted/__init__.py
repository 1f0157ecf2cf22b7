"""Skills that connectors serve by the MCP skills extension: read strictly, approved by digest, never stored as skills."""
