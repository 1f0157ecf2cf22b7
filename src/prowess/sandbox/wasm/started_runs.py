"""Which runs a worker has started, in memory shared with its parent.

A run that a killed worker had not started may be repeated; one that it had started may have had effects already. The record
must survive the worker, and a frame for each start would cost every run a system call.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile

_NUMBER = struct.Struct("=I")


class StartedRuns:
    """One number for each thread of a worker: the run that it started last."""

    def __init__(self, descriptor: int, threads: int) -> None:
        self._memory = mmap.mmap(descriptor, threads * _NUMBER.size)

    def note(self, thread: int, number: int) -> None:
        """Record that a thread starts a run."""
        _NUMBER.pack_into(self._memory, thread * _NUMBER.size, number)

    def numbers(self) -> set[int]:
        """Return the recorded runs; every run that has started and not ended is among them."""
        return {number for (number,) in _NUMBER.iter_unpack(self._memory)}


def shared_file(threads: int) -> int:
    """Return the descriptor of an unnamed file that both sides can map."""
    with tempfile.TemporaryFile() as file:
        file.truncate(threads * _NUMBER.size)
        return os.dup(file.fileno())
