"""Run commands of Prowess, and programs, in forks of one process that has imported it: as fresh as new processes.

Each line of the input is a request in JSON, and each line of the output the exit code of its command.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import runpy
import shutil
import sys
import tempfile
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel

from prowess.interfaces.cli.main import COMMANDS, load_command
from prowess.patterns import _LazyPattern

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

TYPICAL = (
    "list",
    "doctor",
    "match write",
    "policy",
    "enable commit-messages",
    "import .agents/skills/commit-messages",
    "run consistency-checker --dry-run -i entity=Mira",
)


def serve() -> None:
    """Fork for each request. Only the children leave this function by an exception, an error of their program."""
    for name in COMMANDS:
        load_command(name)
    for name in used_modules():
        with suppress(ImportError):
            import_module(name)
    complete_what_waits_for_its_use()
    gc.freeze()
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            try:
                run(json.loads(line))
            except SystemExit as ended:
                if not isinstance(ended.code, str):
                    end(ended.code or 0)
                raise
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def complete_what_waits_for_its_use() -> None:
    """Generate methods of dataclasses, compile patterns and build models once, and not in each child again: half its time."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("prowess."):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, _LazyPattern):
                value.pattern  # noqa: B018
            elif isinstance(value, type) and value.__module__ == name:
                if issubclass(value, BaseModel) and not value.__pydantic_complete__:
                    value.model_rebuild(raise_errors=False)
                getattr(value, "__dataclass_fields__", None)


def used_modules() -> list[str]:
    """Return the modules that typical commands import when they run, as the first server of parallel tests found them."""
    if not (run := os.environ.get("PYTEST_XDIST_TESTRUNUID")):
        return find_used_modules()
    known = Path(tempfile.gettempdir(), f"prowess-modules-{run}")
    if not known.exists():
        fresh = known.with_suffix(f".{os.getpid()}")
        fresh.write_text("\n".join(find_used_modules()))
        fresh.replace(known)
    return known.read_text().split()


def find_used_modules() -> list[str]:
    """Run typical commands in children, so that nothing else stays. Return the modules that they import."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = shutil.copytree(EXAMPLES, Path(folder, "examples")) / "workspace"
        homes = {"HOME": folder, "PROWESS_HOME": folder, "PROWESS_TRUSTED_FOLDERS": folder}
        environment = {**os.environ, **homes, "PROWESS_BACKGROUND": "off", "PROWESS_SIDECAR": "off"}
        request = {"environment": environment, "folder": workspace, **dict.fromkeys(("in", "out", "err"), os.devnull)}
        names = Path(folder, "names")
        for command in TYPICAL:
            if (child := os.fork()) == 0:
                with suppress(SystemExit):
                    run({**request, "arguments": command.split()})
                with names.open("a") as file:
                    file.write("\n".join([*sys.modules, ""]))
                os._exit(0)
            os.waitpid(child, 0)
        return list(dict.fromkeys(names.read_text().split()))


def run(request: dict[str, Any]) -> None:
    """Become the process of a command, with its environment, its folder and its files for output."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number, path in enumerate((request["in"], request["out"], request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0)  # noqa: SIM115 - the old one has read ahead
    cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=os.isatty(1))
    sys.argv = ["-c" if "code" in request else "prowess", *request["arguments"]]
    # As in a new process: the folder of `python -m`, then PYTHONPATH, before all others.
    sys.path[0] = request["folder"]
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if "code" in request:
        program = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(request["code"], "<string>", "exec"), vars(program))
        sys.exit()
    runpy.run_module("prowess", run_name="__main__", alter_sys=True)


def end(code: int) -> None:
    """End this process as Python does, but leave its modules as they are. Return only if its output cannot be written.

    To take them apart, Python would write to all the memory that is shared with the parent, and so copy it: that takes
    longer than most commands.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
