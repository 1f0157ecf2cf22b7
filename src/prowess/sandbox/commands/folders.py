"""Temporary folders that a foreign program has the run of."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from prowess.sandbox.commands.inside.sweeping import remove_folder

PREFIX = "prowess-run-"


def new_folder(files: Mapping[str, bytes], links: Mapping[str, str]) -> Path:
    """A folder of nobody else's with these files, all executable, and links to places by name where no file stands."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    try:
        for path, content in files.items():
            target = folder / _plain(path)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.write_bytes(content)
            target.chmod(0o700)
        for name in sorted(links):  # one that holds another comes before it, and shows it
            target = folder / _plain(name)
            if not os.path.lexists(target) and target.parent.resolve() == target.parent:
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                target.symlink_to(links[name])
    except BaseException:
        remove_folder(folder)
        raise
    return folder


def _plain(path: str) -> PurePosixPath:
    plain = PurePosixPath(path)
    if plain.is_absolute() or ".." in plain.parts or not plain.parts:
        raise ValueError(f"{path!r} is no path within a folder.")
    return plain
