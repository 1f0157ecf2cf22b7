"""What a command finds: the files that it was given, and links to the folders that it may reach."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath


def fill(folder: Path, files: Mapping[str, bytes], links: Mapping[str, str], *, executable: bool) -> None:
    """Put files into a folder, and links to places by name where no file stands; `ValueError` for what is no path in it."""
    for path, content in files.items():
        target = folder / _plain(path)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(content)
        target.chmod(0o700 if executable else 0o600)
    for name in sorted(links):  # one that holds another comes before it, and shows it
        target = folder / _plain(name)
        if not os.path.lexists(target) and target.parent.resolve() == target.parent:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.symlink_to(links[name])


def _plain(path: str) -> PurePosixPath:
    plain = PurePosixPath(path)
    if plain.is_absolute() or ".." in plain.parts or not plain.parts:
        raise ValueError(f"{path!r} is no path within a folder.")
    return plain
