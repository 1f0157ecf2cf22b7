"""code_template: a script over the pages of a workspace and a model; what it submits is the output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from prowess.errors import Invalid, NoModel, Refused, RunFailed, TimedOut, Unavailable
from prowess.handlers.code_template import CodeTemplateHandler
from prowess.handlers.host_functions import HostModule, SkillCalls
from prowess.llm.scripted import Answer, ScriptedModel
from prowess.run.call import Call, DryRunEnded
from prowess.sandbox.protocol import SandboxLimits
from prowess.sandbox.wasm.sandbox import WasmSandbox
from prowess.skill.kinds import CodeTemplate
from prowess.workspace.workspace import Workspace

PAGES = {
    "harbour.md": "---\ntitle: Harbour\ntype: place\ntags: [sea]\n---\nBuilt in 1201. See [[Chronicle]].",
    "chronicle.md": "---\ntitle: Chronicle\ntype: book\ntags: [sea, old]\n---\nThe harbour was built in 1340.",
}


@pytest.fixture(scope="module")
def sandbox(sandbox_home: Path) -> Iterator[WasmSandbox]:
    opened = WasmSandbox(sandbox_home)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    return Workspace(folder)


@pytest.fixture
def run(sandbox, model_client, workspace, call_of):
    """What a script gives, as an output; `call` is the call that it was made by."""

    def ran(code, inputs=None, *, model="", run_skill=None, limits=None, call: list[Call] | None = None, **settings):
        handler = CodeTemplateHandler(
            sandbox,
            HostModule(model_client, workspace, run_skill and SkillCalls(run=run_skill)),
            limits or SandboxLimits(),
        )
        made = call_of(CodeTemplate(name="Script", content=code), inputs or {}, model=model, **settings)
        if call is not None:
            call.append(made)
        return asyncio.run(handler.run(made))

    return ran


def test_what_a_script_submits_is_the_output(run):
    output = run("import inklings\ninklings.submit({'n': {{ n }} + 1})", {"n": 1})
    assert (output.kind, output.data, json.loads(output.text)) == ("code_template", {"n": 2}, {"n": 2})
    assert output.result["ended"] == "done"


def test_a_text_that_is_submitted_is_the_text(run):
    output = run("import prowess\nprowess.submit('it is ' + name)", {"name": "Ann"})
    assert (output.text, output.data, output.value) == ("it is Ann", None, "it is Ann")


def test_a_script_that_only_prints_gives_what_it_printed(run):
    assert run("print('hello')").text == "hello\n"


def test_every_page_function_answers_as_the_workspace_does(run, workspace):
    code = """
import prowess as p
p.submit([p.workspace_search('harbour', limit=1), p.search('harbour', 1), p.get_page('harbour'),
          p.get_pages(['harbour', 'none']), p.get_pages_by_type('place'), p.get_tags(), p.get_references('harbour'),
          p.get_history(slug='harbour')])
"""
    expected = [
        workspace.workspace_search("harbour", 1),
        workspace.search("harbour", 1),
        workspace.get_page("harbour"),
        workspace.get_pages(["harbour", "none"]),
        workspace.get_pages_by_type("place"),
        workspace.get_tags(),
        workspace.get_references("harbour"),
        workspace.get_history("harbour"),
    ]
    assert run(code).data == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    "call",
    ["get_page(1)", "get_page()", "get_pages('harbour')", "search('x', '3')", "llm_query(['x'])", "run_skill(1)"],
)
def test_arguments_of_another_type_are_refused_at_the_line_that_gives_them(run, call):
    with pytest.raises(RunFailed, match="In line 2 of the script 'Script': HostError") as caught:
        run(f"import prowess\nprowess.{call}")
    assert call.partition("(")[0] in caught.value.message


def test_a_question_is_asked_of_the_model_of_the_run_and_counted(run):
    calls: list[Call] = []
    with ScriptedModel(["It is old."]) as model:
        output = run("import prowess\nprowess.submit(prowess.llm_query('How old?'))", model=model, call=calls)
    assert output.text == "It is old."
    assert [message.text for message in model.requests[0].messages] == ["How old?"]
    notes = calls[0].notes
    assert (notes.usage.requests, notes.model, notes.detail["sandbox"]["host_calls"]) == (1, model.name, 1)


def test_questions_of_one_call_are_asked_at_the_same_time(run):
    waiting = asyncio.Barrier(5)

    class Meeting(ScriptedModel):
        async def complete(self, request):
            await waiting.wait()
            return await super().complete(request)

    with Meeting([Answer(when=f"Q{n}", reply=f"A{n}") for n in range(5)], unordered=True) as model:
        output = run(
            "import prowess\nprowess.submit(prowess.llm_query_batched([f'Q{n}' for n in range(5)]))", model=model
        )
    assert output.data == ["A0", "A1", "A2", "A3", "A4"]


def test_a_question_that_is_not_answered_is_the_error_of_all_that_were_asked_with_it(run):
    code = """
import prowess
try: prowess.llm_query_batched(['a', 'b'])
except prowess.HostError as error: prowess.submit(error.code)
"""
    with ScriptedModel([Answer(when="a", reply="A"), Unavailable("It is down.")], unordered=True) as model:
        assert run(code, model=model).text == "unavailable"


def test_questions_are_bounded(run):
    with pytest.raises(RunFailed, match="limit of 100 model requests"):
        run("import prowess\nprowess.llm_query_batched(['?'] * 101)", model=ScriptedModel([]))


def test_without_a_model_the_run_is_unavailable_so_that_a_fallback_serves(run):
    with pytest.raises(NoModel):
        run("import prowess\nprowess.llm_query('?')")


def test_a_dry_run_shows_the_script_and_does_not_run_it(run):
    calls: list[Call] = []
    with pytest.raises(DryRunEnded):
        run("import prowess\nprowess.llm_query('Would you?')", model=ScriptedModel([]), dry_run=True, call=calls)
    assert "prowess.llm_query('Would you?')" in calls[0].notes.rendered
    assert calls[0].notes.sent == []


def test_another_skill_is_run_by_whoever_can(run):
    async def run_skill(call, slug, params):
        return {"slug": slug, "params": dict(params), "for": call.skill.slug}

    code = "import prowess\nprowess.submit(prowess.run_skill('other', {'a': 1}))"
    assert run(code, run_skill=run_skill, trust="local").data == {"slug": "other", "params": {"a": 1}, "for": "checker"}
    with pytest.raises(Unavailable):
        run(code, trust="local")


def test_skills_that_run_each_other_end(sandbox, model_client, workspace, call_of):
    ran: list[str] = []

    async def run_skill(call, slug, params):
        ran.append(slug)
        return (await handler.run(call)).text

    handler = CodeTemplateHandler(sandbox, HostModule(model_client, workspace, run_skill and SkillCalls(run=run_skill)))
    call = call_of(
        CodeTemplate(name="Script", content="import prowess\nprowess.run_skill('itself')"), {}, trust="local"
    )
    with pytest.raises(Refused, match="limit of 4 levels"):
        asyncio.run(handler.run(call))
    assert ran == ["itself"] * 4


def test_a_checkpoint_is_seen_by_whoever_watches(run, steps):
    run("import prowess\nprowess.checkpoint({'pages': 3})")
    assert [(step.state, step.detail) for step in steps] == [("CHECKPOINT", {"value": {"pages": 3}})]


def test_an_error_of_the_script_is_told_by_its_line_and_what_it_printed_is_noted(run):
    calls: list[Call] = []
    with pytest.raises(RunFailed) as caught:
        run("print('so far')\n\nraise ValueError('no such thing')", call=calls)
    assert caught.value.message == "In line 3 of the script 'Script': ValueError: no such thing"
    assert calls[0].notes.raw == "so far\n"


@pytest.mark.parametrize(
    ("code", "limits", "words"),
    [
        ("while True: pass", {"fuel": 10**8}, "instructions"),
        ("'a' * (1 << 30)", {}, "memory limit of"),
        ("while True: print('x' * 99)", {}, "output limit of"),
        ("import prowess\nprowess.submit('x' * (2 << 20))", {}, "submitted an invalid result"),
        ("import prowess\nwhile True: prowess.get_tags()", {}, "limit of 100 host calls"),
        ("import os\nos._exit(0)", {}, "wasi:cli/exit"),
        ("import sys\nsys.setrecursionlimit(10**8)\ndef f(): return f()\nf()", {"seconds": 120}, "recursion limit"),
    ],
)
def test_each_limit_has_its_own_words(run, code, limits, words):
    with pytest.raises(RunFailed, match=words):
        run(code, limits=SandboxLimits(**limits))


def test_time_that_is_over_is_told_as_such(run):
    with pytest.raises(TimedOut, match=r"0\.2 s"):
        run("while True: pass", limits=SandboxLimits(seconds=0.2))


def test_inputs_are_held_to_what_the_skill_declares(run):
    parameters = {"properties": {"n": {"type": "integer", "default": 7}}, "type": "object"}
    skill = {"parameters": parameters}
    assert run("import prowess\nprowess.submit({{ n }})", skill=skill).data == 7
    with pytest.raises(Invalid):
        run("pass", {"n": "seven"}, skill=skill)


def test_a_variable_that_no_input_has_is_an_error_before_anything_runs(run):
    with pytest.raises(Invalid, match=r"\{\{ who \}\}"):
        run("print('{{ who }}')")
