"""Skills that are a single file, and what a descriptor names and has beside it: prompts, rubrics, the file of its function."""

# strings and descriptors, as in reading.py
# ruff: noqa: PTH120, PTH208
from __future__ import annotations

import os

from prowess.skill.companions import choose_companions, companion_ids, function_files
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.storage.reading import Reading, Snapshot, open_folder, read_regular, steady

_REGISTRY = "prompt-registry"


def snapshot_file(location: str, limits: Limits = DEFAULT_LIMITS, *, root: str = "") -> Snapshot:
    """Read one file as a skill. A YAML descriptor brings its function, and the prompt and rubric it names, where they lie near it.

    The function lies in the descriptor's folder or below it. For the others, near is a folder `prompts`, `rubrics` or `prompt-registry` beside the descriptor or beside its folder; with
    `root`, nothing outside of that is looked at and no part of the way may be a link.
    """
    return steady(lambda: _snapshot(location, limits, root))


def _snapshot(location: str, limits: Limits, root: str) -> Snapshot:
    folder, _, name = location.rpartition("/")
    reading = Reading(limits)
    descriptor = open_folder(folder, root) if root else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        reading.file(descriptor, name, location, name)
    finally:
        os.close(descriptor)
    for registry, wanted in companion_ids(name, reading.files[0].content, limits).items():
        _companions(registry, wanted, _bases(folder, root), reading, root)
    _function(function_files(name, reading.files[0].content, limits), folder, reading, root)
    return reading.snapshot(name.rpartition(".")[0] or name)


def _function(paths: tuple[str, ...], folder: str, reading: Reading, root: str) -> None:
    """Read the first of these files that is there."""
    for path in paths:
        below, _, name = f"{folder}/{path}".rpartition("/")
        try:
            descriptor = open_folder(below, root or folder)
        except OSError:
            continue
        try:
            reading.watch(below)
            if name in os.listdir(descriptor):
                reading.file(descriptor, name, f"{below}/{name}", path)
                return
        finally:
            os.close(descriptor)


def _bases(folder: str, root: str) -> list[str]:
    parent = os.path.dirname(folder)
    outside = parent == folder or (root and parent != root and not parent.startswith(root + "/"))
    return [folder] if outside else [folder, parent]


def _companions(registry: str, wanted: str, bases: list[str], reading: Reading, root: str) -> None:
    """Read the files of a registry entry from the first place that has it."""
    for base in bases:
        reading.watch(base)
        for place in (registry, f"{_REGISTRY}/{registry}", _REGISTRY):
            if _take(f"{base}/{place}", registry, wanted, reading, root or base):
                return


def _take(place: str, registry: str, wanted: str, reading: Reading, root: str) -> bool:
    try:
        descriptor = open_folder(place, root)
    except OSError:
        return False
    try:
        reading.watch(place)

        def content(name: str) -> bytes:
            return read_regular(name, reading.limits.file_bytes, descriptor)

        names = choose_companions(registry, wanted, os.listdir(descriptor), content)
        for name in names:
            reading.file(descriptor, name, f"{place}/{name}", f"{registry}/{name}")
    finally:
        os.close(descriptor)
    return bool(names)
