"""Write folders and files atomically: a reader, or a crash, finds all of the old or all of the new content.

New content is written and synced in a temporary folder, `.prowess-tmp-…`, before it takes its place in one rename; old
content leaves through the same folder. `recover_folder` cleans up after a killed writer.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.paths import real_path
from prowess.skill.filenames import is_ignored
from prowess.skill.package import File, Package, check_path
from prowess.storage.files.folder_lock import lock_folder
from prowess.storage.files.skill_paths import TEMP_PREFIX

# From <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# ENOSYS comes from an old kernel, the others from a file system that cannot exchange.
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


@cache
def _renameat2() -> Any:
    import ctypes  # only where something is written

    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None


def exchange(path: str, other: str) -> bool:
    """Swap two paths in one step; return False, with nothing changed, if the system cannot.

    Python has no call for this: it is `renameat2` with RENAME_EXCHANGE, on Linux and not on every file system.
    """
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    import ctypes

    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), path, None, other)


_JOURNAL = "journal.json"
_JOURNAL_BYTES = 8192


def write_folder(package: Package, target: Path, *, replace: bool) -> None:
    """Write a package as a folder. An existing one is replaced with `replace`, and a `Conflict` without."""
    with _locked_for_writing(target), stage_package(package, target.parent) as stage:
        if replace and os.path.lexists(target):
            stage.replace(target)
        else:
            stage.place(target)


def write_file(path: Path, data: bytes, *, replace: bool = True, mode: int = 0o666) -> None:
    """Write a file in one step. An existing one is replaced with `replace`, and a `Conflict` without."""
    with _locked_for_writing(path):
        refuse_link(path)
        if not replace:
            _check_free(path)
        with _temporary_folder(path.parent) as folder:
            _write(folder / "new", data, mode)
            (folder / "new").replace(path)
            sync_folder(path.parent)


@contextmanager
def _locked_for_writing(path: Path) -> Generator[None]:
    """Lock the folder of `path`, clean up after a killed writer, and turn `OSError` into `Unavailable`."""
    try:
        with lock_folder(path.parent):
            recover_folder(path.parent)  # first, so that restored content is not taken for a free place
            yield
    except OSError as error:
        raise _write_error(path, error) from error


def _write_error(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot write {str(path)!r}: {error.strerror or error}.",
        hint="Check the path, the permissions and the free disk space.",
    )


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless it exists. Raise `Unavailable` if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _write_error(folder, error) from error


def refuse_link(path: Path) -> None:
    """Raise `Refused` if the path is a link: writing would change what it points to."""
    if path.is_symlink():
        raise Refused(f"{str(path)!r} is a symbolic link.", hint="Use the path that it points to, or remove the link.")


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise Conflict(f"{str(path)!r} already exists.", hint="Choose another name, or remove it first.")


@contextmanager
def stage_package(package: Package, parent: Path, *, single_file: bool = False) -> Generator[Stage]:
    """Write a package completely to a temporary folder, from where it can be moved into place; removed if it is not.

    With `single_file`, its single file is moved, not a folder.
    """
    with _temporary_folder(parent) as folder:
        new = folder / "new"
        if single_file:
            (file,) = package.files
            _write(new, file.content, int(file.mode, 8))
        else:
            _write_tree(new, package.files)
        yield Stage(folder)


class Stage:
    """New content in a temporary folder. Its target paths are at or below the parent of that folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._new = folder / "new"
        self._old = folder / "old"

    def place(self, target: Path) -> None:
        """Move to a free path."""
        _check_free(target)
        # Checked, because `rename` silently replaces a file or an empty folder.
        self._new.rename(target)
        sync_folder(target.parent)

    def replace(self, target: Path, old: Path | None = None) -> None:
        """Replace what is at `target`; or move to a free `target` and remove `old`.

        What tools keep in a folder, such as `.git`, moves along: it is no part of the content.
        """
        old = old or target
        refuse_link(old)
        kept = _tool_entries(old)
        if kept:
            self._write_journal(target, old)
        try:
            _move_entries(kept, self._new)
            if old != target or not exchange(str(self._new), str(target)):
                self._replace_in_two_steps(target, old)
        except BaseException:  # also an interrupt: the temporary folder is removed
            _move_entries(_tool_entries(self._new), old)
            raise
        sync_folder(target.parent)

    def _write_journal(self, target: Path, old: Path) -> None:
        """Record where things belong. If this process is killed, the next writer reads it, and moves them back."""
        root = self._folder.parent
        journal = {"old": str(old.relative_to(root)), "target": str(target.relative_to(root))}
        if not os.path.lexists(self._folder / _JOURNAL):
            _write(self._folder / _JOURNAL, json.dumps(journal).encode(), 0o600)
            sync_folder(self._folder)

    def _replace_in_two_steps(self, target: Path, old: Path) -> None:
        if old != target and os.path.lexists(target):
            raise Conflict(f"{str(target)!r} already exists.", hint="Move it away.")
        # Between the two renames neither the old nor the new is in place.
        self._write_journal(target, old)
        old.rename(self._old)
        try:
            self._new.rename(target)
        except OSError:
            self._old.rename(old)
            raise
        sync_folder(old.parent)


def _tool_entries(folder: Path) -> list[Path]:
    """Return what tools keep at the top of a folder, such as `.git`; nothing for a link or a file."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [entry for entry in folder.iterdir() if is_ignored(entry.name)]


def _move_entries(entries: list[Path], folder: Path) -> None:
    for entry in entries:
        if not os.path.lexists(folder / entry.name):
            entry.rename(folder / entry.name)


def remove_path(path: Path, parent: Path) -> None:
    """Remove a file or folder in one step: rename it into a temporary folder in `parent` and delete that."""
    refuse_link(path)
    if not os.path.lexists(path):
        raise NotFound(f"{str(path)!r} does not exist.", hint="It was already removed.")
    with _temporary_folder(parent) as folder:
        path.rename(folder / "old")
        sync_folder(path.parent)


def recover_folder(root: Path) -> int:
    """Clean up after killed writers in a folder, and restore interrupted replacements; return how many.

    Call it while holding the folder's lock, so that there is no concurrent writer.
    """
    # By name: there may be thousands of skills, and a path for each takes several times as long.
    leftovers = [root / name for name in sorted(os.listdir(root)) if name.startswith(TEMP_PREFIX)]  # noqa: PTH208
    for folder in leftovers:
        # A link with such a name is not ours: it is removed and never followed.
        if folder.is_symlink() or _restore_old(root, folder):
            _remove_tree(folder)
    if leftovers:
        sync_folder(root)
    return len(leftovers)


def _restore_old(root: Path, folder: Path) -> bool:
    """Move the old content back if a replacement was interrupted; return True if the temporary folder can be deleted."""
    journal = _read_journal(folder / _JOURNAL)
    if journal is None:
        return True
    old, target = root / journal[0], root / journal[1]
    if not all(real_path(path.parent).is_relative_to(real_path(root)) for path in (old, target)):
        return True
    try:
        # If something is in place, the replacement was complete, or another program wrote there since: the old is obsolete.
        if os.path.lexists(folder / "old") and not (os.path.lexists(target) or os.path.lexists(old)):
            old.parent.mkdir(parents=True, exist_ok=True)
            (folder / "old").rename(old)
            sync_folder(old.parent)
        if old.is_dir() and not old.is_symlink():
            _move_entries(_tool_entries(folder / "new"), old)
    except OSError:
        return False  # kept until a later writer can move it back
    return True


def _read_journal(path: Path) -> tuple[str, str] | None:
    """Return where the old content came from and the new was going; None unless both are plain relative paths.

    Anyone can put a folder with such a name into a workspace, so nothing in the journal is trusted.
    """
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            journal: Any = json.loads(file.read(_JOURNAL_BYTES))
        old, target = str(journal["old"]), str(journal["target"])
        check_path(old)
        check_path(target)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, Invalid):
        return None
    return old, target


@contextmanager
def _temporary_folder(parent: Path) -> Generator[Path]:
    # Next to the target, because a rename does not work across file systems.
    folder = parent / f"{TEMP_PREFIX}{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        _remove_tree(folder)


def _remove_tree(path: Path) -> None:
    """Remove a tree without following links; anything that cannot be removed is left to the next `recover_folder`."""
    import shutil  # only where something is written

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            _make_removable(path)
            shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _make_removable(path: Path) -> None:
    """Give the owner write access to all folders, without which their entries cannot be deleted."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            Path(folder).chmod(0o700)


def _write_tree(root: Path, files: tuple[File, ...]) -> None:
    folders = {root}
    root.mkdir()
    for file in files:
        path = root / file.path
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.update(path.parents[: file.path.count("/")])
        _write(path, file.content, int(file.mode, 8))
    for folder in folders:
        sync_folder(folder)


def _write(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk; without it a crash can undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
