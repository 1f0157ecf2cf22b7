"""The program that executes the sidecar: it confines itself first, as far as this system can, and reports how.

No code of a skill runs in the sidecar, so it also runs where a system cannot confine it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

from prowess.sandbox.confine.kernel import machine
from prowess.sandbox.confine.lockdown import lock_down

_DIE_WITH_PARENT = 1


def main(options: dict[str, Any]) -> None:
    """Confine this process and execute the sidecar. Write how it is confined, or why it cannot start, to the descriptor."""
    report = int(sys.argv[2])
    # Closed by `execve`: the end of the report tells the host that the sidecar has been started.
    os.set_inheritable(report, False)
    confined: list[str] = []
    if machine():
        ctypes.CDLL(None, use_errno=True).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        # The parent may have died before the line above took effect, in which case no signal comes.
        if os.getppid() != options["parent"]:
            os._exit(1)
        confined = lock_down(**options["lock"])
    os.write(report, json.dumps(confined).encode() + b"\n")
    try:
        os.execve(options["argv"][0], options["argv"], options["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(report, json.dumps(error.strerror).encode() + b"\n")
        os._exit(1)
