"""The program that becomes Deno: it gives up what a function does not need, says what that was, and is replaced."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

from prowess.sandbox.confine.lockdown import NEEDED, lock_down

_DIE_WITH_PARENT = 1


def main(told: dict[str, Any]) -> None:
    """Become the program. A descriptor takes by what it is confined, and why it cannot be started where that is so."""
    tell = int(sys.argv[2])
    os.set_inheritable(tell, False)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != told["parent"]:
        os._exit(1)
    confined = lock_down(may_become=True, **told["lock"])
    os.write(tell, json.dumps(confined).encode() + b"\n")
    missing = [word for word in (*NEEDED, "network") if word not in confined]
    if missing:
        os.write(tell, json.dumps(f"this system cannot confine {', '.join(missing)}").encode() + b"\n")
        os._exit(1)
    try:
        os.execve(told["argv"][0], told["argv"], told["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(tell, json.dumps(error.strerror).encode() + b"\n")
        os._exit(1)
