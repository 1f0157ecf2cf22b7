"""How a process that runs scripts is spoken with: frames of a length, the number of a run, a kind and a payload."""

from __future__ import annotations

import struct
from typing import Final

HEADER: Final = struct.Struct(">IIB")
"""The length of the payload, the run, the kind."""

RUN: Final = 1
"""To the worker: start a run. Limits and names as a line of JSON, then the task for the guest."""
RETURN: Final = 2
"""To the worker: what a host function gave, as JSON."""
CANCEL: Final = 3
"""To the worker: stop a run, for the reason in the payload."""

READY: Final = 11
"""From the worker: it can be asked. What it is confined by, as JSON."""
CALL: Final = 12
"""From the worker: a script calls. A line with the name of the function, then its arguments as JSON."""
DONE: Final = 13
"""From the worker: a run has ended. What came of it as a line of JSON, then what the guest says, as JSON."""

STARTED: Final = 15
"""From whoever started the process of a run: it is there. The descriptor of it comes along."""
EXITED: Final = 16
"""From whoever started the process of a run: it has ended. How, in words."""

ONLY: Final = 1
"""The run of a process that has one."""


def frame(run: int, kind: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEADER.pack(len(payload), run, kind) + payload
