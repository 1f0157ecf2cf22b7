"""Run skills on a server: send the request, pass on the progress, and return the result as the engine does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from prowess.client.part import Part
from prowess.client.problems import make_error
from prowess.client.records import trace_path
from prowess.client.sessions import session_path
from prowess.client.transport import segment
from prowess.errors import Invalid, NotFound, ProwessError, TryLater

if TYPE_CHECKING:
    from prowess.run.request import RunRequest
    from prowess.run.result import RunResult

JsonObject = dict[str, Any]
SILENCE_SECONDS = 60.0
"""A run without data for four heartbeats is lost."""


class Runs(Part):
    """Runs skills for the caller, on the server."""

    async def attempt(self, request: RunRequest) -> RunResult:
        """Run a skill like `Client.run`, but return a failed run as a result whose `error` says why.

        Raise only errors that prevent the run from starting, and `TryLater` if the connection is lost; the server then
        cancels the run. Models are named, because they are asked by the server.
        """
        inputs = request.inputs
        if callable(inputs):
            from prowess.client.skills import Skills

            inputs = inputs(await Skills(self._transport).get(request.slug))
        body: JsonObject = {
            "artifacts": list(request.artifacts),
            "inputs": dict(inputs),
            "model": _model_name(request.model),
            "evaluation_model": _model_name(request.evaluation_model),
            "timeout": request.timeout,
            "dry_run": request.dry_run,
            "resume": request.resume,
        }
        if request.session:
            path, body["skill_slug"] = session_path(request.session, "run"), request.slug
        else:
            path = f"/skills/{segment(request.slug)}/run"
        result = await self._follow(path, body, request)
        for part in result.parts:
            request.on_part(part)
        return result

    async def can_resume(self, trace: str) -> bool:
        """Return True if there is a checkpoint of the run with this trace."""
        try:
            return bool((await self._transport.get(trace_path(trace)))["resumable"])
        except NotFound:
            return False

    async def _follow(self, path: str, body: JsonObject, request: RunRequest) -> RunResult:
        """Return the result at the end of a stream, and report the steps before it."""
        from prowess.run.request import Step

        async with self._transport.stream("POST", path, json=body, silence=SILENCE_SECONDS) as stream:
            async for sent in stream:
                data = cast("JsonObject", sent.json()) if sent.data else {}
                if sent.event == "text":
                    request.on_step(Step(artifact=data["artifact"], text=data["text"]))
                elif sent.event == "step" and not data["artifact"]:
                    request.on_setup(data["state"])
                elif sent.event == "step":
                    request.on_step(Step(artifact=data["artifact"], state=data["state"], detail=data["detail"]))
                elif sent.event == "result":
                    return decode_result(data)
                elif sent.event == "error":
                    if "run" not in data:
                        raise make_error(data, status=int(data.get("status") or 0))
                    return decode_result(data["run"], error=make_error(data, status=int(data.get("status") or 0)))
        raise TryLater(
            "The connection ended before the run did.", hint="`prowess traces` shows what became of it; run it again."
        )


def _model_name(model: object) -> str:
    if isinstance(model, str):
        return model
    raise Invalid("A server cannot use a model object.", hint="Pass the name of a model, such as 'anthropic:NAME'.")


def decode_result(value: JsonObject, *, error: ProwessError | None = None) -> RunResult:
    """Return the result of a run from its JSON. `error` is why it failed, with everything that the server says about it."""
    from prowess.run.decoding import decode_result as decode

    return decode(value, make_error, error=error)
