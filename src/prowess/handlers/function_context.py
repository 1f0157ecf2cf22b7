"""The `ctx` of a function: HTTP requests, files and a log, each limited to what the skill was granted."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar, cast

from prowess.errors import Invalid, NotFound, Refused
from prowess.handlers.host_functions import Refusals, expose_methods
from prowess.handlers.requirements import manifest_line
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.net.target import Target, is_host_listed, parse_target
from prowess.policy.grants import Grants
from prowess.run.call import Call
from prowess.run.request import Step
from prowess.sandbox.folders import new_folder, remove_folder
from prowess.sandbox.protocol import CONTEXT_FUNCTIONS, HostFunction
from prowess.sandbox.roots import FileLocation, Root, SkillFolders, is_below
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import MIB
from prowess.skill.needs import split_root
from prowess.threads import offload_to_completion

MAX_OWN_BYTES = 64 * MIB
"""Bytes that a call may have in its own folder."""


class RunFiles:
    """The files of one call: in its own folder, made on first use, and in granted folders. Blocking.

    One operation at a time. After `close` nothing is read or written, even by an operation that a thread still has queued.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(roots)
        self._lock = Lock()
        self._own: Path | None = None
        self._sizes: dict[tuple[str, ...], int] = {}
        self._is_closed = False
        self.unread: dict[tuple[str, ...], str] = {}
        """The paths of files in the call's own folder that were written and not read since."""

    def read(self, path: str) -> tuple[FileLocation, bytes]:
        """Return where a file is, and its content."""
        with self._lock:
            place = self._folders().to_read(path)
            content = place.read()
            if not place.root.name:
                self.unread.pop(place.names, None)
            return place, content

    def write(self, path: str, content: bytes) -> FileLocation:
        """Write a file, completely or not at all."""
        with self._lock:
            # Under the lock: `close` waits for the write, and nothing is written after it.
            place = self._folders().to_write(path)
            if place.root.name:
                place.write(content)
                return place
            # A file that is written again replaces its old content, which must not count twice.
            others = sum(size for names, size in self._sizes.items() if names != place.names)
            if others + len(content) > MAX_OWN_BYTES:
                raise Refused(
                    f"The run exceeded the limit of {MAX_OWN_BYTES >> 20} MiB in its own folder.",
                    hint="Write less, or write to a folder declared under `roots`.",
                )
            place.write(content)
            self._sizes[place.names] = len(content)
            self.unread[place.names] = path
            return place

    def close(self) -> None:
        """Wait for the operation in progress, and remove the call's own folder."""
        with self._lock:
            self._is_closed = True
            if self._own is not None:
                remove_folder(self._own)

    def _folders(self) -> SkillFolders:
        if self._is_closed:
            raise Refused("The run has already ended.", hint="Finish all work before the function returns.")
        if self._own is None:
            self._own = new_folder()
        return SkillFolders(self._roots, own=self._own)


MAX_REQUESTS = 100
MAX_FILES = 200
"""Files that one call may read or write."""
MAX_LOG_LINES, MAX_LOG_CHARS = 1_000, 64 * 1024
FETCH_SECONDS = 30.0
_JSON = "application/json"
_FULL = "(Log limit reached.)"

_Access = Literal["read", "written"]
_T = TypeVar("_T")


class FunctionContext:
    """The functions of one call's `ctx`. What they use or refuse goes on its receipt."""

    def __init__(self, call: Call, grants: Grants, *, outbound: HttpClient, refusals: Refusals | None = None) -> None:
        self._call = call
        self._grants = grants
        self._outbound = outbound
        self._receipt = call.notes.receipt
        self._run_files = RunFiles(grants.roots)
        self._is_closed = False
        self._requests = self._files = self._logged = 0
        self.refusals: Refusals = {} if refusals is None else refusals
        self.log_lines: list[str] = []
        """The log without secrets."""

    def functions(self) -> dict[str, HostFunction]:
        """Return the functions by name."""
        return expose_methods(self, CONTEXT_FUNCTIONS, self.refusals)

    async def fetch(
        self, url: str, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None
    ) -> JsonObject:
        """Send a request to a host that the skill declares, and return the response."""
        self._check_open()
        self._requests = _counted(self._requests, MAX_REQUESTS, "requests")
        content, kind = _body(body)
        sent = dict(headers or {})
        if kind and not any(name.lower() == "content-type" for name in sent):
            sent["content-type"] = kind
        request = HttpRequest(
            url=url,
            method=method.upper(),
            headers=sent,
            body=content,
            hosts=self._grants.hosts,
            routes=self._grants.routes,
            seconds=FETCH_SECONDS,
            # Nested runs share the quota of the run that started them; otherwise a skill could get more by nesting.
            party=self._call.run.root,
            witness=self._receipt,
        )
        return _answer(await self._sent(request))

    async def read_file(self, path: str) -> JsonObject:
        """Return a file of the call's own folder or of a granted folder."""
        self._check_open()
        self._files = _counted(self._files, MAX_FILES, "files")

        def read() -> bytes:
            place, content = self._run_files.read(path)
            self._touch("read", place)
            return content

        try:
            return _encode(await self._on_file("read", path, read))
        except NotFound as error:
            raise self._with_root(error, path) from None

    async def write_file(self, path: str, content: Any) -> JsonObject:
        """Write a file, completely or not at all."""
        self._check_open()
        self._files = _counted(self._files, MAX_FILES, "files")
        written, kind = _body(content)
        # `_body` would encode an object as JSON; here the function itself decides how a value is written.
        if content is None or kind == _JSON:
            raise Invalid("write_file(): content must be text or bytes.", hint="Pass json.dumps(value) instead.")

        await self._on_file("written", path, lambda: self._touch("written", self._run_files.write(path, written)))
        return {"bytes": len(written)}

    async def log(self, message: str) -> None:
        """Add a line to the log while there is room."""
        if self._is_closed:
            return
        self._logged += len(message)
        if len(self.log_lines) >= MAX_LOG_LINES or self._logged > MAX_LOG_CHARS:
            if not self.log_lines or self.log_lines[-1] != _FULL:
                self.log_lines.append(_FULL)
            return
        line = self._call.notes.secrets.redact_text(message)
        self.log_lines.append(line)
        self._call.run.on_step(Step(artifact=self._call.artifact.name, state="LOG", detail={"message": line}))

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[FunctionContext]:
        """Keep the context open for the block; afterwards nothing is in progress and the call's own folder is gone."""
        try:
            yield self
        finally:
            await self._warn_about_lost_files()
            self._is_closed = True
            # Most functions use no file, and then closing neither waits nor touches the disk.
            if self._files:
                await offload_to_completion(self._run_files.close)

    async def _warn_about_lost_files(self) -> None:
        """Log which files go with the call's own folder although nothing has used them."""
        lost = [*self._run_files.unread.values()]
        if lost:
            names = ", ".join(lost[:3]) + f" and {len(lost) - 3} more" * (len(lost) > 3)
            await self.log(
                f"Warning: written to the private folder of this run, which is deleted now: {names}. To keep files, "
                "write them to a folder that the manifest lists under `roots`, such as `rw:reports`."
            )

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("The run has already ended.", hint="Finish all work before the function returns.")

    async def _sent(self, request: HttpRequest) -> HttpResponse:
        target = parse_target(request.url)
        try:
            return await self._outbound.send(request)
        except Refused as error:
            raise self._with_hint(error, target) from None

    def _with_hint(self, error: Refused, target: Target) -> Refused:
        """Return the refusal with what to do about it."""
        host = target.shown
        reason = self._grants.denied.get(host, "")
        line = manifest_line(self._call.skill, "hosts", host, self._call.run.needs.hosts)
        declared = is_host_listed(target, self._call.run.needs.hosts)
        return Refused(error.message, hint=reason or (error.hint if declared else line))

    def _with_root(self, error: NotFound, path: str) -> NotFound:
        """Return the error of a file that is not in the call's own folder with the line that declares its folder."""
        declared = self._call.run.needs.roots
        if path.startswith("/") or any(is_below(path, split_root(root)[0]) for root in declared):
            return error
        folder = path.removeprefix("./").rpartition("/")[0].partition("/")[0]
        line = manifest_line(self._call.skill, "roots", folder or ".", declared)
        return NotFound(error.message, hint=f"Is it in the workspace? {line}")

    async def _on_file(self, access: _Access, path: str, work: Callable[[], _T]) -> _T:
        """Run file work in a thread; note what is refused.

        A call that is cancelled in the meantime waits for it, so that its receipt is complete.
        """
        try:
            self._check_granted(path)
            return await offload_to_completion(work)
        except Refused:
            self._receipt.refuse(access, path)
            raise

    def _check_granted(self, path: str) -> None:
        """Raise `Refused`, with the reason, for a path in a folder that the skill declares but was not granted."""
        for declared in self._call.run.needs.roots:
            name, _ = split_root(declared)
            if name in self._grants.denied and is_below(path, name):
                raise Refused(f"{path!r} is in a folder that was not granted.", hint=self._grants.denied[name])

    def _touch(self, access: _Access, place: FileLocation) -> None:
        """Note a file on the receipt, unless it is in the call's own folder."""
        if place.root.name:
            self._receipt.touch(access, place.path)


def _counted(so_far: int, most: int, what: str) -> int:
    if so_far >= most:
        raise Refused(f"The run exceeded the limit of {most} {what}.", hint="Do less work per run.")
    return so_far + 1


def _body(body: Any) -> tuple[bytes, str]:
    """Return a body as bytes, and its content type; '' if the sender sets it."""
    if body is None:
        return b"", ""
    if isinstance(body, str):
        return body.encode(errors="replace"), ""
    if isinstance(body, dict) and list(cast("dict[str, Any]", body)) == ["base64"]:
        return _bytes(cast("Mapping[str, Any]", body)["base64"]), ""
    return json.dumps(body, ensure_ascii=False).encode(errors="replace"), _JSON


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Invalid("The value is not valid base64.") from None


def _encode(content: bytes) -> JsonObject:
    """Return bytes for a function: as text if they are UTF-8, else as base64."""
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _answer(answer: HttpResponse) -> JsonObject:
    return {"status": answer.status, "headers": dict(answer.headers), "url": answer.url, **_encode(answer.body)}
