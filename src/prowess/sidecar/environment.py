"""The environment of the sidecar's program: a binary, an interpreter that has its packages, or an environment that uv makes.

The environment is made once for each locked file, Python and platform, in the home folder. Nothing of a package is executed
while it is made: only wheels are accepted, and each must have the hash that our file names.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from prowess.errors import ProwessError, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.sandbox.folders import keep_error, private_folder
from prowess.sandbox.process.packages import BUILDING, find_uv, remove_partial, run_uv, uv_environment
from prowess.storage.files.folder_lock import lock_folder

OFF = "off"
INSTALL = "Run `prowess sidecar install`."
RETRY_SECONDS = 900.0
"""After an installation failed, for example without a network, runs do not try again for this long."""
PATIENCE_SECONDS = 600.0
UNUSED_SECONDS = 30 * 86_400

PROGRAM = Path(__file__).parents[2] / "prowess_dspy"
"""The folder of the sidecar's program, which is installed next to this package."""
_WHAT, _FAILED = "The DSPy sidecar", ".failed"
_FLAGS = ("--quiet", "--no-config", "--no-progress", "--color", "never", "--no-python-downloads")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarProgram:
    """A command that starts the sidecar, and what it has to read."""

    argv: tuple[str, ...]
    folders: tuple[str, ...]
    """Folders that it reads, besides those of the system."""
    starts_itself: bool = False
    """True for a single-file binary: it unpacks itself and starts a second process."""


class SidecarEnvironment:
    """Finds the sidecar's program, and makes its environment where there is none. Blocking; for any number of threads.

    `named` is a binary, or the `bin/python` of an environment that has the locked packages; '' for an environment in `home`.
    `environment` says where packages come from, in the variables of uv.
    """

    def __init__(
        self, home: Path, *, named: str = "", environment: Mapping[str, str] | None = None, program: Path = PROGRAM
    ) -> None:
        self._named = named
        self._environment = environment or {}
        self._program = program
        self._folder = home.absolute() / "sidecar"

    @property
    def location(self) -> Path:
        """The program that was named, or the folder of the environment, whether it exists or not."""
        return Path(self._named) if self._named else self._folder / self._key()

    @property
    def dspy(self) -> str:
        """The version of DSPy in the locked file."""
        found = re.search(r"^dspy==(\S+)", self._lock_file().read_text(), re.MULTILINE)
        return found[1] if found else ""

    @property
    def is_off(self) -> bool:
        """True if the settings switch the sidecar off."""
        return self._named == OFF

    @property
    def failure(self) -> str:
        """Why the last installation failed; '' if it did not, or was tried again since."""
        with suppress(OSError):
            return (self._folder / _FAILED).read_text()
        return ""

    def find(self) -> SidecarProgram | None:
        """Return the program if it can be started now, without installing anything; raise `Unavailable` if it is off."""
        if self.is_off:
            raise Unavailable(
                "The DSPy sidecar is switched off.", hint="Unset PROWESS_SIDECAR, or run the skill with its fallback."
            )
        if self._named:
            return _named_program(Path(self._named), self._program)
        python = self.location / "bin" / "python"
        # Follows the link to the interpreter, which may have been removed since.
        return _python_program(python, self._program) if python.exists() else None

    def ensure(self, progress: Progress, *, again: bool = False) -> SidecarProgram:
        """Return the program; make its environment if that is missing.

        Any number of processes may call this at once: one installs, the others wait. Raise `Unavailable` if that is not
        possible here, and, unless `again`, if it failed a short while ago.
        """
        found = self.find()
        if found is not None:
            if not self._named:
                self._mark_used()
            return found
        folder = private_folder(self._folder, _WHAT)
        failed = folder / _FAILED
        if not again:
            _check_failed(failed)
        uv = _find_uv()
        with lock_folder(folder, patience=PATIENCE_SECONDS):
            if self.find() is None:
                progress("Installing the DSPy sidecar. This happens once: about 35 MB to download, 180 MB on disk.")
                try:
                    self._make(uv)
                except ProwessError as error:
                    with suppress(OSError):
                        failed.write_text(error.message)
                    raise
        failed.unlink(missing_ok=True)
        program = self.find()
        if program is None:
            raise Unavailable("The DSPy sidecar was removed while it was installed.", hint=INSTALL)
        return program

    def _key(self) -> str:
        # Wheels contain machine code for one Python and one platform.
        made_for = f"{sys.implementation.cache_tag} {sysconfig.get_platform()} {sysconfig.get_config_var('SOABI')}"
        return hashlib.sha256(self._lock_file().read_bytes() + made_for.encode()).hexdigest()[:24]

    def _lock_file(self) -> Path:
        return self._program / "requirements.txt"

    def _mark_used(self) -> None:
        with suppress(OSError):
            os.utime(self.location)

    def _remove_unused(self) -> None:
        """Remove environments of other versions that nothing has used for long."""
        for path in self._folder.iterdir():
            if path.is_dir() and path != self.location and path.stat().st_mtime < time.time() - UNUSED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

    def _make(self, uv: str) -> None:
        """Make the environment in a temporary folder, and move it to its place when it is complete."""
        remove_partial(self._folder)
        self._remove_unused()
        env = uv_environment(self._environment, self._folder)
        try:
            building = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self._folder))
            python = str(building / "bin" / "python")
            make = [uv, "venv", *_FLAGS, "--allow-existing", "--relocatable", "--python", sys.executable, str(building)]
            # --no-deps: the locked file is complete, and leaves out litellm, which DSPy requires and we do not use.
            # Compiled, because the sidecar may not write there, and would compile everything at each start.
            install = [uv, "pip", "install", *_FLAGS, "--no-deps", "--require-hashes", "--no-build"]
            install += ["--compile-bytecode", "--link-mode", "copy", "--python", python, "-r", str(self._lock_file())]
            for argv in (make, install):
                run_uv(argv, ["the DSPy sidecar"], env, self._folder)
            shutil.rmtree(self.location, ignore_errors=True)  # one whose interpreter is gone
            building.rename(self.location)
        except OSError as error:
            raise keep_error(self._folder, _WHAT, error) from error
        finally:
            remove_partial(self._folder)
            # The cache is as large as the environment and not needed again.
            shutil.rmtree(self._folder / ".cache", ignore_errors=True)


def _named_program(path: Path, program: Path) -> SidecarProgram:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise Unavailable(
            f"PROWESS_SIDECAR names {str(path)!r}, which is not a program.",
            hint="Name a binary made by `make sidecar` or the `bin/python` of an environment, or unset it.",
        )
    path = path.absolute()
    if path.name.startswith("python"):
        return _python_program(path, program)
    return SidecarProgram(argv=(str(path),), folders=(str(path.resolve().parent),), starts_itself=True)


def _python_program(python: Path, program: Path) -> SidecarProgram:
    base = python.resolve()
    folders = (str(python.parents[1]), str(base), str(base.parents[1] / "lib"), str(program))
    return SidecarProgram(argv=(str(python), "-I", "-X", "utf8", str(program)), folders=folders)


def _check_failed(failed: Path) -> None:
    """Raise `Unavailable` if an installation failed a short while ago."""
    with suppress(OSError):
        # The clock may have been set back since.
        if 0 <= time.time() - failed.stat().st_mtime < RETRY_SECONDS:
            raise Unavailable(f"The DSPy sidecar is not installed. {failed.read_text()[:300]}", hint=INSTALL)


def _find_uv() -> str:
    try:
        return find_uv()
    except Unavailable:
        on_path = shutil.which("uv")
        if on_path:
            return on_path
        raise Unavailable(
            "The DSPy sidecar is not installed, and uv, which installs it, is missing.",
            hint="Run `pip install 'prowess[native]'`, then `prowess sidecar install`.",
        ) from None
