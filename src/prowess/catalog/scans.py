"""Cache scan findings by digest: in memory, and between processes in a folder outside the workspace.

The same bytes give the same findings, so a cached one needs no check before use. The number of severe findings is part of
the file's name: a list of thousands of skills needs one look at the folder, and neither a file nor the scanner.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.errors import ProwessError
from prowess.patterns import lazy_pattern

if TYPE_CHECKING:
    from prowess.catalog.store import Store
    from prowess.skill.outline import SkillOutline
    from prowess.skill.package import Package

FindingRow = dict[str, Any]
"""A finding as every interface shows it: severity, kind, path, line, excerpt, message, hint."""

_FORMAT = 11
"""Raised together with `SCANNER_VERSION`, which is not imported here because this module must stay cheap."""
_NAME = lazy_pattern(r"([0-9a-f]{64})-(\d+)\.json")
_MAX_FILES = 20_000
_MAX_REMEMBERED = 2_000


class Scans:
    """The findings of one installation. `folder` returns where they are cached, or None."""

    def __init__(self, folder: Callable[[], Path | None] = lambda: None) -> None:
        self._folder = folder
        self._rows: dict[str, tuple[FindingRow, ...]] = {}
        self._counts: dict[str, int] | None = None
        self.revision = 0
        """Counts the findings that were added, so that answers with older ones are not given again."""

    def of(self, store: Store, outline: SkillOutline) -> tuple[FindingRow, ...]:
        """Return the findings about a skill; scan it if they are not cached."""
        known = self.remembered(outline.digest)
        if known is not None:
            return known
        try:
            package = store.get_package(outline.id)
        except ProwessError:
            # The next use of the skill fails with the same error, and reports it better.
            return ()
        # Files that changed in the meantime are other bytes: what they do says nothing about these.
        return self.of_package(package) if package is not None and package.digest == outline.digest else ()

    def of_package(self, package: Package) -> tuple[FindingRow, ...]:
        """Return the findings about a package, and cache them."""
        known = self.remembered(package.digest)
        if known is not None:
            return known
        from prowess.scan import scan_package

        rows = tuple(finding.as_json() for finding in scan_package(package))
        self.remember(package.digest, rows)
        return rows

    def remembered(self, digest: str) -> tuple[FindingRow, ...] | None:
        """Return the findings about these bytes if they are cached."""
        if digest in self._rows:
            return self._rows[digest]
        count = self._list().get(digest)
        folder = self._existing() if count is not None else None
        if folder is None:
            return None
        with suppress(OSError, ValueError, TypeError):
            rows = tuple(dict(row) for row in json.loads((folder / f"{digest}-{count}.json").read_bytes()))
            return self._keep(digest, rows)
        return None

    def remember(self, digest: str, rows: Iterable[FindingRow]) -> None:
        """Cache findings. A disk that is full or read-only is not an error."""
        cached = self._keep(digest, tuple(rows))
        self.revision += 1
        base = self._folder()
        if base is None:
            return
        from prowess.storage.files.cache_file import write_cache  # lazy: most commands scan nothing

        write_cache(base / f"v{_FORMAT}" / f"{digest}-{count_dangers(cached)}.json", json.dumps(cached))

    def dangers(self) -> dict[str, int]:
        """Return how many severe findings each cached digest has. This reads one folder, no files."""
        # A copy in one step: other threads add to it.
        return self._list().copy()

    def count(self, digest: str) -> int | None:
        """Return how many severe findings these bytes have; None if they were not scanned yet."""
        rows = self._rows.get(digest)
        return self._list().get(digest) if rows is None else count_dangers(rows)

    def _list(self) -> dict[str, int]:
        """Return the numbers in the file names, read once: findings that another process adds in the meantime are scanned again."""
        if self._counts is None:
            counts: dict[str, int] = {}
            folder = self._existing()
            if folder is not None:
                with suppress(OSError):
                    # No `Path` for each of thousands.
                    names = [_NAME.fullmatch(name) for name in os.listdir(folder)]  # noqa: PTH208
                    counts = {name[1]: int(name[2]) for name in names if name}
                    self._prune(folder, len(names))
            # Only once it is complete, since other threads read it.
            self._counts = counts
        return self._counts

    def _keep(self, digest: str, rows: tuple[FindingRow, ...]) -> tuple[FindingRow, ...]:
        if len(self._rows) >= _MAX_REMEMBERED:
            self._rows.clear()
        self._rows[digest] = rows
        # The number outlives the findings, so that a list says the same before and after they are forgotten.
        counts = self._list()
        counts[digest] = count_dangers(rows)
        if len(counts) > _MAX_FILES:
            del counts[next(iter(counts))]
        return rows

    def _existing(self) -> Path | None:
        base = self._folder()
        folder = base / f"v{_FORMAT}" if base is not None else None
        return folder if folder is not None and folder.is_dir() else None

    def _prune(self, folder: Path, count: int) -> None:
        """Clear the cache when the folder has grown large; it fills again as skills are used."""
        if count > _MAX_FILES:
            for path in folder.glob("*.json"):
                with suppress(OSError):
                    path.unlink()


def count_dangers(rows: Iterable[FindingRow]) -> int:
    """Return how many findings have the highest severity."""
    return sum(row.get("severity") == "danger" for row in rows)
