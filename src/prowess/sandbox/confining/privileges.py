"""Privileges of the process: none are left, and none can come back."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

from prowess.sandbox.confining.kernel import libc, prctl

_SET_DUMPABLE, _DROP_BOUNDING, _SET_SECURE_BITS, _NO_NEW_PRIVILEGES, _HAS_NO_NEW_PRIVILEGES, _AMBIENT = (
    4,
    24,
    28,
    38,
    39,
    47,
)
_CLEAR_ALL = 4
_ROOT_IS_NOBODY_LOCKED = 0b10_1111
"""Being root gives nothing, nor does changing to it, and nobody can change that."""
_CAPABILITIES, _SETS_BYTES = 64, 24
_HEAD = struct.pack("=Ii", 0x20080522, 0)
"""The version of the sets, and this process."""


def drop() -> list[str]:
    """Give up capabilities and further groups, and that any program gives new ones; nobody may look into the process."""
    if not _are_gone():
        _drop()
    return ["privileges"] if _are_gone() else []


def _drop() -> None:
    prctl(_SET_DUMPABLE, 0)
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
    prctl(_SET_SECURE_BITS, _ROOT_IS_NOBODY_LOCKED)
    prctl(_AMBIENT, _CLEAR_ALL)
    for number in range(_CAPABILITIES):
        if prctl(_DROP_BOUNDING, number) != 0:
            break
    libc().capset(_HEAD, bytes(_SETS_BYTES))
    prctl(_NO_NEW_PRIVILEGES, 1)


def _are_gone() -> bool:
    """Whether there is no capability, and none can be gained."""
    sets = ctypes.create_string_buffer(b"\1" * _SETS_BYTES, _SETS_BYTES)
    return libc().capget(_HEAD, sets) == 0 and not any(sets.raw) and prctl(_HAS_NO_NEW_PRIVILEGES) == 1
