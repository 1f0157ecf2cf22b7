"""A network of one's own with nothing in it, and a view of the files in which only what may be written can be changed."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from prowess.sandbox.confining.kernel import libc, machine, syscall

_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_SET_MOUNT, _BELOW, _HERE = 442, 0x8000, -100
_READ_ONLY, _NO_OTHER_USER = 1, 2


def leave_network() -> bool:
    """Whether this process has no network any more but an empty one."""
    return bool(machine()) and _unshare(_NEW_NETWORK)


def separate(write: Sequence[str]) -> list[str]:
    """Leave the network, and have all files read-only but these, as far as the system lets; and say what was reached."""
    if not machine():
        return []
    if not _unshare(_NEW_NETWORK | _NEW_MOUNTS):
        return ["network"] if leave_network() else []
    return ["network"] + (["attributes"] if _read_only_but(write) else [])


def _unshare(what: int) -> bool:
    """Whether this process has its own of something, if need be as a user of its own who is who it was."""
    if libc().unshare(what) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if libc().unshare(_NEW_USER | what) != 0:
        return False
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError):
            Path("/proc/self", name).write_text(line)
    return True


def _read_only_but(write: Sequence[str]) -> bool:
    """Whether every mount is read-only now, and the places to write to are not."""
    mount = libc().mount
    if mount(None, b"/", None, _RECURSIVE | _PRIVATE, None) != 0:
        return False
    places = [os.fsencode(path) for path in write if Path(path).is_dir()]
    if any(mount(place, place, None, _BIND | _RECURSIVE, None) != 0 for place in places):
        return False
    if not _marked(b"/", add=_READ_ONLY | _NO_OTHER_USER):
        return False
    return all(_marked(place, clear=_READ_ONLY) for place in places)


def _marked(place: bytes, *, add: int = 0, clear: int = 0) -> bool:
    marks = struct.pack("=4Q", add, clear, 0, 0)
    return syscall(_SET_MOUNT, _HERE, place, _BELOW, marks, len(marks)) == 0
