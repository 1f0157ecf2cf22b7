"""The engine: everything that a door can ask for, over one catalog."""

from __future__ import annotations

from typing import Self

from prowess.engine.reporting import Reporting


class Engine(Reporting):
    """Keeps, finds, admits and gives out skills. Opened by `prowess.Prowess.open`; close it, or use `async with`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of databases and files."""
        await self._blocking(self._parts.close)
