"""The program that executes another one: it confines itself first, and reports how."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from prowess.sandbox.confine.kernel import machine, prctl
from prowess.sandbox.confine.lockdown import lock_down

_DIE_WITH_PARENT = 1


def main(options: dict[str, Any]) -> None:
    """Confine this process and execute the program, unless one of the `required` limits cannot be set.

    Write how it is confined, or why the program cannot be started, to the descriptor.
    """
    report = int(sys.argv[2])
    # Closed by `execve`: the end of the report tells the host that the program has been started.
    os.set_inheritable(report, False)
    confined: list[str] = []
    if machine():
        prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        # The parent may have died before the line above took effect, in which case no signal comes.
        if os.getppid() != options["parent"]:
            os._exit(1)
        confined = lock_down(**options["lock"])
    os.write(report, json.dumps(confined).encode() + b"\n")
    missing = [word for word in options["required"] if word not in confined]
    if missing:
        os.write(report, json.dumps(f"this system cannot confine {', '.join(missing)}").encode() + b"\n")
        os._exit(1)
    try:
        os.execve(options["argv"][0], options["argv"], options["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(report, json.dumps(error.strerror).encode() + b"\n")
        os._exit(1)
