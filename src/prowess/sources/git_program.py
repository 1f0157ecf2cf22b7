"""Run the system's git: without a shell, prompts, hooks or work trees, within a deadline and a limit of bytes.

git runs in its own process group, which is killed as a whole when time is up, too much arrives, or the caller is cancelled.
It gets a few variables of this process. The user's own configuration is read, because it names the credential helpers and ssh
keys of private repositories; with `FetchContext.credentials` off, neither is.
"""

from __future__ import annotations

import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from prowess.child.process import has_exited
from prowess.errors import NotFound, Refused, TooLarge, TryLater, Unavailable
from prowess.sources.fetch_context import FetchContext

OLDEST_VERSION = (2, 39, 4)
_CHUNK = 1 << 16
_POLL_SECONDS = 0.05
_EXIT_POLL_SECONDS = 0.002
_MAX_ERROR_BYTES = 16_384
# What git writes to standard error goes to a file, and a server can send messages for it without end.
_MAX_MESSAGE_BYTES = 8 << 20
# A pack of 1 MB can have an object of 4 GB, and a list of refs can be endless: git holds both in memory.
_MAX_MEMORY_BYTES = 1 << 30
_MAX_ALLOCATION_BYTES = 512 << 20

_PLAIN_VARIABLES = ("PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SYSTEMROOT")
_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
# What credential helpers, ssh and their agents need to know. GIT_ASKPASS and SSH_ASKPASS are left out: they open windows.
_USER_VARIABLES = (
    "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GNUPGHOME", "PASSWORD_STORE_DIR",
    "GH_TOKEN", "GITHUB_TOKEN", "GH_CONFIG_DIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
    *_PROXY_VARIABLES,
)  # fmt: skip

_FIXED_VARIABLES = {
    "LC_ALL": "C",  # error messages are recognised by their text
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Objects that a partial fetch left out must never be fetched behind our back, one request each.
    "GIT_NO_LAZY_FETCH": "1",
    # For one object; all of them together are limited too, where the system can do that.
    "GIT_ALLOC_LIMIT": str(_MAX_ALLOCATION_BYTES),
}

_CONFIGURATION = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "",
    # Larger blobs are streamed instead of being held in memory.
    "core.bigFileThreshold": "1m",
    # For each thread of `index-pack`, so that 20 of them stay far below the limit on memory.
    "core.deltaBaseCacheLimit": "16m",
    "protocol.version": "2",
    "credential.interactive": "false",
    # One pack per fetch, however small: its size can be watched while it grows.
    "fetch.unpackLimit": "1",
    "transfer.unpackLimit": "1",
    "fetch.recurseSubmodules": "no",
    "submodule.recurse": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # A redirect could lead to an address that was never checked; see `find_new_address`.
    "http.followRedirects": "false",
}


class RepositoryMoved(Exception):
    """The server redirects to another address."""


class ObjectNotAllowed(Exception):
    """The server sends commits only by the name of a branch or tag."""


class GitProgram:
    """Runs git commands of one fetch, one at a time, until the deadline. `cancel` may be called from any thread."""

    def __init__(
        self, context: FetchContext, shown: str, *, pins: Sequence[str] = (), extra_protocol: str = ""
    ) -> None:
        self._program = find_git(context.environment.get("PATH"))
        self._deadline = time.monotonic() + context.seconds
        self._seconds, self._max_bytes = context.seconds, context.max_bytes
        protocols = sorted({*context.protocols, extra_protocol} - {""})
        if not context.credentials:
            protocols = [name for name in protocols if name != "ssh"]
        self._shown, self._protocols = shown, protocols
        self._environment = _build_environment(context, protocols)
        self._options = [part for name, value in _CONFIGURATION.items() for part in ("-c", f"{name}={value}")]
        for pin in pins:
            self._options += ["-c", f"http.curloptResolve={pin}"]
        self._cancelled = threading.Event()

    @property
    def seconds_left(self) -> float:
        """The time until the deadline; 0 if it has passed or the fetch was cancelled."""
        return 0.0 if self._cancelled.is_set() else max(0.0, self._deadline - time.monotonic())

    def cancel(self) -> None:
        """End the running command and refuse others."""
        self._cancelled.set()

    def check_time(self) -> None:
        """Raise `TryLater` if the time is up."""
        if not self.seconds_left:
            raise TryLater(
                f"git did not finish with {self._shown} within {self._seconds:g} seconds.",
                hint="Try again, or select a path with skills.",
            )

    def run(
        self, repository: Path, *arguments: str, lines: Sequence[str] = (), growing: Path | None = None, limit: int = 0
    ) -> bytes:
        """Run a command on a bare repository and return its output; see `stream`."""
        return b"".join(self.stream(repository, *arguments, lines=lines, growing=growing, limit=limit))

    def stream(
        self, repository: Path, *arguments: str, lines: Sequence[str] = (), growing: Path | None = None, limit: int = 0
    ) -> Iterator[bytes]:
        """Run a command and yield its output as it arrives. `lines` are its standard input.

        Raise `TooLarge` if the output exceeds `limit` bytes (by default what may be downloaded), or if the folder `growing`
        grows by more than that; `TryLater` if time is up; the error that git reports otherwise.
        """
        self.check_time()
        command = [self._program, f"--git-dir={repository}", *self._options, *arguments]
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            # A file instead of a pipe: writing to a pipe while the other side waits to be read from would block both.
            stdin.write("".join(f"{line}\n" for line in lines).encode())
            stdin.seek(0)
            process = subprocess.Popen(  # noqa: S603  (a list, without a shell; user input follows `--` or was checked)
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment,
                cwd=repository,
                # Its own session: no terminal to ask on, and the group can be killed whole.
                start_new_session=True,
            )
            try:
                limit_memory(process.pid)
                yield from self._read(process, stderr.fileno(), growing, limit or self._max_bytes)
                while not has_exited(process):
                    self.check_time()
                    time.sleep(_EXIT_POLL_SECONDS)
            finally:
                _end(process)
            stderr.seek(0)
            if process.returncode:
                raise self._to_error(stderr.read(_MAX_ERROR_BYTES).decode(errors="replace"))

    def _read(
        self, process: subprocess.Popen[bytes], messages: int, growing: Path | None, limit: int
    ) -> Iterator[bytes]:
        if process.stdout is None:
            return
        descriptor, total = process.stdout.fileno(), 0
        most = self._max_bytes + (_folder_bytes(growing) if growing else 0)
        while True:
            self.check_time()
            # Before looking for output: it may write its last and exit between the two.
            is_over = has_exited(process)
            ready, _, _ = select.select([descriptor], [], [], _POLL_SECONDS)
            if growing is not None and _folder_bytes(growing) > most:
                raise self.too_large()
            if os.fstat(messages).st_size > _MAX_MESSAGE_BYTES:
                raise TooLarge(f"{self._shown} sends too many messages.", hint="Check the address.")
            if not ready:
                if is_over:
                    return  # killed by someone else, and a helper still holds the pipe
                continue
            data = os.read(descriptor, _CHUNK)
            if not data:
                return
            total += len(data)
            if total > limit:
                raise self.too_large()
            yield data

    def too_large(self) -> TooLarge:
        """Return the error for a repository that exceeds what may be downloaded."""
        return TooLarge(
            f"{self._shown} exceeds the limit of {self._max_bytes:,} bytes for one fetch.",
            hint="Select a folder of it, such as owner/repo/skills.",
        )

    def _to_error(self, text: str) -> Exception:
        """Return the error for what git wrote to standard error."""
        if _MOVED.search(text):
            return RepositoryMoved()
        if found := _FORBIDDEN.search(text):
            hint = f"Use {' or '.join(self._protocols)}."
            if found[1] == "file":
                protocols = ",".join([*self._protocols, "file"])
                hint = f"{hint} On a machine of your own, you can allow it: set PROWESS_GIT_PROTOCOLS={protocols}."
            return Refused(f"The transport {found[1]!r} of {self._shown} is not allowed here.", hint=hint)
        if _UNADVERTISED.search(text):
            return ObjectNotAllowed()
        if _AUTHENTICATION.search(text):
            return Refused(
                f"{self._shown} does not exist, or it is private and git has no credentials for it.",
                hint="Check the name. For a private repository, sign in with `gh auth login` or your credential helper, or "
                "use its ssh address, such as git@github.com:owner/repo.git.",
            )
        if _MISSING.search(text):
            return NotFound(f"The repository {self._shown} does not exist.", hint="Check its address.")
        # The server's own words are not shown, as an agent that reads the error could take them for instructions. They are in
        # lines that start with `remote:`, and after `remote error:` in one line or more.
        own, from_server, _ = text.partition("remote error:")
        lines = [line for line in own.splitlines() if line.startswith(("fatal:", "error:", "ssh:"))]
        reason = (lines[-1].partition(": ")[2] if lines else "") or "git ended without a message"
        if from_server:
            reason = "the server reported an error"
        printable = "".join(char if char.isprintable() else "?" for char in reason)[:300].rstrip(".")
        return TryLater(f"git could not read {self._shown}: {printable}.", hint="Try again, or check the address.")


def find_git(path: str | None) -> str:
    """Return the path of git; raise `Unavailable` if it is missing or too old."""
    program = shutil.which("git", path=path or None)
    if program is None:
        raise Unavailable(
            "git is not installed, or not in PATH.",
            hint=f"Install git {_dotted(OLDEST_VERSION)} or newer: https://git-scm.com/downloads",
        )
    version = _git_version(program)
    if version < OLDEST_VERSION:
        raise Unavailable(
            f"git {_dotted(version)} is too old: it has known security problems.",
            hint=f"Install git {_dotted(OLDEST_VERSION)} or newer: https://git-scm.com/downloads",
        )
    return program


@cache
def _git_version(program: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run([program, "version"], capture_output=True, timeout=10, check=False, env={})  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(rb"git version (\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(number or 0) for number in found.groups()) if found else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "of an unknown version"


def uses_proxy(context: FetchContext) -> bool:
    """Return True if git reaches https hosts through a proxy, which then looks up their names."""
    return context.credentials and any(context.environment.get(name) for name in _PROXY_VARIABLES[:4])


def _build_environment(context: FetchContext, protocols: Sequence[str]) -> dict[str, str]:
    names = (*_PLAIN_VARIABLES, *_USER_VARIABLES) if context.credentials else _PLAIN_VARIABLES
    environment: Mapping[str, str] = context.environment
    variables = {name: environment[name] for name in names if environment.get(name)}
    if not context.credentials:
        # `HOME` is also where curl looks for a .netrc.
        variables |= {"HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    # An empty list would mean the defaults.
    return {**variables, **_FIXED_VARIABLES, "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none"}


def limit_memory(pid: int) -> None:
    """Limit the memory of git and its helpers. Other systems than Linux cannot do that for another process."""
    if sys.platform != "linux":
        return
    # What it may write to, not its addresses: helpers written in Go reserve far more of these than they use.
    with suppress(ProcessLookupError, PermissionError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    # On a busy machine git may have started a helper by now. Those that it starts later have its limit.
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text().split():
                limit_memory(int(child))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the process and its helpers, and release its pipe."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


def _folder_bytes(folder: Path) -> int:
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                total += entry.stat().st_size
    return total


_AUTHENTICATION = re.compile(
    r"could not read (?:Username|Password)|Authentication failed|Permission denied|error: 40[137]|access denied|Host key"
    r" verification failed",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"repository '.*' not found|Repository not found|does not exist|does not appear to be a git", re.IGNORECASE
)
_MOVED = re.compile(r"returned error: 30[12378]")
_UNADVERTISED = re.compile(
    r"unadvertised object|not our ref|upload-pack: not our ref|Couldn't find remote ref", re.IGNORECASE
)
_FORBIDDEN = re.compile(r"transport '([^']{1,40})' not allowed")
