"""Limit the CPU time of a part of a test. A busy machine does not matter: time that others use does not count."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

import pytest


@contextmanager
def cpu_limit(seconds: float) -> Generator[None]:
    """Fail if the process uses more CPU time than this before the end of the block. Use it in the main thread.

    It stops a regular expression that runs away, too.
    """
    before = signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _give_up(*_: object) -> NoReturn:
    # No `Exception`: code that survives unexpected errors must not survive this.
    pytest.fail("This took too much CPU time.")
