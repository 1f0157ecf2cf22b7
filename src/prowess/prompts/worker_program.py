"""The program of a render worker: `python -ISB worker_program.py LIMITS FOLDER…`.

It reaches the standard library and the packages in the given folders, and imports nothing of Prowess. Requests come in on
stdin and answers go out on stdout, as frames (`prowess.child.frames`). A request is a JSON object `{template, syntax,
values}`; an answer is the text (`DONE`), or a JSON object `{kind, line, start, end, detail}` that never holds a value
(`FAILED`). The first frame, `READY`, says that it accepts requests. It ends when its input ends, and so with the process that
started it.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn, cast

HEADER, ONLY = struct.Struct(">IIB"), 1
READY, DONE, FAILED = 11, 13, 14
"""As in `prowess.child.frames`, which cannot be imported here; a test holds them equal."""

LIMITS: dict[str, Any] = json.loads(sys.argv[1])
# `-S` leaves out site-packages, so that no `.pth` file runs; only the folders of the two packages are added.
sys.path += sys.argv[2:]

import minijinja  # noqa: E402
from combustache import CombustacheError, Template  # noqa: E402
from combustache.ctx import MISSING, Ctx  # noqa: E402
from combustache.nodes import Block, Interpolation, Node, Parent, Partial, Section  # noqa: E402

Values = dict[str, Any]
Rendering = Callable[[Values], str]
"""A parsed template: turns values into text."""

CACHED, CACHED_CHARS = 100, 256 * 1024
"""Parsed templates in the cache, and their total length."""
IDLE_SECONDS = 10.0
"""How often an idle worker checks that its parent is alive."""
ABOUT_TEMPLATE = frozenset({
    "MissingArgument", "SyntaxError", "TooManyArguments", "UnknownFilter", "UnknownFunction", "UnknownMethod",
    "UnknownTest",
})  # fmt: skip
"""Errors of MiniJinja whose details quote the template, never a value."""
METHOD = "<built-in method "
"""How Python prints a bound method: a template printed one by mistake."""


class Fault(Exception):
    """Why a rendering failed: a code, and the place in the template as line and byte range."""

    def __init__(
        self, kind: str, *, line: int | None = None, place: tuple[int, int] | None = None, detail: str = ""
    ) -> None:
        super().__init__(kind)
        start, end = place or (0, 0)
        fault = {"kind": kind, "line": line, "start": start, "end": end, "detail": detail[:200]}
        self.answer = FAILED, json.dumps(fault).encode()


class Renderings:
    """Parsed templates; the least recently used are dropped."""

    def __init__(self) -> None:
        self._ready: dict[tuple[str, str], Rendering] = {}
        self._chars = 0

    def get(self, template: str, syntax: str) -> Rendering:
        """Return the parsed template."""
        key = (syntax, template)
        found = self._ready.pop(key, None)
        if found is None:
            found = read_mustache(template) if syntax == "mustache" else read_jinja(template)
            self._chars += len(template)
        self._ready[key] = found
        # A dict keeps the order of insertion, and `get` inserts again what it uses: the first is the least recently
        # used.
        while len(self._ready) > CACHED or (self._chars > CACHED_CHARS and len(self._ready) > 1):
            oldest = next(iter(self._ready))
            del self._ready[oldest]
            self._chars -= len(oldest[1])
        return found


def read_jinja(template: str) -> Rendering:
    """Parse a template in its own environment: strict, without includes, and without `debug`, which prints the context."""
    environment = minijinja.Environment(
        undefined_behavior="strict", fuel=LIMITS["steps"], debug=False, pycompat=False, auto_escape_callback=unescaped
    )
    environment.remove_global("debug")

    def render(values: Values) -> str:
        try:
            return environment.render_template("template", **values)
        except minijinja.TemplateError as error:
            raise jinja_fault(error) from None

    try:
        environment.add_template("template", template)
    except minijinja.TemplateError as error:
        raise jinja_fault(error) from None
    return render


def unescaped(_name: str) -> bool:
    """Return False: prompts are not HTML."""
    return False


def jinja_fault(error: minijinja.TemplateError) -> Fault:
    """Return the fault that MiniJinja reports, without details that could hold a value."""
    # Details of other errors may quote a value, which must not appear in an error message.
    detail = (error.detail or "") if error.kind in ABOUT_TEMPLATE else ""
    return Fault(error.kind, line=error.line, place=error.range, detail=detail)


class PlainData(Ctx):
    """Looks names up in objects and lists only; never reads attributes of Python values, never calls anything."""

    @staticmethod
    def deep_get(item: Any, key: str) -> Any:
        """Return what the item has under the key."""
        if isinstance(item, dict):
            return cast("Values", item).get(key, MISSING)
        # Converting a very long text of digits to a number would take quadratic time, or raise.
        if isinstance(item, list) and key.isascii() and key.isdigit() and len(key) < 10:
            items = cast("list[Any]", item)
            return items[int(key)] if int(key) < len(items) else MISSING
        return MISSING


def read_mustache(template: str) -> Rendering:
    """Parse a template that fails on missing data, without partials and without HTML escapes."""
    try:
        parsed: Any = Template(template)
    except CombustacheError as error:
        raise Fault("SyntaxError", detail=str(error)) from None
    strict(parsed)
    options = {"stringify": as_text, "escape": str, "missing_data": str}
    return lambda values: parsed._render(PlainData([values]), {}, options)  # noqa: SLF001 - as its `render`, over plain data


def strict(template: Any) -> None:
    """Make every printed name required; a section whose name is missing is left out."""
    nodes: list[Any] = template._list  # noqa: SLF001 - there is no other way to see what it consists of
    for node in filter(lambda node: isinstance(node, Node), nodes):
        if isinstance(node, Partial | Parent | Block):
            raise mustache_fault("TemplateNotFound", node)
        # The rest of the line: only the parser needs it, and it would keep the whole template alive.
        node.before = node.after = ""
        if isinstance(node, Section):
            node.closing_tag.before = node.closing_tag.after = ""
            node.handle = optional(node, node.handle)
            strict(node.inside)
        elif isinstance(node, Interpolation):
            node.handle = required(node, node.handle)


def optional(node: Any, handle: Callable[..., str]) -> Callable[..., str]:
    """Return how to render a section: `#` only if its name exists, `^` in any case."""

    def handled(data: PlainData, *rest: Any) -> str:
        absent = node.left == "#" and data.get(node.contents) is MISSING
        return "" if absent else handle(data, *rest)

    return handled


def required(node: Any, handle: Callable[..., str]) -> Callable[..., str]:
    """Return how to render a name that must exist."""

    def handled(data: PlainData, *rest: Any) -> str:
        if data.get(node.contents) is MISSING:
            raise mustache_fault("UndefinedError", node)
        return handle(data, *rest)

    return handled


def mustache_fault(kind: str, node: Any) -> Fault:
    """Return a fault at a tag."""
    before, tag = node.template[: node.tag_start], node.template[node.tag_start : node.tag_end]
    start = len(before.encode())
    return Fault(kind, line=before.count("\n") + 1, place=(start, start + len(tag.encode())))


def as_text(value: Any) -> str:
    """Return text unchanged, nothing for null, and everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def answer(request: bytes, renderings: Renderings) -> tuple[int, bytes]:
    """Return the kind and the payload of the frame that answers a request."""
    try:
        message = json.loads(request)
        text = renderings.get(message["template"], message["syntax"])(message["values"])
        written = text.encode(errors="replace")
    except Fault as fault:
        return fault.answer
    except RecursionError:
        return Fault("depth").answer
    except MemoryError:
        return Fault("memory").answer
    except Exception:  # noqa: BLE001 - a method that a template calls on a value may raise anything
        return Fault("method").answer
    # The template or a value may contain these words itself.
    if METHOD in text and METHOD.encode() not in request:
        return Fault("printed").answer
    return Fault("output").answer if len(written) > LIMITS["output_bytes"] else (DONE, written)


def confine() -> None:
    """Give up every resource that rendering does not need. Skip limits that the system does not know."""
    limits = {
        "RLIMIT_AS": LIMITS["memory_bytes"],
        "RLIMIT_CORE": 0,
        # Concerns regular files only, not the channel to the parent.
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": 16,
        "RLIMIT_NPROC": 0,
    }
    for name, most in limits.items():
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, OSError, ValueError):
            continue


def requests(source: BinaryIO) -> Any:
    """Yield every request until the input ends or the parent is gone."""
    while True:
        # A worker must end with its parent, even one that was killed and could not close anything.
        ready, _, _ = select.select([source], [], [], IDLE_SECONDS)
        if not ready:
            if os.getppid() != LIMITS["parent"]:
                return
            continue
        head = source.read(HEADER.size)
        if len(head) < HEADER.size:
            return
        yield source.read(HEADER.unpack(head)[0])


def send(target: BinaryIO, kind: int, payload: bytes = b"") -> None:
    """Write one frame."""
    target.write(HEADER.pack(len(payload), ONLY, kind) + payload)
    target.flush()


def main() -> NoReturn:
    """Answer requests until the input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    confine()
    renderings = Renderings()
    send(target, READY)
    for request in requests(source):
        # SIGALRM kills this process, even inside native code. The parent's timer is a second earlier and normally comes first.
        signal.setitimer(signal.ITIMER_REAL, LIMITS["seconds"] + 1)
        send(target, *answer(request, renderings))
        signal.setitimer(signal.ITIMER_REAL, 0)
    os._exit(0)


if __name__ == "__main__":
    main()
