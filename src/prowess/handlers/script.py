"""script: run a script of a skill, confined, in a folder with the skill's files."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import PurePosixPath
from typing import Any

from prowess.errors import Invalid, RunFailed
from prowess.handlers.command_runner import CommandRunner
from prowess.handlers.requirements import PACKAGE_NAMES, InstallPackages, install_packages
from prowess.run.call import Call, Output
from prowess.sandbox.programs import PYTHON
from prowess.skill.filenames import SCRIPT_SUFFIXES, read_shebang
from prowess.skill.json_values import json_list
from prowess.skill.kinds import Kind

MAX_ARGS = 1_000
# -B: leave no bytecode among the skill's files. -s: ignore packages that the user installed for themselves.
PYTHON_COMMAND = (PYTHON, "-B", "-s", "-X", "utf8")
INTERPRETERS = ("bash", "dash", "node", "perl", "ruby", "sh", "zsh")
"""Interpreters other than Python."""

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_FIRST_LINE_BYTES = 1_000
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([A-Za-z_]\w*)")


class ScriptHandler:
    """Runs a script with the inputs `args`, a list of texts and numbers, and `stdin`; what it prints is the output.

    Its first line or its suffix decides the interpreter: Python, a shell, Node, Perl or Ruby. The folder that it runs in has
    all files of the skill. Raise `RunFailed`, with its error output, if it exits with another code than 0.
    """

    kind: Kind = "script"

    def __init__(self, commands: CommandRunner, provision: InstallPackages | None = None) -> None:
        self._commands = commands
        self._provision = provision

    async def run(self, call: Call) -> Output:
        """Run the script and return what it prints."""
        path = call.artifact.path or ""
        files = await self._commands.files_of(call)
        content = files.get(path)
        if content is None:
            raise Invalid(f"{call.skill.slug!r} has no file {path[:80]!r}.")
        interpreter = find_interpreter(path, content)
        args, stdin = _args(call.inputs.get("args")), _stdin(call.inputs.get("stdin"))
        provision = self._provision
        name = "python3" if interpreter[0] == PYTHON else interpreter[0]
        call.plan(shlex.join((name, path, *args)))
        grants = await self._commands.granted(call)
        call.notes.receipt.touch("binaries", name)
        try:
            finished = await self._commands.run(
                call,
                grants,
                # With `./`, a file name that starts with '-' is not read as an option of the interpreter.
                (*interpreter, f"./{path}", *args),
                files=files,
                called=f"The script {path!r}",
                stdin=stdin,
                packages=await install_packages(call, provision) if provision and interpreter[0] == PYTHON else None,
            )
        except RunFailed as error:
            error.hint = _hint_for_import(call, error.message) or error.hint
            raise
        return Output(kind=self.kind, text=finished.stdout, result=finished.facts)


def find_interpreter(path: str, content: bytes) -> tuple[str, ...]:
    """Return the interpreter of a script, with its options; raise `Invalid` if none is known."""
    name, *options = read_shebang(content[:_FIRST_LINE_BYTES].decode(errors="replace")) or ("",)
    name = name or SCRIPT_SUFFIXES.get(PurePosixPath(path).suffix.lower(), "")
    if _PYTHON.fullmatch(name):
        return (*PYTHON_COMMAND, *options)
    if name in INTERPRETERS:
        return (name, *options)
    fault = f"names the unsupported interpreter {name[:40]!r}" if name else "does not name an interpreter"
    raise Invalid(
        f"The script {path!r} {fault}.",
        hint=f"Start it with `#!/usr/bin/env` and one of: python3, {', '.join(INTERPRETERS)}.",
    )


def _hint_for_import(call: Call, message: str) -> str:
    """Return the manifest line that adds a missing package; '' if none is missing. Importing alone installs nothing."""
    found = _MISSING.search(message)
    # A missing module of the standard library is not a package that could be installed.
    if found is None or found[1] in sys.stdlib_module_names:
        return ""
    needed = (*call.run.needs.requirements, PACKAGE_NAMES.get(found[1], found[1]))
    return f"The package {needed[-1]!r} is not installed. Add `requirements: {json.dumps(needed)}` to the manifest."


def _args(value: Any) -> list[str]:
    if value is None:
        return []
    args = json_list(value)
    if not isinstance(value, list) or len(args) > MAX_ARGS or not all(_is_plain(argument) for argument in args):
        raise Invalid(
            f"`args` must be a list of at most {MAX_ARGS:,} strings and numbers.",
            hint='For example `-i \'args:=["--all", "3"]\'`.',
        )
    return [argument if isinstance(argument, str) else str(argument) for argument in args]


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _stdin(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise Invalid("`stdin` must be a string.", hint="Pass a string, for example the JSON text of a value.")
    return value or ""
