"""What a script can reach of its host: a module of functions, the context of a function, and what it prints.

Every call on the context returns its value at once; the value can also be awaited, so that `await ctx.fetch(…)` works in
`async def`.
"""

from __future__ import annotations

import base64
import io
import json
import re
import types
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

Call = Callable[[str, str], str]
"""The only way out: takes the name of a host function and its arguments as JSON, and returns JSON."""
Ask = Callable[[str, Sequence[Any], Mapping[str, Any]], Any]
"""Calls a host function with arguments and returns its value, or raises `HostError`."""

PRINT = "print"
"""The name of the call that hands over printed text."""
PENDING_CHARS, PROMPT_LINES = 512, 100
"""How many characters are held back at most, and how many lines are handed over as soon as they are complete.

The first lines are prompt because somebody may watch; after that a call for each line would cost more than the script.
"""
ANSWERING = frozenset({"llm_query", "llm_query_batched"})
FENCE = re.compile(r"```[a-z]*\n(.*?)\n```", re.DOTALL)
BULLET = re.compile(r"^\s*(?:[-*\u2022]|\d{1,3}[.)])\s+")

to_json = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
"""ASCII only: a lone surrogate cannot cross to the host in a WIT string."""
from_json = json.JSONDecoder().decode


class HostError(Exception):
    """A host function refused or failed; `code` says why."""

    def __init__(self, message: str, code: str = "error") -> None:
        super().__init__(message)
        self.code = code


class Answer(str):
    """The answer of a model: a text, except that iterating gives the items that it lists, not its characters.

    These are the items of a JSON array, alone or in a code fence, or else the lines with bullets or numbers, or else all
    non-empty lines. A line before the list that ends with a colon introduces it and is not an item.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def _items(self) -> list[Any]:
        text = str(self).strip()
        fence = FENCE.search(text)
        try:
            items = from_json(fence[1] if fence else text)
        except ValueError:
            items = None
        if isinstance(items, list):
            return cast("list[Any]", items)
        lines = [line for line in text.splitlines() if line.strip()]
        listed = [line for line in lines if BULLET.match(line)]
        if not listed:
            listed = lines[1:] if len(lines) > 1 and lines[0].rstrip().endswith(":") else lines
        return [BULLET.sub("", line).strip() for line in listed]


class Printed(io.TextIOBase):
    """Hands what a script prints over to the host, in pieces."""

    encoding = "utf-8"

    def __init__(self, call: Call) -> None:
        self._call = call
        self._pending: list[str] = []
        self._chars = 0
        self._prompt = PROMPT_LINES

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str, /) -> int:
        """Take a piece of text."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._pending.append(text)
        self._chars += len(text)
        if self._prompt and text.endswith("\n"):
            self._prompt -= 1
            self.flush()
        elif self._chars >= PENDING_CHARS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Hand over what was held back."""
        if self._pending:
            text = "".join(self._pending)
            self._pending, self._chars = [], 0
            self._call(PRINT, text.encode("utf-8", "replace").decode())


class Result:
    """What the script submitted; the last value counts."""

    def __init__(self) -> None:
        self.json: str | None = None

    def submit(self, result: Any) -> None:
        """Set the result of the script: any JSON value."""
        self.json = to_json(result)


def asking(call: Call, printed: Printed) -> Ask:
    """Return the function that calls the host. Printed text is handed over first, to keep the order."""

    def ask(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            payload = to_json([list(args), dict(kwargs)])
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{name}() takes only JSON values: {error}") from None
        printed.flush()
        answer = from_json(call(name, payload))
        if "error" in answer:
            raise HostError(answer["error"]["message"], answer["error"]["code"])
        return _answers(answer["value"]) if name in ANSWERING else answer["value"]

    return ask


def module(name: str, functions: Iterable[str], ask: Ask, result: Result) -> types.ModuleType:
    """Return a module with the functions of the host."""
    host_module = types.ModuleType(name, "Functions of the host that this script can call.")
    for function in functions:
        setattr(host_module, function, _function(function, ask))
    host_module.submit = result.submit  # type: ignore[attr-defined]
    host_module.HostError = HostError  # type: ignore[attr-defined]
    return host_module


def _function(name: str, ask: Ask) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return ask(name, args, kwargs)

    function.__name__ = function.__qualname__ = name
    return function


def _answers(value: Any) -> Any:
    if isinstance(value, list):
        return [_answers(item) for item in cast("list[Any]", value)]
    return Answer(value) if isinstance(value, str) else value


NAMES = frozenset({"fetch", "read_file", "write_file", "log"})
"""The host functions on the context, which are therefore not in the module that a function imports."""

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
    """No value, which can be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return _ready(None)


class Headers(dict[str, str]):
    """Headers by name, in any case."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the value, or a default."""
        return super().get(name.lower(), default)


class Response:
    """The response of a host, whatever its status."""

    __slots__ = ("content", "headers", "status", "url")

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.status: int = message["status"]
        self.url: str = message["url"]
        self.headers = Headers(message["headers"])
        self.content: bytes = base64.b64decode(message["base64"]) if "base64" in message else message["text"].encode()

    @property
    def ok(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300

    def text(self) -> str:
        """Return the body as text; invalid UTF-8 is replaced."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the body parsed as JSON."""
        return json.loads(self.content)

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.url}>"

    def __await__(self) -> Generator[Any, None, Response]:
        return _ready(self)


class EnvNotDeclared(LookupError):
    """A function asked for an environment variable that its skill does not declare."""


class Env(Mapping[str, str]):
    """The granted environment variables. A name that the skill does not declare is an error, not merely absent.

    `None` stands for a declared variable that was not granted or is not set: it is absent.
    """

    __slots__ = ("_declared",)

    def __init__(self, declared: Mapping[str, str | None]) -> None:
        self._declared = dict(declared)

    def __getitem__(self, name: str) -> str:
        if name not in self._declared:
            raise EnvNotDeclared(f"ctx.env: {name} is not declared by this skill.")
        value = self._declared[name]
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._declared.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, value in self._declared.items() if value is not None])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"Env({dict(self)!r})"


class Context:
    """What `execute(args, ctx)` has as `ctx`."""

    __slots__ = ("_ask", "env")

    def __init__(self, ask: Ask, env: Mapping[str, str | None]) -> None:
        self._ask = ask
        self.env = Env(env)

    def fetch(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Response:
        """Send a request. A body that is neither text nor bytes is sent as JSON."""
        options = {"method": method, "headers": dict(headers or {}), "body": _sent(body)}
        return Response(self._ask("fetch", (url,), options))

    def read_file(self, path: str) -> Text | Data:
        """Return the text of a file, or its bytes if it is not UTF-8."""
        answer = self._ask("read_file", (str(path),), {})
        return Data(base64.b64decode(answer["base64"])) if "base64" in answer else Text(answer["text"])

    def write_file(self, path: str, content: str | bytes) -> Number:
        """Write a file completely, and return its size in bytes."""
        return Number(self._ask("write_file", (str(path), _sent(content)), {})["bytes"])

    def log(self, message: Any) -> Done:
        """Add a line to the log of the run."""
        self._ask("log", (str(message),), {})
        return Done()


def _sent(content: Any) -> Any:
    """Return bytes as a JSON object with base64; anything else as it is."""
    if isinstance(content, (bytes, bytearray)):
        return {"base64": base64.b64encode(content).decode()}
    return content


def _ready(value: T) -> Generator[Any, None, T]:
    """Return a generator for `await` whose value is there already."""
    return value
    yield
