"""End a command on SIGTERM or SIGHUP as Ctrl-C does: cancel the work, clean up, and exit with 128 + the signal number.

SIGINT is not used for this. A shell starts the background jobs of a script with SIGINT ignored, so a handler that
forwarded SIGTERM as SIGINT would do nothing there, and only SIGKILL would end the job.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Termination:
    """The first termination signal that a command received, and how to cancel its work."""

    def __init__(self) -> None:
        self.number = 0
        """The signal's number; 0 before one arrives."""
        self.cancel: Callable[[], object] | None = None
        """Cancels the running asynchronous work; None if there is none."""

    @property
    def exit_code(self) -> int:
        """The exit code of a command that the signal ended, by the convention of shells."""
        return 128 + self.number

    def receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (a signal handler)
        """Cancel the work. Raise `KeyboardInterrupt` if there is none to cancel, or if this is the second signal."""
        # The sender of a second signal does not want to wait for the clean-up.
        first, self.number = not self.number, self.number or number
        # A statement in a thread cannot be cancelled from here. If the module is not loaded, there is none.
        if (sqlite := sys.modules.get("prowess.storage.sqlite")) is not None:
            sqlite.stop_statements()
        if first and self.cancel is not None:
            self.cancel()
        else:
            raise KeyboardInterrupt


_current = Termination()


@contextmanager
def catch_termination() -> Generator[Termination]:
    """Let SIGTERM and SIGHUP end the command within the block.

    A signal that is ignored (`nohup`) or already has a handler is left alone.
    """
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


def run_async(work: Callable[[], Awaitable[T]], *, runner: asyncio.Runner | None = None) -> T:
    """Run asynchronous work and return its result. With a `runner`, its event loop is used, and stays open.

    A termination signal cancels the work. Once it has cleaned up, raise click's `Exit` with the signal's exit code.
    """
    import asyncio

    from prowess.threads import stop_imports

    stop_imports()
    termination = _current

    async def cancellable() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None  # noqa: S101  (this runs in a task)
        # The handler runs in the main thread while the loop may be waiting in `select`. A plain `task.cancel` would be
        # noticed only at the next event; `call_soon_threadsafe` wakes the loop up.
        termination.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            with _woken_by_signals(loop):
                return await work()
        finally:
            termination.cancel = None

    try:
        return asyncio.run(cancellable()) if runner is None else runner.run(cancellable())
    except (asyncio.CancelledError, KeyboardInterrupt):
        _raise_terminated(termination)
        raise


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Let every signal wake the loop up.

    Python runs the handler of a signal between two statements. Without this, one that arrives after the last statement before
    the loop waits in `select` would be noticed only at the next event, which for an idle command never comes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows only the main thread to do this
        return
    import socket  # which the loop has imported

    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)
        loop.add_reader(receiver, receiver.recv, 4096)
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(receiver)


def run_quick(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run asynchronous work that waits for nothing but blocking calls, without an event loop, and return its result.

    A termination signal interrupts the call. Raise click's `Exit` with the signal's exit code, as `run_async` does.
    """
    from prowess.threads import run_blocking

    termination = _current
    try:
        return run_blocking(work())
    except KeyboardInterrupt:
        _raise_terminated(termination)
        raise


def _raise_terminated(termination: Termination) -> None:
    """Raise click's `Exit` if a signal ended the command. Without one it was Ctrl-C, which `main.run` reports."""
    if termination.number:
        click.echo("Terminated. Everything saved so far is kept.", err=True)
        raise click.exceptions.Exit(termination.exit_code) from None
