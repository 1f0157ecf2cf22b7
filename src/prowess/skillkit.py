"""Types for authors of `execute(args, ctx)`: what the context offers, and what may be returned. Nothing here runs.

    from prowess.skillkit import SkillContext, SkillResult

    def execute(args: dict, ctx: SkillContext) -> SkillResult:
        page = ctx.fetch("https://example.org/fruit.json")
        return {"success": page.ok, "result": page.json()}

Every call of the context returns its value at once, and the value can also be awaited: `await ctx.fetch(…)` in `async def`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, NotRequired, Protocol, TypedDict

__all__ = ["Response", "SkillContext", "SkillResult"]


class SkillResult(TypedDict):
    """The result of a function. A function that returns anything else has succeeded, with that value as its result."""

    success: bool
    result: NotRequired[Any]
    """The value for the caller, which must be JSON-serializable."""
    error: NotRequired[str]
    """The error message, if `success` is false."""


class Response(Awaitable["Response"], Protocol):
    """The response of a host, with any status."""

    @property
    def status(self) -> int:
        """The status code, such as 200."""
        ...

    @property
    def ok(self) -> bool:
        """True if the status is from 200 to 299."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case name."""
        ...

    @property
    def url(self) -> str:
        """The final URL, after all redirects."""
        ...

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        ...

    def text(self) -> str:
        """Return the body as text."""
        ...

    def json(self) -> Any:
        """Return the body parsed as JSON."""
        ...


class SkillContext(Protocol):
    """The outside world of a function. Access that was not granted raises `prowess.HostError` with the reason."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables that the manifest lists under `env` and an administrator allowed."""
        ...

    def fetch(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Response:
        """Send a request to a host that the manifest lists under `hosts`. A body that is neither text nor bytes is sent as JSON."""
        ...

    def read_file(self, path: str) -> Any:
        """Return the text of a file, or its bytes if it is not text.

        The file is in the run's own folder, or in one that the manifest lists under `roots`.
        """
        ...

    def write_file(self, path: str, content: str | bytes) -> Any:
        """Write a whole file, or nothing, and return its size in bytes.

        The run's own folder is deleted when the run ends.
        """
        ...

    def log(self, message: Any) -> Awaitable[None]:
        """Add a line to the log of the run."""
        ...
