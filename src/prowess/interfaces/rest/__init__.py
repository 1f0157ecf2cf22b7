"""The HTTP API: REST, server-sent events and the operational endpoints."""
