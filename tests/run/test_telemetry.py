"""Spans of runs and requests: what they say, and what they never say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from prowess.errors import Unavailable
from prowess.llm.model import Message, Reply, Request, Usage
from prowess.llm.scripted import ScriptedModel
from prowess.redaction import Redactor
from prowess.run.call import Notes
from prowess.run.telemetry import NoTelemetry, SpanTelemetry, open_telemetry
from prowess.skill.kinds import PromptTemplate

KEY = "canary-0815-value"
SECRET = "the words of the request"
REQUEST = Request(messages=(Message(role="user", text=SECRET),), temperature=0.5, max_tokens=64)
MODEL = ScriptedModel([], name="google:gemini-2.5-pro")


@pytest.fixture
def exported():
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(exported):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return SpanTelemetry(provider.get_tracer("tests"), Redactor([KEY]))


@pytest.fixture
def call(call_of):
    return replace(
        call_of(PromptTemplate(name="check", content=SECRET), inputs={"a": SECRET}, session="s-1"), id="trace-1"
    )


def test_a_run_is_a_span_with_what_ran_and_how_it_ended(telemetry, exported, call):
    notes = Notes(model="openai:gpt-5-mini", usage=Usage(input_tokens=7, output_tokens=3, requests=1), cost=0.25)
    with telemetry.run_span(call) as span:
        span.ended("ok", notes)
    (run,) = exported.get_finished_spans()
    assert (run.name, run.kind, run.status.status_code) == (
        "invoke_workflow checker/check",
        SpanKind.INTERNAL,
        StatusCode.UNSET,
    )
    assert dict(run.attributes) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "checker/check",
        "gen_ai.skill.name": "checker",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "prowess.skill": "checker",
        "prowess.artifact": "check",
        "prowess.kind": "prompt_template",
        "prowess.trace": "trace-1",
        "prowess.status": "ok",
        "prowess.cost_usd": 0.25,
    }


def test_a_request_is_a_span_of_a_client_within_that_of_its_run(telemetry, exported, call):
    with telemetry.run_span(call), telemetry.request_span(MODEL, REQUEST) as span:
        span.answered(Reply(text=SECRET, model="gemini-2.5-pro-002", usage=Usage(input_tokens=5, output_tokens=2)))
    request, run = exported.get_finished_spans()
    assert (request.name, request.kind) == ("chat gemini-2.5-pro", SpanKind.CLIENT)
    assert request.parent.span_id == run.context.span_id
    assert dict(request.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-2.5-pro",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 64,
        "gen_ai.output.type": "text",
        "gen_ai.response.model": "gemini-2.5-pro-002",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 2,
    }


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Unavailable(SECRET), "unavailable"),
        (asyncio.CancelledError(), "cancelled"),
        (ZeroDivisionError(SECRET), "ZeroDivisionError"),
    ],
)
def test_a_span_that_an_error_leaves_says_so_and_lets_it_pass(telemetry, exported, error, word):
    with pytest.raises(type(error)), telemetry.request_span(MODEL, REQUEST):
        raise error
    (request,) = exported.get_finished_spans()
    assert (request.attributes["error.type"], request.status.status_code) == (word, StatusCode.ERROR)
    assert SECRET not in request.to_json()


def test_a_run_that_did_not_end_well_is_an_error(telemetry, exported, call):
    with telemetry.run_span(call) as span:
        span.ended("timed_out", Notes())
    (run,) = exported.get_finished_spans()
    assert (run.attributes["error.type"], run.status.status_code) == ("timed_out", StatusCode.ERROR)
    assert SECRET not in run.to_json()


def test_the_rest_of_a_models_name_is_kept_whole(telemetry, exported):
    for name in ("ollama:llama3:8b", "plain"):
        with telemetry.request_span(ScriptedModel([], name=name), REQUEST):
            pass
    told = [(one.attributes["gen_ai.provider.name"], one.name) for one in exported.get_finished_spans()]
    assert told == [("ollama", "chat llama3:8b"), ("unknown", "chat plain")]


def test_no_name_of_a_model_brings_a_secret_or_a_long_text_into_a_span(telemetry, exported, call):
    name = f"local:Bearer {KEY} " + "and more " * 100
    with telemetry.run_span(call) as run, telemetry.request_span(ScriptedModel([], name=name), REQUEST) as span:
        span.answered(Reply(model=name))
        run.ended("ok", Notes(model=name))
    request, ended = exported.get_finished_spans()
    assert KEY not in request.to_json() + ended.to_json()
    told = [
        request.name,
        request.attributes["gen_ai.response.model"],
        request.attributes["gen_ai.request.model"],
        ended.attributes["gen_ai.request.model"],
    ]
    assert all("[redacted" in one and len(one) <= len("chat ") + 200 for one in told)


def test_nothing_is_told_where_telemetry_is_off(call):
    telemetry = open_telemetry({}, Redactor(), on=False)
    assert isinstance(telemetry, NoTelemetry)
    with telemetry.run_span(call) as run, telemetry.request_span(MODEL, REQUEST) as request:
        request.answered(Reply())
        run.ended("ok", Notes())
    assert isinstance(open_telemetry({"OTEL_TRACES_EXPORTER": "none"}, Redactor(), on=True), NoTelemetry)


def test_a_missing_library_is_said_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Unavailable) as caught:
        open_telemetry({}, Redactor(), on=True)
    assert "pip install 'prowess[telemetry]'" in caught.value.hint


def test_an_exporter_that_is_not_installed_is_said_so():
    with pytest.raises(Unavailable, match="'carrier-pigeon'") as caught:
        open_telemetry({"OTEL_TRACES_EXPORTER": "carrier-pigeon"}, Redactor(), on=True)
    assert "opentelemetry-exporter-otlp-proto-http" in caught.value.hint


def test_a_request_whose_tokens_are_not_known_says_none(telemetry, exported):
    with telemetry.request_span(MODEL, REQUEST) as span:
        span.answered(Reply(text="Hello."))
    (request,) = exported.get_finished_spans()
    assert not [name for name in request.attributes if name.startswith("gen_ai.usage")]


def senders() -> set[threading.Thread]:
    """The threads that send spans."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("Otel")}


def test_closing_sends_what_waits_and_ends_the_thread_that_sends(capsys):
    before = senders()
    telemetry = open_telemetry({"OTEL_TRACES_EXPORTER": "console"}, Redactor(), on=True)
    with telemetry.request_span(MODEL, REQUEST):
        pass
    assert len(senders() - before) == 1
    telemetry.close()
    assert senders() - before == set()
    assert '"name": "chat gemini-2.5-pro"' in capsys.readouterr().err


def test_closing_leaves_the_applications_own_spans_alone(telemetry, exported):
    telemetry.close()
    with telemetry.request_span(MODEL, REQUEST):
        pass
    assert len(exported.get_finished_spans()) == 1


@pytest.mark.anyio
async def test_an_engine_that_is_closed_leaves_no_thread_that_sends_spans(place, capsys):
    sidecar = "artifacts:\n  - {path: prompts/greet.j2, kind: prompt_template, name: greet}\n"
    place.skill("greeter", files={"agents/prowess.yaml": sidecar, "prompts/greet.j2": "Greet them."})
    place.environment.update(PROWESS_TELEMETRY="on", OTEL_TRACES_EXPORTER="console")
    before = senders()
    async with place.open() as prowess:
        await prowess.run("greeter", model=ScriptedModel(["Hello."]))
        assert len(senders() - before) == 1
    assert senders() - before == set()
    assert "invoke_workflow greeter/greet" in capsys.readouterr().err


def test_spans_can_go_to_the_error_output():
    code = (
        "from prowess.run.telemetry import open_telemetry; from prowess import ScriptedModel\n"
        "from prowess.llm.model import Request; from prowess.redaction import Redactor\n"
        "with open_telemetry({'OTEL_TRACES_EXPORTER': 'console'}, Redactor(), on=True).request_span(\n"
        "    ScriptedModel([], name='local:x'), Request(messages=())): pass\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout, '"name": "chat x"' in ran.stderr) == ("", True)
