"""http_call: fill a declared request with the inputs of a run, send it, and return the selected part of the answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, cast

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from prowess.errors import Invalid, OutputInvalid, ProwessError, Refused, RunFailed, TimedOut, TryLater
from prowess.handlers.http_request import FilledRequest, RequestFiller
from prowess.handlers.requirements import GrantLookup, manifest_line
from prowess.lazy_dataclass import dataclass
from prowess.llm.models import Sleep
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.policy.grants import Grants
from prowess.redaction.known import SHORTEST_SECRET, replace_surrogates
from prowess.run.call import Call, Output
from prowess.run.schema_checks import check_inputs, check_output, declared_inputs
from prowess.skill.declarations import IDEMPOTENT_METHODS, DeclaredRequest, DeclaredResponse, parse_request
from prowess.skill.json_values import map_texts, parse_json
from prowess.skill.kinds import HttpCall, Kind
from prowess.skill.schema import measure_depth
from prowess.threads import offload_if_large

MAX_ANSWER_DEPTH = 100

_CHARSETS = {
    "us-ascii": "ascii",
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "windows-1252": "cp1252",
    "utf-16": "utf-16",
}
"""Encodings other than UTF-8. Servers that say Latin-1 mean Windows-1252, as browsers know."""
_TEXTS = ("text/", "application/xml", "application/javascript", "application/yaml", "application/x-ndjson")
_EACH = "*"
_MISSING = object()


def decode_body(answer: HttpResponse) -> str:
    """Return the body as text, with replacement characters for invalid bytes."""
    _, _, parameters = answer.headers.get("content-type", "").partition(";")
    stated = parameters.lower().partition("charset=")[2].partition(";")[0].strip(" \"'")
    # Without the byte order mark that some servers send, which `json.loads` rejects.
    return answer.body.decode(_CHARSETS.get(stated, "utf-8-sig"), errors="replace")


def read_value(answer: HttpResponse, text: str, declared: DeclaredResponse) -> Any:
    """Return the text or JSON of an answer, or the selected parts of it; None if it is empty."""
    read_as = declared.read_as or _kind(answer)
    if read_as == "":
        kind = answer.headers.get("content-type", "")[:60]
        raise OutputInvalid(
            f"The response has the type {kind!r}, which is not text.",
            hint="Request JSON or text, for example with an Accept header.",
        )
    if not text.strip() and read_as == "json":
        return None
    value = replace_surrogates(text) if read_as == "text" else _json(text)
    if isinstance(declared.select, str):
        return _selected(value, declared.select) if declared.select else value
    return {name: _selected(value, path) for name, path in declared.select.items()}


def _kind(answer: HttpResponse) -> Literal["", "json", "text"]:
    """Return what the content type says; without one, `text` if the body is UTF-8."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return "json"
    if kind.startswith(_TEXTS) or kind.endswith("+xml") or not answer.body:
        return "text"
    try:
        answer.body.decode()
    except UnicodeDecodeError:
        return ""
    return "" if b"\0" in answer.body else "text"


def _json(text: str) -> Any:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        raise OutputInvalid(
            "The response is not valid JSON.", hint="Set `response: {as: text}`, or request JSON."
        ) from None
    if measure_depth(value, limit=MAX_ANSWER_DEPTH) > MAX_ANSWER_DEPTH:
        raise OutputInvalid(
            f"The response is nested more than {MAX_ANSWER_DEPTH} levels deep.", hint="Request less data."
        )
    # No database can store lone surrogates.
    return map_texts(value, replace_surrogates, names=replace_surrogates)


def _selected(value: Any, path: str) -> Any:
    found = _at(value, path.split("."))
    if found is _MISSING:
        raise OutputInvalid(f"The response has no value at {path[:80]!r}.", hint="Fix `select` of the response.")
    return found


def _at(value: Any, path: list[str]) -> Any:
    """Return the value at a path. `*` stands for every item of a list; items without a value there are left out."""
    found = value
    for at, part in enumerate(path):
        if part == _EACH and isinstance(found, list):
            inner = [_at(item, path[at + 1 :]) for item in cast("list[Any]", found)]
            return [item for item in inner if item is not _MISSING]
        found = _member(found, part)
        if found is _MISSING:
            return _MISSING
    return found


def _member(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name, _MISSING)
    if isinstance(value, list) and name.isdecimal() and len(name) < 10:
        items = cast("list[Any]", value)
        return items[int(name)] if int(name) < len(items) else _MISSING
    return _MISSING


BUSY_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses after which a retry may succeed."""
MAX_ERROR_CHARS = 300
"""Characters of an error response that are part of our error message."""

_CONTROL_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_backoff = wait_random_exponential(multiplier=0.25, max=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """One request of one call: what is sent, its deadline, and the secrets in it."""

    call: Call
    declared: DeclaredRequest
    request: HttpRequest
    env: Mapping[str, str] = field(repr=False)
    deadline: float

    def redacted_text(self, answer: HttpResponse) -> str:
        """Return the text of an answer without secrets; nothing if a secret is too short to be found reliably."""
        # A short secret cannot be distinguished from other text, so the whole answer stays out of errors and notes.
        if any(0 < len("".join(value.split())) < SHORTEST_SECRET for value in self.env.values()):
            return ""
        return self.call.notes.secrets.redact_text(decode_body(answer))


class HttpCallHandler:
    """Sends the request that the artifact declares to a host that its skill declares, and returns the selected answer.

    Environment values are filled in last, only those that were granted, and are removed from the answer. Idempotent
    requests are retried if the host is unreachable or busy. Raise `RunFailed` for an unexpected status, `TimedOut` at the
    deadline, and `OutputInvalid` if the answer does not satisfy the skill's output schema.
    """

    kind: Kind = "http_call"

    def __init__(self, outbound: HttpClient, grants_of: GrantLookup, *, sleep: Sleep = asyncio.sleep) -> None:
        self._outbound = outbound
        self._grants_of = grants_of
        self._sleep = sleep

    async def run(self, call: Call) -> Output:
        """Send the request and return the selected part of the answer."""
        artifact = call.artifact
        if not isinstance(artifact, HttpCall):
            raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a request.")
        request = parse_request(artifact)
        inputs = check_inputs(call.inputs, call.skill.parameters)
        optional = declared_inputs(call.skill.parameters or {})
        # The plan, which traces and dry runs show, is filled with masks; values are looked up only after it.
        masks = {name: _mask(name) for name in request.secrets}
        call.plan(_describe_request(request, RequestFiller(inputs=inputs, optional=optional, env=masks).fill(request)))
        grants = await self._grants_of(call)
        env = _granted(call, request, grants)
        filled = RequestFiller(inputs=inputs, optional=optional, env=env).fill(request)
        sending = _Sending(
            call=call,
            declared=request,
            request=_outbound_request(call, request, filled, grants),
            env=env,
            # One deadline for all attempts and the pauses between them.
            deadline=time.monotonic() + request.timeout_seconds,
        )
        answer = await self._in_time(sending)
        return await offload_if_large(len(answer.body), _output, sending, answer)

    async def _in_time(self, sending: _Sending) -> HttpResponse:
        seconds = sending.declared.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._retrying(sending)(self._once, sending)
        except TimeoutError:
            raise TimedOut(
                f"The request {sending.call.artifact.name!r} timed out after {seconds:g} seconds.",
                hint="Try again, or raise its `timeout_seconds`.",
            ) from None

    async def _once(self, sending: _Sending) -> HttpResponse:
        """Send the request once; raise if the status is not accepted."""
        answer = await self._outbound.send(sending.request)
        sending.call.notes.detail["http"] = {"status": answer.status, "hosts": list(answer.hops)}
        sending.call.notes.raw = await offload_if_large(len(answer.body), sending.redacted_text, answer)
        if sending.declared.response.accepts(answer.status):
            return answer
        raise _status_error(sending, answer)

    def _retrying(self, sending: _Sending) -> AsyncRetrying:
        # A request that is not idempotent may have had its effect even if no answer came.
        attempts = sending.declared.attempts if sending.declared.method in IDEMPOTENT_METHODS else 1
        return AsyncRetrying(
            stop=stop_after_attempt(attempts),
            wait=_wait,
            retry=retry_if_exception(_is_retryable_before(sending.deadline)),
            sleep=self._sleep,  # pyright: ignore[reportArgumentType]
            reraise=True,
        )


def _granted(call: Call, request: DeclaredRequest, grants: Grants) -> dict[str, str]:
    """Return the environment values of the request, and note each; raise `Refused` for one that is not granted."""
    needed = call.run.needs.env
    for name in request.secrets:
        if name in grants.env and name in needed:
            call.notes.receipt.touch("env", name)
            continue
        call.notes.receipt.refuse("env", name)
        if name not in needed:
            raise Refused(
                f"{call.skill.slug!r} does not declare the environment variable {name!r}.",
                hint=manifest_line(call.skill, "env", name, needed),
            )
        raise Refused(
            f"{call.skill.slug!r} may not read the environment variable {name!r}.",
            hint=grants.denied.get(name)
            or f"An administrator can allow it: `prowess env allow {call.skill.slug} {name}`.",
        )
    used = {name: grants.env[name] for name in request.secrets}
    call.add_secrets(used)
    return used


def _outbound_request(call: Call, request: DeclaredRequest, filled: FilledRequest, grants: Grants) -> HttpRequest:
    return HttpRequest(
        url=filled.url,
        method=request.method,
        headers=filled.headers,
        body=filled.body,
        hosts=grants.hosts,
        routes=grants.routes,
        seconds=request.timeout_seconds + 1,  # so that the deadline of the call comes first
        answer_bytes=request.max_bytes,
        party=call.run.root,
        witness=call.notes.receipt,
    )


def _output(sending: _Sending, answer: HttpResponse) -> Output:
    value = sending.call.notes.secrets.redact_output(read_value(answer, decode_body(answer), sending.declared.response))
    check_output(sending.call, value)
    facts = {"status": answer.status, "content_type": answer.headers.get("content-type", "")[:200]}
    if isinstance(value, str):
        return Output(kind="http_call", text=value, result=facts)
    text = "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
    return Output(kind="http_call", text=text, data=value, result=facts)


def _status_error(sending: _Sending, answer: HttpResponse) -> ProwessError:
    """Return the error for an unexpected status, with the beginning of what the host said."""
    host = answer.hops[-1] if answer.hops else "The host"
    words = _CONTROL_CHARS.sub(" ", sending.call.notes.raw).strip()[:MAX_ERROR_CHARS]
    message = f"{host} answered {answer.status}{f': {words}' if words else '.'}"
    if answer.status not in BUSY_STATUSES:
        return RunFailed(message, hint="Check the inputs and the request that the skill declares.")
    # The header may also have a date, which is ignored.
    retry_after = answer.headers.get("retry-after", "").strip()
    return TryLater(
        message,
        hint="Try again later.",
        retry_after=float(retry_after) if re.fullmatch(r"\d{1,6}", retry_after) else None,
    )


def _is_retryable_before(deadline: float) -> Callable[[BaseException], bool]:
    def is_worth(error: BaseException) -> bool:
        # A host that asks to wait beyond the deadline is not waited for.
        return isinstance(error, TryLater) and time.monotonic() + (error.retry_after or 0) < deadline

    return is_worth


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.retry_after if isinstance(error, TryLater) else None
    return max(retry_after or 0, _backoff(state))


def _mask(name: str) -> str:
    return f"[env.{name}]"


def _describe_request(request: DeclaredRequest, filled: FilledRequest) -> str:
    """Return the request for the trace: with its inputs, and with names instead of environment values."""
    url = filled.url
    for name in request.secrets:
        # The brackets of a mask were percent-encoded when it was filled into the URL.
        url = url.replace(f"%5Benv.{name}%5D", _mask(name))
    lines = [f"{request.method} {url}", *(f"{name}: {value}" for name, value in filled.headers.items())]
    body: Any = filled.body.decode(errors="replace")
    return "\n".join([*lines, "", body] if body else lines)
