"""Assertions in whole runs: what a hard and a soft one do to the run, and what its trace says of them."""

from __future__ import annotations

import asyncio

import pytest

from prowess.errors import AssertionFailed
from prowess.llm.scripted import ScriptedModel
from prowess.run.request import RunRequest

SIDECAR = """
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    ordinal: 1
    assertions:
{assertions}
  - path: notes/method.md
    kind: approach
    name: method
  - path: notes/bo.yaml
    kind: example
    name: bo
"""
POLITE = {"answer": "yes", "reason": "It wishes something good."}
ASKED = "      - {type: semantic, check: llm_eval, prompt: Is it polite?}"
SHORT = "      - {type: length, check: char_range, max: 10}"


@pytest.fixture
def attempt(place):
    """Run the greeting with these assertions; its result, its trace and what the model was asked."""

    def run(answers, *assertions):
        files = {
            "prompts/greet.j2": "Greet {{ name }}.",
            "notes/method.md": "Be brief.",
            "notes/bo.yaml": "input: Greet Bo.\noutput: Hello, Bo.\n",
            "agents/prowess.yaml": SIDECAR.format(assertions="\n".join(assertions)),
        }
        place.skill("greeter", files=files)
        return asyncio.run(_run(place, ScriptedModel(answers)))

    return run


async def _run(place, model):
    async with place.open() as engine:
        result = await engine.runs.attempt(
            RunRequest(slug="greeter", inputs={"name": "Ada"}, artifacts=("greet",), model=model)
        )
        return result, await engine.traces.get(result.parts[0].trace), model


def test_a_run_whose_assertions_pass_is_good_and_its_trace_counts_them(attempt):
    result, trace, model = attempt(["Good day.", POLITE], ASKED, SHORT)

    assert result.ok
    assert [verdict.passed for verdict in result.verdicts] == [True, True]
    assert (trace.status, trace.assertions_run, trace.assertions_passed) == ("ok", 2, 2)
    assert [message.text for message in model.requests[0].messages] == [
        "Be brief.",
        "Greet Bo.",
        "Hello, Bo.",
        "Greet Ada.",
    ]


def test_a_hard_failure_fails_the_run_with_every_verdict_and_the_output_kept(attempt):
    result, trace, _ = attempt(["Good day to you.", POLITE], SHORT, ASKED)

    assert isinstance(result.error, AssertionFailed)
    assert "It has 16 characters; expected at most 10 characters." in result.error.message
    assert [verdict.passed for verdict in result.verdicts] == [False, True]
    assert (trace.status, trace.assertions_run, trace.assertions_passed) == ("failed", 2, 1)
    assert (trace.error_code, trace.raw_output) == ("assertion-failed", "Good day to you.")
    assert [verdict["passed"] for verdict in trace.verdicts] == [False, True]


def test_a_soft_failure_is_reported_and_the_run_is_good(attempt):
    result, trace, _ = attempt(["Good day to you."], SHORT.replace("}", ", severity: soft}"))

    assert (result.ok, result.text) == (True, "Good day to you.")
    assert [(verdict.passed, verdict.severity) for verdict in result.verdicts] == [(False, "soft")]
    assert (trace.status, trace.assertions_run, trace.assertions_passed) == ("ok", 1, 0)


def test_what_is_asked_about_an_output_counts_among_the_tokens_of_the_run(attempt):
    result, trace, model = attempt(["Good day.", POLITE], ASKED)

    assert result.usage.requests == len(model.requests) == 2
    assert trace.input_tokens == result.usage.input_tokens
