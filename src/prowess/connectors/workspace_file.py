"""The connectors of a workspace, in the file `.prowess/connectors.json`.

A repository may ship this file, so nothing in it is trusted: a person accepts a connector by the digest of its
configuration, together with the files of the workspace that its command line names.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from prowess.connectors.config import ConnectorConfig, parse_config
from prowess.errors import Invalid, Unavailable
from prowess.storage.files.folder_lock import lock_folder

FILE = Path(".prowess") / "connectors.json"
MAX_BYTES = 256 * 1024
MAX_CONNECTORS = 100


def read_workspace(workspace: Path) -> dict[str, ConnectorConfig | Invalid]:
    """Return the connectors of the file by name, with the error of each that is not valid; none without a file.

    Raise `Invalid` if the file as a whole cannot be read.
    """
    text = _read_file(workspace / FILE, MAX_BYTES)
    if text is None:
        return {}
    found: dict[str, ConnectorConfig | Invalid] = {}
    for name, entry in _parse(text).items():
        try:
            found[name] = parse_config(name, entry)
        except Invalid as error:
            found[name] = error
    return found


def write_workspace(workspace: Path, changes: Mapping[str, ConnectorConfig | None]) -> None:
    """Add, replace or (with None) remove connectors in the file, atomically. Other entries stay as they are.

    Raise `Unavailable` if another process writes the file for long.
    """
    path = workspace / FILE
    try:
        path.parent.mkdir(exist_ok=True)
        # From reading to writing, or the change of another process in between would be lost.
        with lock_folder(path.parent):
            _change(path, changes)
    except OSError as error:
        raise Unavailable(f"{FILE} could not be written ({error.strerror}).") from error


def _change(path: Path, changes: Mapping[str, ConnectorConfig | None]) -> None:
    text = _read_file(path, MAX_BYTES)
    entries: dict[str, Any] = dict(_parse(text)) if text is not None else {}
    for name, config in changes.items():
        if config is None:
            entries.pop(name, None)
        else:
            entries[name] = config.as_json()
    if len(entries) > MAX_CONNECTORS:
        raise Invalid(f"A workspace has at most {MAX_CONNECTORS} connectors.", hint="Remove some first.")
    # In the same folder, so that the rename is atomic. Whoever reads meanwhile has all of the old or all of the new file.
    temporary = path.with_name(f".connectors-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(json.dumps({"connectors": entries}, indent=2, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def program_files(workspace: Path, config: ConnectorConfig) -> dict[str, str]:
    """Return the digests of files in the workspace that a command line names, by name.

    They are what is run, so a change of theirs is a change of the connector. Files that a program reads by itself are not
    known here.
    """
    root = workspace.resolve()
    found: dict[str, str] = {}
    for word in _names(config):
        with suppress(OSError, ValueError):
            path = (root / word).resolve()
            if path.is_relative_to(root) and path.is_file():
                with path.open("rb") as file:
                    found[word] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def workspace_paths(workspace: Path, config: ConnectorConfig) -> list[str]:
    """Return the words of a command line that name a file or folder relative to the workspace."""
    found: list[str] = []
    for word in _names(config):
        # A plain word such as `time` is rarely a path, even if there is a folder of that name.
        with suppress(OSError, ValueError):
            if not word.startswith("/") and ("/" in word or "." in word) and (workspace / word).exists():
                found.append(word)
    return found


def _names(config: ConnectorConfig) -> list[str]:
    """Return the words of a command line that may name files, also those after the `=` of an option."""
    words = (word.partition("=")[2] if word.startswith("-") else word for word in (config.command, *config.args))
    return [word for word in words if word]


def _parse(text: str) -> dict[str, Any]:
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid(f"{FILE} is not valid JSON.", hint="Fix the file, or delete it.") from None
    entries: Any = cast("dict[str, Any]", whole).get("connectors") if isinstance(whole, dict) else None
    if not isinstance(entries, dict):
        raise Invalid(f'{FILE} has no object "connectors".', hint="Fix the file, or delete it.")
    named = cast("dict[str, Any]", entries)
    if len(named) > MAX_CONNECTORS:
        raise Invalid(f"{FILE} has more than {MAX_CONNECTORS} connectors.", hint="Remove some.")
    return named


def _read_file(path: Path, most: int) -> str | None:
    """Return the text of a regular file; None if there is none. Links are not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Invalid(f"{FILE} cannot be read ({error.strerror}).", hint="Fix the file, or delete it.") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Invalid(f"{FILE} is not a file.", hint="Delete it.")
        content = file.read(most + 1)
    if len(content) > most:
        raise Invalid(f"{FILE} has more than {most:,} bytes.", hint="Remove connectors that are not used.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{FILE} is not UTF-8 text.", hint="Fix the file, or delete it.") from None
