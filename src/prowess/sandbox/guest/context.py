"""The context of a function: what it can reach of the world, each by asking its host.

Every call gives its value at once; the value can be awaited too, so that `await ctx.fetch(…)` reads well in `async def`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from .bridge import Ask

NAMES = frozenset({"fetch", "read_file", "write_file", "log"})
"""The host functions that are here, and therefore not in the module that a function imports."""

T = TypeVar("T")


class Text(str):
    """A text that can be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return _ready(str(self))


class Data(bytes):
    """Bytes that can be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, bytes]:
        return _ready(bytes(self))


class Number(int):
    """A number that can be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, int]:
        return _ready(int(self))


class Done:
    """Nothing, which can be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return _ready(None)


class Headers(dict[str, str]):
    """Headers by name, in whatever case it is asked for."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None, /) -> Any:
        """The value, or something else where there is none."""
        return super().get(name.lower(), default)


class Response:
    """What a host answered, whatever its status."""

    __slots__ = ("content", "headers", "status", "url")

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.status: int = told["status"]
        self.url: str = told["url"]
        self.headers = Headers(told["headers"])
        self.content: bytes = base64.b64decode(told["base64"]) if "base64" in told else told["text"].encode()

    @property
    def ok(self) -> bool:
        """Whether the status says that it went well."""
        return 200 <= self.status < 300

    def text(self) -> str:
        """The body as text; what is no UTF-8 in it is replaced."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON says it."""
        return json.loads(self.content)

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.url}>"

    def __await__(self) -> Generator[Any, None, Response]:
        return _ready(self)


class Context:
    """What `execute(args, ctx)` has as `ctx`."""

    __slots__ = ("_ask", "env")

    def __init__(self, ask: Ask, env: Mapping[str, str]) -> None:
        self._ask = ask
        self.env = MappingProxyType(dict(env))

    def fetch(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Response:
        """Ask a host. A body that is neither text nor bytes is sent as JSON."""
        asked = {"method": method, "headers": dict(headers or {}), "body": _sent(body)}
        return Response(self._ask("fetch", (url,), asked))

    def read_file(self, path: str) -> Text | Data:
        """A file: its text, or its bytes where it is no text."""
        told = self._ask("read_file", (str(path),), {})
        return Data(base64.b64decode(told["base64"])) if "base64" in told else Text(told["text"])

    def write_file(self, path: str, content: str | bytes) -> Number:
        """Write a file whole; how many bytes it has."""
        return Number(self._ask("write_file", (str(path), _sent(content)), {})["bytes"])

    def log(self, message: Any) -> Done:
        """Add a line to the log of the run."""
        self._ask("log", (str(message),), {})
        return Done()


def _sent(content: Any) -> Any:
    """Bytes in a way that JSON can say; anything else as it is."""
    if isinstance(content, (bytes, bytearray)):
        return {"base64": base64.b64encode(content).decode()}
    return content


def _ready(value: T) -> Generator[Any, None, T]:
    """What `await` goes through for a value that is there already."""
    return value
    yield
