"""`prowess eval run` with the eval files of other tools: what runs, and what is said about the rest."""

from __future__ import annotations

import json


def script(workspace, *steps) -> str:
    file = workspace / "model.json"
    file.write_text(json.dumps(steps))
    return f"scripted:{file}"


def test_what_is_left_out_is_said_with_its_line(prowess, write_skill, workspace):
    evals = [
        {"id": 1, "prompt": "Greet Ann.", "assertions": [{"type": "contains", "value": "Ann"}, {"cmd": ["rm"]}]},
        {"id": 2, "prompt": "Read it.", "files": ["/etc/passwd"], "assertions": ["Quotes it."]},
    ]
    write_skill("greeter", **{"evals__evals.json": json.dumps({"evals": evals}, indent=1)})
    model = script(workspace, "Hello Ann!")
    ran = prowess("eval", "run", "greeter", "--model", model)
    assert ran.code == 0, ran.out + ran.err
    said = " ".join(ran.out.split())
    assert "evals/evals.json:11: `evals[0].assertions[1]`: Eval files never run commands." in said
    assert "'/etc/passwd' is outside the skill's folder. The case is skipped." in said
    told = prowess("eval", "report", "greeter", "--json").json
    assert [one["code"] for one in told["summary"]["problems"]] == ["eval-code", "eval-file"]


def test_a_promptfoo_file_is_run_for_a_skill_by_its_name(prowess, write_skill, workspace):
    write_skill("greeter")
    file = workspace / "promptfooconfig.yaml"
    test = {
        "vars": {"who": "Ann"},
        "assert": [{"type": "icontains", "value": "{{who}}"}, {"type": "skill-used", "value": "greeter"}],
    }
    file.write_text(json.dumps({"prompts": ["Greet {{who}}."], "tests": [test]}))
    ran = prowess("eval", "run", str(file), "--skill", "greeter", "--model", script(workspace, "Hello ann"), "--json")
    assert ran.code == 0, ran.out + ran.err
    assert [one["type"] for one in ran.json["results"][0]["verdicts"]] == ["contains", "skill_used"]


def test_a_judge_that_does_not_answer_is_an_error_and_exits_with_8(prowess, write_skill, workspace):
    cases = {"cases": [{"id": "a", "prompt": "Greet Ann.", "checks": ["Greets Ann."]}]}
    write_skill("greeter", **{"evals__cases.json": json.dumps(cases)})
    ran = prowess("eval", "run", "greeter", "--model", script(workspace, "Hello Ann!", "It is fine."))
    assert ran.code == 8, ran.out
    assert "The model did not answer in the requested format." in ran.out
