"""Run skills on a server, now or as a job, and return what the engine returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from prowess.client.part import JsonObject, Part, decode
from prowess.client.problems import make_error
from prowess.client.records import trace_path
from prowess.client.sessions import Sessions, session_path
from prowess.client.transport import segment
from prowess.errors import Invalid, NotFound, ProwessError, TryLater

if TYPE_CHECKING:
    from prowess.jobs.job import Job
    from prowess.run.request import RunRequest
    from prowess.run.result import RunResult
    from prowess.storage.jobs import JobState

POLL_SECONDS = 1.0
SILENCE_SECONDS = 60.0
"""A run without data for four heartbeats is lost."""


class Runs(Part):
    """Runs skills for the caller, on the server."""

    async def attempt(self, request: RunRequest) -> RunResult:
        """Run a skill like `Client.run`, but return a failed run as a result whose `error` says why.

        Raise only errors that prevent the run from starting, and `TryLater` if the connection is lost; the server then
        cancels the run. Models are passed by name, because the server calls them.
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
        sessions = Sessions(self._transport)
        name = request.session
        # As in the engine: a run opens the session that it names, and a dry run changes nothing.
        session = await (sessions.find(name) if request.dry_run else sessions.open(name)) if name else None
        if session is not None:
            path, body["skill_slug"] = session_path(session, "run"), request.slug
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
            async for event in stream:
                data = cast("JsonObject", event.json()) if event.data else {}
                if event.event == "text":
                    request.on_step(Step(artifact=data["artifact"], text=data["text"]))
                elif event.event == "step" and not data["artifact"]:
                    request.on_setup(data["state"])
                elif event.event == "step":
                    request.on_step(Step(artifact=data["artifact"], state=data["state"], detail=data["detail"]))
                elif event.event == "result":
                    return decode_result(data)
                elif event.event == "error":
                    if "run" not in data:
                        raise make_error(data, status=int(data.get("status") or 0))
                    return decode_result(data["run"], error=make_error(data, status=int(data.get("status") or 0)))
        raise TryLater(
            "The connection ended before the run did.",
            hint="`prowess traces` shows the outcome. Run it again if needed.",
        )


def _model_name(model: object) -> str:
    if isinstance(model, str):
        return model
    raise Invalid("A server cannot use a model object.", hint="Pass the name of a model, such as 'anthropic:NAME'.")


def decode_result(value: JsonObject, *, error: ProwessError | None = None) -> RunResult:
    """Return the result of a run from its JSON. `error` is why it failed, with everything that the server says about it."""
    from prowess.run.decoding import decode_result as decode

    return decode(value, make_error, error=error)


class Jobs(Part):
    """The jobs of the caller; an administrator sees those of the whole organization. The server runs them."""

    async def start_run(self, request: RunRequest, *, name: str = "") -> Job:
        """Start a durable run. A job of the same name is continued if it is the same run."""
        return await self._start(request, name=name)

    async def start_batch(
        self,
        request: RunRequest,
        items: Sequence[Mapping[str, Any]],
        *,
        name: str = "",
        concurrency: int = 4,
        max_spend: float | None = None,
    ) -> Job:
        """Start a batch: one run for each item. A batch of the same name is continued if it is the same."""
        more = {"items": [dict(item) for item in items], "concurrency": concurrency, "max_spend": max_spend}
        return await self._start(request, name=name, **more)

    async def list(self, *, states: Sequence[JobState] = (), limit: int = 50) -> list[Job]:
        """Return jobs without their results, newest first."""
        filters = {"state": states[0]} if len(states) == 1 else {}
        most = None if len(states) > 1 else limit
        found = [_decode(row) async for row in self._transport.pages("/jobs", most=most, **filters)]
        return [job for job in found if not states or job.state in states][:limit]

    async def get(self, job: str) -> Job:
        """Return a job by its name or id."""
        return _decode(await self._transport.get(_path(job)))

    async def all_results(self, job: str) -> AsyncGenerator[dict[str, Any]]:
        """Yield the results of a batch, in input order."""
        async for result in self._transport.pages(f"{_path(job)}/results"):
            yield result

    async def cancel(self, job: str) -> Job:
        """Cancel a job. Results so far are kept."""
        return _decode(await self._transport.post(f"{_path(job)}/cancel", {}))

    async def retry(self, job: str, *, concurrency: int | None = None, max_spend: float | None = None) -> Job:
        """Restart a job that failed, stopped or was cancelled. Finished results are kept."""
        body = {"concurrency": concurrency, "max_spend": max_spend}
        return _decode(await self._transport.post(f"{_path(job)}/retry", body))

    async def wait(self, job: str, *, on_change: Callable[[Job], None] = lambda _: None) -> Job:
        """Return a job when it has ended. `on_change` receives it each time that it has changed."""
        seen = await self.get(job)
        on_change(seen)
        while seen.is_open:
            await asyncio.sleep(POLL_SECONDS)
            found = await self.get(seen.id)
            if found != seen:
                on_change(found)
            seen = found
        return seen

    async def _start(self, request: RunRequest, *, name: str, **more: Any) -> Job:
        if callable(request.inputs) or not isinstance(request.model, str):
            raise Invalid("A job on a server needs plain inputs and the name of a model.", hint="Pass an object.")
        body: JsonObject = {
            "skill_slug": request.slug,
            "name": name,
            "artifacts": list(request.artifacts),
            "inputs": {} if more else dict(request.inputs),
            "session": request.session,
            "model": request.model,
            "evaluation_model": request.evaluation_model,
            "timeout": request.timeout,
            **more,
        }
        return _decode(await self._transport.post("/jobs", body))


def _path(job: str) -> str:
    return f"/jobs/{segment(job)}"


def _decode(value: Any) -> Job:
    from prowess.jobs.job import Job

    return decode(Job, value)
