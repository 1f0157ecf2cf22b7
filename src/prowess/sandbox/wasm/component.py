"""The interpreter of the sandbox: built once from the guest program, compiled once for this machine, and cached."""

from __future__ import annotations

import hashlib
import importlib.metadata
import lzma
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from prowess.errors import Unavailable
from prowess.sandbox.folders import keep_error, private_folder
from prowess.sandbox.script_process import program_command
from prowess.storage.files.folder_lock import lock_folder

WASMTIME, COMPONENTIZE = "50.0.1", "0.25.1"
"""Exactly these versions: the bindings use internals of wasmtime, and the interpreter depends on componentize-py."""
INSTALL = "Run `pip install 'prowess[sandbox]'`."
PATIENCE_SECONDS = 1_200.0
"""How long a build may take, and how long another process waits for it."""
PREBUILT = Path(__file__).with_name("prebuilt")
"""Where a wheel carries the interpreter, built and compressed, named by the digest of its sources."""

Progress = Callable[[str], None]

_GUEST = Path(__file__).parents[1] / "guest"
_SKILLKIT = Path(__file__).parents[2] / "skillkit.py"
"""What authors import as `prowess.skillkit`; it is part of the interpreter."""
_WHAT, _BUILDING = "The sandbox", ".building-"
_OLD_SECONDS = 90 * 86_400
_SETTINGS = "fuel,epochs,stack4"
"""The engine settings that compiled code depends on. Change this with `make_engine`."""


def ignore_progress(message: str) -> None:
    """Ignore a progress message."""


def ensure_component(home: Path, progress: Progress = ignore_progress) -> Path:
    """Return the interpreter compiled for this machine, in `home`; if it is missing, build it, which takes a minute or two.

    Any number of processes may call this at once: one builds, the others wait. The cache key covers all sources and versions.
    Raise `Unavailable` if a package is missing, with the command that installs it, and `Refused` if others can write to the
    folder, since what is in it is executed.
    """
    check_package("wasmtime", WASMTIME)
    folder = _folder(home)
    compiled = folder / f"{_compiled_name()}.cwasm"
    # Looked up without the lock: a file is complete as soon as it is there, and almost every call ends here.
    if compiled.exists():
        return compiled
    guest = ensure_guest(home, progress)
    with lock_folder(folder, patience=PATIENCE_SECONDS):
        if not compiled.exists():
            progress("Compiling the sandbox interpreter for this machine.")
            _write_atomically(folder, compiled, lambda made: _build(guest, made))
    return compiled


def is_built(home: Path) -> bool:
    """Return True if `home` has the interpreter compiled for this machine."""
    return (home.absolute() / "sandbox" / f"{_compiled_name()}.cwasm").exists()


def ensure_guest(home: Path, progress: Progress = ignore_progress) -> Path:
    """Return the portable interpreter in `home`: the one that came with this package, or else one built there."""
    folder = _folder(home)
    guest = folder / f"{_guest_name()}.wasm"
    packed = PREBUILT / f"{guest.name}.xz"
    with lock_folder(folder, patience=PATIENCE_SECONDS):
        _remove_stale(folder, keep=guest)
        if guest.exists():
            return guest
        if packed.exists():
            _write_atomically(folder, guest, lambda made: _unpack(packed, made))
            return guest
        check_package("componentize-py", COMPONENTIZE)
        progress("Building the sandbox interpreter. This happens once and takes a minute or two.")
        _write_atomically(folder, guest, lambda made: _build(_copy_guest(made.with_name("source")), made))
    return guest


def check_package(name: str, version: str) -> None:
    """Raise `Unavailable` unless exactly that version is installed."""
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable(
            f"The sandbox for skills needs the package {name}, which is not installed.", hint=INSTALL
        ) from None
    if found != version:
        raise Unavailable(f"The sandbox needs {name} {version}; {found} is installed.", hint=INSTALL)


def _guest_files() -> list[Path]:
    return [*sorted(path for path in _GUEST.iterdir() if path.suffix in {".py", ".wit"}), _SKILLKIT]


def _guest_name() -> str:
    digest = hashlib.sha256(COMPONENTIZE.encode())
    for path in _guest_files():
        # With separators, so that moving text from one file to the next gives another digest.
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"guest-{digest.hexdigest()[:16]}"


def _compiled_name() -> str:
    made_for = f"{WASMTIME} {platform.system()} {platform.machine()} {_SETTINGS}"
    return f"{_guest_name()}-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}"


def _folder(home: Path) -> Path:
    return private_folder(home / "sandbox", _WHAT)


def _remove_stale(folder: Path, keep: Path) -> None:
    """Remove what killed builds have left, and interpreters that are so old that no installed version uses them."""
    for path in folder.iterdir():
        if path.name.startswith(_BUILDING):
            shutil.rmtree(path, ignore_errors=True)
        elif path != keep and path.stat().st_mtime < time.time() - _OLD_SECONDS:
            path.unlink(missing_ok=True)


def _write_atomically(folder: Path, target: Path, write: Callable[[Path], None]) -> None:
    """Write a file in a temporary folder, and move it to its place when it is complete."""
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=folder))
    try:
        built = building / target.name
        write(built)
        built.chmod(0o600)
        # Synchronized before it gets its name: a file that is there counts as complete and is executed.
        with built.open("rb") as file:
            os.fsync(file.fileno())
        built.replace(target)  # atomic: another process sees all of it or nothing
    except OSError as error:
        raise keep_error(folder, _WHAT, error) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _copy_guest(folder: Path) -> Path:
    """Copy the guest package, and nothing else, into a folder, and return the folder."""
    (folder / _GUEST.name).mkdir(parents=True)
    for path in _guest_files():
        shutil.copyfile(path, folder / _GUEST.name / path.name)
    return folder


def _unpack(packed: Path, target: Path) -> None:
    try:
        with lzma.open(packed) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
    except (lzma.LZMAError, EOFError) as error:
        raise Unavailable(
            "The sandbox interpreter in this package is damaged.", hint=f"Reinstall it. {INSTALL}"
        ) from error


def _build(source: Path, target: Path) -> None:
    """Build a folder with the guest package, or compile a component, in another process."""
    program = program_command("building", source=str(source), target=str(target))
    try:
        subprocess.run(  # noqa: S603  (our own program)
            program, env={}, check=True, timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL, capture_output=True
        )
    except subprocess.TimeoutExpired:
        raise Unavailable("Building the sandbox timed out.", hint="Try again when the machine is less busy.") from None
    except subprocess.CalledProcessError as error:
        last_line = error.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        raise Unavailable(
            f"Building the sandbox failed: {last_line[0][:300]}", hint=f"Try again, or reinstall it. {INSTALL}"
        ) from None
