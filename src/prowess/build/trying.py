"""What `prowess doctor` says of the places where code of skills runs: something small is run in each that there is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from prowess.catalog.doctor import Finding
from prowess.errors import ProwessError, Unavailable
from prowess.sandbox.commands.command import Command, CommandSandbox
from prowess.sandbox.sandbox import Sandbox
from prowess.sandbox.script import Language, function_of

_NOTHING: dict[Language, str] = {
    "python": "def execute(args, ctx):\n    return 1\n",
    "typescript": "export function execute(): number { return 1; }\n",
    "javascript": "export function execute() { return 1; }\n",
}


def examine_sandboxes(home: Path) -> list[Finding]:
    """One finding for each of them: whether it runs, and by what it is confined."""
    return asyncio.run(_examine(home))


async def _examine(home: Path) -> list[Finding]:
    from prowess.sandbox.commands.locked import LockedCommands
    from prowess.sandbox.process.sandbox import ProcessSandbox

    return [
        await _wasm(home),
        await try_functions("native runtime", ProcessSandbox(), _wrapping()),
        packages(),
        await try_commands(LockedCommands()),
        await _typescript(),
    ]


async def try_functions(name: str, sandbox: Sandbox, what: str, language: Language = "python") -> Finding:
    """Whether a function runs in a sandbox, which is closed then."""
    script = function_of(_NOTHING[language], {}, entry="execute", language=language)
    try:
        ran = await sandbox.run(script, {})
    except ProwessError as error:
        return _warning(name, error)
    finally:
        await sandbox.close()
    if ran.ended != "done" or ran.result != 1:
        said = ran.detail or (ran.error.message if ran.error else ran.ended)
        return Finding(name=name, status="warning", detail=f"{what}: a function that does nothing failed: {said}")
    return _confined(name, what, ran.confined)


async def try_commands(commands: CommandSandbox) -> Finding:
    """Whether a program runs."""
    name = "scripts and commands"
    try:
        ran = await commands.run(Command(argv=("true",), executable=False))
    except ProwessError as error:
        return _warning(name, error)
    if ran.ended != "done" or ran.exit_code != 0:
        return Finding(name=name, status="warning", detail="A program that does nothing failed.")
    return _confined(name, "programs of this machine", ran.confined)


def packages() -> Finding:
    """Whether packages of native functions and scripts can be installed."""
    from prowess.sandbox.process.packages import find_uv

    name = "packages"
    try:
        return Finding(name=name, status="ok", detail=f"installed by {find_uv()}")
    except Unavailable as error:
        return _warning(name, error)


async def _wasm(home: Path) -> Finding:
    from prowess.sandbox.wasm.component import WASMTIME, check_package, is_built
    from prowess.sandbox.wasm.sandbox import WasmSandbox

    name, what = "sandbox", f"CPython in WebAssembly, wasmtime {WASMTIME}"
    try:
        check_package("wasmtime", WASMTIME)
    except Unavailable as error:
        return _warning(name, error)
    if not is_built(home):
        return Finding(name=name, status="ok", detail=f"{what}: built at the first run of a script")
    return await try_functions(name, WasmSandbox(home, spares=0), f"{what}: built")


async def _typescript() -> Finding:
    from prowess.sandbox.deno.sandbox import DenoSandbox, find_deno

    name = "TypeScript"
    try:
        return await try_functions(name, DenoSandbox(), f"Deno at {find_deno()}", "typescript")
    except Unavailable as error:
        return _warning(name, error)


def _wrapping() -> str:
    return f"processes of this machine, {'' if shutil.which('bwrap') else 'without '}bubblewrap"


def _confined(name: str, what: str, words: Sequence[str]) -> Finding:
    return Finding(name=name, status="ok", detail=f"{what}, confined by {', '.join(words) or 'nothing more'}")


def _warning(name: str, error: ProwessError) -> Finding:
    return Finding(name=name, status="warning", detail=error.message, hint=error.hint)
