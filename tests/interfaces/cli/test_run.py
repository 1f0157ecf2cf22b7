"""`prowess run`: output, progress, dry runs and errors."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.interfaces.cli.output import can_animate
from prowess.interfaces.cli.run_output import RunScreen
from prowess.run.call import Output
from prowess.run.request import Step
from prowess.run.result import RunPart

PROWESS = Path(sys.executable).parent / "prowess"

SIDECAR = """
title: Greeter
version: 1.0.0
parameters:
  type: object
  required: [name]
  properties:
    name: {type: string}
    times: {type: integer}
    friends: {type: array, items: {type: string}}
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    assertions:
      - {type: pattern, check: match, pattern: Ada, description: It names Ada.}
      - {type: length, check: char_range, max: 10, severity: soft, description: It is short.}
"""
PROMPT = "Greet {{ name }}{% if times is defined %} {{ times + 1 }} times{% endif %}{% for f in friends|default([]) %}, {{ f }}{% endfor %}."


@pytest.fixture
def greeter(write_skill) -> Path:
    folder = write_skill("greeter", **{"agents__prowess.yaml": SIDECAR})
    (folder / "prompts").mkdir()
    (folder / "prompts/greet.j2").write_text(PROMPT)
    return folder


@pytest.fixture
def script(tmp_path: Path):
    """Return a function that writes a script of answers and returns the name of the model that plays it."""

    def write(*steps: object) -> str:
        file = tmp_path / "answers.json"
        file.write_text(json.dumps(steps))
        return f"scripted:{file}"

    return write


def test_the_answer_is_on_stdout_and_what_is_known_about_it_on_stderr(prowess, greeter, script):
    ran = prowess("run", "greeter", "greet", "--input", "name=Ada", "--model", script("Good morning, Ada!"))
    assert (ran.code, ran.out) == (0, "Good morning, Ada!\n")
    assert "✓ It names Ada." in ran.err
    assert "✗ It is short. (soft)" in ran.err
    assert "cost unknown" in ran.err
    assert "trace " in ran.err


def test_an_artifact_is_named_by_an_option_too(prowess, greeter, script):
    for option in ("--artifact", "-a"):
        ran = prowess("run", "greeter", option, "greet", "-i", "name=Ada", "-m", script("Good morning, Ada!"))
        assert (ran.code, ran.out) == (0, "Good morning, Ada!\n")


def test_json_of_what_a_model_said_has_nothing_that_a_terminal_obeys(prowess, greeter, script):
    said = "caf\u00e9 \u009b2J \u0085 \x7f \x1b[2J \u202e \u2066"
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script(said), "--json")
    [trace] = prowess("traces", "list", "--json").json
    shown = prowess("traces", "show", trace["id"], "--json")
    assert ran.json["output"] == said
    for out in (ran.out, shown.out):
        assert "caf\u00e9 \\u009b2J \\u0085 \\u007f \\u001b[2J \\u202e \\u2066" in out


def test_json_has_all_of_it(prowess, greeter, script):
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("Hello, Ada!"), "--json")
    assert ran.code == 0
    assert ran.json["output"] == "Hello, Ada!"
    [part] = ran.json["parts"]
    assert (part["status"], part["artifact"], part["model"][:9]) == ("ok", "greet", "scripted:")
    assert [verdict["passed"] for verdict in part["verdicts"]] == [True, False]


def test_inputs_are_typed_as_the_parameters_ask_and_come_from_files_too(prowess, greeter, script, tmp_path, pipe):
    (tmp_path / "more.json").write_text('{"friends": ["Bob"], "name": "nobody"}')
    (tmp_path / "name.txt").write_text("Ada")
    ran = prowess(
        *("run", "greeter", "--dry-run", "--json", "-m", script()),
        *("-i", f"@{tmp_path}/more.json", "-i", f"name=@{tmp_path}/name.txt", "-i", "times=2"),
    )
    [sent] = ran.json["parts"][0]["would_send"]
    assert sent["messages"][-1]["content"] == "Greet Ada 3 times, Bob."
    pipe(b"Ada")
    ran = prowess("run", "greeter", "--dry-run", "-m", script(), "-i", "name=@-", "-i", 'friends:=["Cy"]')
    assert "Greet Ada, Cy." in ran.out


def test_a_dry_run_prints_what_would_be_sent_and_leaves_no_trace(prowess, greeter, script):
    ran = prowess("run", "greeter", "--dry-run", "-i", "name=Ada", "-m", script())
    assert (ran.code, ran.out) == (0, "[user]\nGreet Ada.\n")
    assert prowess("traces", "list", "--json").json == []


def test_a_hard_assertion_that_fails_is_told_after_the_answer_and_ends_with_8(prowess, greeter, script):
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("Hello, Bob!"))
    assert (ran.code, ran.out) == (8, "Hello, Bob!\n")
    assert "✗ It names Ada." in ran.err
    assert "failed an assertion" in ran.err
    assert "prowess traces show" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["greeter", "-i", "name"], 3, "NAME=TEXT"),
        (["greeter", "-i", "=x"], 3, "NAME=TEXT"),
        (["greeter", "-i", "name:={"], 3, "Invalid JSON"),
        (["greeter", "-i", "name=Ada", "-i", "times:=NaN"], 3, "Invalid JSON in input times: NaN is not JSON."),
        (["greeter", "-i", "name=Ada", "-i", "times:=1e999"], 3, "times: the number 1e999 is too large."),
        (["greeter", "-i", "@missing.json"], 4, "missing.json"),
        (["greeter", "-i", "name=@missing.txt"], 4, "missing.txt"),
        (["greeter", "-i", "name=@"], 3, "Missing file name after @"),
        (["greeter", "-i", "name=@."], 3, "is a folder"),
        (["greeter", "-i", "times:=2"], 3, "name"),
        (["greeter", "sing"], 4, "'greet'"),
        (["greeter", "name=Ada B"], 4, "add `--input 'name=Ada B'`"),
        (["greetr"], 4, "greeter"),
        (["GREETER"], 4, "'greeter'"),
        (["greeter", "-i", "name=Ada", "-m", "nonsense"], 3, "anthropic:"),
        (["greeter", "-i", "name=Ada"], 7, "PROWESS_MODEL"),
        (["greeter", "-i", "name=Ada", "--timeout", "0"], 2, "--timeout"),
        (["greeter", "-i", "name=Ada", "--timeout", "nan"], 2, "--timeout"),
        (["greeter", "-i", "name=Ada", "--timeout", "inf"], 2, "--timeout"),
    ],
    ids=[
        "no value",
        "no name",
        "bad json",
        "not a number",
        "a number that is too large",
        "no file",
        "no file of a value",
        "no name of a file",
        "folder",
        "missing input",
        "no artifact",
        "input without its option",
        "no skill",
        "no skill in capitals",
        "no such model",
        "no model",
        "no time",
        "no number",
        "no end",
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(prowess, greeter, script, words, code, told):
    given = words if "-m" in words or code == 7 else [*words, "-m", script("Ada")]
    ran = prowess("run", *given)
    assert ran.code == code
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_code_that_is_not_declared_says_where_to_declare_it(prowess, write_skill):
    write_skill("counter", **{"execute.py": "def execute(args, ctx):\n    return 1\n"})
    ran = prowess("run", "counter")
    assert ran.code == 3
    assert "To run execute.py as a function" in ran.err
    write_skill("counter", **{"agents__prowess.yaml": "parameters: {type: object}\n"})
    assert "function" in prowess("show", "counter").out


def test_escapes_that_a_model_writes_do_not_reach_the_terminal(prowess, greeter, script):
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("\x1b]0;owned\x07Ada\x1b[31m\u202e!"))
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out


@pytest.fixture
def outline(workspace) -> Path:
    """Write a skill that declares the files it produces."""
    folder = workspace / ".agents" / "skills" / "outline"
    (folder / "prompts").mkdir(parents=True)
    (folder / "outline.yaml").write_text(
        "skill_id: outline\nversion: 1.0.0\ntitle: Outline\ndescription: Makes an outline.\n"
        "output_schema: {type: object, required: [title], properties: {title: {type: string}}}\n"
        "template_type: LLM_JSON_GENERATION\ntemplate_config: {prompt_id: outline}\n"
        "produces_artifacts: [{name: outline.json}, {name: ../../title.txt}, {name: .hidden}]\n"
    )
    (folder / "prompts/outline.json").write_text(
        json.dumps({"prompt_id": "outline", "version": "1.0.0", "template": "Outline {{topic}}."})
    )
    return folder


def test_what_a_descriptor_produces_is_saved_under_plain_names(prowess, outline, script, tmp_path):
    out = tmp_path / "out"
    ran = prowess("run", "outline", "-i", "topic=bees", "-m", script({"json": {"title": "Bees"}}), "--save", out)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {"title": "Bees"}
    assert sorted(path.name for path in out.iterdir()) == ["outline.json", "title.txt"]
    assert (out / "title.txt").read_text() == "Bees"
    assert "Not written: .hidden" in ran.err


def test_saving_replaces_a_file_only_when_told_to_and_says_so_before_it_asks(prowess, outline, script, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "outline.json").write_text("precious")
    call = ("run", "outline", "-i", "topic=bees", "-m", script({"json": {"title": "Bees"}}), "--save", out)
    ran = prowess(*call)
    assert (ran.code, ran.out) == (6, "")
    assert "outline.json already exists" in ran.err
    assert "--force" in ran.err
    assert (out / "outline.json").read_text() == "precious"
    assert prowess(*call, "--force").code == 0
    assert json.loads((out / "outline.json").read_text()) == {"title": "Bees"}


def test_steps_of_a_script_that_are_left_over_are_told_after_the_answer(prowess, greeter, script):
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("Hello, Ada!", "Never asked for."))
    assert (ran.code, ran.out) == (8, "Hello, Ada!\n")
    assert "1 step of the script" in ran.err
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("Hello, Ada!", "Never asked for."), "--json")
    assert (ran.code, ran.json["output"]) == (8, "Hello, Ada!")
    assert prowess("run", "greeter", "-i", "name=Ada", "-m", script("Not asked."), "--dry-run").code == 0
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("Hello, Bob!", "Never asked for."))
    assert "failed an assertion" in ran.err
    assert "not used" not in ran.err


FALLBACK = """
title: Chain
version: 1.0.0
artifacts:
  - {path: dspy/tuned.json, kind: dspy_module, name: tuned, ordinal: 1, fallback: greet}
  - {path: prompts/greet.j2, kind: prompt_template, name: greet, ordinal: 2}
  - {path: prompts/answer.j2, kind: prompt_template, name: answer, ordinal: 3}
"""


def test_the_parts_of_a_run_are_shown_in_the_order_in_which_they_ended(prowess, write_skill, script):
    folder = write_skill(
        "chain", **{"agents__prowess.yaml": FALLBACK, "dspy__tuned.json": '{"template_id": "predict"}'}
    )
    (folder / "prompts").mkdir()
    (folder / "prompts/greet.j2").write_text("Greet {{ name }}.")
    (folder / "prompts/answer.j2").write_text("Answer {{ tuned }}")
    ran = prowess("run", "chain", "-i", "name=Ada", "-m", script("Hello, Ada!", "Hello to you!"))
    assert (ran.code, ran.out) == (0, "Hello, Ada!\nHello to you!\n")
    told = [line.split(" · ")[:2] for line in ran.err.splitlines()]
    assert told == [
        ["unavailable", "tuned"],
        ["  'tuned' runs in the DSPy sidecar, which is switched off."],
        ["── greet"],
        ["greet", "fallback of tuned"],
        ["── answer"],
        ["answer", told[-1][1]],
    ]


def test_a_reader_that_goes_away_ends_nothing_but_the_printing(prowess, greeter, script):
    model = script("Hello, Ada! " + "And so on. " * 5_000)
    call = [PROWESS, "run", "greeter", "-i", "name=Ada", "-m", model]
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(call, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ran.returncode, "Traceback" in ran.stderr, "Exception ignored" in ran.stderr) == (0, False, False)
    [trace] = prowess("traces", "list", "--json").json
    assert trace["status"] == "ok"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_told_and_the_run_is_kept(prowess, greeter, script):
    call = [PROWESS, "run", "greeter", "-i", "name=Ada", "-m", script("Hello, Ada!")]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, "No space left" in ran.stderr, "Exception ignored" in ran.stderr) == (7, True, False)
    [trace] = prowess("traces", "list", "--json").json
    assert trace["status"] == "ok"


def test_what_is_logged_meanwhile_stands_after_the_answer(capfd):
    with RunScreen(named=False) as screen:
        screen.watch(Step(artifact="greet", text="Good "))
        logging.getLogger("prowess.traces").warning("Some traces were not recorded: %s", "a\x1b[31mlock")
        screen.watch(Step(artifact="greet", text="morning"))
        assert capfd.readouterr().err == ""
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("\n", "Some traces were not recorded: alock\n")


def test_a_second_try_and_an_answer_that_was_cut_off_are_told(capfd):
    result = {"attempts": 2, "truncated": True}
    output = Output(kind="json_generation", text="{}", result=result)
    part = RunPart(artifact="greet", kind="json_generation", status="ok", trace="1", output=output, result=result)
    with RunScreen(named=False) as screen:
        screen.part(part)
    assert "second attempt · cut off at the token limit" in capfd.readouterr().err


@pytest.mark.parametrize(("variable", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_nothing_moves_where_the_terminal_or_its_owner_does_not_want_it(monkeypatch, variable, value):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert can_animate()
    monkeypatch.setenv(variable, value)
    assert not can_animate()


def test_a_run_that_is_told_to_end_leaves_a_trace_that_says_so(prowess, greeter, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        call = [PROWESS, "run", "greeter", "-i", "name=Ada", "-m", "compatible:slow"]
        running = subprocess.Popen(
            call, env={**os.environ, "PROWESS_MODEL_URL": url}, stderr=subprocess.PIPE, text=True
        )
        connection, _ = server.accept()
        running.terminate()
        _, err = running.communicate(timeout=60)
        connection.close()
    assert (running.returncode, "Terminated" in err) == (143, True)
    [trace] = prowess("traces", "list", "--json").json
    assert trace["status"] == "cancelled"


def test_what_is_wrong_with_the_inputs_is_said_once(prowess, outline, script):
    declared = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}
    (outline / "prompts/outline.json").write_text(
        json.dumps({"prompt_id": "outline", "version": "1.0.0", "template": "{{topic}}", "vars_schema": declared})
    )
    with (outline / "outline.yaml").open("a") as file:
        file.write(f"input_schema: {json.dumps(declared)}\n")
    ran = prowess("run", "outline", "-m", script())
    assert (ran.code, ran.err.count("'topic' is missing")) == (3, 1)
    assert "Pass each with `--input NAME=VALUE`." in ran.err
    ran = prowess("run", "outline", "-i", "topik=bees", "-m", script())
    assert "'topik' is unknown; 'topic' is missing." in ran.err
    assert "Did you mean 'topic'?" in ran.err
    ran = prowess("run", "outline", "-i", "topic:=3", "-m", script())
    assert (ran.code, ran.err.count("/topic")) == (3, 1)
    ran = prowess("run", "outline", "-i", "topic=bees", "-m", script("No.", "No."))
    assert (ran.code, ".." in ran.err) == (8, False)
