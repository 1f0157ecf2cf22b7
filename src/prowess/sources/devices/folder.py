"""A folder as a sync location: on a shared disk, a stick, or in a folder that another program keeps in sync."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from prowess.errors import NotFound, TooLarge, Unavailable
from prowess.paths import expand_user, real_path
from prowess.sources.devices.bundle import MAX_BUNDLE_BYTES
from prowess.sources.devices.location import StoredFile, changed_meanwhile
from prowess.storage.files.folder_lock import LOCK_WAIT_SECONDS, describe_holder, wait_for_lock

_LOCK = ".lock"


class FolderLocation:
    """Keeps files in a folder, which must exist: a disk that is not mounted is not an empty location."""

    def __init__(self, folder: Path, *, patience: float = LOCK_WAIT_SECONDS) -> None:
        self._patience = patience
        self._folder = real_path(expand_user(folder))
        self.shown = str(self._folder)
        if not self._folder.is_dir():
            raise NotFound(
                f"The sync location {self.shown!r} is not a folder.",
                hint=f"Create it with `mkdir -p {self.shown}`, or check that its disk is mounted.",
            )

    def read(self, name: str, max_bytes: int) -> StoredFile | None:
        """Return a file, or None."""
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                # A pipe without data would have None, and a device might have no end. Both read as an empty file.
                data = file.read(max_bytes + 1) if S_ISREG(os.fstat(descriptor).st_mode) else b""
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", name, error) from error
        if len(data) > max_bytes:
            raise TooLarge(f"{name} at {self.shown!r} exceeds the limit of {max_bytes:,} bytes.", hint="Remove it.")
        return StoredFile(data=data, tag=hashlib.sha256(data).hexdigest())

    def add(self, name: str, data: bytes) -> None:
        """Store a file."""
        try:
            target = self._folder / name
            target.parent.mkdir(exist_ok=True)
            # Replaced by a rename, so that no device ever reads half of a file.
            temporary = target.with_name(f".{target.name}-{secrets.token_hex(6)}")
            try:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            finally:
                with suppress(FileNotFoundError):
                    temporary.unlink()
        except OSError as error:
            raise self._failed("write", name, error) from error

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """Store a file, replacing the one with this tag. Only devices that share the file system wait for each other."""
        with self._locked():
            found = self.read(name, MAX_BUNDLE_BYTES)
            if (found.tag if found else "") != tag:
                raise changed_meanwhile(self.shown)
            self.add(name, data)

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            descriptor = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failed("write", _LOCK, error) from error
        try:
            # Some network file systems have no locks. The comparison is then still made, a moment before the rename.
            with suppress(OSError):
                if not wait_for_lock(descriptor, self._patience):
                    raise Unavailable(
                        f"The sync location {self.shown!r} is locked by {describe_holder(descriptor)}.",
                        hint="Wait until its sync has ended, or stop it, then try again.",
                    )
            yield
        finally:
            os.close(descriptor)

    def _failed(self, what: str, name: str, error: OSError) -> Unavailable:
        return Unavailable(
            f"Cannot {what} {name} at {self.shown!r}: {error.strerror}.", hint="Check the folder and its permissions."
        )
