"""End a command on SIGTERM or SIGHUP as Ctrl-C does: cancel the work, clean up, and exit with 128 + the signal's number.

SIGINT plays no part in this. A shell starts background jobs of a script with SIGINT ignored, so a handler that passed
SIGTERM on as SIGINT would do nothing there, and the job could only be killed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import click

T = TypeVar("T")

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Termination:
    """The first termination signal that a command received, and how to cancel what it is doing."""

    def __init__(self) -> None:
        self.number = 0
        """The signal's number; 0 before one arrives."""
        self.cancel: Callable[[], object] | None = None
        """Cancels the asynchronous work that is under way; None where there is none."""

    @property
    def exit_code(self) -> int:
        """The exit code of a command that the signal ended, as shells report it."""
        return 128 + self.number

    def receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (a signal handler)
        """Cancel the work; raise `KeyboardInterrupt` if there is none to cancel, or if this is the second signal."""
        first, self.number = not self.number, self.number or number
        if first and self.cancel is not None:
            self.cancel()
        else:
            raise KeyboardInterrupt


_current = Termination()


@contextmanager
def catch_termination() -> Generator[Termination]:
    """Within it, SIGTERM and SIGHUP end the command; a signal that is ignored (`nohup`) or handled already is left alone."""
    global _current  # noqa: PLW0603  (signal handlers belong to the process, too)
    _current = termination = Termination()
    # Python allows only the main thread to set handlers.
    is_main = threading.current_thread() is threading.main_thread()
    caught = [number for number in _SIGNALS if is_main and signal.getsignal(number) == signal.SIG_DFL]
    for number in caught:
        signal.signal(number, termination.receive)
    try:
        yield termination
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
        _current = Termination()


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run asynchronous work; a termination signal cancels it, and the command exits once it has cleaned up."""
    import asyncio

    termination = _current

    async def cancellable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None  # noqa: S101  (this runs in a task)
        # A handler runs between two bytecodes of the loop, which may be waiting: the call wakes it up.
        termination.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            return await work()
        finally:
            termination.cancel = None

    try:
        return asyncio.run(cancellable())
    except (asyncio.CancelledError, KeyboardInterrupt):
        if not termination.number:
            raise
        click.echo("Told to end; what was done so far is kept.", err=True)
        raise click.exceptions.Exit(termination.exit_code) from None
