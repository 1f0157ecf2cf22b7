"""The server process of a local model: started on first use, ended with this process."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary, finalize

from prowess.child.process import ChildProcess
from prowess.errors import Unavailable
from prowess.llm import local_program

CONTEXT_TOKENS: Final = 8192
MAX_ANSWER_TOKENS: Final = 4096
"""The length limit of a reply."""
CACHE_MIB: Final = 512
"""The memory for what was computed for earlier prompts: that of 1,000 tokens takes 23 MiB with 135M parameters."""
LOADING_SECONDS: Final = 180.0
ENDING_SECONDS: Final = 5.0

_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
"""The variables that the process gets; API keys are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A server process at `url` that requires the `key`; `alias` is its name for the model."""

    url: str
    alias: str
    key: str = field(repr=False)
    process: ChildProcess = field(repr=False)

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self.process.alive


class LocalServer:
    """The server of one GGUF file. Its process ends when the last reference to this object is gone, or with our process."""

    def __init__(self, file: Path, *, sha256: str = "") -> None:
        self._file = file
        self._sha256 = sha256
        self._lock = Lock()
        self._serving: ServerProcess | None = None

    @property
    def serving(self) -> ServerProcess | None:
        """The running process, or None."""
        serving = self._serving
        return serving if serving is not None and serving.alive else None

    def start(self) -> ServerProcess:
        """Return the running process; start one if there is none, and block until the file is loaded.

        Raise `Unavailable` if the file is missing, has another digest, or is not a model.
        """
        with self._lock:
            serving = self.serving  # another thread may have started it while this one waited for the lock
            if serving is None:
                # Before every start, because the file may have been changed since it was fetched.
                check_model_file(self._file, self._sha256)
                serving = self._serving = _start(self._file)
                finalize(self, serving.process.end, grace=ENDING_SECONDS)
            return serving


# Weak, so that the process of a server ends once no model uses it.
_servers: WeakValueDictionary[Path, LocalServer] = WeakValueDictionary()
_servers_lock = Lock()


def get_server(file: Path, *, sha256: str = "") -> LocalServer:
    """Return the server of a file, shared by all models of this process that use it."""
    with _servers_lock:
        server = _servers.get(file)
        if server is None:
            server = _servers[file] = LocalServer(file, sha256=sha256)
        return server


def check_model_file(file: Path, sha256: str) -> None:
    """Raise `Unavailable` if the file cannot be read, is not GGUF, or does not have the given digest."""
    try:
        with file.open("rb") as content:
            if content.read(4) != b"GGUF":
                raise Unavailable(f"{file.name} is not a GGUF model.", hint="Pass the path of a GGUF file.")
            content.seek(0)
            found = hashlib.file_digest(content, "sha256").hexdigest() if sha256 else ""
    except OSError as error:
        raise Unavailable(
            f"The model {str(file)!r} cannot be read: {error.strerror or error}.",
            hint="Pass the path of a GGUF file, or run `prowess model fetch smollm2` for a small model.",
        ) from error
    if found != sha256:
        raise Unavailable(
            f"{file.name} changed since it was downloaded.",
            hint="Run `prowess model fetch smollm2` to download it again.",
        )


def _start(file: Path) -> ServerProcess:
    # Any user of this machine can connect to a loopback port; the key keeps them out. It goes over the channel, because
    # command lines are public.
    key = secrets.token_urlsafe(32)
    child = ChildProcess.start(
        [sys.executable, "-I", str(Path(local_program.__file__))],
        channel="stdio",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )
    try:
        url = _read_address(child, {**_server_options(file), "key": key})
    except BaseException:
        child.end(grace=ENDING_SECONDS)
        raise
    return ServerProcess(url=url, alias=file.stem, key=key, process=child)


def _server_options(file: Path) -> dict[str, Any]:
    processors = os.cpu_count() or 1
    return {
        "model": str(file.absolute()),  # the process has another working folder
        "alias": file.stem,
        # Leave half of the processors to the caller: busy-waiting threads that have to share a core are far slower.
        "threads": max(1, processors // 2),
        # Reading a prompt has few points where threads wait for each other, so that it gains even from busy processors.
        "reading_threads": processors,
        "context": CONTEXT_TOKENS,
        "tokens": MAX_ANSWER_TOKENS,
        "cache": CACHE_MIB,
    }


def _read_address(child: ChildProcess, order: dict[str, Any]) -> str:
    """Send the order, and return the URL that the process answers with; `Unavailable` if it cannot serve."""
    channel = child.channel
    channel.settimeout(LOADING_SECONDS)
    try:
        channel.sendall(json.dumps(order).encode() + b"\n")
        with channel.makefile("r", encoding="utf-8") as answers:
            line = answers.readline()
    except TimeoutError:
        child.kill()
        line = ""
    except OSError:  # it has closed its end
        line = ""
    # A line without its end means that the process died while it wrote.
    answer = json.loads(line) if line.endswith("\n") else {"problem": f"its process exited with {child.wait()}"}
    if "url" not in answer:
        raise Unavailable(
            f"The model {order['alias']!r} failed to start: {answer['problem']}",
            hint="Check that it is a complete GGUF file and that there is enough memory.",
        )
    return answer["url"]
