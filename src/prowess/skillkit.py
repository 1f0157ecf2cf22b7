"""Types for those who write `execute(args, ctx)`: what the context offers, and what may be returned. Nothing here runs.

    from prowess.skillkit import SkillContext, SkillResult

    def execute(args: dict, ctx: SkillContext) -> SkillResult:
        page = ctx.fetch("https://example.org/fruit.json")
        return {"success": page.ok, "result": page.json()}

Every call of the context gives its value at once, and what it gives can be awaited too: `await ctx.fetch(…)` in `async def`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, NotRequired, Protocol, TypedDict

__all__ = ["Response", "SkillContext", "SkillResult"]


class SkillResult(TypedDict):
    """What a function says of itself. One that returns anything else has succeeded, with that as its result."""

    success: bool
    result: NotRequired[Any]
    """What the caller is given: anything that JSON can say."""
    error: NotRequired[str]
    """Why there is none, where `success` is false."""


class Response(Awaitable["Response"], Protocol):
    """What a host answered, whatever its status."""

    @property
    def status(self) -> int:
        """The code, such as 200."""
        ...

    @property
    def ok(self) -> bool:
        """Whether the code is from 200 to 299."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in lower case."""
        ...

    @property
    def url(self) -> str:
        """Where it came from, after every redirect."""
        ...

    @property
    def content(self) -> bytes:
        """The body as it came."""
        ...

    def text(self) -> str:
        """The body as text."""
        ...

    def json(self) -> Any:
        """The body read as JSON."""
        ...


class SkillContext(Protocol):
    """What a function reaches of the world outside it. Whatever it was not given raises `prowess.HostError`, which says why."""

    @property
    def env(self) -> Mapping[str, str]:
        """The values that the manifest names under `env` and an administrator allowed."""
        ...

    def fetch(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Response:
        """Ask a host that the manifest names under `hosts`. A body that is neither text nor bytes is sent as JSON."""
        ...

    def read_file(self, path: str) -> Any:
        """The text of a file in the run's own folder or in one that the manifest names under `roots`; bytes if it is no text."""
        ...

    def write_file(self, path: str, content: str | bytes) -> Any:
        """Write a file whole, or not at all; how many bytes it has. The run's own folder is gone when the run has ended."""
        ...

    def log(self, message: Any) -> Awaitable[None]:
        """Add a line to the log of the run."""
        ...
