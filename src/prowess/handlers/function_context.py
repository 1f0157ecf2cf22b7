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

from prowess.errors import Invalid, Refused
from prowess.handlers.host_functions import Refusals, expose_methods
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.net.target import parse_target
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
"""So much a run may have in its own folder."""


class RunFiles:
    """Blocking, one thing at a time. Once it is closed nothing is read or written any more, whoever still tries to.

    The run's own folder is made with the first file, and gone afterwards.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(roots)
        self._lock = Lock()
        self._own: Path | None = None
        self._sizes: dict[tuple[str, ...], int] = {}
        self._is_closed = False

    def read(self, path: str) -> tuple[FileLocation, bytes]:
        """Where a file is, and what it has."""
        with self._lock:
            place = self._folders().to_read(path)
            return place, place.read()

    def write(self, path: str, content: bytes) -> FileLocation:
        """Put a file there, whole or not at all."""
        with self._lock:
            place = self._folders().to_write(path)
            if place.root.name:
                place.write(content)
                return place
            others = sum(size for names, size in self._sizes.items() if names != place.names)
            if others + len(content) > MAX_OWN_BYTES:
                raise Refused(
                    f"A run may have {MAX_OWN_BYTES >> 20} MiB in its own folder.", hint="Write less, or to a root."
                )
            place.write(content)
            self._sizes[place.names] = len(content)
            return place

    def close(self) -> None:
        """Wait for what is under way, and remove the run's own folder."""
        with self._lock:
            self._is_closed = True
            if self._own is not None:
                remove_folder(self._own)

    def _folders(self) -> SkillFolders:
        if self._is_closed:
            raise Refused("The run has ended.", hint="Do what is to be done before the function returns.")
        if self._own is None:
            self._own = new_folder()
        return SkillFolders(self._roots, own=self._own)


MAX_REQUESTS = 100
MAX_FILES = 200
"""How often one run may read or write a file."""
MAX_LOG_LINES, MAX_LOG_CHARS = 1_000, 64 * 1024
FETCH_SECONDS = 30.0
_JSON = "application/json"
_FULL = "(The log is full.)"

_Sort = Literal["read", "written"]
_T = TypeVar("_T")


class FunctionContext:
    """The functions of one run's context. Whatever they touch or refuse is on its receipt."""

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
        """What was logged, without what is secret."""

    def functions(self) -> dict[str, HostFunction]:
        """By name."""
        return expose_methods(self, CONTEXT_FUNCTIONS, self.refusals)

    async def fetch(
        self, url: str, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None
    ) -> JsonObject:
        """What a host answers that the skill declares."""
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
            party=self._call.run.root,
            witness=self._receipt,
        )
        return _answer(await self._sent(request))

    async def read_file(self, path: str) -> JsonObject:
        """A file of the run's own folder, or of one that the skill was given."""
        self._check_open()
        self._files = _counted(self._files, MAX_FILES, "files")

        def read() -> bytes:
            place, content = self._run_files.read(path)
            self._touch("read", place)
            return content

        return _told(await self._beside("read", path, read))

    async def write_file(self, path: str, content: Any) -> JsonObject:
        """Put a file there, whole or not at all."""
        self._check_open()
        self._files = _counted(self._files, MAX_FILES, "files")
        written, kind = _body(content)
        if content is None or kind == _JSON:
            raise Invalid("write_file(): content is neither text nor bytes.", hint="Write json.dumps(…) of a value.")

        await self._beside("written", path, lambda: self._touch("written", self._run_files.write(path, written)))
        return {"bytes": len(written)}

    async def log(self, message: str) -> None:
        """Add a line to the log, as long as there is room in it."""
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
        """The same, until the run has ended: then nothing is under way any more, and its own folder is gone."""
        try:
            yield self
        finally:
            self._is_closed = True
            await offload_to_completion(self._run_files.close)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("The run has ended.", hint="Do what is to be done before the function returns.")

    async def _sent(self, request: HttpRequest) -> HttpResponse:
        host = parse_target(request.url).shown
        try:
            return await self._outbound.send(request)
        except Refused as error:
            raise self._with_line(error, host) from None

    def _with_line(self, error: Refused, host: str) -> Refused:
        """The same refusal, with what to do about it."""
        reason = self._grants.denied.get(host, "")
        line = f'Add to the manifest: hosts: ["{host}"]; whoever decides about the skill sees it.'
        return Refused(error.message, hint=reason or error.hint or line)

    async def _beside(self, sort: _Sort, path: str, work: Callable[[], _T]) -> _T:
        """What work on a file gives that is done beside the event loop; what is refused is on the receipt.

        A run that is ended meanwhile ends after it, so that its receipt is true.
        """
        try:
            self._check_given(path)
            return await offload_to_completion(work)
        except Refused:
            self._receipt.refuse(sort, path)
            raise

    def _check_given(self, path: str) -> None:
        """Refuse what is in a folder that the skill declares and was not given, for the reason that is known."""
        for said in self._call.run.needs.roots:
            name, _ = split_root(said)
            if name in self._grants.denied and is_below(path, name):
                raise Refused(f"{path!r} is in a folder that was not given.", hint=self._grants.denied[name])

    def _touch(self, sort: _Sort, place: FileLocation) -> None:
        """Put a file on the receipt, unless it is in the run's own folder."""
        if place.root.name:
            self._receipt.touch(sort, place.path)


def _counted(so_far: int, most: int, what: str) -> int:
    if so_far >= most:
        raise Refused(f"A run may have {most} {what}.", hint="Do less in one run.")
    return so_far + 1


def _body(body: Any) -> tuple[bytes, str]:
    """What a body is as bytes, and the type of content that goes with it; '' where its sender knows."""
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
        raise Invalid("What is given as base64 is none.") from None


def _told(content: bytes) -> JsonObject:
    """Bytes as a function is given them: as text, where they are text."""
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _answer(answer: HttpResponse) -> JsonObject:
    return {
        "status": answer.status,
        "headers": dict(answer.headers),
        "url": answer.url,
        **_told(answer.body),
    }
