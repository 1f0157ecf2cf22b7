"""Calls to the kernel that the standard library has no function for."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

MACHINES = ("x86_64", "aarch64")


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def machine() -> str:
    """The processor, where the numbers of its system calls are known here; '' elsewhere."""
    name = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    return name if sys.platform == "linux" and sys.maxsize > 1 << 32 and name in MACHINES else ""


def prctl(option: int, *arguments: int) -> int:
    """What `prctl` gives for numbers."""
    given = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return int(libc().prctl(ctypes.c_int(option), *given))


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """What a system call gives; -1 with an `errno` where it fails."""
    given = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return int(libc().syscall(ctypes.c_long(number), *given))
