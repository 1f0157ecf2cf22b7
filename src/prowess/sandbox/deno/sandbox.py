"""Run functions written in TypeScript and JavaScript, each in its own Deno process without any permission."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from prowess.child import frames
from prowess.child.process import ChildProcess
from prowess.errors import Invalid, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.sandbox.confine.lockdown import NEEDED
from prowess.sandbox.folders import new_folder, remove_folder, sweep_folders
from prowess.sandbox.programs import existing_paths
from prowess.sandbox.protocol import (
    CONTEXT_FUNCTIONS,
    DEFAULT_LIMITS,
    EndReason,
    HostFunction,
    SandboxLimits,
    ScriptOutcome,
)
from prowess.sandbox.script import HOST_MODULES, Script
from prowess.sandbox.script_process import ScriptProcess, start_confined
from prowess.sandbox.script_run import RunSlots, ScriptRun
from prowess.skill.limits import MIB
from prowess.threads import offload

INSTALL = "Run `pip install 'prowess[typescript]'`."
MAX_CONCURRENT = 8
"""How many functions of one event loop run at a time, besides nested ones."""
ENGINE_BYTES = 384 * MIB
"""The memory that Deno itself needs."""
FILE_BYTES = 4 * MIB
"""The largest file that Deno may write in its cache folder, which is removed after the run."""
TYPES = "@devai/skill-runtime"
"""The module that authors import types from; it is empty at run time."""

_HARNESS = Path(__file__).with_name("inside") / "harness.ts"
_KINDS = {"typescript": "application/typescript", "javascript": "application/javascript"}
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu", "/proc/self")
_LOADERS = ("/lib/ld-linux-aarch64.so.1", "/lib64/ld-linux-x86-64.so.2")
# Everything is denied twice: by Deno, and by the confinement of its process. `--no-prompt`, or Deno would ask for a
# permission instead of refusing it; nothing is downloaded and no configuration of a parent folder is read.
_FLAGS = (
    *("--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--no-check", "--cached-only"),
    *("--no-code-cache", "--node-modules-dir=none"),
    *(f"--deny-{name}" for name in ("read", "write", "net", "env", "run", "ffi", "sys", "import")),
)
_HINT = "Run `prowess doctor` to see how processes can be confined on this machine."
_LAST_WORDS_SECONDS, _STDERR_BYTES = 0.2, 64 * 1024
_CRASH_SIGNS: dict[str, tuple[EndReason, str]] = {
    "out of memory": ("memory", ""),
    "Cannot allocate memory": ("memory", ""),
    "never resolved": ("crashed", "it waits for a promise that never resolves"),
}
"""Messages of Deno when it gives up, and how the run is reported then."""
# V8 aborts or traps when it cannot allocate, and does not always say so.
_OUT_OF_MEMORY_CODES = (-signal.SIGABRT, -signal.SIGTRAP)


class DenoSandbox:
    """Runs functions in Deno, without permissions, packages or files, and confined by the system as well.

    Every run has a new process. A function reaches its host over standard input and output. If a process cannot be confined,
    nothing is run. Instructions are not counted: `fuel` has no limit and is 0. `program` replaces the installed Deno.
    """

    def __init__(self, *, program: Path | None = None) -> None:
        self._program = program
        self._slots = RunSlots(MAX_CONCURRENT)
        self._swept = False

    async def run(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits = DEFAULT_LIMITS
    ) -> ScriptOutcome:
        """Run a function and return its outcome; raise `Invalid` for other languages."""
        if script.language not in _KINDS:
            raise Invalid(f"Deno runs TypeScript and JavaScript, not {script.language}.")
        if not hasattr(os, "pidfd_open"):
            raise Unavailable("Functions in TypeScript and JavaScript are only supported on Linux.")
        program = self._program or find_deno()
        if not self._swept:
            self._swept = True
            await offload(sweep_folders)
        async with self._slots.hold():
            started = await _start_cancellable(
                lambda folder: _launch_options(program, script, functions, limits, folder)
            )
            try:
                # The id is still that of this process, because it has not been waited for.
                process = os.pidfd_open(started.child.pid)
                script_process = ScriptProcess(started.child.channel, limits, started.confined, process)
                outcome = await ScriptRun(script_process, frames.ONLY, script, functions, limits).ended()
            finally:
                errors = await offload(started.end)
        return _explain_crash(outcome, errors, started.child.returncode)

    async def close(self) -> None:
        """Do nothing: no process outlives its run."""


def find_deno() -> Path:
    """Return the program of the package `deno`; raise `Unavailable` if it is not installed."""
    try:
        package: Any = importlib.import_module("deno")
        return Path(package.find_deno_bin())
    except (ImportError, FileNotFoundError):
        raise Unavailable(
            "Deno is not installed. Functions in TypeScript and JavaScript need it.", hint=INSTALL
        ) from None


def _launch_options(
    program: Path, script: Script, functions: Iterable[str], limits: SandboxLimits, folder: Path
) -> dict[str, Any]:
    """Return how to start Deno, confined, for one function. `folder` is its cache, for this run only."""
    megabytes = max(16, limits.memory_bytes // MIB)
    argv = [str(program), "run", *_FLAGS, f"--import-map={_import_map(functions)}"]
    argv += [f"--v8-flags=--max-old-space-size={megabytes}", str(_HARNESS), _KINDS[script.language]]
    lock = {
        "read": existing_paths((str(program), str(program.resolve()), str(_HARNESS.parent), *_SYSTEM)),
        "write": [str(folder)],
        "execute": existing_paths((str(program), str(program.resolve()), *_LOADERS)),
        "seconds": math.ceil(limits.seconds) + 1,  # CPU time, in case this process dies and cannot kill it
        "memory_bytes": limits.memory_bytes + ENGINE_BYTES,
        "file_bytes": FILE_BYTES,
        "may_become": True,
    }
    env = {"DENO_DIR": str(folder), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
    return {"argv": argv, "env": env, "lock": lock, "required": (*NEEDED, "network")}


def _import_map(functions: Iterable[str]) -> str:
    """Return the import map: the host functions as a module, and an empty module for the types."""
    # Functions of the context are passed to the skill's function and not exported.
    names = ["submit", "HostError", *(name for name in functions if name not in CONTEXT_FUNCTIONS)]
    lines = ["const host = globalThis[Symbol.for('prowess')];", "export default host;"]
    lines += [f"export const {name} = host.{name};" for name in names]
    host = _data_url("application/javascript", "\n".join(lines))
    mapped = dict.fromkeys(HOST_MODULES, host) | {TYPES: _data_url("application/javascript", "export {};")}
    return _data_url("application/json", json.dumps({"imports": mapped}))


def _data_url(kind: str, text: str) -> str:
    return f"data:{kind},{quote(text)}"


@dataclass(slots=True, kw_only=True)
class _DenoProcess:
    """A Deno that was started, with its error output and the folder that it keeps files in."""

    child: ChildProcess
    stderr: IO[bytes]
    folder: Path
    confined: tuple[str, ...]

    def end(self) -> str:
        """End it and release everything; return what it wrote to its error output. Blocking."""
        self.child.end(grace=_LAST_WORDS_SECONDS)
        remove_folder(self.folder)
        with self.stderr:
            self.stderr.seek(0)
            return self.stderr.read(_STDERR_BYTES).decode("utf-8", "replace")


async def _start_cancellable(options_in: Callable[[Path], dict[str, Any]]) -> _DenoProcess:
    # Shielded: a thread cannot be cancelled, and the process that it starts must be ended.
    starting = asyncio.ensure_future(offload(_start, options_in))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(Unavailable):
            await offload((await starting).end)
        raise


def _start(options_in: Callable[[Path], dict[str, Any]]) -> _DenoProcess:
    """Start Deno, and wait until its launcher has said how it is confined."""
    # A file, because it is read only after the end: a full pipe would block Deno. RLIMIT_FSIZE bounds the file.
    errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed when the process has ended)
    folder = new_folder()
    try:
        child, report = start_confined(**options_in(folder), stderr=errors)
    except OSError as error:
        errors.close()
        remove_folder(folder)
        raise Unavailable(f"Deno failed to start: {error.strerror}.") from error
    confined, *failures = report or [(), "it did not become ready in time"]
    started = _DenoProcess(child=child, stderr=errors, folder=folder, confined=tuple(confined))
    if failures:
        started.end()
        raise Unavailable(f"Deno failed to start: {failures[0][:300]}.", hint=_HINT)
    return started


def _explain_crash(outcome: ScriptOutcome, errors: str, code: int | None) -> ScriptOutcome:
    """Return the outcome with the reason of a crash, from the error output or exit code: V8 aborts when it runs out of memory."""
    if outcome.ended != "crashed":
        return outcome
    for sign, (ended, detail) in _CRASH_SIGNS.items():
        if sign in errors:
            return replace(outcome, ended=ended, detail=detail or outcome.detail)
    return replace(outcome, ended="memory") if code in _OUT_OF_MEMORY_CODES else outcome
