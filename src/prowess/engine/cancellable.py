"""Run work that reports progress in a thread, and stop it at its next step when the caller is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from prowess.errors import Refused
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.catalog.importer import Progress, ProgressCallback

T = TypeVar("T")


async def offload_cancellable(work: Callable[[ProgressCallback], T], watch: ProgressCallback) -> T:
    """Run work in a thread that stops at its next step when the caller is cancelled. What it has kept by then stays."""
    import asyncio

    stop = threading.Event()

    def step(progress: Progress) -> None:
        watch(progress)  # also of the last step, so that the caller knows how far it came
        if stop.is_set():
            raise Refused("Stopped.", hint="Changes made before the cancellation are kept.")

    # Shielded, because a thread cannot be cancelled: it has to stop by itself, and is waited for.
    running = asyncio.ensure_future(offload(work, step))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({running})
        with suppress(BaseException):  # the caller sees the cancellation, whatever the work raised
            running.result()
        raise
