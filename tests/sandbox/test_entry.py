"""Functions: what they are called with, what they can reach through their context, and what is told about their end."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import Refused
from prowess.sandbox.protocol import ScriptOutcome
from prowess.sandbox.script import script_from_function
from prowess.sandbox.wasm.sandbox import WasmSandbox

PICTURE = b"\x89PNG\xff\x00"


class World:
    """What lies outside: a host that says back what it is asked, files, and a log."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {
            "note.txt": {"text": "née"},
            "a.png": {"base64": base64.b64encode(PICTURE).decode()},
        }
        self.logged: list[str] = []

    async def fetch(self, url: str, method: str = "GET", headers: dict | None = None, body: Any = None) -> dict:
        if "secret" in url:
            raise Refused("This skill may not reach secret.example.", hint="Add it to `hosts`.")
        told = {"status": 200 if method == "GET" else 201, "headers": {"content-type": "text/x"}, "url": url}
        if url.endswith(".png"):
            return {**told, "base64": base64.b64encode(PICTURE).decode()}
        return {**told, "text": json.dumps({"method": method, "headers": headers, "body": body})}

    async def read_file(self, path: str) -> dict:
        return self.files[path]

    async def write_file(self, path: str, content: Any) -> dict:
        self.files[path] = {"text": content} if isinstance(content, str) else content
        return {"bytes": len(content) if isinstance(content, str) else len(base64.b64decode(content["base64"]))}

    async def log(self, message: str) -> None:
        self.logged.append(message)

    async def get_page(self, slug: str) -> str:
        return f"about {slug}"

    def functions(self) -> dict[str, Any]:
        names = ("fetch", "read_file", "write_file", "log", "get_page")
        return {name: getattr(self, name) for name in names}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def call(sandbox: WasmSandbox, world: World) -> Callable[..., ScriptOutcome]:
    """What comes of a function that is called with arguments."""

    def called(code: str, inputs: dict[str, Any] | None = None, **more: Any) -> ScriptOutcome:
        return asyncio.run(sandbox.run(script_from_function(code, inputs or {}, **more), world.functions()))

    return called


def test_what_a_function_returns_is_its_result(call):
    ran = call("def execute(args, ctx):\n    return {'sum': args['a'] + args['b']}", {"a": 1, "b": 2})
    assert (ran.ended, ran.submitted, ran.result) == ("done", True, {"sum": 3})


def test_a_function_may_be_a_coroutine_that_awaits_others(call):
    code = """
import asyncio
async def twice(n):
    await asyncio.sleep(0.001)
    return 2 * n
async def execute(args, ctx):
    return await asyncio.gather(twice(args["n"]), twice(4))
"""
    assert call(code, {"n": 3}).result == [6, 8]


def test_a_function_that_returns_nothing_gives_null(call):
    ran = call("def execute(args, ctx): pass")
    assert (ran.submitted, ran.result) == (True, None)


def test_another_function_can_be_named(call):
    assert call("def go(args, ctx): return 1", entry="go").result == 1


def test_a_callable_that_is_no_function_can_be_called_too(call):
    assert call("class Go:\n    def __call__(self, args, ctx): return 1\nexecute = Go()").result == 1


def test_the_file_is_run_as_a_module_and_not_as_the_main_program(call):
    code = "name = __name__\nif name == '__main__': raise ValueError\nimport sys\ndef execute(args, ctx): return [name, sys.modules[name].execute is execute, sys.argv]"
    assert call(code, file="lib/execute.py").result == ["skill", True, ["lib/execute.py"]]


def test_arguments_are_no_variables_of_the_file(call):
    ran = call("def execute(args, ctx): return ['n' in globals(), 'inputs' in globals()]", {"n": 1})
    assert ran.result == [False, False]


def test_the_text_of_a_function_is_taken_as_it_is(call):
    assert call("def execute(args, ctx): return '{{ n }}'", {"n": 1}).result == "{{ n }}"


@pytest.mark.parametrize("word", ["", "await "], ids=["plain", "awaited"])
def test_the_context_reaches_hosts_files_and_the_log(call, world, word):
    code = f"""
{"async " if word else ""}def execute(args, ctx):
    page = {word}ctx.fetch("https://api.example/x", method="POST", headers={{"X-Key": ctx.env["KEY"]}}, body={{"q": [1]}})
    size = {word}ctx.write_file("out.txt", "né" + {word}ctx.read_file("note.txt"))
    nothing = {word}ctx.log("went " + page.url)
    return [page.status, page.ok, page.headers["Content-Type"], page.json(), size]
"""
    ran = call(code, env={"KEY": "k"})
    told = {"method": "POST", "headers": {"X-Key": "k"}, "body": {"q": [1]}}
    assert ran.result == [201, True, "text/x", told, 5]
    assert world.files["out.txt"] == {"text": "nénée"}
    assert world.logged == ["went https://api.example/x"]
    assert ran.calls == 4


def test_bytes_travel_both_ways(call, world):
    code = """
def execute(args, ctx):
    picture = ctx.fetch("https://api.example/a.png").content
    sent = ctx.fetch("https://api.example/x", body=picture).json()["body"]
    return [picture == ctx.read_file("a.png"), ctx.write_file("b.png", picture), sent]
"""
    sent = {"base64": base64.b64encode(PICTURE).decode()}
    assert call(code).result == [True, len(PICTURE), sent]
    assert world.files["b.png"] == sent


def test_env_can_be_read_and_not_changed(call):
    code = "def execute(args, ctx):\n    try: ctx.env['A'] = '2'\n    except TypeError: return dict(ctx.env)"
    assert call(code, env={"A": "1"}).result == {"A": "1"}


def test_other_host_functions_are_in_the_module_and_those_of_the_context_are_not(call):
    code = "import prowess, inklings\ndef execute(args, ctx):\n    return [inklings.get_page('a'), hasattr(prowess, 'fetch'), hasattr(ctx, 'get_page')]"
    assert call(code).result == ["about a", False, False]


def test_the_types_for_authors_can_be_imported(call):
    code = """
import prowess.skillkit
from prowess.skillkit import Response, SkillContext, SkillResult
def execute(args: dict, ctx: SkillContext) -> SkillResult:
    return {"success": prowess.skillkit.SkillContext is SkillContext}
"""
    assert call(code).result == {"success": True}


def test_what_a_host_refuses_can_be_caught(call):
    code = "import prowess\ndef execute(args, ctx):\n    try: ctx.fetch('https://secret.example')\n    except prowess.HostError as e: return [str(e), e.code]"
    assert call(code).result == ["This skill may not reach secret.example. Add it to `hosts`.", "refused"]


def test_what_a_host_refuses_and_nobody_catches_is_an_error_of_the_host_at_its_line(call):
    ran = call("def execute(args, ctx):\n    x = 1\n    ctx.fetch('https://secret.example')")
    assert (ran.ended, ran.error.of_host, ran.error.type, ran.error.line) == ("raised", True, "HostError", 3)


@pytest.mark.parametrize("word", ["", "async "], ids=["def", "async def"])
def test_an_error_has_the_line_of_the_file_and_its_name_in_the_trace(call, word):
    ran = call(
        f"def deep(x):\n    return 1 / x\n\n{word}def execute(args, ctx):\n    return deep(0)", file="src/execute.py"
    )
    assert (ran.ended, ran.error.type, ran.error.line) == ("raised", "ZeroDivisionError", 2)
    assert 'File "src/execute.py", line 5, in execute\n    return deep(0)' in ran.error.trace
    assert "asyncio" not in ran.error.trace


def test_an_error_while_the_file_is_loaded_has_its_line(call):
    ran = call("import json\nimport requests\ndef execute(args, ctx): pass")
    assert (ran.ended, ran.error.type, ran.error.line) == ("raised", "ModuleNotFoundError", 2)
    assert "requests" in ran.error.message


def test_a_file_that_cannot_be_parsed_says_where(call):
    ran = call("def execute(args, ctx):\n    return (\n\nx = 1")
    assert (ran.error.type, ran.error.line) == ("SyntaxError", 2)


@pytest.mark.parametrize("code", ["def other(args, ctx): pass", "execute = 3"], ids=["missing", "no function"])
def test_a_file_without_the_function_says_so(call, code):
    ran = call(code, file="execute.py")
    assert (ran.ended, ran.error.type) == ("raised", "NameError")
    assert ran.error.message == "execute.py has no function execute(args, ctx)."


@pytest.mark.parametrize("parameters", ["", "args", "args, ctx, more", "*, args, ctx"])
def test_a_function_that_takes_something_else_says_so_at_its_line(call, parameters):
    ran = call(f"x = 1\ndef execute({parameters}): return 1")
    assert (ran.ended, ran.error.type, ran.error.line) == ("raised", "TypeError", 2)
    assert ran.error.message == f"execute({parameters}) must accept the arguments (args, ctx)."


@pytest.mark.parametrize("parameters", ["a, b", "*args", "args, ctx, more=1", "args, ctx, /"])
def test_a_function_may_call_its_parameters_what_it_likes(call, parameters):
    assert call(f"def execute({parameters}): return 1").result == 1


@pytest.mark.parametrize(
    "value", ["{1, 2}", "object()", "float('nan')", "{(1,): 2}", "b'x'", "ctx.fetch('https://api.example')"]
)
def test_a_result_that_json_cannot_say_is_an_error_at_the_function(call, value):
    ran = call(f"\n\nasync def execute(args, ctx): return {value}")
    assert (ran.ended, ran.error.type, ran.error.line) == ("raised", "TypeError", 3)
    assert ran.error.message.startswith("It returned a value that is not JSON")


def test_a_result_that_never_ends_is_an_error(call):
    ran = call("def execute(args, ctx):\n    a = []\n    a.append(a)\n    return a")
    assert (ran.ended, ran.error.line) == ("raised", 1)


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "sys.exit('no')", "raise SystemExit(3)"])
def test_a_function_that_ends_itself_has_no_result(call, end):
    ran = call(f"import sys\ndef execute(args, ctx):\n    {end}")
    assert (ran.ended, ran.error.type, ran.error.line, ran.submitted) == ("raised", "SystemExit", 3, False)


def test_what_is_printed_is_kept_and_is_no_result(call):
    ran = call("""print('loaded')\ndef execute(args, ctx):\n    print('{"result": 2}')\n    return 1""")
    assert (ran.stdout, ran.result) == ('loaded\n{"result": 2}\n', 1)


def test_nothing_of_a_call_is_left_for_the_next(call):
    code = "import json\ndef execute(args, ctx):\n    seen = getattr(json, 'seen', 0)\n    json.seen = seen + 1\n    return json.seen"
    assert [call(code).result for _ in range(3)] == [1, 1, 1]


def test_a_seed_gives_the_same_random_numbers_and_no_seed_gives_others(sandbox):
    script = script_from_function("import random\ndef execute(args, ctx): return random.random()", {})
    drawn = [asyncio.run(sandbox.run(replace(script, seed=seed), {})).result for seed in ("a", "a", "b", "", "")]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4
