"""Which runs a worker has started, in memory shared with its parent: nothing is sent, and it outlives the worker."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile

_NUMBER = struct.Struct("=I")


class StartedRuns:
    """One number for each thread of a worker: the run that it began last."""

    def __init__(self, descriptor: int, threads: int) -> None:
        self._memory = mmap.mmap(descriptor, threads * _NUMBER.size)

    def note(self, thread: int, number: int) -> None:
        """A thread begins a run."""
        _NUMBER.pack_into(self._memory, thread * _NUMBER.size, number)

    def numbers(self) -> set[int]:
        """The runs; those that have not ended are all among them."""
        return {number for (number,) in _NUMBER.iter_unpack(self._memory)}


def shared_file(threads: int) -> int:
    """The descriptor of a file without a name that both sides can map."""
    with tempfile.TemporaryFile() as file:
        file.truncate(threads * _NUMBER.size)
        return os.dup(file.fileno())
