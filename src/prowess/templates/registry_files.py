"""Prompt and rubric files that a person points at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from prowess.errors import Invalid, NotFound
from prowess.skill.forms.codes import error
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.storage.finding import read_refused
from prowess.storage.reading import read_regular
from prowess.templates.registry_entry import failed, is_entry, read_entry
from prowess.templates.shelves import Entry, EntryKind
from prowess.templates.shelves_folder import FolderShelf

ORIGIN = "file"


def read_files(kind: EntryKind, paths: Sequence[Path], limits: Limits = DEFAULT_LIMITS) -> Iterator[Entry]:
    """The entries in files and below folders; `NotFound` for a path with nothing, `Invalid` for a file of another type.

    A path may be a link, since a person chose it; what lies below may not.
    """
    for path in paths:
        if path.is_dir():
            yield from FolderShelf(path.resolve(), {kind: [""]}, origin=ORIGIN, limits=limits).entries(kind, "")
        elif not path.exists():
            raise NotFound(f"There is nothing at {str(path)!r}.", hint="Check the path.")
        elif not is_entry(kind, path.name):
            raise Invalid(f"{str(path)!r} is no {kind} by its name.", hint=_HINTS[kind])
        else:
            yield _read(kind, path, limits)


def _read(kind: EntryKind, path: Path, limits: Limits) -> Entry:
    try:
        data = read_regular(str(path.resolve()), limits.file_bytes + 1)
    except Invalid as refused:
        problem = error("registry-unreadable", refused.message, refused.hint, field=path.name)
        return failed(kind, path.name, [problem], origin=ORIGIN, location=str(path))
    except OSError as refused:
        raise read_refused(path, refused) from refused
    return read_entry(kind, path.name, data, origin=ORIGIN, location=str(path), limits=limits)


_HINTS: dict[EntryKind, str] = {
    "prompt": "Prompts are .json, .yaml, .mustache or .j2 files.",
    "rubric": "Rubrics are .json or .yaml files.",
}
