"""Finding the skills for a message; no model is asked."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from prowess.engine.frame import Frame

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation


class Finding(Frame):
    """The part of the engine that matches and searches."""

    async def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The skills worth offering for a message, best first, with reasons; none where none fits. No model is asked.

        `context` is what was said before: it counts less than the message. The skills have all of `tags`.
        """
        return await self._blocking(lambda: self._matcher().match(message, limit=limit, tags=tags, context=context))

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The whole ranking for a message, with the decision "no" on what does not fit."""
        return await self._blocking(lambda: self._matcher().rank(message, limit=limit, tags=tags, context=context))

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """What has anything of the query, best first; without one, all skills with the tags, by slug."""
        return await self._blocking(lambda: self._matcher().search(query, limit=limit, tags=tags))
