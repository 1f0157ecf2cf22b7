"""Taking away from this process what running scripts does not need. What the system does not offer is passed over.

Nothing here is what keeps scripts in, which is the engine's work; it is what an error in the engine would meet next.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_NO_NEW_PRIVILEGES, _DUMPABLE = 38, 4
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_FILES = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
"""What Landlock forbids about files, by the version that knows it."""
_TCP, _SCOPES = (1 << 2) - 1, (1 << 2) - 1

DATA_BYTES = 4 << 30
_NICE = 5


def confine_thread() -> list[str]:
    """Give up the network, files and new privileges; for the only thread there is, and those that it starts."""
    if sys.platform != "linux":
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    reached: list[str] = []
    if libc.unshare(_NEW_NET) == 0 or libc.unshare(_NEW_USER | _NEW_NET) == 0:
        reached.append("network")
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        reached.append("privileges")
        if _landlock(libc):
            reached.append("files")
    return reached


def confine_process() -> list[str]:
    """Bound what is left, and let others go first; once every thread has been started."""
    os.nice(_NICE)
    most = {"RLIMIT_DATA": DATA_BYTES, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": 32, "RLIMIT_NPROC": 0}
    reached: list[str] = []
    for name, limit in most.items():
        try:
            resource.setrlimit(getattr(resource, name), (limit, limit))
        except (AttributeError, OSError, ValueError):
            continue
        reached.append(name.removeprefix("RLIMIT_").lower())
    return reached


def _landlock(libc: ctypes.CDLL) -> bool:
    """Whether no file can be opened any more, nor a connection made."""
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    files = sum(bits for since, bits in _FILES if version >= since)
    fields = [files] + [_TCP] * (version >= 4) + [_SCOPES] * (version >= 6)
    rules = struct.pack(f"={len(fields)}Q", *fields)
    descriptor = libc.syscall(_CREATE_RULESET, rules, len(rules), 0)
    if descriptor < 0:
        return False
    done = libc.syscall(_RESTRICT_SELF, descriptor, 0) == 0
    os.close(descriptor)
    return done
