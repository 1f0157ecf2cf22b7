"""Open files below a folder by descriptor: links are not followed and nothing outside the folder is reached.

A path is a sequence of names, none of which is `..`. Each name is looked up in the folder that is already open, never by
path again, so replacing a folder in the meantime has no effect. `OSError` carries what the kernel reports; a link gives `ELOOP`,
and anything that is neither a file nor a folder gives `ENODEV` without being opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

_OPENAT2 = 437
"""The number of the system call, the same on all architectures but Alpha."""
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
# `openat2` rejects links by itself. With O_NOFOLLOW it would answer ENOTDIR for a final link instead of ELOOP.
_ANY_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _ANY_FOLDER | os.O_NOFOLLOW
# O_NONBLOCK, or opening a pipe without a writer would block; O_NOCTTY, or a terminal could become ours.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# O_EXCL, so that a file or link that someone has put there is never written to.
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


class _How(ctypes.Structure):
    """The `open_how` argument of `openat2`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextmanager
def open_folder(root: int, names: Sequence[str], *, make: bool = False) -> Generator[int]:
    """Yield the descriptor of a folder below another; with `make`, missing folders are created."""
    opened = _opened(root, names, make=make)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def open_root(path: str) -> Generator[int]:
    """Yield the descriptor of a folder by its absolute path, without following links on the way."""
    start = os.open("/", _FOLDER)
    try:
        with open_folder(start, [name for name in path.split("/") if name]) as opened:
            yield opened
    finally:
        os.close(start)


def read_file(parent: int, name: str, *, most: int) -> bytes:
    """Return the content of a file in an open folder; `EFBIG` if it is larger than `most`, `EACCES` for a link to a private file."""
    # Check before opening: merely opening a device or a pipe can block or have effects. Check again once it is open, since it
    # may have been replaced in between.
    _check_kind(os.stat(name, dir_fd=parent, follow_symlinks=False))
    file = os.open(name, _READ, dir_fd=parent)
    try:
        found = os.fstat(file)
        _check_kind(found)
        # A private file with another name elsewhere is likely someone's key, linked to where a skill may read.
        if found.st_nlink > 1 and not found.st_mode & stat.S_IROTH:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if found.st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return _content(file, most)
    finally:
        os.close(file)


def write_file(parent: int, name: str, content: bytes) -> None:
    """Write a file in an open folder, atomically; an existing file is replaced, unless it is read-only."""
    mode = _mode_of(parent, name)
    draft = f"{secrets.token_hex(8)}.part"
    file = os.open(draft, _WRITE, 0o666, dir_fd=parent)
    try:
        with os.fdopen(file, "wb") as opened:
            if mode is not None:
                os.fchmod(opened.fileno(), mode)
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())  # or a crash could leave an empty file under the final name
        os.replace(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=parent)
        raise


def _content(file: int, most: int) -> bytes:
    """Read an open file up to a size: it may grow in the meantime, and files in /proc say that they are empty."""
    pieces: list[bytes] = []
    left = most + 1
    while left and (piece := os.read(file, min(left, _CHUNK))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return b"".join(pieces)


def _mode_of(parent: int, name: str) -> int | None:
    """Return the permissions of a file that may be replaced; None if it does not exist."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_kind(found)
    if not found.st_mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    # Without the set-user-ID bits: the new content was not what they were granted for.
    return stat.S_IMODE(found.st_mode) & 0o777


def _check_kind(found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    kinds = {stat.S_IFLNK: errno.ELOOP, stat.S_IFDIR: errno.EISDIR}
    code = kinds.get(stat.S_IFMT(found.st_mode), errno.ENODEV)
    raise OSError(code, os.strerror(code))


def _opened(root: int, names: Sequence[str], *, make: bool) -> int:
    if not names:
        # A copy, because callers close what they get.
        return os.dup(root)
    try:
        return open_at_once(root, names) if has_openat2() else open_step_by_step(root, names)
    except FileNotFoundError:
        if not make:
            raise
    # `openat2` cannot create folders on the way.
    return open_step_by_step(root, names, make=True)


def open_step_by_step(root: int, names: Sequence[str], *, make: bool = False) -> int:
    """Open a folder below another, one name after the other."""
    parent = os.dup(root)
    try:
        for name in names:
            below = _below(parent, name, make=make)
            os.close(parent)
            parent = below
    except BaseException:
        os.close(parent)
        raise
    return parent


def _below(parent: int, name: str, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except NotADirectoryError:
        # With O_NOFOLLOW and O_DIRECTORY the kernel answers ENOTDIR for a link, too.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def open_at_once(root: int, names: Sequence[str]) -> int:
    """Open a folder below another in one system call, which the kernel keeps from leaving it."""
    how = _How(flags=_ANY_FOLDER, mode=0, resolve=_BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    path = os.fsencode("/".join(names))
    opened = _libc().syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return opened


@functools.cache
def has_openat2() -> bool:
    """Return True if `openat2` works here."""
    if sys.platform != "linux":
        return False
    # Tried, not derived from the kernel's version: the filters of containers may refuse the call.
    start = os.open("/", _FOLDER)
    try:
        os.close(open_at_once(start, ["."]))
    except OSError:
        return False
    finally:
        os.close(start)
    return True


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
