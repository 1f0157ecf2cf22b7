"""Linux calls without a standard library wrapper: drop privileges, and enter empty network and read-only mount namespaces."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import struct
import sys
from collections.abc import Collection, Generator, Sequence
from pathlib import Path

MACHINES = ("x86_64", "aarch64")


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def machine() -> str:
    """Return the processor, if the numbers of its system calls are known here; '' otherwise."""
    # A 32-bit Python on a 64-bit kernel reports the same machine, but its calls have other numbers.
    name = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    return name if sys.platform == "linux" and sys.maxsize > 1 << 32 and name in MACHINES else ""


def prctl(option: int, *arguments: int) -> int:
    """Call `prctl` with numbers."""
    # All four are passed, as full words: for some options the kernel rejects unused ones that are not zero.
    numbers = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return int(libc().prctl(ctypes.c_int(option), *numbers))


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call; -1 and `errno` if it fails."""
    numbers = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return int(libc().syscall(ctypes.c_long(number), *numbers))


@contextlib.contextmanager
def open_place(path: str, *, exact: bool) -> Generator[int]:
    """Yield a descriptor that stands for a file or folder. `OSError` if the path is `exact`, and a link has come into it."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if exact and str(Path(_name_of(place)).readlink()) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        yield place
    finally:
        os.close(place)


def _name_of(descriptor: int) -> str:
    """Return a path that leads to what is open, wherever it is by now."""
    return f"/proc/self/fd/{descriptor}"


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
"""Root has no special capabilities, changing to root gives none, and these settings are locked.

Without this, a process that runs as root gets all its capabilities back with the next `execve`.
"""
_CAPABILITIES, _SETS_BYTES = 64, 24
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)
"""Version 3 of the capability sets, and process 0, which is the calling one."""


def drop_privileges() -> list[str]:
    """Drop all capabilities and supplementary groups permanently; no other process may attach to or inspect this one."""
    if not _are_dropped():
        _drop_all()
    return ["privileges"] if _are_dropped() else []


def _drop_all() -> None:
    # Not dumpable: `ptrace` and `/proc/PID/mem` are closed to processes of the same user.
    prctl(_SET_DUMPABLE, 0)
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
    prctl(_SET_SECURE_BITS, _ROOT_IS_NOBODY_LOCKED)
    prctl(_AMBIENT, _CLEAR_ALL)
    for number in range(_CAPABILITIES):
        if prctl(_DROP_BOUNDING, number) != 0:
            break  # the kernel knows no higher capability
    libc().capset(_CAPABILITY_HEADER, bytes(_SETS_BYTES))
    # Landlock and seccomp require this of a process without CAP_SYS_ADMIN, which is what it is from here on.
    prctl(_NO_NEW_PRIVILEGES, 1)


def _are_dropped() -> bool:
    """Return True if the process has no capabilities and cannot gain any."""
    # Filled with ones, so that a call that writes nothing does not look like empty sets.
    sets = ctypes.create_string_buffer(b"\1" * _SETS_BYTES, _SETS_BYTES)
    return libc().capget(_CAPABILITY_HEADER, sets) == 0 and not any(sets.raw) and prctl(_HAS_NO_NEW_PRIVILEGES) == 1


_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_SET_MOUNT, _BELOW, _OPENED = 442, 0x8000, 0x1000
_READ_ONLY, _NO_OTHER_USER = 1, 2


def leave_network() -> bool:
    """Move to an empty network namespace; return True if that worked."""
    return bool(machine()) and _unshare(_NEW_NETWORK)


def enter_namespaces(
    write: Sequence[str], mask: Sequence[str] = (), cover: str = "", exact: Collection[str] = ()
) -> list[str]:
    """Leave the network, make all files read-only except these, and mask others; return what was achieved.

    Masked files and folders are empty from here on. `cover` is an empty folder that is used for that. `exact` is as in `lock_down`.
    """
    if not machine():
        return []
    if not _unshare(_NEW_NETWORK | _NEW_MOUNTS):
        return ["network"] if leave_network() else []
    achieved = ["network"] + (["attributes"] if _mount_read_only_except(write, exact) else [])
    return achieved + (["masks"] if "attributes" in achieved and mask and _mask_paths(mask, cover) else [])


def _unshare(what: int) -> bool:
    """Move to new namespaces; return True if that worked. An unprivileged process also enters a user namespace."""
    if libc().unshare(what) == 0:
        return True
    # Read before: inside the new namespace there are no ids until the maps are written.
    user, group = os.geteuid(), os.getegid()
    if libc().unshare(_NEW_USER | what) != 0:
        return False
    # Within the user namespace it keeps its ids. The kernel accepts a group map only once `setgroups` is denied.
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError):
            Path("/proc/self", name).write_text(line)
    return True


def _mount_read_only_except(write: Sequence[str], exact: Collection[str]) -> bool:
    """Make every mount read-only except these places; return True if that worked."""
    mount = libc().mount
    # Private first: otherwise what is mounted here would appear in the namespace of the host, too.
    if mount(None, b"/", None, _RECURSIVE | _PRIVATE, None) != 0:
        return False
    places = [path for path in write if Path(path).is_dir()]
    try:
        # Only a mount can have its own flags, so each writable place becomes one, before the root turns read-only.
        for path in places:
            with open_place(path, exact=path in exact) as place:
                name = _name_of(place).encode()
                if mount(name, name, None, _BIND | _RECURSIVE, None) != 0:
                    return False
        with open_place("/", exact=True) as root:
            if not _set_mount_flags(root, add=_READ_ONLY | _NO_OTHER_USER):
                return False
        for path in places:
            with open_place(path, exact=path in exact) as place:
                if not _set_mount_flags(place, clear=_READ_ONLY):
                    return False
    except OSError:
        return False
    return True


def _mask_paths(mask: Sequence[str], cover: str) -> bool:
    """Mount an empty file or folder over each path; return True if all are covered."""
    mount, source = libc().mount, os.fsencode(cover)
    if mount(b"tmpfs", source, b"tmpfs", _NO_OTHER_USER, b"size=4k,mode=0700") != 0:
        return False
    file, folder = Path(cover, "file"), Path(cover, "folder")
    file.touch(mode=0o400)
    folder.mkdir(mode=0o500)
    # Read-only before it is mounted elsewhere: the copies inherit the flag, also those in writable places.
    with open_place(cover, exact=False) as covers:
        if not _set_mount_flags(covers, add=_READ_ONLY | _NO_OTHER_USER):
            return False
    for path in mask:
        # A path that has gone in the meantime counts as a failure: what was there may have been moved, and would be open.
        over = os.fsencode(folder if Path(path).is_dir() else file)
        if mount(over, os.fsencode(path), None, _BIND, None) != 0:
            return False
    return True


def _set_mount_flags(place: int, *, add: int = 0, clear: int = 0) -> bool:
    marks = struct.pack("=4Q", add, clear, 0, 0)
    return syscall(_SET_MOUNT, place, b"", _BELOW | _OPENED, marks, len(marks)) == 0
