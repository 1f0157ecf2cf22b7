"""function: `execute(args, ctx)` in the WASM sandbox, with its context served from outside; what it returns is the output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from prowess.errors import Invalid, OutputInvalid, Refused, RunFailed, TimedOut, TryLater, Unavailable
from prowess.handlers.function import FunctionHandler, choose_runtime
from prowess.handlers.host_functions import HostModule, SkillCalls
from prowess.net.request import HttpRequest, HttpResponse
from prowess.net.target import parse_target
from prowess.policy.grants import Grants
from prowess.run.call import Call
from prowess.sandbox.confine.lockdown import NEEDED, probe_confinement
from prowess.sandbox.process.sandbox import ProcessSandbox
from prowess.sandbox.protocol import ScriptOutcome
from prowess.sandbox.roots import Root
from prowess.sandbox.wasm.sandbox import WasmSandbox
from prowess.skill.kinds import Function, Instructions
from prowess.skill.needs import Needs
from prowess.skill.package import FileEntry
from prowess.workspace.workspace import Workspace

KEY = "sk-0123456789abcdef"


class Fruit:
    """A host that has fruit, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.error: Exception | None = None
        self.waiting: asyncio.Event | None = None

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if self.waiting:
            await self.waiting.wait()
        if self.error:
            assert request.witness is not None
            request.witness.refuse("hosts", parse_target(request.url).shown)
            raise self.error
        body = json.dumps({"fruit": ["apple", "pear"]}).encode()
        return HttpResponse(
            status=200, headers={"content-type": "application/json"}, body=body, url=request.url, hops=("fruit.org",)
        )


class Recording:
    """A sandbox that runs nothing, and keeps what it was asked to run."""

    def __init__(self) -> None:
        self.scripts = []

    async def run(self, script, functions, limits=None) -> ScriptOutcome:  # noqa: ARG002  (as all sandboxes are asked)
        self.scripts.append(script)
        return ScriptOutcome(ended="done", submitted=True, result="ran", confined=("files", "calls"))

    async def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def sandbox(sandbox_home: Path) -> Iterator[WasmSandbox]:
    opened = WasmSandbox(sandbox_home)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def native() -> Iterator[ProcessSandbox]:
    """The sandbox of processes, where the system can confine them."""
    if not set(NEEDED) <= set(probe_confinement()):
        pytest.skip("processes cannot be confined here")
    opened = ProcessSandbox()
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def outbound() -> Fruit:
    return Fruit()


@pytest.fixture
def run(sandbox, model_client, call_of, outbound, tmp_path):
    """What a function gives, as an output; `call` is the call that it was made by."""

    def ran(code, inputs=None, *, grants=None, sandboxes=None, function=None, others=(), call=None, **settings):
        async def grants_of(_: Call) -> Grants:
            return grants or Grants()

        skills = settings.pop("run_skill", None)
        handler = FunctionHandler(
            sandboxes=sandboxes or {"wasm": sandbox},
            outbound=outbound,
            grants_of=grants_of,
            provision=lambda requirements: tmp_path / "-".join(requirements),
            host=HostModule(model_client, Workspace(tmp_path), skills and SkillCalls(run=skills)),
        )
        artifact = Function(name="execute", path="execute.py", content=code, **(function or {}))
        made = call_of(artifact, inputs or {}, *others, **settings)
        if call is not None:
            call.append(made)
        return asyncio.run(handler.run(made))

    return ran


def test_what_a_function_returns_is_the_output(run):
    output = run("def execute(args, ctx):\n    return {'n': args['n'] + 1}", {"n": 1})
    assert (output.kind, output.data, json.loads(output.text)) == ("function", {"n": 2}, {"n": 2})
    assert output.result["success"] is True
    assert output.result["runtime"] == "wasm"
    assert isinstance(output.result["confined"], list)


@pytest.mark.parametrize(
    ("returned", "data", "text"),
    [
        ("'a text'", "a text", "a text"),
        ("None", None, ""),
        ("[1, 2]", [1, 2], "[\n  1,\n  2\n]"),
        ("0", 0, "0"),
        ("{'success': True, 'result': {'a': 1}}", {"a": 1}, '{\n  "a": 1\n}'),
        ("{'success': True, 'result': None}", None, ""),
        ("{'success': True}", None, ""),
        ("{'success': True, 'url': 'x'}", {"url": "x"}, '{\n  "url": "x"\n}'),
        ("{'success': 'very'}", {"success": "very"}, '{\n  "success": "very"\n}'),
    ],
)
def test_a_result_is_what_is_returned_or_what_it_says_is_the_result(run, returned, data, text):
    output = run(f"def execute(args, ctx):\n    return {returned}")
    assert (output.data, output.text) == (data, text)


def test_a_function_may_be_async_and_await_what_its_context_gives(run, outbound):
    code = """
from prowess.skillkit import SkillContext, SkillResult

async def execute(args: dict, ctx: SkillContext) -> SkillResult:
    answer = await ctx.fetch("https://fruit.org/all", method="POST", body={"q": args["q"]})
    await ctx.write_file("a.txt", "apple")
    await ctx.log("asked")
    return {"success": answer.ok, "result": [answer.json()["fruit"], await ctx.read_file("a.txt")]}
"""
    output = run(code, {"q": 1}, grants=Grants(hosts=("fruit.org",)))
    assert output.data == [["apple", "pear"], "apple"]
    assert output.result["log"] == ["asked"]
    assert (outbound.requests[0].method, outbound.requests[0].body) == ("POST", b'{"q": 1}')


def test_arguments_are_held_to_the_parameters_and_have_their_defaults(run):
    parameters = {
        "type": "object",
        "properties": {"prompt": {"type": "string"}, "size": {"type": "string", "default": "1024x1024"}},
        "required": ["prompt"],
    }
    code = "def execute(args, ctx):\n    return args"
    skill = {"parameters": parameters}
    assert run(code, {"prompt": "A cat"}, skill=skill).data == {"prompt": "A cat", "size": "1024x1024"}
    with pytest.raises(Invalid, match="prompt"):
        run(code, {}, skill=skill)


def test_the_code_is_taken_as_it_is(run):
    assert run("def execute(args, ctx):\n    return '{{ name }}'", {"name": "Ann"}).data == "{{ name }}"


def test_another_function_of_the_file_may_be_named(run):
    code = "def execute(args, ctx):\n    return 1\ndef other(args, ctx):\n    return 2"
    assert run(code, function={"handler": "other"}).data == 2


@pytest.mark.parametrize("code", ["x = 1", "execute = 1", "def execute(): ...", "def execute(a, b, c): ..."])
def test_a_file_without_such_a_function_says_so(run, code):
    with pytest.raises(RunFailed, match="execute"):
        run(code)


def test_an_error_is_told_by_its_line_and_what_was_printed_and_logged_is_noted(run):
    calls: list[Call] = []
    code = "def execute(args, ctx):\n    print('so far')\n    ctx.log('one')\n    raise ValueError('no such thing')"
    with pytest.raises(RunFailed) as caught:
        run(code, call=calls)
    assert caught.value.message == "In line 4 of the function 'execute.py': ValueError: no such thing"
    notes = calls[0].notes
    assert (notes.raw, notes.detail["log"], notes.detail["sandbox"]["ended"]) == ("so far\n", ["one"], "raised")


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("{'success': False, 'error': 'No such size.'}", "No such size."),
        ("{'success': False, 'error': {'code': 7}}", '{"code": 7}'),
        ("{'success': False}", "reported a failure without a reason"),
        ("{'success': False, 'error': 'x' * 9999}", "xxxx"),
    ],
)
def test_a_function_that_says_it_failed_has_failed(run, returned, words):
    with pytest.raises(RunFailed) as caught:
        run(f"def execute(args, ctx):\n    return {returned}")
    assert words in caught.value.message
    assert len(caught.value.message) <= 4_000


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 'a' * (1 << 30)", "memory limit of"),
        ("while True: print('x' * 99)", "output limit of"),
        ("return 'x' * (2 << 20)", "returned an invalid result"),
        ("return object()", "JSON"),
        ("while True: ctx.log('x')", "limit of 1,000 host calls"),
        ("import os; os._exit(0)", "wasi:cli/exit"),
        ("raise SystemExit(0)", "SystemExit"),
        ("return execute(args, ctx)", "RecursionError"),
    ],
)
def test_a_function_that_misbehaves_fails_and_the_next_run_does_not_notice(run, body, words):
    with pytest.raises(RunFailed, match=words):
        run(f"def execute(args, ctx):\n    {body}")
    assert run("def execute(args, ctx):\n    return 1").data == 1


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "\n    while True:\n     try: 1/0\n     except BaseException: pass",
    ],
)
def test_time_that_is_over_is_told_as_such_whatever_is_caught(run, body):
    with pytest.raises(TimedOut, match=r"0\.3 s"):
        run(f"def execute(args, ctx):\n    {body}", function={"timeout_seconds": 0.3})


def test_waiting_for_a_host_counts_as_time_of_the_function(run, outbound):
    outbound.waiting = asyncio.Event()
    calls: list[Call] = []
    code = "def execute(args, ctx):\n    ctx.log('asks')\n    ctx.fetch('https://fruit.org/')"
    with pytest.raises(TimedOut, match=r"'execute.py' timed out after 0\.3 s"):
        run(code, function={"timeout_seconds": 0.3}, call=calls)
    assert calls[0].notes.detail["log"] == ["asks"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_invalid(run, seconds):
    with pytest.raises(Invalid):
        run("def execute(args, ctx): ...", function={"timeout_seconds": seconds})


def test_a_host_that_may_not_be_asked_is_the_error_of_the_run(run, outbound):
    outbound.error = Refused("evil.org may not be asked.")
    calls: list[Call] = []
    with pytest.raises(Refused, match=r"evil\.org") as caught:
        run("def execute(args, ctx):\n    ctx.fetch('https://evil.org/')", call=calls)
    assert 'hosts: ["evil.org"]' in caught.value.hint
    assert calls[0].notes.receipt.as_json()["refused"] == {"hosts": {"evil.org": 1}}


def test_a_host_out_of_reach_makes_the_run_unavailable_so_that_a_fallback_serves(run, outbound):
    outbound.error = TryLater("fruit.org does not answer.")
    with pytest.raises(Unavailable):
        run("def execute(args, ctx):\n    return ctx.fetch('https://fruit.org/').text()")


def test_a_refusal_can_be_caught(run, outbound):
    outbound.error = Refused("evil.org may not be asked.")
    code = """
import prowess
def execute(args, ctx):
    try:
        ctx.fetch('https://evil.org/')
    except prowess.HostError as error:
        return {"success": False, "error": error.code}
"""
    with pytest.raises(RunFailed) as caught:
        run(code)
    assert caught.value.message == "refused"


def test_the_environment_is_what_was_given_and_is_on_the_receipt(run):
    calls: list[Call] = []
    code = "def execute(args, ctx):\n    return sorted(ctx.env)"
    skill = {"extra": {"env": ["API_KEY", "OTHER"]}}
    output = run(code, grants=Grants(env={"API_KEY": KEY}), skill=skill, call=calls)
    assert output.data == ["API_KEY"]
    told = calls[0].notes.receipt.as_json()
    assert (told["touched"], told["refused"]) == ({"env": {"API_KEY": 1}}, {"env": {"OTHER": 1}})


def test_the_environment_cannot_be_changed(run):
    with pytest.raises(RunFailed, match="TypeError"):
        run("def execute(args, ctx):\n    ctx.env['A'] = 'b'", grants=Grants(env={"API_KEY": KEY}))


def test_a_secret_is_in_no_result_log_output_error_or_note(run):
    calls: list[Call] = []
    code = """
import base64
def execute(args, ctx):
    key = ctx.env["API_KEY"]
    print(key, base64.b64encode(key.encode()).decode())
    ctx.log("the key is " + key)
    if args.get("fails"):
        raise ValueError(key)
    return {"success": not args.get("says"), "result": {"key": [key]}, "error": key}
"""
    grants = Grants(env={"API_KEY": KEY})
    output = run(code, grants=grants, call=calls)
    assert output.data == {"key": ["[redacted]"]}
    told = [str(output), str(calls[0].notes.detail), calls[0].notes.raw, calls[0].notes.rendered]
    for inputs in ({"fails": True}, {"says": True}):
        with pytest.raises(RunFailed) as caught:
            run(code, inputs, grants=grants, call=calls)
        told += [str(caught.value), caught.value.message, caught.value.hint, str(calls[-1].notes)]
    assert not [text for text in told if KEY in text]


def test_why_a_value_is_missing_is_the_hint_of_the_error(run):
    grants = Grants(denied={"API_KEY": "Nobody allowed it: `prowess env allow checker API_KEY`."})
    with pytest.raises(RunFailed, match="KeyError") as caught:
        run(
            "def execute(args, ctx):\n    return ctx.env['API_KEY']",
            grants=grants,
            skill={"extra": {"env": ["API_KEY"]}},
        )
    assert caught.value.hint == "Nobody allowed it: `prowess env allow checker API_KEY`."


def test_files_are_those_of_given_folders_and_of_the_run(run, tmp_path):
    folder = tmp_path.resolve() / "data"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"\xff")
    code = """
def execute(args, ctx):
    ctx.write_file("data/b.txt", "pear")
    ctx.write_file("c.bin", b"\\x00\\xff")
    return [list(ctx.read_file("data/a.bin")), list(ctx.read_file("c.bin"))]
"""
    calls: list[Call] = []
    grants = Grants(roots=(Root(name="data", path=folder, writable=True),))
    assert run(code, grants=grants, call=calls).data == [[255], [0, 255]]
    assert (folder / "b.txt").read_text() == "pear"
    touched = calls[0].notes.receipt.as_json()["touched"]
    assert touched == {"written": {"data/b.txt": 1}, "read": {"data/a.bin": 1}}


def test_nothing_of_one_run_is_there_in_the_next(run):
    run("def execute(args, ctx):\n    ctx.write_file('left.txt', 'x')\n    import json\n    json.left = 1")
    code = (
        "import json, prowess\ndef execute(args, ctx):\n    return [hasattr(json, 'left'), ctx.read_file('left.txt')]"
    )
    with pytest.raises(RunFailed, match=r"File 'left\.txt' not found"):
        run(code)


def test_a_function_may_run_other_skills_as_a_script_may(run):
    async def run_skill(call, slug, params):
        return {"slug": slug, "params": dict(params)}

    calls: list[Call] = []
    code = "import prowess\ndef execute(args, ctx):\n    return prowess.run_skill('other.one', {'a': 1})"
    assert run(code, run_skill=run_skill, call=calls, trust="local").data == {"slug": "other.one", "params": {"a": 1}}
    assert calls[0].notes.receipt.as_json()["touched"] == {"skills": {"other.one": 1}}


@pytest.mark.parametrize("allowed", [["run_skill"], ["Read", "skill_*"], ["skill_other_one"]])
def test_a_skill_that_says_which_tools_it_uses_runs_those(run, allowed):
    async def run_skill(call, slug, params):
        return slug

    code = "import prowess\ndef execute(args, ctx):\n    return prowess.run_skill('other.one')"
    assert run(code, run_skill=run_skill, skill={"allowed_tools": allowed}).data == "other.one"


def test_a_skill_that_says_which_tools_it_uses_runs_no_others(run):
    ran: list[str] = []

    async def run_skill(call, slug, params):
        ran.append(slug)

    calls: list[Call] = []
    code = "import prowess\ndef execute(args, ctx):\n    return prowess.run_skill('other.one')"
    with pytest.raises(Refused, match=r"other\.one") as caught:
        run(code, run_skill=run_skill, skill={"allowed_tools": ["Read", "skill_other_two"]}, call=calls)
    assert "skill_other_one" in caught.value.hint
    assert calls[0].notes.receipt.as_json()["refused"] == {"skills": {"other.one": 1}}
    assert ran == []


def test_a_result_is_held_to_the_output_schema_of_the_skill(run):
    skill = {"output_schema": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}}
    code = "def execute(args, ctx):\n    return {'success': True, 'result': {'url': args['url']}}"
    assert run(code, {"url": "x"}, skill=skill).data == {"url": "x"}
    with pytest.raises(OutputInvalid, match="url") as caught:
        run(code, {"url": 1}, skill=skill)
    assert [problem.field for problem in caught.value.problems] == ["/url"]


@pytest.mark.parametrize(
    ("imported", "extra", "hint"),
    [
        (
            "numpy",
            {},
            "The package 'numpy' is not installed. Add `runtime: native` and `requirements: [\"numpy\"]` to the manifest.",
        ),
        ("yaml", {"requirements": ["tqdm>=4"]}, '`runtime: native` and `requirements: ["tqdm>=4", "PyYAML"]`'),
        (
            "humanize",
            {"requirements": ["Humanize>=4"]},
            "only installed for the native runtime. Add `runtime: native` to the",
        ),
        ("requests.auth", {}, "or use ctx.fetch"),
        ("sqlite3", {}, "'sqlite3' is not available in the sandbox: remove the import, or add `runtime: native`"),
        ("ssl", {}, "'ssl' is not available in the sandbox: use ctx.fetch instead"),
        ("lib", {}, "A function is a single file"),
    ],
)
def test_what_to_add_for_an_import_is_told(run, imported, extra, hint):
    files = (FileEntry(path="lib.py", sha256="0" * 64, size=1, mode=0o644),)
    with pytest.raises(RunFailed) as caught:
        run(f"import {imported}\ndef execute(args, ctx): ...", skill={"extra": extra, "manifest": files})
    assert hint in caught.value.hint


def test_a_native_function_runs_in_a_process_with_its_packages(run, tmp_path):
    native, calls = Recording(), []
    skill = {"extra": {"runtime": "native", "requirements": ["numpy", "tqdm"]}}
    output = run("def execute(args, ctx): ...", sandboxes={"native": native}, skill=skill, call=calls)
    assert (output.text, output.result["runtime"], output.result["confined"]) == ("ran", "native", ["files", "calls"])
    assert native.scripts[0].packages == tmp_path / "numpy-tqdm"
    assert calls[0].notes.receipt.as_json()["touched"] == {"packages": {"numpy": 1, "tqdm": 1}}


def test_a_native_function_has_the_same_context_and_says_how_it_was_confined(run, native, tmp_path):
    code = """
from prowess.skillkit import SkillContext

async def execute(args, ctx: SkillContext):
    await ctx.write_file("a.bin", bytes([0, 255]))
    answer = await ctx.fetch("https://fruit.org/all")
    ctx.log(ctx.env["MODEL"])
    try:
        open(args["path"]).read()
    except OSError as error:
        return [list(await ctx.read_file("a.bin")), answer.json()["fruit"], type(error).__name__]
"""
    (tmp_path / "canary").write_text("canary")
    output = run(
        code,
        {"path": str(tmp_path / "canary")},
        sandboxes={"native": native},
        skill={"extra": {"runtime": "native"}},
        grants=Grants(hosts=("fruit.org",), env={"MODEL": "xl"}),
    )
    assert output.data == [[0, 255], ["apple", "pear"], "PermissionError"]
    assert (output.result["log"], output.result["runtime"]) == (["xl"], "native")
    assert {"files", "calls"} <= set(output.result["confined"])


@pytest.mark.parametrize(
    ("language", "runtime", "expected"),
    [
        ("python", "wasm", "wasm"),
        ("python", "native", "native"),
        ("typescript", "wasm", "deno"),
        ("javascript", "native", "deno"),
    ],
)
def test_the_language_and_the_needs_decide_what_runs_a_function(language, runtime, expected):
    function = Function(name="execute", content="x", language=language)
    assert choose_runtime(function, Needs(runtime=runtime)) == expected


def test_a_runtime_that_is_not_there_makes_the_run_unavailable(run):
    with pytest.raises(Unavailable, match="deno"):
        run("export function execute() {}", function={"language": "typescript"})


def test_a_function_that_is_only_named_is_unavailable(run):
    with pytest.raises(Unavailable, match="does not contain it") as caught:
        run("", function={"handler": "skills/other"})
    assert "execute.py" in caught.value.hint


def test_a_name_that_no_function_can_have_is_invalid(run):
    with pytest.raises(Invalid, match="Invalid function name"):
        run("x = 1", function={"handler": "__import__('os')"})


def test_another_kind_is_no_function(call_of, model_client, sandbox, outbound, tmp_path):
    async def grants_of(_: Call) -> Grants:
        return Grants()

    handler = FunctionHandler(
        sandboxes={"wasm": sandbox},
        outbound=outbound,
        grants_of=grants_of,
        provision=lambda _: tmp_path,
        host=HostModule(model_client, Workspace(tmp_path)),
    )
    with pytest.raises(Invalid, match="not a function"):
        asyncio.run(handler.run(call_of(Instructions(name="body", content="x"), {})))
