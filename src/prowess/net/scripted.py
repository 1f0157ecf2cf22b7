"""A scripted HTTP client: it answers from a list of steps, for tests and for trying skills without a network.

It is strict: a request that the script does not expect is an error, and so is a step that was never requested.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from prowess.errors import Refused, RunFailed
from prowess.net.client import check_body
from prowess.net.request import HttpRequest, HttpResponse, normalize_headers, normalize_method
from prowess.net.target import Target, allowed_route, parse_target

HttpStep = str | bytes | Mapping[str, Any] | HttpResponse | Exception


class ScriptedHttpClient:
    """Answers requests from a script, step by step, and refuses hosts as every `HttpClient` does.

    A step is a text, bytes, a mapping (sent as JSON), a complete `HttpResponse`, or an exception to raise. A refused request
    uses no step. A request beyond the last step raises `RunFailed`, and so does `finish`, or leaving the `with` block, while
    steps are left. Nothing is looked up and no redirect is followed.
    """

    def __init__(self, steps: Sequence[HttpStep] = ()) -> None:
        self._steps = list(steps)
        self.requests: list[HttpRequest] = []
        """The requests in order, without refused ones."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()

    def finish(self) -> None:
        """Raise `RunFailed` if a step was not used."""
        if self._steps:
            raise RunFailed(
                f"{len(self._steps)} steps of the script were not used.",
                hint="Make the requests, or remove the steps from the script.",
            )

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response of the next step."""
        # The same checks as in the real client, so that a test with a script fails where a real request would.
        target = parse_target(request.url)
        normalize_method(request.method)
        normalize_headers(request.headers)
        check_body(request)
        self._note(request, target)
        self.requests.append(request)
        if not self._steps:
            raise RunFailed(
                f"Unexpected request number {len(self.requests)} to {target.shown}.",
                hint="Add a step for it to the script.",
            )
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, HttpResponse) else _to_response(step, target)

    @staticmethod
    def _note(request: HttpRequest, target: Target) -> None:
        try:
            allowed_route(target, f"The host {target.shown}", request.hosts, request.routes, any_host=request.any_host)
        except Refused:
            if request.witness:
                request.witness.refuse("hosts", target.shown)
            raise
        if request.witness:
            request.witness.touch("hosts", target.shown)


def _to_response(step: str | bytes | Mapping[str, Any], target: Target) -> HttpResponse:
    kind, body = "application/octet-stream", step
    if isinstance(step, Mapping):
        kind, body = "application/json", json.dumps(step, ensure_ascii=False)
    elif isinstance(step, str):
        kind = "text/plain; charset=utf-8"
    content = body.encode() if isinstance(body, str) else bytes(body)  # pyright: ignore[reportArgumentType]
    return HttpResponse(status=200, headers={"content-type": kind}, body=content, url=target.url, hops=(target.shown,))
