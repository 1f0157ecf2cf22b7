"""What a function has as `ctx`, served from outside it: hosts, files and a log, each held to what its skill was given."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar, cast

from prowess.errors import Invalid, Refused
from prowess.handlers.offering import Refusals, offered
from prowess.handlers.run_files import RunFiles
from prowess.outbound.request import Outbound, OutboundAnswer, OutboundRequest
from prowess.outbound.target import target_of
from prowess.run.beside import to_the_end
from prowess.run.call import Call, Step
from prowess.run.grants import Grants
from prowess.sandbox.roots import Place, is_below
from prowess.sandbox.sandbox import OF_CONTEXT, HostFunction
from prowess.skill.kinds import JsonObject
from prowess.skill.need_values import split_root
from prowess.skill.needs import needs_of

MOST_REQUESTS = 100
MOST_FILES = 200
"""How often one run may read or write a file."""
MOST_LOGGED_LINES, MOST_LOGGED_CHARS = 1_000, 64 * 1024
FETCH_SECONDS = 30.0
_JSON = "application/json"
_FULL = "(The log is full.)"

_Sort = Literal["read", "written"]
_T = TypeVar("_T")


class ContextCalls:
    """The functions of one run's context. Whatever they touch or refuse is on its receipt."""

    def __init__(self, call: Call, grants: Grants, *, outbound: Outbound, refusals: Refusals | None = None) -> None:
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
        return offered(self, OF_CONTEXT, self.refusals)

    async def fetch(
        self, url: str, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None
    ) -> JsonObject:
        """What a host answers that the skill declares."""
        self._check_open()
        self._requests = _counted(self._requests, MOST_REQUESTS, "requests")
        content, kind = _body(body)
        sent = dict(headers or {})
        if kind and not any(name.lower() == "content-type" for name in sent):
            sent["content-type"] = kind
        request = OutboundRequest(
            url=url,
            method=method.upper(),
            headers=sent,
            body=content,
            hosts=self._grants.hosts,
            routes=self._grants.routes,
            seconds=FETCH_SECONDS,
            party=self._call.outermost,
            witness=self._receipt,
        )
        return _answer(await self._sent(request))

    async def read_file(self, path: str) -> JsonObject:
        """A file of the run's own folder, or of one that the skill was given."""
        self._check_open()
        self._files = _counted(self._files, MOST_FILES, "files")

        def read() -> bytes:
            place, content = self._run_files.read(path)
            self._touch("read", place)
            return content

        return _told(await self._beside("read", path, read))

    async def write_file(self, path: str, content: Any) -> JsonObject:
        """Put a file there, whole or not at all."""
        self._check_open()
        self._files = _counted(self._files, MOST_FILES, "files")
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
        if len(self.log_lines) >= MOST_LOGGED_LINES or self._logged > MOST_LOGGED_CHARS:
            if not self.log_lines or self.log_lines[-1] != _FULL:
                self.log_lines.append(_FULL)
            return
        line = self._call.notes.hiding.text(message)
        self.log_lines.append(line)
        self._call.watch(Step(artifact=self._call.artifact.name, state="LOG", detail={"message": line}))

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[ContextCalls]:
        """The same, until the run has ended: then nothing is under way any more, and its own folder is gone."""
        try:
            yield self
        finally:
            self._is_closed = True
            await to_the_end(self._run_files.close)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("The run has ended.", hint="Do what is to be done before the function returns.")

    async def _sent(self, request: OutboundRequest) -> OutboundAnswer:
        host = target_of(request.url).shown
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
            return await to_the_end(work)
        except Refused:
            self._receipt.refuse(sort, path)
            raise

    def _check_given(self, path: str) -> None:
        """Refuse what is in a folder that the skill declares and was not given, for the reason that is known."""
        for said in needs_of(self._call.skill).roots:
            name, _ = split_root(said)
            if name in self._grants.denied and is_below(path, name):
                raise Refused(f"{path!r} is in a folder that was not given.", hint=self._grants.denied[name])

    def _touch(self, sort: _Sort, place: Place) -> None:
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


def _answer(answer: OutboundAnswer) -> JsonObject:
    return {
        "status": answer.status,
        "headers": dict(answer.headers),
        "url": answer.url,
        **_told(answer.body),
    }
