"""The files of one run: a folder of its own, and the folders that its skill was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from prowess.errors import Refused
from prowess.sandbox.folders import new_folder, remove_folder
from prowess.sandbox.roots import Folders, Place, Root
from prowess.skill.limits import MIB

OWN_BYTES = 64 * MIB
"""So much a run may have in its own folder."""


class RunFiles:
    """Blocking, one thing at a time. Once it is closed nothing is read or written any more, whoever still tries to.

    The run's own folder is made with the first file, and gone afterwards.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(roots)
        self._lock = Lock()
        self._own: Path | None = None
        self._sizes: dict[tuple[str, ...], int] = {}
        self._is_closed = False

    def read(self, path: str) -> tuple[Place, bytes]:
        """Where a file is, and what it has."""
        with self._lock:
            place = self._folders().to_read(path)
            return place, place.read()

    def write(self, path: str, content: bytes) -> Place:
        """Put a file there, whole or not at all."""
        with self._lock:
            place = self._folders().to_write(path)
            if place.root.name:
                place.write(content)
                return place
            others = sum(size for names, size in self._sizes.items() if names != place.names)
            if others + len(content) > OWN_BYTES:
                raise Refused(
                    f"A run may have {OWN_BYTES >> 20} MiB in its own folder.", hint="Write less, or to a root."
                )
            place.write(content)
            self._sizes[place.names] = len(content)
            return place

    def close(self) -> None:
        """Wait for what is under way, and remove the run's own folder."""
        with self._lock:
            self._is_closed = True
            if self._own is not None:
                remove_folder(self._own)

    def _folders(self) -> Folders:
        if self._is_closed:
            raise Refused("The run has ended.", hint="Do what is to be done before the function returns.")
        if self._own is None:
            self._own = new_folder()
        return Folders(self._roots, own=self._own)
