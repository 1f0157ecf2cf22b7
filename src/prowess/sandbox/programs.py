"""Find programs, and the system folders that they need to read."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from prowess.errors import NotFound
from prowess.lazy_dataclass import dataclass

SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
"""Where programs are looked for. The `PATH` of this process does not count: a skill must not depend on who starts it."""

PROGRAM_FOLDERS = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64"),
    *("/usr/libexec", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/libexec"),
)
"""Folders of programs and their libraries."""

DATA_PATHS = (
    *("/usr/share", "/usr/local/share", "/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/ssl/openssl.cnf"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
"""What else programs read; nothing in it is private."""

WRITABLE_DEVICES = ("/dev/null", "/dev/full")

PYTHON = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
"""The interpreter that the virtual environment was made from, without the packages that are installed next to Prowess."""

_STORES = (Path("/opt"), Path("/nix/store"), Path("/gnu/store"))
"""Folders in which each entry holds one program: only that entry becomes readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, and the folders outside those of the system that it needs."""

    path: str
    made_of: tuple[str, ...] = ()


def find_program(name: str, searched: Sequence[str] = SEARCH_PATH) -> Program:
    """Find a program by name or absolute path; raise `NotFound` if there is none."""
    found = shutil.which(name, path=os.pathsep.join(searched)) if "/" not in name else _program_at(name)
    if not found:
        raise NotFound(
            f"Program {name[:80]!r} not found.",
            hint=f"Install it in one of {', '.join(searched)}, or use another program.",
        )
    return Program(path=found, made_of=tuple(existing_paths(_parts_of(Path(found).resolve()))))


def existing_paths(places: Iterable[str]) -> list[str]:
    """Return the paths that exist, each once."""
    return [place for place in dict.fromkeys(places) if Path(place).exists()]


def _program_at(path: str) -> str | None:
    return path if Path(path).is_absolute() and Path(path).is_file() and os.access(path, os.X_OK) else None


def _parts_of(path: Path) -> list[str]:
    if str(path) == PYTHON:
        # An interpreter also needs its standard library, which may be outside the folders of the system.
        prefix = Path(sys.base_prefix)
        return [str(path), str(prefix / "bin"), str(prefix / "lib"), str(Path(sys.base_exec_prefix) / "lib")]
    for store in _STORES:
        if store in path.parents:
            return [str(store / path.relative_to(store).parts[0])]
    return [str(path)]
