"""The frames that this process and its children exchange: length, run number, kind, payload.

Both sides import this module, so it imports nothing but `struct`: a child must start quickly and holds little else of Prowess.
"""

from __future__ import annotations

import struct
from typing import Final

HEADER: Final = struct.Struct(">IIB")
"""The length of the payload, the run, the kind."""

RUN: Final = 1
"""To the child: start a run. For a script: limits as one line of JSON, then the task."""
RETURN: Final = 2
"""To the child: the answer of a host function, as JSON."""
CANCEL: Final = 3
"""To the child: stop a run; the payload is the reason."""

READY: Final = 11
"""From the child: it accepts runs. The payload says how it is confined, as JSON."""
CALL: Final = 12
"""From the child: a script calls the host. One line with the name of the function, then its arguments as JSON."""
DONE: Final = 13
"""From the child: a run has ended. For a script: the outcome as one line of JSON, then what the guest reports, as JSON."""
FAILED: Final = 14
"""From the child: a run has failed. The payload says why, as JSON."""
STARTED: Final = 15
"""From the parent of the child: the child exists. Its pidfd comes along."""
EXITED: Final = 16
"""From the parent of the child: the child has exited. The payload says how, in words."""

ONLY: Final = 1
"""The run number in a process that has one run at a time."""


class InvalidFrame(ValueError):
    """The other side sent a frame that is too large or belongs to another run."""


def encode_frame(run: int, kind: int, payload: bytes = b"") -> bytes:
    """Return one frame as bytes."""
    return HEADER.pack(len(payload), run, kind) + payload


class FrameBuffer:
    """Splits a stream of bytes into frames."""

    def __init__(self, max_bytes: int, *, run: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._run = run
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes that were received."""
        self._data += data

    def next(self) -> tuple[int, int, bytes] | None:
        """Return the run, kind and payload of the next complete frame, or None. Raise `InvalidFrame` if it is not acceptable.

        The header is judged before the payload arrives, so that a hostile child cannot make the host collect a huge frame.
        """
        data = self._data
        if len(data) < HEADER.size:
            return None
        size, run, kind = HEADER.unpack_from(data)
        if size > self._max_bytes or (self._run is not None and run != self._run):
            raise InvalidFrame
        end = HEADER.size + size
        if len(data) < end:
            return None
        payload = bytes(data[HEADER.size : end])
        del data[:end]
        return run, kind, payload
