"""Read and write lock files: JSON that may come from anyone, written in one step, byte for byte as JavaScript writes it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from prowess.errors import Invalid, Unavailable
from prowess.skill.json_values import parse_json
from prowess.skill.package import File, Package
from prowess.storage.files.atomic_write import recover_folder, refuse_link, remove_path, stage_package
from prowess.storage.files.folder_lock import lock_folder
from prowess.storage.files.safe_read import read_regular_file

MAX_BYTES = 16 * 1024 * 1024
"""The largest lock file that is read: about 20,000 skills."""

_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Let one process at a time change the lock files in a folder, and clean up after one that was killed.

    The folder itself is locked, so that no file is left behind and a killed process leaves nothing locked.
    """
    try:
        with lock_folder(folder):
            recover_folder(folder)
            yield
    except OSError as error:
        raise Unavailable(
            f"Cannot write to {str(folder)!r}: {error.strerror or error}.",
            hint="Check the permissions and the free disk space.",
        ) from error


def read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a lock file, or None if there is no such file.

    Raise `Invalid` for anything else than a regular file with a JSON object. The skills CLI starts with an empty lock then,
    and forgets everything that is installed.
    """
    try:
        data = read_regular_file(str(path), MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    if len(data) > MAX_BYTES:
        raise _unreadable(path, f"it has more than {MAX_BYTES:,} bytes")
    try:
        document: Any = parse_json(data.decode("utf-8-sig"))
    except RecursionError:
        raise _unreadable(path, "it is nested too deeply") from None
    except ValueError as error:
        raise _unreadable(path, f"it is not valid JSON ({error})") from error
    if not isinstance(document, dict):
        raise _unreadable(path, "it is not a JSON object")
    return cast("dict[str, Any]", document)


def write_document(path: Path, text: str) -> None:
    """Write a lock file in one step. The caller holds the lock of its folder; see `locked`."""
    refuse_link(path)
    file = File(path=path.name, content=text.encode())
    with stage_package(Package(name=path.name, files=(file,)), path.parent, single_file=True) as stage:
        if os.path.lexists(path):
            stage.replace(path)
        else:
            stage.place(path)


def remove_document(path: Path) -> None:
    """Remove a lock file, if there is one. The caller holds the lock of its folder."""
    if os.path.lexists(path):
        remove_path(path, path.parent)


def format_document(value: Mapping[str, Any]) -> str:
    """Return JSON exactly as `JSON.stringify(value, null, 2)` does after `JSON.parse`."""
    text = json.dumps(_as_javascript(value), ensure_ascii=False, indent=2)
    # JSON.stringify writes half of a pair as an escape; it has no UTF-8 form.
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _as_javascript(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_javascript(inner) for key, inner in order_keys(cast("dict[str, Any]", value)).items()}
    if isinstance(value, list):
        return [_as_javascript(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def order_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object in JavaScript's order: keys that are array indexes come first, by their number."""
    indexes = [key for key in value if _ARRAY_INDEX.fullmatch(key) and int(key) < 2**32 - 1]
    if not indexes:
        return dict(value)
    first = sorted(indexes, key=int)
    return {key: value[key] for key in [*first, *(key for key in value if key not in indexes)]}


def sort_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object sorted as JavaScript sorts its keys: by UTF-16 code units."""
    return {key: value[key] for key in sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))}


def _unreadable(path: Path, reason: str) -> Invalid:
    return Invalid(
        f"Cannot read the lock file {str(path)!r}: {reason}.",
        hint="Restore it, for example with `git checkout`, or move it away and add the skills again.",
    )
