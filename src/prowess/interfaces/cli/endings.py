"""A command that is told to end ends in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

import click

TERMINATED = 128 + signal.SIGTERM


@contextmanager
def heeding_termination() -> Generator[None]:
    """Within it, SIGTERM interrupts as Ctrl-C does, and the command ends with 143."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    told = False

    def end(*_: object) -> None:
        nonlocal told
        told = True
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        if not told:
            raise
        click.echo("Told to end; what was done so far is kept.", err=True)
        raise click.exceptions.Exit(TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
