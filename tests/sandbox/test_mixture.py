"""Many scripts of every kind at once: each gets its own end, and nobody another's."""

from __future__ import annotations

import asyncio
import random

import pytest

from prowess.sandbox.protocol import SandboxLimits
from prowess.sandbox.script import script_from_template
from prowess.sandbox.wasm.sandbox import WasmSandbox

pytestmark = pytest.mark.anyio

KINDS = {
    "done": "import prowess\nprowess.submit([{{ n }}, prowess.echo({{ n }}), '{{ n }}'])",
    "raised": "raise ValueError({{ n }})",
    "fuel": "while True: pass",
    "memory": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "output": "while True: print('{{ n }}' * 50)",
    "stack": "import json\njson.loads('[' * 100_000)",
    "forbidden": "import os\nos._exit(0)",
    "calls": "import prowess\nwhile True: prowess.echo({{ n }})",
    "cancelled": "import prowess\nprowess.echo({{ n }})\nwhile True: pass",
}
LIMITS = SandboxLimits(fuel=10**8, memory_bytes=64 << 20, output_chars=10_000, calls=5, seconds=60)
LONG = SandboxLimits(fuel=10**14, seconds=600)


async def echo(value: object) -> object:
    return value


async def one(sandbox: WasmSandbox, kind: str, number: int) -> None:
    script = script_from_template(KINDS[kind], {"n": number})
    if kind == "cancelled":
        begun = asyncio.Event()

        async def begin(value: object) -> None:
            begun.set()

        task = asyncio.create_task(sandbox.run(script, {"echo": begin}, LONG))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return
    ran = await sandbox.run(script, {"echo": echo}, LIMITS)
    assert ran.ended == kind
    if kind == "done":
        assert ran.result == [number, number, str(number)]
    if kind == "raised":
        assert (ran.error.type, ran.error.message) == ("ValueError", str(number))
    if kind == "output":
        assert set(ran.stdout.replace("\n", "")) == set(str(number))


async def mixture(sandbox: WasmSandbox, runs: int) -> None:
    room = asyncio.Semaphore(16)
    chance = random.Random(7)

    async def turn(number: int) -> None:
        async with room:
            await one(sandbox, chance.choice(list(KINDS)), number)

    await asyncio.gather(*(turn(number) for number in range(runs)))


@pytest.mark.long
async def test_a_long_mixture_of_scripts_keeps_every_end_apart(sandbox):
    await mixture(sandbox, 1_500)  # about 160 of each kind, 16 at a time
