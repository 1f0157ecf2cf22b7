"""Who may enter the folders that a command was lent: they are given back as they were."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


class Modes:
    """The modes of some folders, held by descriptors, so that nothing that takes the place of a folder is changed."""

    def __init__(self, folders: list[str]) -> None:
        self._held: list[tuple[int, int]] = []
        for folder in folders:
            with suppress(OSError):
                opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._held.append((opened, stat.S_IMODE(os.fstat(opened).st_mode)))

    def restore(self) -> None:
        """Give each the mode that it had, where it has another."""
        for opened, mode in self._held:
            with suppress(OSError):
                if stat.S_IMODE(os.fstat(opened).st_mode) != mode:
                    os.fchmod(opened, mode)
            os.close(opened)
        self._held.clear()
