"""Separate the process from everything but its two pipes."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import warnings
from typing import Any

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)

# Raised by CPython itself, also for C code that uses its socket and process functions. It is the second line: the first is
# that no code here opens a connection, and that the environment holds no key to open one with.
REFUSED_EVENTS = frozenset(
    {
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyaddr",
        "socket.gethostbyname",
        "socket.sendmsg",
        "socket.sendto",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "pickle.find_class",
        "subprocess.Popen",
    }
)


def claim_pipes() -> tuple[int, int]:
    """Return descriptors of the protocol's input and output, and point standard input and output elsewhere.

    DSPy prints prompts and progress bars: those are dropped. What C code prints goes to standard error.
    """
    reader, writer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the life of the process
    return reader, writer


def prepare_environment() -> None:
    """Set what DSPy and its libraries read while they are imported. Call it before importing DSPy."""
    os.environ["DSPY_CACHEDIR"] = os.path.join(os.devnull, "dspy")  # noqa: PTH118 - a path that cannot exist
    os.environ["TQDM_DISABLE"] = "1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts a thread for each processor otherwise, and uses none here
    warnings.simplefilter("ignore")
    # Ctrl-C in a terminal reaches the whole process group. The parent decides; its exit closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def refuse_files() -> None:
    """Let this process write nothing to files from now on, however it was started. Pipes and devices are not files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def refuse_network_and_processes() -> None:
    """Raise `PermissionError` from now on where this process opens a connection, starts a process or loads a pickle."""
    sys.addaudithook(_refuse)


def _refuse(event: str, _arguments: tuple[Any, ...]) -> None:
    if event in REFUSED_EVENTS:
        raise PermissionError(f"The sidecar does not allow {event}.")


def secret_names() -> list[str]:
    """Return the names in the environment that look like those of secrets."""
    return sorted(name for name in os.environ if SECRET_NAME.search(name))
