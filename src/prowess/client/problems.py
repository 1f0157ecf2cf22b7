"""Raise the errors of a server as the same classes that the engine raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prowess.errors import (
    ApprovalRequired,
    BudgetExceeded,
    Conflict,
    Invalid,
    NotFound,
    OutputInvalid,
    PreconditionFailed,
    Problem,
    ProwessError,
    Refused,
    RunFailed,
    TryLater,
    Unavailable,
)
from prowess.skill.json_values import json_list, json_object, json_value

if TYPE_CHECKING:
    import httpx2

_FAMILIES: Mapping[int, type[ProwessError]] = {
    400: Invalid,
    401: Refused,
    403: Refused,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    421: Refused,
    422: Invalid,
    429: TryLater,
    502: RunFailed,
    503: Unavailable,
}
"""The error of a status, for a code that this version does not know."""

TEMPORARY = (429, 502, 503, 504)
"""Statuses after which the same request may succeed. Prowess also answers 502 if a run failed, with its own code."""

_HINTS = {
    401: "Pass a valid token: PROWESS_TOKEN, `--token-file FILE`, or `token=` in Python. An administrator can create one with "
    "`prowess token create`.",
    421: "Use a host name that the server is served under, or start it with `prowess serve --host NAME`.",
}
_MAX_TEXT = 2_000


def error_of(response: httpx2.Response) -> ProwessError:
    """Return the error that a response of status 400 or above, or a redirect, stands for. Its body must have been read."""
    status = response.status_code
    if response.is_redirect:
        # Following it would send the token to wherever the redirect points.
        return Invalid(
            f"The server redirects to {response.headers.get('location', 'another address')[:200]!r}.",
            hint="Prowess does not follow redirects, because they would pass the token on. Use that address if you trust it.",
        )
    fields = _read_problem(response)
    if fields is None:
        return _foreign_error(response)
    if fields["code"] == "no-such-route":
        return Invalid(
            f"The server has no {response.request.method} {response.request.url.path}.",
            hint="Client and server have different versions. Install the same version of Prowess on both.",
        )
    error = make_error(fields, status=status, retry_after=retry_after(response))
    # What the server says about these is meant for people who write requests manually.
    error.hint = _HINTS.get(status, error.hint)
    return error


def make_error(fields: Mapping[str, Any], *, status: int = 0, retry_after: float | None = None) -> ProwessError:
    """Return the error of problem details, or of an error in a result, by its code; an unknown one by its status."""
    kind = _by_code().get(str(fields.get("code", ""))) or _FAMILIES.get(status, ProwessError)
    message = _text(fields.get("detail") or fields.get("message") or "The request failed.")
    # The other one names requests, for callers without a shell.
    hint = _text(fields.get("command_hint") or fields.get("hint"))
    if issubclass(kind, BudgetExceeded):
        budget = json_object(fields.get("budget"))
        limit, used, need = (int(budget.get(name) or 0) for name in ("limit", "used", "need"))
        room = [str(slug) for slug in json_list(budget.get("disable"))]
        return kind(message, limit=limit, used=used, need=need, room=room, hint=hint)
    if issubclass(kind, ApprovalRequired):
        return kind(message, approval_id=str(fields.get("approval_id") or ""), hint=hint)
    if issubclass(kind, Invalid | OutputInvalid):
        return kind(message, hint=hint, problems=[_problem(one) for one in json_list(fields.get("problems"))])
    if issubclass(kind, PreconditionFailed):
        return kind(message, hint=hint, etag=_text(fields.get("etag")), version=int(fields.get("version") or 0))
    if issubclass(kind, TryLater):
        return kind(message, hint=hint, retry_after=retry_after)
    return kind(message, hint=hint)


def retry_after(response: httpx2.Response) -> float | None:
    """Return how many seconds the server asks to wait, or None. A date is not supported: our servers send seconds."""
    seconds = response.headers.get("retry-after", "").strip()
    return float(seconds) if seconds.isascii() and seconds.isdigit() else None


def _read_problem(response: httpx2.Response) -> Mapping[str, Any] | None:
    if not response.headers.get("content-type", "").startswith(("application/problem+json", "application/json")):
        return None
    fields = json_object(json_value(response.content))
    return fields if "code" in fields else None


def _foreign_error(response: httpx2.Response) -> ProwessError:
    """Return the error for a response that is not ours: of a proxy, or of another program at this address."""
    status, url = response.status_code, response.request.url
    if status in TEMPORARY:
        return TryLater(
            f"{url.host} answered {status}, so the server behind it may be restarting.",
            hint="Try again in a moment.",
            retry_after=retry_after(response),
        )
    if status in _HINTS:
        words = "The server refused the token." if status == 401 else f"The server is not served as {url.host!r}."
        return Refused(words, hint=_HINTS[status])
    if status in (400, 413, 415):
        return Invalid(f"The server refused the request ({status}): {_text(response.text)[:200] or 'no reason given'}")
    if status == 403:
        return Refused(f"The server refused the request: {_text(response.text)[:200] or 'no reason given'}")
    return Invalid(
        f"{url.host} answered {status}, which a Prowess server would not do.",
        hint="Check the URL. It is the address that `prowess serve` prints, without a path.",
    )


def _by_code() -> Mapping[str, type[ProwessError]]:
    # Read each time, because it costs little and errors are rare; a later import may add a class.
    return {kind.code: kind for kind in _walk(ProwessError)}


def _walk(kind: type[ProwessError]) -> Iterator[type[ProwessError]]:
    for child in kind.__subclasses__():
        yield from _walk(child)
    yield kind


def _problem(value: Any) -> Problem:
    fields = json_object(value)
    line = fields.get("line")
    field = fields.get("field")
    severity = fields.get("severity")
    return Problem(
        code=str(fields.get("code", "")),
        severity=severity if severity in ("error", "warning", "info") else "error",
        message=_text(fields.get("message")),
        hint=_text(fields.get("command_hint") or fields.get("hint")),
        field=None if field is None else str(field),
        line=line if isinstance(line, int) else None,
    )


def _text(value: object) -> str:
    return str(value)[:_MAX_TEXT] if value is not None else ""
