"""Every optimizer improves a program on a scripted model, and stops with the best that it has."""

import pytest

from .driver import Driver, Reply, last_input, model, output_fields

ROWS = [{"question": " ".join(["word"] * (n % 5 + 1)) + f" {n}", "answer": str(n % 5 + 2)} for n in range(16)]
HINT = "Count the words."
PROGRAM = {"template_id": "predict", "signature": "question -> answer"}
DATA = {"training_data": ROWS[:10], "validation_data": ROWS[10:]}
OPTIONS = {
    "bootstrap_few_shot": {"max_bootstrapped_demos": 2, "max_labeled_demos": 0},
    "mipro_v2": {"num_candidates": 3, "num_trials": 4, "max_bootstrapped_demos": 1, "max_labeled_demos": 1},
    "simba": {"bsize": 5, "num_candidates": 3, "max_steps": 2, "max_demos": 0},
    "gepa": {"budget": 40},
}


def count(payload):
    """Counts as the question asks if it was told to or saw a demo, and otherwise only short questions right."""
    words = last_input(payload, "question").split()
    told = HINT in payload["messages"][0]["text"] or len(payload["messages"]) > 2
    lucky = payload.get("temperature", 0) > 0 and len(words) == 4
    return str(len(words) if told or len(words) < 4 or lucky else 0)


def exact(payload):
    right = payload["outputs"]["answer"] == payload["expected"]["answer"]
    return {"score": float(right), "feedback": "right" if right else HINT}


ADVICE = f'{{"self": "{HINT}"}}'
LLM = model(answer=count, proposed_instruction=HINT, new_instruction=HINT)
ANSWERS = {"llm": LLM, "metric": exact}


def optimize(sidecar, optimizer, answers=ANSWERS, **fields):
    options = OPTIONS[optimizer] | {"threads": 1} | fields.pop("optimizer_options", {})
    message = {**PROGRAM, **DATA, "optimizer": optimizer, "optimizer_options": options, **fields}
    return sidecar.result("optimize", answers, **message)


def wrong_without_hint(payload):
    """SIMBA needs attempts that differ: the same question is answered right every other time."""
    words = last_input(payload, "question").split()
    wrong_without_hint.calls += 1
    told = HINT in payload["messages"][0]["text"] or HINT in payload["messages"][-1]["text"]
    return str(len(words) if told or wrong_without_hint.calls % 2 else 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("optimizer", OPTIONS)
def test_every_optimizer_returns_a_state_that_scores_better(sidecar: Driver, optimizer):
    answers = ANSWERS
    if optimizer == "simba":
        wrong_without_hint.calls = 0
        answers = ANSWERS | {"llm": model(answer=wrong_without_hint, module_advice=ADVICE)}
    result = optimize(sidecar, optimizer, answers, metric="parent")

    assert result["complete"]
    assert result["dspy"] == sidecar.hello["dspy"]
    assert result["score"] == 1.0
    changed = [*result["state_blob"]["demos"], result["state_blob"]["signature"]["instructions"]]
    assert len(changed) > 1 or HINT in changed[0]
    assert result["usage"]["llm_calls"] == sum(kind == "llm" for kind, _ in sidecar.calls)
    assert result["usage"]["metric_calls"] == sum(kind == "metric" for kind, _ in sidecar.calls)

    sidecar.result("execute", answers, **PROGRAM, state_blob=result["state_blob"], params={"question": "a b c d e"})


def test_the_message_of_inklings_optimizes_as_printed(sidecar: Driver):
    rows = [{"question": "one two", "answer": "2"}, {"question": "one", "answer": "1"}]

    result = sidecar.result("optimize", ANSWERS, template_id="predict", training_data=rows)

    assert [demo["question"] for demo in result["state_blob"]["demos"]] == ["one two", "one"]
    assert result["score"] is None
    assert {kind for kind, _ in sidecar.calls} == {"llm"}


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["bootstrap_few_shot", "mipro_v2", "gepa"])
def test_the_same_seed_gives_the_same_state(sidecar: Driver, optimizer):
    first = optimize(sidecar, optimizer, seed=3)["state_blob"]

    assert optimize(sidecar, optimizer, seed=3)["state_blob"] == first


def test_the_seed_chooses_the_rows_of_a_bootstrap(sidecar: Driver):
    states = [optimize(sidecar, "bootstrap_few_shot", seed=seed)["state_blob"] for seed in range(4)]

    assert len({str(state["demos"]) for state in states}) > 1


def test_progress_has_the_best_state_so_far(sidecar: Driver):
    result = optimize(sidecar, "gepa", metric="parent")

    best = [event for event in sidecar.events if "best_state" in event]
    assert [event["best_score"] for event in best] == sorted({event["best_score"] for event in best})
    assert best[-1]["best_state"] == result["state_blob"]
    assert best[-1]["best_score"] == result["score"]
    assert all(event["metric_calls"] >= 0 and event["llm_calls"] > 0 for event in sidecar.events)


@pytest.mark.parametrize("optimizer", OPTIONS)
@pytest.mark.parametrize("threads", [1, pytest.param(3, marks=pytest.mark.long)])
def test_cancelling_returns_the_best_so_far(sidecar: Driver, optimizer, threads):
    options = OPTIONS[optimizer] | {"threads": threads}
    number = sidecar.start("optimize", **PROGRAM, **DATA, optimizer=optimizer, optimizer_options=options)
    # A bootstrap has demos, but no scores of them, until it ends: its second call comes after the first demo.
    while not best_states(sidecar) and not (optimizer == "bootstrap_few_shot" and len(sidecar.calls) == 2):
        message = sidecar.read()
        if "event" in message:
            sidecar.events.append(message)
        else:
            sidecar.answer(message, ANSWERS)
    sidecar.write({"type": "cancel", "target": number})

    result = sidecar.finish(number, ANSWERS)["result"]

    assert not result["complete"]
    assert result["stopped"] == "cancelled"
    if states := best_states(sidecar):
        assert result["state_blob"] == states[-1]
    else:
        assert len(result["state_blob"]["demos"]) >= 1


def best_states(sidecar):
    return [event["best_state"] for event in sidecar.events if "best_state" in event]


def test_executions_run_while_a_program_is_optimized(sidecar: Driver):
    number = sidecar.start("optimize", **PROGRAM, **DATA)
    call = sidecar.read()

    result = sidecar.result("execute", ANSWERS, **PROGRAM, params={"question": "one two"})

    assert result["outputs"] == {"answer": "2"}
    sidecar.answer(call, ANSWERS)
    assert sidecar.finish(number, ANSWERS)["result"]["complete"]


def test_cancelling_before_there_is_anything_returns_no_state(sidecar: Driver):
    number = sidecar.start("optimize", **PROGRAM, **DATA, optimizer="mipro_v2")
    assert sidecar.read()["kind"] == "llm"
    sidecar.write({"type": "cancel", "target": number})

    result = sidecar.finish(number, ANSWERS)["result"]

    assert result["state_blob"] is None
    assert not result["complete"]


@pytest.mark.parametrize(("limit", "kind"), [("max_llm_calls", "llm"), ("max_metric_calls", "metric")])
def test_a_limit_of_calls_is_kept_and_the_best_so_far_returned(sidecar: Driver, limit, kind):
    result = optimize(sidecar, "gepa", metric="parent", optimizer_options={limit: 12, "threads": 3})

    assert sum(name == kind for name, _ in sidecar.calls) == 12
    assert result["stopped"] == "limit"
    assert result["state_blob"]


@pytest.mark.parametrize("optimizer", OPTIONS)
def test_calls_that_keep_failing_end_an_optimization_with_their_error(sidecar: Driver, optimizer):
    def refuse(_payload):
        raise Reply("SpendLimitReached", "The limit is reached.")

    message = {**PROGRAM, **DATA, "optimizer": optimizer, "optimizer_options": OPTIONS[optimizer]}
    assert sidecar.error("optimize", {"llm": refuse}, **message) == "SpendLimitReached"
    assert len(sidecar.calls) < 20


def test_calls_that_begin_to_fail_end_an_optimization_with_the_best_so_far(sidecar: Driver):
    def until_the_limit(payload):
        if len(sidecar.calls) > 20:
            raise Reply("SpendLimitReached", "The limit is reached.")
        return LLM(payload)

    result = optimize(sidecar, "gepa", {"llm": until_the_limit})

    assert result["stopped"] == "failed"
    assert result["error"]["type"] == "SpendLimitReached"
    assert result["state_blob"] == best_states(sidecar)[-1]


@pytest.mark.parametrize("optimizer", ["mipro_v2", "gepa"])
def test_answers_that_cannot_be_parsed_score_nothing_and_do_not_end_an_optimization(sidecar: Driver, optimizer):
    def unsure(payload):
        if "answer" in dict(output_fields(payload)) and len(last_input(payload, "question").split()) > 4:
            return {"text": "I cannot count that far."}
        return LLM(payload)

    result = optimize(sidecar, optimizer, {"llm": unsure})

    assert result["complete"]
    assert 0 < result["score"] < 1
    assert best_states(sidecar)


def test_a_metric_that_fails_ends_an_optimization(sidecar: Driver):
    def fail(_payload):
        raise Reply("RubricMissing", "There is no rubric.")

    message = {**PROGRAM, **DATA, "metric": "parent"}
    assert sidecar.error("optimize", {"llm": LLM, "metric": fail}, **message) == "RubricMissing"
    no_score = {"llm": LLM, "metric": lambda _payload: {"score": None}}
    assert sidecar.error("optimize", no_score, **message) == "InvalidScore"
    assert sum(kind == "metric" for kind, _ in sidecar.calls) == 1


def test_sampling_settings_of_the_state_survive_an_optimization(sidecar: Driver):
    fields = [{"prefix": "Question:", "description": "${question}"}, {"prefix": "Answer:", "description": "${answer}"}]
    state = {"signature": {"instructions": "Answer.", "fields": fields}, "demos": [], "lm": {"temperature": 0.4}}

    for optimizer in ("bootstrap_few_shot", "gepa"):
        result = optimize(sidecar, optimizer, state_blob=state)
        assert result["state_blob"]["lm"] == {"temperature": 0.4}
        assert 0.4 in {payload.get("temperature") for kind, payload in sidecar.calls if kind == "llm"}


@pytest.mark.parametrize(
    ("fields", "type"),
    [
        ({"optimizer": "copro"}, "InvalidOptions"),
        ({"optimizer_options": {"teacher_settings": {}}}, "InvalidOptions"),
        ({"seed": -1}, "InvalidOptions"),
        ({"metric": "os.system"}, "InvalidOptions"),
        ({"training_data": []}, "InvalidData"),
        ({"training_data": {}}, "InvalidData"),
        ({"training_data": [{"question": "x"}]}, "InvalidData"),
        ({"training_data": ["x"]}, "InvalidData"),
        ({"validation_data": [{}]}, "InvalidData"),
        ({"state_blob": {"lm": {}}}, "InvalidState"),
    ],
)
def test_an_invalid_optimization_is_a_typed_error_without_calls(sidecar: Driver, fields, type):
    assert sidecar.error("optimize", **{**PROGRAM, **DATA, **fields}) == type
    assert sidecar.calls == []
