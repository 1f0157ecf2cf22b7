"""Every template answers through calls to the parent, with and without a signature."""

import base64
import json

import pytest

from .driver import Driver, Reply, last_input, model, sequence, text_of

TEMPLATES = [
    "predict",
    "chain_of_thought",
    "react",
    "program_of_thought",
    "best_of_n",
    "refine",
    "multi_chain_comparison",
    "extract_then_answer",
    "draft_critique_revise",
]
ANSWERS = {
    "llm": model(
        answer="Paris",
        next_tool_name="finish",
        next_tool_args="{}",
        generated_code="```python\nSUBMIT({'answer': 'Paris'})\n```",
    ),
    "metric": lambda _payload: {"score": 1.0},
    "code": lambda _payload: {"final": {"answer": "Paris"}},
}
CAPITAL = {"question": "What is the capital of France?"}


@pytest.mark.parametrize("template_id", TEMPLATES)
def test_every_template_returns_the_outputs_of_the_signature(sidecar: Driver, template_id):
    result = sidecar.result("execute", ANSWERS, template_id=template_id, signature="question -> answer", params=CAPITAL)

    assert result["outputs"] == {"answer": "Paris"}
    assert result["usage"]["llm_calls"] == sum(kind == "llm" for kind, _ in sidecar.calls)


def test_the_message_of_inklings_runs_as_printed(sidecar: Driver):
    answers = {"llm": model(contradictions="1 and 2")}
    program = {"template_id": "chain_of_thought", "signature": "claims -> contradictions"}
    state = sidecar.result(
        "optimize",
        answers,
        **program,
        training_data=[{"claims": "a, b", "contradictions": "1 and 2"}],
    )["state_blob"]
    blob = base64.b64encode(json.dumps(state).encode()).decode()

    # No signature: the fields are those of the state, and the parameters say which are inputs.
    result = sidecar.result(
        "execute",
        answers,
        template_id="chain_of_thought",
        state_blob=blob,
        params={"claims": ["Ada was born in 1815.", "Ada was born in 1816."]},
    )

    assert result["outputs"] == {"contradictions": "1 and 2"}
    assert "Ada was born in 1816." in sidecar.calls[0][1]["messages"][-1]["text"]
    assert sidecar.calls[0][1]["messages"][1] == {
        "role": "user",
        "text": sidecar.calls[0][1]["messages"][1]["text"],
    }


def test_without_signature_and_state_a_template_has_the_one_that_the_manifest_lists(sidecar: Driver):
    templates = sidecar.result("manifest")["templates"]
    assert list(templates) == TEMPLATES
    assert templates["predict"]["signature"] == "question -> answer"

    assert sidecar.result("execute", ANSWERS, template_id="predict", params=CAPITAL)["outputs"] == {"answer": "Paris"}


def test_a_model_call_is_plain(sidecar: Driver):
    state = {
        "signature": {
            "instructions": "Name the city.",
            "fields": [
                {"prefix": "Question:", "description": "a question"},
                {"prefix": "Answer:", "description": "a city"},
            ],
        },
        "demos": [{"question": "Capital of Italy?", "answer": "Rome"}],
        "lm": {"temperature": 0.3, "max_tokens": 50, "top_p": 0.9, "top_k": 5, "stop": ["\n\n\n"], "seed": 7},
    }
    sidecar.result("execute", ANSWERS, template_id="predict", state_blob=state, params=CAPITAL)

    [(kind, payload)] = sidecar.calls
    assert kind == "llm"
    assert [message["role"] for message in payload["messages"]] == ["system", "user", "assistant", "user"]
    assert all(set(message) == {"role", "text"} for message in payload["messages"])
    assert "Name the city." in payload["messages"][0]["text"]
    assert "Rome" in payload["messages"][2]["text"]
    del payload["messages"]
    assert payload == {
        "temperature": 0.3,
        "max_tokens": 50,
        "top_p": 0.9,
        "top_k": 5,
        "stop": ["\n\n\n"],
        "seed": 7,
    }


def test_types_and_enums_are_shown_to_the_model_and_parsed(sidecar: Driver):
    signature = {
        "instructions": "Judge the review.",
        "inputs": [{"name": "review", "description": "a review of a film"}],
        "outputs": [
            {"name": "mood", "enum": ["good", "bad"]},
            {"name": "stars", "type": "integer"},
            {"name": "words", "type": "list[str]"},
        ],
    }
    answers = {"llm": model(mood="good", stars="4", words='["warm", "long"]')}

    result = sidecar.result("execute", answers, template_id="predict", signature=signature, params={"review": "Fine."})

    assert result["outputs"] == {"mood": "good", "stars": 4, "words": ["warm", "long"]}
    assert "a review of a film" in sidecar.calls[0][1]["messages"][0]["text"]


@pytest.mark.parametrize("text", ["I would rather not.", "", "{}", "\u0000"])
def test_an_answer_that_cannot_be_parsed_is_asked_for_once_more_and_then_an_error(sidecar: Driver, text):
    answers = {"llm": lambda _payload: {"text": text}}

    assert sidecar.error("execute", answers, template_id="predict", params=CAPITAL) == "InvalidOutput"
    assert len(sidecar.calls) == 2


def test_outputs_that_are_hard_to_write_are_written_or_a_typed_error(sidecar: Driver):
    for type_name, value in (("int", "9" * 40), ("float", "1e999"), ("dict", '{"a":' * 300 + "1" + "}" * 300)):
        answers = {"llm": model(answer=value), "metric": lambda _payload: {"score": 1}}
        for template_id in ("predict", "best_of_n"):
            signature = f"question -> answer: {type_name}"
            answer = sidecar.request("execute", answers, template_id=template_id, signature=signature, params=CAPITAL)
            assert answer["ok"] or answer["error"]["type"] in {"InvalidOutput", "TemplateFailed"}


def test_react_calls_tools_and_reads_their_errors(sidecar: Driver):
    def look_up(payload):
        if payload["arguments"]["key"] == "x":
            raise Reply("ToolDenied", "not without approval")
        return {"population": 2_000_000}

    answers = {
        "llm": model(
            next_tool_name=sequence("look_up", "look_up", "finish"),
            next_tool_args=sequence('{"key": "x"}', '{"key": "y"}', "{}"),
            answer="two million",
        ),
        "tool": look_up,
    }
    tool = {
        "name": "look_up",
        "description": "Look up a key.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}},
    }

    result = sidecar.result("execute", answers, template_id="react", options={"tools": [tool]}, params=CAPITAL)

    assert result["outputs"] == {"answer": "two million"}
    trajectory = result["notes"]["trajectory"]
    assert trajectory["observation_0"] == "Error: ToolDenied: not without approval"
    assert trajectory["observation_1"] == {"population": 2_000_000}
    assert [payload for kind, payload in sidecar.calls if kind == "tool"] == [
        {"name": "look_up", "arguments": {"key": "x"}},
        {"name": "look_up", "arguments": {"key": "y"}},
    ]


def test_program_of_thought_repairs_code_that_the_sandbox_rejects(sidecar: Driver):
    def run(payload):
        if "broken" in payload["code"]:
            raise Reply("CodeFailed", "NameError: broken")
        return {"output": "42"}

    answers = {"llm": model(generated_code=sequence("print(broken)", "print(6 * 7)"), answer="42"), "code": run}

    result = sidecar.result("execute", answers, template_id="program_of_thought", params={"question": "6 * 7?"})

    assert result["outputs"] == {"answer": "42"}
    assert [payload["code"] for kind, payload in sidecar.calls if kind == "code"] == ["print(broken)", "print(6 * 7)"]


def test_best_of_n_returns_the_attempt_with_the_best_score(sidecar: Driver):
    answers = {
        "llm": model(answer=sequence("Lyon", "Paris", "Nice")),
        "metric": lambda payload: {"score": {"Lyon": 0.2, "Paris": 0.9, "Nice": 0.1}[payload["outputs"]["answer"]]},
    }

    result = sidecar.result("execute", answers, template_id="best_of_n", options={"n": 3}, params=CAPITAL)

    assert result["outputs"] == {"answer": "Paris"}
    assert [payload["temperature"] for kind, payload in sidecar.calls if kind == "llm"] == [1.0, 1.0, 1.0]


def test_refine_shows_the_feedback_of_the_metric_to_the_model(sidecar: Driver):
    answers = {
        "llm": model(answer=sequence("Lyon", "Paris"), advice='{"predict": "Name the capital."}'),
        "metric": lambda payload: {
            "score": float(payload["outputs"]["answer"] == "Paris"),
            "feedback": "Lyon is not the capital.",
        },
    }

    result = sidecar.result("execute", answers, template_id="refine", params=CAPITAL)

    assert result["outputs"] == {"answer": "Paris"}
    prompts = [payload["messages"][-1]["text"] for kind, payload in sidecar.calls if kind == "llm"]
    assert "Lyon is not the capital." in prompts[1]
    assert last_input(sidecar.calls[-2][1], "hint_") == "Name the capital."


def test_multi_chain_comparison_sees_every_attempt(sidecar: Driver):
    answers = {"llm": model(answer=sequence("Lyon", "Paris", "Paris"))}

    result = sidecar.result("execute", answers, template_id="multi_chain_comparison", options={"n": 2}, params=CAPITAL)

    assert result["outputs"] == {"answer": "Paris"}
    comparison = sidecar.calls[-1][1]["messages"][-1]["text"]
    assert "my prediction is Lyon" in comparison
    assert "my prediction is Paris" in comparison


def test_extract_then_answer_answers_from_passages(sidecar: Driver):
    answers = {"llm": model(passages='["Paris is the seat."]', answer="Paris")}

    result = sidecar.result(
        "execute",
        answers,
        template_id="extract_then_answer",
        params={"document": "A long text. Paris is the seat.", **CAPITAL},
    )

    assert result["outputs"] == {"answer": "Paris"}
    assert result["notes"]["passages"] == ["Paris is the seat."]
    assert "Paris is the seat." in last_input(sidecar.calls[1][1], "passages")


@pytest.mark.parametrize(("problems", "text"), [("[]", "first"), ('["too short"]', "second")])
def test_draft_critique_revise_revises_only_a_draft_with_problems(sidecar: Driver, problems, text):
    answers = {"llm": model(text=sequence("first", "second"), problems=problems)}

    result = sidecar.result("execute", answers, template_id="draft_critique_revise", params={"task": "Write."})

    assert result["outputs"] == {"text": text}
    assert result["notes"]["problems"] == json.loads(problems)


def test_a_failed_call_is_reported_with_the_type_of_the_parent(sidecar: Driver):
    def refuse(_payload):
        raise Reply("SpendLimitReached", "The limit of 5 dollars is reached.")

    for template_id in ("predict", "react", "best_of_n", "multi_chain_comparison"):
        answer = sidecar.request("execute", {"llm": refuse}, template_id=template_id, params=CAPITAL)
        assert answer["error"] == {"type": "SpendLimitReached", "message": "The limit of 5 dollars is reached."}


def test_params_that_the_signature_does_not_name_are_left_out(sidecar: Driver):
    extra = {"entity_name": "Ada", "lm": "openai/gpt", "signature": "x -> y", "demos": [], "config": {"n": 9}}
    sidecar.result("execute", ANSWERS, template_id="predict", params={**CAPITAL, **extra})

    assert "Ada" not in json.dumps(sidecar.calls)
    assert "n" not in sidecar.calls[0][1]


@pytest.mark.parametrize(
    ("fields", "type"),
    [
        ({"template_id": "rm", "params": {}}, "UnknownTemplate"),
        ({"template_id": ["predict"], "params": {}}, "UnknownTemplate"),
        ({"template_id": "predict", "params": {}}, "InvalidParams"),
        ({"template_id": "predict", "params": "question"}, "InvalidParams"),
        ({"template_id": "predict", "params": CAPITAL, "options": {"n": 3}}, "InvalidOptions"),
        ({"template_id": "best_of_n", "params": CAPITAL, "options": {"n": 10_000}}, "InvalidOptions"),
        ({"template_id": "best_of_n", "params": CAPITAL, "options": {"n": True}}, "InvalidOptions"),
        ({"template_id": "react", "params": CAPITAL, "options": {"tools": [{"name": "finish"}]}}, "InvalidOptions"),
        (
            {"template_id": "react", "params": CAPITAL, "options": {"tools": [{"name": "a", "func": 1}]}},
            "InvalidOptions",
        ),
        ({"template_id": "predict", "params": CAPITAL, "signature": "question"}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "question -> "}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "a -> b -> c"}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "question -> question"}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "q: __import__('os') -> a"}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "lm -> answer"}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "model_fields -> answer"}, "InvalidSignature"),
        ({"template_id": "predict", "params": CAPITAL, "signature": "__class__ -> answer"}, "InvalidSignature"),
        ({"template_id": "chain_of_thought", "params": CAPITAL, "signature": "q -> reasoning"}, "InvalidSignature"),
        (
            {"template_id": "predict", "params": CAPITAL, "signature": {"inputs": [], "outputs": ["a"]}},
            "InvalidSignature",
        ),
        ({"template_id": "predict", "params": CAPITAL, "signature": {"class": "os.system"}}, "InvalidSignature"),
    ],
)
def test_an_invalid_request_is_a_typed_error_without_calls(sidecar: Driver, fields, type):
    assert sidecar.error("execute", **fields) == type
    assert sidecar.calls == []


def test_answers_to_calls_that_have_the_wrong_shape_are_typed_errors(sidecar: Driver):
    for value in (None, 5, {"text": None}, ["text"], {}):
        answers = {"llm": lambda _payload, value=value: value}
        assert sidecar.error("execute", answers, template_id="predict", params=CAPITAL) == "TemplateFailed"
    answers = {"llm": model(answer="Paris"), "metric": lambda _payload: {"score": "high"}}
    assert sidecar.error("execute", answers, template_id="best_of_n", params=CAPITAL) == "InvalidScore"


def test_requests_run_at_the_same_time(sidecar: Driver):
    first = sidecar.start("execute", template_id="predict", params={"question": "first"})
    second = sidecar.start("execute", template_id="predict", params={"question": "second"})
    calls = [sidecar.read(), sidecar.read()]
    assert {call["for"] for call in calls} == {first, second}

    for call in calls:
        sidecar.write({"reply": call["call"], "value": text_of({"answer": last_input(call["payload"], "question")})})
    results = {message["id"]: message["result"]["outputs"] for message in (sidecar.read(), sidecar.read())}
    assert results == {first: {"answer": "first"}, second: {"answer": "second"}}
