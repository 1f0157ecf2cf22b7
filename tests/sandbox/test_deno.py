"""Functions in TypeScript: what they can do, how they fail, and that they reach nothing but through their context."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prowess.child import frames
from prowess.errors import Invalid, Refused, Unavailable
from prowess.handlers.host_functions import HOST_FUNCTION_NAMES
from prowess.sandbox.deno.sandbox import DenoSandbox, find_deno
from prowess.sandbox.folders import FOLDER_PREFIX
from prowess.sandbox.protocol import DEFAULT_LIMITS, ScriptOutcome
from prowess.sandbox.script import script_from_function

Run = Callable[..., ScriptOutcome]
PAGE = (Path(__file__).parents[2] / "docs" / "typescript.md").read_text()
TYPES = Path(__file__).parents[2] / "src" / "prowess" / "sandbox" / "deno" / "inside"


@pytest.fixture(autouse=True)
def _needs_deno() -> None:
    try:
        find_deno()
    except Unavailable:
        pytest.skip("Deno is not installed")


@pytest.fixture
def run() -> Run:
    """What comes of a function with inputs, host functions and changed limits."""

    def ran(
        code: str, args: dict[str, Any] | None = None, functions: dict[str, Any] | None = None, env=None, **limits: Any
    ) -> ScriptOutcome:
        language = limits.pop("language", "typescript")
        made = script_from_function(code, args or {}, env=env, language=language, file="execute.ts")
        return asyncio.run(DenoSandbox().run(made, functions or {}, replace(DEFAULT_LIMITS, **limits)))

    return ran


def body(code: str) -> str:
    return f"export async function execute(args: any, ctx: any) {{ {code} }}"


def own_denos() -> list[str]:
    """The processes of this one that are Deno, those included that have ended and nobody looked."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, facts = path.read_text().partition("(")[2].rpartition(")")
            if facts.split()[1] == str(os.getpid()) and name == "deno":
                found.append(name)
    return found


def test_the_return_value_is_the_result(run: Run):
    ran = run("export const execute = async (args: { a: number }) => ({ doubled: args.a * 2 });", {"a": 21})
    assert (ran.ended, ran.submitted, ran.result) == ("done", True, {"doubled": 42})


def test_a_plain_function_and_a_default_export_are_taken_too(run: Run):
    assert run("export function execute(args: any) { return args.a; }", {"a": 1}).result == 1
    assert run("export default { execute: () => 2 };").result == 2


def test_javascript_is_read_as_javascript(run: Run):
    assert run("export const execute = () => (1 < 2) > 0;", language="javascript").result is True
    assert run("export const execute = (): number => 1;", language="javascript").error.type == "SyntaxError"


def test_python_is_not_run(run: Run):
    with pytest.raises(Invalid, match="python"):
        run("def execute(args, ctx): ...", language="python")


def test_types_are_imported_as_the_page_prints_it(run: Run):
    code = 'import type { SkillContext, SkillResult } from "@devai/skill-runtime";\n'
    code += "export async function execute(args: Record<string, unknown>, ctx: SkillContext): Promise<SkillResult> {\n"
    code += "  return { success: true, result: typeof ctx.fetch };\n}"
    assert run(code).result == {"success": True, "result": "function"}
    assert run(code.replace("import type", "import")).result == {"success": True, "result": "function"}


def test_a_request_goes_out_as_it_was_written_and_its_answer_is_a_response(run: Run):
    asked: list[Any] = []

    async def fetch(url: str, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None) -> Any:
        asked.append((url, method, headers, body))
        return {"status": 201, "headers": {"x-kind": "b"}, "url": url + "?moved", "text": '{"n": 1}'}

    code = """
      const r = await ctx.fetch("https://api.example/v1", {
        method: "POST", headers: { "X-A": "1", "Content-Type": "application/json" }, body: JSON.stringify({ a: "ü" }),
      });
      return [r instanceof Response, r.status, r.ok, r.headers.get("X-Kind"), r.url, await r.json()];
    """
    ran = run(body(code), functions={"fetch": fetch})
    assert ran.result == [True, 201, True, "b", "https://api.example/v1?moved", {"n": 1}]
    assert asked == [("https://api.example/v1", "POST", {"content-type": "application/json", "x-a": "1"}, '{"a":"ü"}')]


def test_bytes_go_both_ways(run: Run):
    async def fetch(url: str, body: Any = None, **_: Any) -> Any:
        return {"status": 200, "headers": {}, "url": url, "base64": body["base64"]}

    code = 'const r = await fetch("https://a.example/", {method: "PUT", body: new Uint8Array([255, 0, 1])});'
    code += "return Array.from(new Uint8Array(await r.arrayBuffer()));"
    assert run(body(code), functions={"fetch": fetch}).result == [255, 0, 1]


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_one(run: Run, status: int):
    async def fetch(url: str, **_: Any) -> Any:
        return {"status": status, "headers": {}, "url": url, "text": ""}

    ran = run(
        body('const r = await fetch("https://a.example/"); return [r.status, r.body];'), functions={"fetch": fetch}
    )
    assert ran.result == [status, None]


def test_calls_that_are_made_at_once_are_all_answered(run: Run):
    async def fetch(url: str, **_: Any) -> Any:
        return {"status": 200, "headers": {}, "url": url, "text": url[-1]}

    code = 'const all = await Promise.all([1, 2, 3].map((n) => ctx.fetch("https://a.example/" + n)));'
    code += "return Promise.all(all.map((r) => r.text()));"
    ran = run(body(code), functions={"fetch": fetch})
    assert (ran.result, ran.calls) == (["1", "2", "3"], 3)


def test_files_and_the_log_are_the_hosts(run: Run):
    files: dict[str, Any] = {"a.txt": {"text": "A"}, "b": {"base64": base64.b64encode(b"\xff").decode()}}
    logged: list[str] = []

    async def read_file(path: str) -> Any:
        return files[path]

    async def write_file(path: str, content: Any) -> Any:
        files[path] = content
        return {"bytes": len(content)}

    async def log(message: str) -> None:
        logged.append(message)

    code = """
      ctx.log("begin"); await ctx.writeFile("c", "C"); await ctx.writeFile("d", new Uint8Array([255]));
      const read = [await ctx.readFile("a.txt"), Array.from(await ctx.readFile("b"))]; ctx.log(1); return read;
    """
    ran = run(body(code), functions={"read_file": read_file, "write_file": write_file, "log": log})
    assert ran.result == ["A", [255]]
    assert (files["c"], files["d"], logged) == ("C", {"base64": "/w=="}, ["begin", "1"])


def test_the_log_of_a_function_that_computes_until_its_time_is_up_has_every_line(run: Run):
    logged: list[str] = []

    async def write_file(path: str, content: Any) -> Any:
        return {"bytes": len(content)}

    async def log(message: str) -> None:
        logged.append(message)

    code = """
      ctx.log(1); ctx.log(2); const written = ctx.writeFile("a", "A"); ctx.log(3); await written; ctx.log(4);
      for (;;);
    """
    ran = run(body(code), functions={"write_file": write_file, "log": log}, seconds=1)
    assert (ran.ended, logged) == ("time", ["1", "2", "3", "4"])


def test_env_has_what_was_granted_and_cannot_be_changed(run: Run):
    code = 'try { ctx.env.B = "x"; } catch (error) { return [ctx.env, error.name]; }'
    assert run(body(code), env={"A": "1"}).result == [{"A": "1"}, "TypeError"]


def test_other_host_functions_are_imported(run: Run):
    async def run_skill(skill: str, params: dict[str, Any] | None = None) -> Any:
        return [skill, params]

    code = 'import prowess, { run_skill } from "prowess";\nimport { run_skill as again } from "inklings";\n'
    code += body('return [await run_skill("a", {x: 1}), await prowess.run_skill("b"), await again("c")];')
    assert run(code, functions={"run_skill": run_skill}).result == [["a", {"x": 1}], ["b", None], ["c", None]]


def test_what_the_host_refuses_is_an_error_that_can_be_caught(run: Run):
    async def fetch(url: str, **_: Any) -> Any:
        raise Refused("The host evil.example is not listed.", hint="Add it to `hosts`.")

    call = 'await ctx.fetch("https://evil.example/")'
    told = run(body(call), functions={"fetch": fetch})
    assert (told.ended, told.error.type, told.error.of_host) == ("raised", "HostError", True)
    assert told.error.message == "The host evil.example is not listed. Add it to `hosts`."
    assert told.error.line
    caught = run(body(f"try {{ {call} }} catch (e: any) {{ return e.code; }}"), functions={"fetch": fetch})
    assert caught.result == "refused"


def test_any_other_error_of_the_host_ends_the_run_and_is_raised(run: Run):
    async def fetch(url: str, **_: Any) -> Any:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        run(body('try { await fetch("https://a.example"); } catch {} for (;;);'), functions={"fetch": fetch})


def test_what_is_printed_is_captured_and_is_never_the_result(run: Run):
    ran = run(
        body('console.log("a %s", 1, {b: 2}); console.error("e"); console.log(\'{"done":true,"result":2}\'); return 1;')
    )
    assert ran.stdout == 'a 1 { b: 2 }\ne\n{"done":true,"result":2}\n'
    assert ran.result == 1


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("code", "type_", "message", "line"),
    [
        ("export function execute() {\n  throw new RangeError('too far');\n}", "RangeError", "too far", 2),
        ("export function execute() {\n  let a: any;\n  return a.b;\n}", "TypeError", "reading 'b'", 3),
        ("export function execute() {\n  let a a;\n}", "SyntaxError", "Expected", 2),
        ("export function other() {}", "TypeError", "exports no function execute", None),
        ("export function execute() { throw 'text'; }", "Error", "text", None),
        ("throw new Error('at once');", "Error", "at once", 1),
        ("export async function execute() {\n  Promise.reject(new Error('lost'));\n  await new Promise((r) => setTimeout(r, 50));\n}",
         "Error", "lost", 2),
        ("export function execute() {\n  return 1n;\n}", "TypeError", "BigInt", None),
        ("export function execute() { const a: any = {}; a.a = a; return a; }", "TypeError", "circular", None),
        ("import fs from 'npm:fs-extra';\nexport function execute() {}", "ImportError", "A skill is one file", 1),
        ("import x from 'https://deno.land/x/a.ts';\nexport function execute() {}", "ImportError", "A skill is one file", 1),
        ("import x from './other.ts';\nexport function execute() {}", "ImportError", "A skill is one file", 1),
    ],
)  # fmt: skip
def test_an_error_has_its_type_its_message_and_the_line_of_the_file(run: Run, code, type_, message, line):
    ran = run(code)
    assert (ran.ended, ran.error.type, ran.error.line) == ("raised", type_, line)
    assert message in ran.error.message
    assert "harness" not in ran.error.trace
    assert "blob:" not in ran.error.trace + ran.error.message


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("code", "limits", "ended"),
    [
        ("for (;;);", {"seconds": 1}, "time"),
        ("await new Promise((r) => setTimeout(r, 600_000));", {"seconds": 1}, "time"),
        ("for (;;) { try { for (;;); } catch {} finally { continue; } }", {"seconds": 1}, "time"),
        ("/(a+)+$/.test('a'.repeat(64) + 'b');", {"seconds": 1}, "time"),
        ("const a = []; for (;;) a.push({x: [a.length]});", {"memory_bytes": 64 << 20}, "memory"),
        ("const a = []; for (;;) a.push(new Array(1000).fill('x' + a.length));", {"memory_bytes": 256 << 20}, "memory"),
        ("const a = []; for (;;) a.push(new Uint8Array(1 << 24).fill(1));", {"memory_bytes": 64 << 20}, "raised"),
        ("for (;;) console.log('x'.repeat(99));", {"output_chars": 10_000}, "output"),
        ("console.log('x'.repeat(1 << 22));", {}, "output"),
        ("return 'x'.repeat(2_000);", {"result_bytes": 1_000}, "result"),
        ("let x: any = 1; for (let i = 0; i < 200; i++) x = [x]; return x;", {}, "result"),
        ("const f: any = () => f(); f();", {}, "raised"),
        ("for (;;) await fetch('https://a.example/');", {"calls": 5}, "calls"),
        ("for (;;) { ctx.log('x'); await new Promise((r) => setTimeout(r)); }", {"calls": 5}, "calls"),
        ("for (;;) ctx.log('x');", {}, "calls"),
        ("(await import('node:process')).exit(0);", {}, "crashed"),
        ("await new Promise(() => {});", {}, "crashed"),
        ("(await import('node:fs')).writeSync(1, 'no frame at all');", {}, "crashed"),
    ],
)
def test_a_limit_ends_the_function_and_is_told(run: Run, code, limits, ended):
    async def fetch(url: str, **_: Any) -> Any:
        return {"status": 200, "headers": {}, "url": url, "text": ""}

    async def log(message: str) -> None: ...

    ran = run(body(code), functions={"fetch": fetch, "log": log}, **limits)
    allowed = {"memory", "raised"} if "Uint8Array" in code else {ended}
    assert ran.ended in allowed


@pytest.mark.long
def test_waiting_for_the_host_is_not_the_functions_time(run: Run):
    async def fetch(url: str, **_: Any) -> Any:
        await asyncio.sleep(1.6)
        return {"status": 200, "headers": {}, "url": url, "text": ""}

    code = body("return (await fetch('https://a.example/')).status;")
    assert run(code, functions={"fetch": fetch}, seconds=1.5).result == 200


def test_a_cancelled_run_has_ended(run: Run):
    async def cancelled() -> None:
        begun = asyncio.Event()

        async def log(message: str) -> None:
            begun.set()

        made = script_from_function(body("ctx.log('x'); for (;;) await new Promise((r) => setTimeout(r, 1));"), {},
                           language="typescript", file="execute.ts")  # fmt: skip
        running = asyncio.ensure_future(DenoSandbox().run(made, {"log": log}))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert own_denos() == []


def test_what_confines_a_run_is_said(run: Run):
    assert {"files", "network", "privileges"} <= set(run("export const execute = () => 1;").confined)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A file with a secret, a place to write to, and a port that hears of connections."""
    (tmp_path / "canary.txt").write_text("canary-secret")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield {"file": str(tmp_path / "canary.txt"), "new": str(tmp_path / "new"), "port": listening.getsockname()[1]}
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert (tmp_path / "canary.txt").read_text() == "canary-secret"
    assert [path.name for path in tmp_path.iterdir()] == ["canary.txt"]


HOSTILE = [
    "return Deno.readTextFileSync(args.file);",
    "return await Deno.open(args.file);",
    "Deno.writeTextFileSync(args.new, 'x'); return 'wrote';",
    "return new TextDecoder().decode((await new Deno.Command('/bin/cat', { args: [args.file] }).output()).stdout);",
    "return (await Deno.connect({ port: args.port })).localAddr;",
    "return Deno.listen({ port: 0 }).addr;",
    "return Deno.dlopen('/lib/libc.so.6', {});",
    "return Deno.env.toObject();",
    "return (await Deno.permissions.request({ name: 'read' })).state === 'granted' ? 'granted' : undefined;",
    "Deno.kill(Deno.ppid, 'SIGKILL'); return 'killed';",
    "return Deno[(Deno as any).internal]?.core?.ops?.op_read_file_text_sync?.(args.file);",
    "return (await import('node:fs')).readFileSync(args.file, 'utf8');",
    "return await (await import('node:fs/promises')).readFile(args.file, 'utf8');",
    "return (await import('file://' + args.file, { with: { type: 'text' } })).default;",
    "return (await import(args.file)).default;",
    "return await (await globalThis[Symbol.for('real')]('file://' + args.file)).text();",
    "return (await import('node:module')).createRequire('file:///')(args.file);",
    "return (await import('node:fs')).readFileSync('/proc/self/environ', 'utf8').length || undefined;",
    "return (await import('node:fs')).readFileSync('/etc/passwd', 'utf8');",
    "return (await import('node:fs')).readdirSync('/');",
    "(await import('node:fs')).writeFileSync(args.new, 'x'); return 'wrote';",
    "(await import('node:fs')).symlinkSync('/', args.new); return 'linked';",
    "(await import('node:fs')).unlinkSync(args.file); return 'removed';",
    "return (await import('node:child_process')).execSync('id').toString();",
    "return (await import('node:child_process')).spawnSync('/bin/cat', [args.file]).stdout.toString() || undefined;",
    "return await new Promise((r, f) => { import('node:net').then((n) => n.connect(args.port, '127.0.0.1', () => r('in')).on('error', f)); });",
    "return await new Promise((r, f) => { const s = new WebSocket('ws://127.0.0.1:' + args.port); s.onopen = () => r('in'); s.onerror = f; });",
    "return (await new EventSource('http://127.0.0.1:' + args.port)).readyState === 1 ? 'in' : undefined;",
    "return await (await import('node:dns/promises')).lookup('localhost');",
    "return await new Promise((r, f) => { import('node:http').then((h) => h.get('http://127.0.0.1:' + args.port, r).on('error', f)); });",
    "return (await import('node:os')).hostname();",
    "return (await import('node:os')).userInfo().username;",
    "(await import('node:process')).kill((await import('node:process')).ppid, 15); return 'killed';",
    "const e = (await import('node:process')).env; return Object.keys(e).length ? e : undefined;",
    "return (await import('node:ffi')).dlopen;",
    "return new (await import('node:sqlite')).DatabaseSync(args.new).exec('create table a (b)') ?? 'made';",
    "return new Worker('data:application/javascript,1', { type: 'module' });",
    "return new ((await import('node:worker_threads')).Worker)(args.file);",
    "localStorage.setItem('a', '1'); return 'kept';",
    "await caches.open('a'); return 'kept';",
    "return await Deno.openKv();",
    "return (await import('node:vm')).runInNewContext('Deno.readTextFileSync(f)', { f: args.file });",
    "return Function('return Deno')().readTextFileSync(args.file);",
    "return Object.getPrototypeOf(async function () {}).constructor('f', 'return (await import(\"node:fs\")).readFileSync(f, \"utf8\")')(args.file);",
    "return (await import('ext:core/ops')).op_read_file_text_sync(args.file);",
    "return (await import('ext:core/mod.js')).core.ops;",
    "return (await import('node:inspector')).open(0, '127.0.0.1');",
    "return (await import('node:v8')).writeHeapSnapshot(args.new);",
    "(await import('node:process')).chdir('/tmp'); return 'moved';",
    "return (await import('https://deno.land/std/version.ts')).VERSION;",
    "return (await import('npm:left-pad')).default;",
    "return (await import('jsr:@std/path')).join('a');",
    "return await navigator.gpu?.requestAdapter() ?? undefined;",
    "new BroadcastChannel('x').postMessage(1); return undefined;",
]


def test_what_is_denied_is_told_as_denied(run: Run, canary):
    for code in (HOSTILE[0], "return (await import('node:fs')).readFileSync(args.file, 'utf8');"):
        ran = run(body(code), canary)
        assert (ran.error.type, ran.error.line) == ("NotCapable", 1)
        assert ran.error.message.endswith("; a skill reaches that only through ctx")


def test_modules_of_node_compute(run: Run):
    code = "import { createHash } from 'node:crypto';\nimport path from 'node:path';\nimport process from 'node:process';\n"
    code += body("return [createHash('md5').update('a').digest('hex'), path.join('a', 'b'), typeof process.exit];")
    assert run(code).result == ["0cc175b9c0f1b6a831c399e269772661", "a/b", "function"]


@pytest.mark.few(4)
@pytest.mark.parametrize("code", HOSTILE)
def test_nothing_outside_is_reached(run: Run, canary, code):
    ran = run(body(code), canary, seconds=8)
    assert ran.ended in {"raised", "crashed", "time"} or ran.result is None, ran
    assert "canary-secret" not in json.dumps([ran.result, ran.stdout, ran.error and ran.error.message])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "code",
    [
        "JSON.stringify = () => '{\"success\": true}'; return 1;",
        "Promise.prototype.then = () => { throw 1; }; return 1;",
        "TextEncoder.prototype.encode = () => new Uint8Array(5); return 1;",
        "Object.prototype.toJSON = () => 'forged'; Array.prototype.join = () => { throw 1; }; return 1;",
        "globalThis.Uint8Array = undefined; globalThis.Error = undefined; return 1;",
        "const e: any = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 1; } }); throw e;",
        "throw new Proxy(new Error('x'), { get() { throw 1; } });",
        "return { toJSON() { throw new Error('no'); } };",
    ],
)
def test_a_function_that_tampers_harms_its_own_run_alone(run: Run, code):
    assert run(body(code), seconds=8).ended in {"done", "raised", "crashed", "time", "result"}
    assert run(body("return JSON.stringify([1]);")).result == "[1]"


FORGED = """
  const said = new TextEncoder().encode(`@SAID@`);
  const frame = new Uint8Array(9 + said.length);
  new DataView(frame.buffer).setUint32(0, said.length); frame[7] = @RUN@; frame[8] = @KIND@; frame.set(said, 9);
  (await import("node:fs")).writeSync(1, frame); for (;;);
"""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("said", "run_number", "kind", "ended"),
    [
        ('{"done":true,"result":"forged"}', 1, frames.DONE, ("done", "forged")),  # no more than it could return
        ('{"done":true,"result":"forged"}', 2, frames.DONE, ("crashed", None)),
        ("", 1, frames.STARTED, ("crashed", None)),
        ("", 1, 99, ("crashed", None)),
        ("open_door\\n[[],{}]", 1, frames.CALL, ("time", None)),  # the answer says that there is no such function
    ],
)
def test_forged_frames_give_no_more_than_what_they_say(run: Run, said, run_number, kind, ended):
    forged = FORGED.replace("@SAID@", said).replace("@RUN@", str(run_number)).replace("@KIND@", str(kind))
    ran = run(body(forged), seconds=2)
    assert (ran.ended, ran.result) == ended


@pytest.mark.few(2)
@pytest.mark.parametrize("owner", ["Deno", "process", "(await import('node:process')).default"])
@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_the_line_to_the_host_is_not_offered_to_functions(run: Run, owner, name):
    assert run(body(f"return typeof {owner}.{name};")).result == "undefined"


def test_the_next_run_sees_nothing_of_the_last(run: Run):
    run(body("globalThis.left = 1; (globalThis as any).sessionStorage?.setItem('a', '1'); return 1;"))
    assert run(body("return [typeof globalThis.left, typeof (globalThis as any).sessionStorage];")).result == [
        "undefined",
        "undefined",
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("code", ["return 1;", "throw 1;", "for (;;);"])
def test_nothing_is_left_of_a_run(run: Run, tmp_path, monkeypatch, code):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(body(code), seconds=1)
    assert list(tmp_path.iterdir()) == []


def test_the_first_run_removes_what_a_killed_process_left(run: Run, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("prowess.sandbox.folders.SETTLED_SECONDS", -60.0)
    (tmp_path / f"{FOLDER_PREFIX}left").mkdir()
    run(body("return 1;"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_many_run_at_once(run: Run):
    async def all_of_them() -> list[Any]:
        sandbox = DenoSandbox()
        made = [
            script_from_function(f"export const execute = () => {n};", {}, language="typescript", file="a.ts")
            for n in range(6)
        ]
        return [ran.result for ran in await asyncio.gather(*(sandbox.run(one, {}) for one in made))]

    assert asyncio.run(all_of_them()) == list(range(6))


def test_without_deno_the_error_says_how_to_install_it(run: Run, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "deno", None)
    with pytest.raises(Unavailable) as caught:
        run("export const execute = () => 1;")
    assert "prowess[typescript]" in caught.value.hint


def test_a_program_that_is_no_deno_is_unavailable(tmp_path):
    script = script_from_function("export const execute = () => 1;", {}, language="typescript", file="a.ts")
    with pytest.raises(Unavailable):
        asyncio.run(DenoSandbox(program=tmp_path / "none").run(script, {}))


def test_the_function_of_the_page_runs(run: Run):
    asked: list[str] = []
    logged: list[str] = []

    async def fetch(url: str, **_: Any) -> Any:
        asked.append(url)
        return {"status": 200, "headers": {}, "url": url, "text": "[1]"}

    async def log(message: str) -> None:
        logged.append(message)

    code = PAGE.split("```typescript\n")[1].split("```")[0]
    ran = run(code, {"word": "a b"}, {"fetch": fetch, "log": log})
    assert ran.result == {"success": True, "result": [1]}
    assert (asked, logged) == (["https://api.example.com/v1/words?q=a%20b"], ["answered with 200"])


def test_the_page_tells_of_every_part_of_the_context():
    declared = re.findall(r"^  (?:readonly )?(\w+)[(:]", (TYPES / "skill-runtime.d.ts").read_text(), re.MULTILINE)
    context = [name for name in declared if name not in {"success", "result", "error"}]
    assert context == ["fetch", "env", "readFile", "writeFile", "log"]
    assert all(f"| `{name}" in PAGE for name in context)


def test_every_function_of_the_host_has_its_type():
    declared = re.findall(r"^export function (\w+)", (TYPES / "prowess.d.ts").read_text(), re.MULTILINE)
    assert sorted(set(declared)) == sorted(HOST_FUNCTION_NAMES)


@pytest.mark.long
def test_the_types_fit_the_printed_function(tmp_path):
    code = """
import type { SkillContext, SkillResult } from "@devai/skill-runtime";
import { llm_query } from "prowess";

export async function execute(args: Record<string, unknown>, ctx: SkillContext): Promise<SkillResult> {
  const response = await ctx.fetch("https://a.example/", { headers: { A: `Bearer ${ctx.env.KEY}` } });
  ctx.log(await llm_query(String(args.prompt)));
  return { success: response.ok, result: { url: (await response.json()).data[0].url } };
}
"""
    (tmp_path / "execute.ts").write_text(code)
    names = {"@devai/skill-runtime": "skill-runtime.d.ts", "prowess": "prowess.d.ts"}
    imports = {name: (TYPES / file).as_uri() for name, file in names.items()}
    (tmp_path / "imports.json").write_text(json.dumps({"imports": imports}))
    checked = subprocess.run(
        [
            str(find_deno()),
            "check",
            "--no-config",
            "--no-lock",
            "--no-remote",
            "--import-map=imports.json",
            "execute.ts",
        ],
        cwd=tmp_path,
        env={"DENO_DIR": str(tmp_path / "deno"), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
