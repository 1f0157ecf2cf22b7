"""What every sandbox promises, whatever it is made of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import Invalid, NotFound, Unavailable
from prowess.sandbox.deno.sandbox import DenoSandbox, find_deno
from prowess.sandbox.protocol import DEFAULT_LIMITS, Sandbox, ScriptOutcome
from prowess.sandbox.script import Language, Script, script_from_function
from prowess.skill.limits import MIB

Run = Callable[..., ScriptOutcome]


class Member:
    """A sandbox and the language that it runs; what is to be run is given in both."""

    def __init__(self, sandbox: Sandbox, language: Language) -> None:
        self.sandbox = sandbox
        self._language: Language = language

    def script(self, python: str, typescript: str, args: dict[str, Any] | None = None, env: Any = None) -> Script:
        if self._language == "python":
            code = "async def execute(args, ctx):\n" + "".join(f"    {line}\n" for line in python.splitlines())
            return script_from_function(code, args or {}, env=env)
        code = f"export async function execute(args: any, ctx: any) {{\n{typescript}\n}}"
        return script_from_function(code, args or {}, env=env, language=self._language, file="execute.ts")

    def run(
        self, python: str, typescript: str, args: Any = None, functions: Any = None, **limits: Any
    ) -> ScriptOutcome:
        made = self.script(python, typescript, args, limits.pop("env", None))
        return asyncio.run(self.sandbox.run(made, functions or {}, replace(DEFAULT_LIMITS, **limits)))


@pytest.fixture(params=["wasm", "process", "deno"])
def member(request: pytest.FixtureRequest) -> Member:
    """Each sandbox in turn, where it can be had."""
    if request.param == "wasm":
        return Member(request.getfixturevalue("sandbox"), "python")
    if request.param == "process":
        return Member(request.getfixturevalue("native"), "python")
    try:
        find_deno()
    except Unavailable:
        pytest.skip("Deno is not installed")
    return Member(DenoSandbox(), "typescript")


async def log(message: str) -> None:
    """Hear it."""


async def read_file(path: str) -> dict[str, str]:
    if path == "missing":
        raise NotFound("There is no such file.", hint="Look elsewhere.")
    return {"text": f"what {path} says"}


def test_what_a_function_returns_is_the_result(member: Member):
    ran = member.run("return {'twice': args['a'] * 2}", "return { twice: args.a * 2 };", {"a": 21})
    assert (ran.ended, ran.submitted, ran.result) == ("done", True, {"twice": 42})


def test_the_context_asks_the_host(member: Member):
    ran = member.run(
        "return await ctx.read_file('a.txt')", "return await ctx.readFile('a.txt');", functions={"read_file": read_file}
    )
    assert (ran.result, ran.calls) == ("what a.txt says", 1)


def test_the_environment_is_what_was_granted(member: Member):
    ran = member.run("return ctx.env['KEY']", "return ctx.env.KEY;", env={"KEY": "value"})
    assert ran.result == "value"


def test_what_the_host_refuses_can_be_caught(member: Member):
    ran = member.run(
        "try: await ctx.read_file('missing')\nexcept Exception as error: return str(error)",
        "try { await ctx.readFile('missing'); } catch (error) { return error.message; }",
        functions={"read_file": read_file},
    )
    assert "There is no such file." in ran.result


def test_what_the_host_refuses_and_nobody_catches_is_told_as_the_hosts(member: Member):
    ran = member.run(
        "await ctx.read_file('missing')", "await ctx.readFile('missing');", functions={"read_file": read_file}
    )
    assert ran.ended == "raised"
    assert ran.error is not None
    assert ran.error.of_host


def test_any_other_error_of_a_host_function_ends_the_run_and_is_raised(member: Member):
    async def broken(message: str) -> None:
        raise ZeroDivisionError(message)

    with pytest.raises(ZeroDivisionError):
        member.run("ctx.log('x')\nwhile True: pass", "await ctx.log('x'); while (true) {}", functions={"log": broken})


def test_an_error_is_told_with_its_line(member: Member):
    ran = member.run("x = 1\nraise ValueError('no good')", "const x = 1;\nthrow new Error('no good');")
    assert ran.ended == "raised"
    assert ran.error is not None
    assert (ran.error.message, ran.error.line) == ("no good", 3)


def test_what_is_printed_is_kept_and_is_no_result(member: Member):
    ran = member.run("print('one')", "console.log('one');")
    assert ran.stdout == "one\n"
    assert ran.result is None


def test_time_ends_a_run_and_what_was_printed_before_is_kept(member: Member):
    ran = member.run("print('here')\nwhile True: pass", "console.log('here'); while (true) {}", seconds=1.0)
    assert (ran.ended, ran.stdout) == ("time", "here\n")


def test_time_in_which_the_host_works_is_not_counted(member: Member):
    async def slow(message: str) -> None:
        await asyncio.sleep(1.5)

    ran = member.run(
        "await ctx.log('x')\nreturn 1", "await ctx.log('x'); return 1;", functions={"log": slow}, seconds=1.0
    )
    assert (ran.ended, ran.result) == ("done", 1)


def test_output_has_a_limit(member: Member):
    ran = member.run("while True: print('x' * 99)", "while (true) console.log('x'.repeat(99));", output_chars=10_000)
    assert ran.ended == "output"
    assert len(ran.stdout) <= 10_000


def test_a_result_has_a_limit(member: Member):
    assert member.run("return 'x' * 5_000", "return 'x'.repeat(5000);", result_bytes=1_000).ended == "result"


def test_calls_have_a_limit(member: Member):
    ran = member.run(
        "while True:\n    try: await ctx.read_file('a')\n    except BaseException: pass",
        "while (true) { try { await ctx.readFile('a'); } catch { } }",
        functions={"read_file": read_file},
        calls=5,
    )
    assert ran.ended == "calls"


def test_memory_has_a_limit(member: Member):
    ran = member.run(
        "kept = []\nwhile True: kept.append(bytearray(1 << 20))",
        "const kept = []; while (true) kept.push(new Array(1e5).fill(1.5));",
        memory_bytes=64 * MIB,
        seconds=20.0,
    )
    assert ran.ended == "memory"


def test_no_file_of_the_machine_can_be_read_or_written(member: Member, tmp_path: Path):
    (tmp_path / "canary.txt").write_text("canary-secret")
    told = {"file": str(tmp_path / "canary.txt"), "new": str(tmp_path / "new")}
    reading = member.run("return open(args['file']).read()", "return Deno.readTextFileSync(args.file);", told)
    writing = member.run("return open(args['new'], 'w')", "return Deno.writeTextFileSync(args.new, 'x');", told)
    assert (reading.ended, writing.ended) == ("raised", "raised")
    assert "canary-secret" not in f"{reading}"
    assert [path.name for path in tmp_path.iterdir()] == ["canary.txt"]


def test_no_port_can_be_connected_to(member: Member):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        ran = member.run(
            "import socket\nsocket.create_connection(('127.0.0.1', args['port']), 5)\nreturn 'in'",
            "await Deno.connect({ port: args.port }); return 'in';",
            {"port": listening.getsockname()[1]},
        )
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert ran.ended in {"raised", "forbidden"}


def test_nothing_of_the_environment_of_this_process_is_there(member: Member, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CANARY_KEY", "canary-secret")
    asyncio.run(member.sandbox.close())
    ran = member.run(
        "import os\nreturn [os.environ.get('CANARY_KEY'), dict(ctx.env)]",
        "let key = null; try { key = Deno.env.get('CANARY_KEY'); } catch { } return [key, ctx.env];",
    )
    assert ran.result == [None, {}]


def test_a_run_leaves_nothing_for_the_next(member: Member):
    member.run("import sys\nsys.left = 1", "globalThis.left = 1;")
    assert member.run("import sys\nreturn hasattr(sys, 'left')", "return 'left' in globalThis;").result is False


def test_runs_do_not_wait_for_each_other(member: Member):
    both = asyncio.Barrier(3)

    async def meet(message: str) -> None:
        await both.wait()

    async def all_of_them() -> list[ScriptOutcome]:
        made = member.script("await ctx.log('x')\nreturn 1", "await ctx.log('x'); return 1;")
        return await asyncio.gather(*(member.sandbox.run(made, {"log": meet}) for _ in range(3)))

    assert [ran.result for ran in asyncio.run(all_of_them())] == [1, 1, 1]


def test_a_cancelled_run_has_ended_when_the_cancellation_comes_back(member: Member):
    async def cancelled() -> ScriptOutcome:
        began = asyncio.Event()

        async def begin(message: str) -> None:
            began.set()

        made = member.script("ctx.log('x')\nwhile True: pass", "await ctx.log('x'); while (true) {}")
        run = asyncio.create_task(member.sandbox.run(made, {"log": begin}))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await member.sandbox.run(member.script("return 2", "return 2;"), {})

    assert asyncio.run(cancelled()).result == 2


def test_what_is_called_without_being_offered_is_refused(member: Member):
    ran = member.run("return await ctx.read_file('a')", "return await ctx.readFile('a');", functions={"log": log})
    assert ran.ended == "raised"


def test_what_is_of_another_language_is_refused_before_it_runs(member: Member):
    made = member.script("return 1", "return 1;")
    other = replace(made, language="python" if made.language == "typescript" else "typescript")
    with pytest.raises(Invalid):
        asyncio.run(member.sandbox.run(other, {}))


def test_what_confines_the_process_is_told(member: Member):
    assert member.run("return 1", "return 1;").confined


def test_a_closed_sandbox_runs_again(member: Member):
    member.run("return 1", "return 1;")
    asyncio.run(member.sandbox.close())
    assert member.run("return 1", "return 1;").result == 1
