"""`prowess run`: what a person sees who runs a skill, watches it, runs it dry, or gets it wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    """A model that answers from a file."""

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
    assert "cost not known" in ran.err
    assert "trace " in ran.err


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
    assert "did not pass" in ran.err
    assert "prowess traces show" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["greeter", "-i", "name"], 3, "NAME=TEXT"),
        (["greeter", "-i", "=x"], 3, "NAME=TEXT"),
        (["greeter", "-i", "name:={"], 3, "no JSON"),
        (["greeter", "-i", "@missing.json"], 7, "missing.json"),
        (["greeter", "-i", "times:=2"], 3, "name"),
        (["greeter", "sing"], 4, "'greet'"),
        (["greetr"], 4, "greeter"),
        (["greeter", "-i", "name=Ada", "-m", "nonsense"], 3, "anthropic:"),
        (["greeter", "-i", "name=Ada"], 7, "PROWESS_MODEL"),
        (["greeter", "-i", "name=Ada", "--timeout", "0"], 2, "--timeout"),
    ],
    ids=[
        "no value",
        "no name",
        "bad json",
        "no file",
        "missing input",
        "no artifact",
        "no skill",
        "no such model",
        "no model",
        "no time",
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(prowess, greeter, script, words, code, told):
    given = words if "-m" in words or code == 7 else [*words, "-m", script("Ada")]
    ran = prowess("run", *given)
    assert ran.code == code
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_escapes_that_a_model_writes_do_not_reach_the_terminal(prowess, greeter, script):
    ran = prowess("run", "greeter", "-i", "name=Ada", "-m", script("\x1b]0;owned\x07Ada\x1b[31m\u202e!"))
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out


def test_what_a_descriptor_produces_is_saved_under_plain_names(prowess, workspace, script, tmp_path):
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
    out = tmp_path / "out"
    ran = prowess("run", "outline", "-i", "topic=bees", "-m", script({"json": {"title": "Bees"}}), "--save", out)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {"title": "Bees"}
    assert sorted(path.name for path in out.iterdir()) == ["outline.json", "title.txt"]
    assert (out / "title.txt").read_text() == "Bees"


FALLBACK = """
title: Chain
version: 1.0.0
artifacts:
  - {path: dspy/tuned.json, kind: dspy_module, name: tuned, ordinal: 1, fallback: greet}
  - {path: prompts/greet.j2, kind: prompt_template, name: greet, ordinal: 2}
  - {path: prompts/answer.j2, kind: prompt_template, name: answer, ordinal: 3}
"""


def test_the_parts_of_a_run_are_shown_in_the_order_in_which_they_ended(prowess, write_skill, script):
    folder = write_skill("chain", **{"agents__prowess.yaml": FALLBACK, "dspy__tuned.json": '{"template_id": "predict"}'})
    (folder / "prompts").mkdir()
    (folder / "prompts/greet.j2").write_text("Greet {{ name }}.")
    (folder / "prompts/answer.j2").write_text("Answer {{ tuned }}")
    ran = prowess("run", "chain", "-i", "name=Ada", "-m", script("Hello, Ada!", "Hello to you!"))
    assert (ran.code, ran.out) == (0, "Hello, Ada!\nHello to you!\n")
    told = [line.split(" · ")[:2] for line in ran.err.splitlines()]
    assert told == [
        ["unavailable", "tuned"],
        ["── greet"],
        ["greet", "in place of tuned"],
        ["── answer"],
        ["answer", told[-1][1]],
    ]
