"""Start, list, cancel and retry jobs on a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prowess.client.decode import decode
from prowess.client.part import Part
from prowess.client.transport import segment
from prowess.errors import Invalid

if TYPE_CHECKING:
    from prowess.jobs.job import Job
    from prowess.run.request import RunRequest
    from prowess.storage.jobs import JobState

JsonObject = dict[str, Any]
POLL_SECONDS = 1.0


class Jobs(Part):
    """The jobs of the caller; an administrator sees those of the whole organization. The server does them."""

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
        """Start a batch: one run for each item. A batch of the same name is continued if it has the same items."""
        more = {"items": [dict(item) for item in items], "concurrency": concurrency, "max_spend": max_spend}
        return await self._start(request, name=name, **more)

    async def list(self, *, states: Sequence[JobState] = (), limit: int = 50) -> list[Job]:
        """Return jobs without their results, newest first."""
        given = {"state": states[0]} if len(states) == 1 else {}
        most = None if len(states) > 1 else limit
        found = [_decode(one) async for one in self._transport.pages("/jobs", most=most, **given)]
        return [job for job in found if not states or job.state in states][:limit]

    async def get(self, job: str) -> Job:
        """Return a job by its name or id."""
        return _decode(await self._transport.get(_path(job)))

    async def all_results(self, job: str) -> AsyncGenerator[dict[str, Any]]:
        """Yield the results of a batch, in input order."""
        async for one in self._transport.pages(f"{_path(job)}/results"):
            yield one

    async def cancel(self, job: str) -> Job:
        """Cancel a job. Results so far are kept."""
        return _decode(await self._transport.post(f"{_path(job)}/cancel", {}))

    async def retry(self, job: str, *, concurrency: int | None = None, max_spend: float | None = None) -> Job:
        """Start a job again that failed, stopped or was cancelled. What succeeded is kept."""
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
