"""Where the system cannot confine a process, nothing is run in one, whichever sandbox it is of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prowess.errors import Unavailable
from prowess.sandbox.confine.lockdown import NEEDED, probe_confinement
from prowess.sandbox.deno.sandbox import find_deno
from prowess.sandbox.process.inside.zygote import UNCONFINED

USED_UP = """
import asyncio, socket
from prowess.errors import Unavailable
from prowess.sandbox.commands.command import Command
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.confine import kernel, landlock
from prowess.sandbox.deno.sandbox import DenoSandbox
from prowess.sandbox.process.inside.zygote import Confinement, serve
from prowess.sandbox.process.sandbox import ProcessSandbox
from prowess.sandbox.script import script_from_function

TYPESCRIPT = script_from_function("export const execute = () => 'ran';", {}, language="typescript", file="execute.ts")
PYTHON = script_from_function("def execute(args, ctx): return 'ran'", {})

kernel.prctl(38, 1)  # no new privileges, which the rules ask for
while landlock.restrict_paths(read=["/"], write=["/"], execute=["/"]):
    pass
try:
    print(@RUN@)
except Unavailable as error:
    print("UNAVAILABLE", error.message)
"""
"""A process in which rules about files are used up: the kernel keeps sixteen of them one in another."""

RUNS = {
    "commands": "asyncio.run(LockedCommandSandbox().run(Command(argv=('echo', 'ran'))))",
    "native": "asyncio.run(ProcessSandbox().run(PYTHON, {}))",
    "deno": "asyncio.run(DenoSandbox().run(TYPESCRIPT, {}))",
}


def where_rules_are_used_up(run: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-c", USED_UP.replace("@RUN@", run)]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_run_where_files_cannot_be_confined(name):
    if not set(NEEDED) <= set(probe_confinement()):
        pytest.skip("processes cannot be confined here")
    if name == "deno":
        try:
            find_deno()
        except Unavailable:
            pytest.skip("Deno is not installed")
    said = where_rules_are_used_up(RUNS[name])
    assert said.stdout.startswith("UNAVAILABLE"), said
    assert "files" in said.stdout


def test_a_process_that_cannot_be_confined_after_all_ends_without_asking_for_its_task():
    if not set(NEEDED) <= set(probe_confinement()):
        pytest.skip("processes cannot be confined here")
    confinement = "Confinement(read=['/'], seconds=9, memory_bytes=1 << 28)"
    said = where_rules_are_used_up(f"serve((line := socket.socketpair())[0].fileno(), {confinement}, print, socket)")
    assert (said.returncode, said.stdout) == (UNCONFINED, "")
