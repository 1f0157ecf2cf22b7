"""A model by name alone: enough to choose a prompt for it, and nothing that could be asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from prowess.errors import Unavailable
from prowess.llm.model import Reply, Request

NOBODY = "a model that is still to be chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """Stands for a model that is not opened, as in a dry run: no key and no installed part is needed for it."""

    name: str = NOBODY
    family: str = ""
    structured: bool = True

    async def complete(self, request: Request) -> Reply:  # noqa: ARG002
        """Nothing can be asked."""
        raise Unavailable(f"{self.name} is known by its name alone.", hint="Open the model to ask it.")

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Nothing can be asked."""
        yield await self.complete(request)
