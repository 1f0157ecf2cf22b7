"""Restrict file access by path with Landlock, also for programs that are started later.

Landlock checks opening, creating, moving and removing. It does not check `stat`, nor changes of owner, mode and time, which
the system call filter handles, nor files that are already open.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterable
from contextlib import suppress

from prowess.sandbox.confine.kernel import machine, open_place, syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER, _MAKE_SOCKET, _MAKE_FIFO, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 10, 1 << 11
_TRUNCATE, _DEVICE = 1 << 14, 1 << 15
_KNOWN = ((1, (1 << 13) - 1), (2, 1 << 13), (3, _TRUNCATE), (5, _DEVICE))
"""The file operations that Landlock checks, by the version of its interface that added them.

A rule set that names an operation that the kernel does not know is rejected as a whole.
"""
_TCP, _SCOPES = (1 << 2) - 1, (1 << 2) - 1

_READ = _READ_FILE | _READ_FOLDER
_NODES = _MAKE_CHARACTER | _MAKE_SOCKET | _MAKE_FIFO | _MAKE_BLOCK
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


def version() -> int:
    """Return the version of Landlock in this kernel, 0 for none."""
    # With the flag 1 and no rules, the call returns the version instead of a rule set.
    return max(0, syscall(_CREATE, None, 0, 1)) if machine() else 0


def restrict_paths(
    *, read: Iterable[str], write: Iterable[str], execute: Iterable[str], exact: Collection[str] = ()
) -> list[str]:
    """Allow access below these paths only, and return what was achieved; [] if nothing was restricted.

    Paths that do not exist are skipped. What may be executed or written may also be read. `no_new_privs` must be set. `exact` is
    as in `lock_down`.
    """
    known = version()
    if known < 1:
        return []
    judged = sum(bits for since, bits in _KNOWN if known >= since)
    # From version 4 TCP can be closed, from version 6 signals and abstract sockets to processes outside. No rule allows any.
    fields = [judged] + [_TCP] * (known >= 4) + [_SCOPES] * (known >= 6)
    rules = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = syscall(_CREATE, rules, len(rules), 0)
    if ruleset < 0:
        return []
    try:
        for paths, access in (
            (read, _READ),
            (execute, _READ | _EXECUTE),
            # No device nodes, sockets or named pipes can be made in writable places, and nothing written there
            # executed, unless a rule of `execute` covers the place, too.
            (write, judged & ~_NODES & ~_EXECUTE & ~_DEVICE),
        ):
            for path in paths:
                _allow(ruleset, path, access & judged, exact=path in exact)
        if syscall(_RESTRICT, ruleset, 0) != 0:
            return []
    finally:
        os.close(ruleset)
    return ["files"] + ["signals"] * (known >= 6)


def _allow(ruleset: int, path: str, access: int, *, exact: bool) -> None:
    """Allow access to a path; if that fails, it stays forbidden."""
    with suppress(OSError), open_place(path, exact=exact) as place:
        # A rule for a file that names an operation on folders is rejected.
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _OF_FILES
        syscall(_ADD, ruleset, 1, struct.pack("=Qi", access, place), 0)
