"""Stop a server on SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals(stop: Callable[[int], None]) -> Generator[None]:
    """Within the block, call `stop` with the number of each SIGINT, SIGTERM or SIGHUP that arrives."""
    loop = asyncio.get_running_loop()
    # An ignored signal was meant not to end this process: SIGINT in the background of a script, SIGHUP under nohup.
    # A handler would undo that.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
