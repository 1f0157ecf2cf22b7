"""Packages that native functions import: installed once for each list of requirements, in a folder of their own.

Nothing of a package is executed here: only wheels are accepted, which are unpacked and not built, and what would run without
being imported, such as `.pth` files and console scripts, is removed.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prowess.errors import Invalid, TryLater, Unavailable
from prowess.sandbox.folders import keep_error, private_folder
from prowess.skill.needs import parse_requirement
from prowess.storage.files.folder_lock import lock_folder

INSTALL = "Run `pip install 'prowess[native]'`."
PATIENCE_SECONDS = 600.0
"""How long an installation may take, and how long another process waits for it."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_WHAT = "Packages"
BUILDING, _CACHE = ".building-", ".cache"
# Only wheels: building a source distribution runs its code. No configuration: a `uv.toml` in a folder above could name
# another index.
_FLAGS = (
    *("--quiet", "--no-config", "--no-progress", "--color", "never", "--no-python-downloads", "--only-binary", ":all:"),
    *("--no-sources", "--link-mode", "copy", "--compile-bytecode"),
)
_PASSED_VARIABLES = frozenset(
    {"ALL_PROXY", "HOME", "HTTPS_PROXY", "HTTP_PROXY", "NETRC", "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE"}
)
"""The environment variables that say how to reach an index, besides those of uv."""
# The URL of an index may contain a user name and a password, which uv repeats in its messages.
_SECRET = re.compile(r"(?<=://)[^/@\s]+@")
_DRAWING_CHARS = re.compile(r"[×├╰─▶│\s]+")
_UNREACHABLE = re.compile(r"error sending request|dns error|timed? ?out|connection|failed to fetch", re.IGNORECASE)
_ERROR_CHARS = 400


def ensure_packages(home: Path, requirements: Iterable[str], environment: Mapping[str, str]) -> Path:
    """Return the folder with the packages of these requirements and their dependencies; install them if it is missing.

    It is cached in `home` by requirements, Python and platform. Any number of processes may call this at once: one installs,
    the others wait. `environment` says where packages come from, in the variables of uv. Raise `Invalid` for requirements that
    are not a name with versions, and `Unavailable` for packages without a wheel, or if uv is missing.
    """
    packages = _parse_requirements(requirements)
    folder = private_folder(home / "packages", _WHAT)
    target = folder / _cache_key(packages)
    if target.is_dir():
        return target
    program = find_uv()
    with lock_folder(folder, patience=PATIENCE_SECONDS):
        if not target.is_dir():
            _fetch([program, "pip", "install", *_FLAGS], packages, target, uv_environment(environment, folder))
    return target


def _parse_requirements(requirements: Iterable[str]) -> list[str]:
    """Return the requirements, each once; raise `Invalid` for malformed ones."""
    read = [(text, parse_requirement(text)) for text in requirements]
    wrong = [text for text, found in read if found is None]
    if wrong:
        raise Invalid(
            f"Invalid requirements: {', '.join(repr(requirement[:80]) for requirement in wrong)}.",
            hint="Use package names with versions, for example 'httpx>=0.28'. Paths, URLs and options are not allowed.",
        )
    return sorted({found for _, found in read if found is not None})


def _package_name(requirement: str) -> str:
    """Return the name of the package in a requirement."""
    found = _NAME.match(requirement)
    return found[0] if found else requirement


def _cache_key(packages: list[str]) -> str:
    # Wheels may contain machine code for one Python and one platform.
    made_for = [sys.implementation.cache_tag, sysconfig.get_platform(), sysconfig.get_config_var("SOABI")]
    return hashlib.sha256(json.dumps([packages, made_for]).encode()).hexdigest()[:32]


def find_uv() -> str:
    """Return the program of the package `uv`; raise `Unavailable` if it is not installed."""
    try:
        package: Any = importlib.import_module("uv")
        return str(package.find_uv_bin())
    except (ImportError, FileNotFoundError):
        raise Unavailable("uv is not installed. Skills with `requirements` need it.", hint=INSTALL) from None


def uv_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of uv: nothing else of ours, which may hold secrets."""
    passed = {
        name: value
        for name, value in environment.items()
        if name.startswith("UV_") or name.upper() in _PASSED_VARIABLES
    }
    return {"UV_CACHE_DIR": str(folder / _CACHE), **passed}


def _fetch(argv: list[str], packages: list[str], cached: Path, environment: dict[str, str]) -> None:
    """Install into a temporary folder, and move it to its place when it is complete."""
    folder = cached.parent
    remove_partial(folder)
    try:
        target = Path(tempfile.mkdtemp(prefix=BUILDING, dir=folder))
        if packages:
            command = [*argv, "--python", sys.executable, "--target", str(target), "--", *packages]
            run_uv(command, [_package_name(package) for package in packages], environment, folder)
        _remove_startup_files(target)
        target.rename(cached)
    except OSError as error:
        raise keep_error(folder, _WHAT, error) from error
    finally:
        remove_partial(folder)


def remove_partial(folder: Path) -> None:
    """Remove incomplete installations in a folder whose lock is held, so that none of them is in progress."""
    for left in folder.glob(f"{BUILDING}*"):
        shutil.rmtree(left, ignore_errors=True)


def run_uv(argv: list[str], names: list[str], environment: dict[str, str], folder: Path) -> None:
    """Run a command of uv in a folder; raise `Unavailable`, which names what was to be installed, if it fails."""
    try:
        subprocess.run(  # noqa: S603  (no shell, and requirements cannot be options)
            argv,
            env=environment,
            cwd=folder,
            check=True,
            timeout=PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except subprocess.TimeoutExpired:
        raise TryLater(f"Installing {', '.join(names)} timed out.", hint="Try again later.") from None
    except subprocess.CalledProcessError as error:
        raise _fetch_error(error.stderr.decode("utf-8", "replace"), names) from None


def _fetch_error(output: str, names: list[str]) -> Unavailable:
    """Return the error for a failed installation, from the output of uv."""
    summary = _DRAWING_CHARS.sub(" ", _SECRET.sub("", output)).strip()[:_ERROR_CHARS]
    missing = [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", summary, re.IGNORECASE)]
    message = f"Failed to install from wheels: {', '.join(missing or names)}. {summary}"
    if _UNREACHABLE.search(summary):
        return TryLater(message, hint="Check that the package index is reachable.")
    return Unavailable(
        message, hint="Check the names and versions. Packages without a wheel are not built from source."
    )


def _remove_startup_files(target: Path) -> None:
    """Remove what would run without being imported."""
    # Python executes lines of `.pth` files at its start; litellm 1.82.7 stole credentials that way.
    for path in target.glob("*.pth"):
        path.unlink()
    for name in ("bin", "Scripts"):
        shutil.rmtree(target / name, ignore_errors=True)
