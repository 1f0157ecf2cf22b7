"""review: an asset judged by a rubric, on the model for evaluations; what could not be judged never passes."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from prowess.errors import Invalid, NotFound, Refused, RunFailed, SpendExceeded, TimedOut, Unavailable
from prowess.handlers.review import ReviewHandler, find_asset
from prowess.llm.scripted import Answer, ScriptedModel
from prowess.prompts.prompt import Criterion, Rubric
from prowess.prompts.registry import Registry
from prowess.prompts.shelf import MemoryShelf
from prowess.run.call import DryRunEnded
from prowess.skill.kinds import Review


def criterion(id, weight=1.0):
    return Criterion(
        id=id,
        name=id.title(),
        description=f"Whether it is {id}.",
        pass_condition=f"It is {id}.",
        fail_condition=f"It is not {id}.",
        weight=weight,
    )


BRIEF, KIND, TRUE = criterion("brief"), criterion("kind"), criterion("true", weight=2)
BINARY = Rubric(id="tone", version="1.0.0", description="A good note.", scoring_mode="binary", criteria=(BRIEF, KIND))
ARTIFACT = Review(name="review", rubric_id="tone")
PER_CRITERION = ARTIFACT.model_copy(update={"metadata": {"per_criterion": True}})
ASSET = "Dear Ann,\n  thank you for the   apples."


def entry(id, verdict="pass", **changes):
    return {
        "criterion_id": id,
        "reasoning": f"I find that {id} holds or not.",
        "evidence": [],
        "verdict": verdict,
        "confidence": 0.9,
        "suggested_fix": "",
        **changes,
    }


def answer(*entries):
    return {"results": list(entries)}


GOOD = answer(entry("brief"), entry("kind"))


@pytest.fixture
def review(model_client, call_of):
    """The output of one review by a model that answers so, the call, and the model."""

    def run(answers, asset=ASSET, *, artifact=ARTIFACT, rubric=BINARY, inputs=None, **settings):
        handler = ReviewHandler(model_client, Registry(lambda: [MemoryShelf(rubric)]))
        with ScriptedModel(answers, unordered=artifact is PER_CRITERION) as model:
            call = call_of(artifact, {"asset": asset} if inputs is None else inputs, **{"model": model, **settings})
            output = asyncio.run(handler.run(call))
        return output, call, model

    return run


def verdicts(output):
    return [result["verdict"] for result in output.data["criteria_results"]]


def test_a_review_passes_where_every_criterion_does(review, steps):
    output, call, _ = review([GOOD])

    assert output.data["pass"] is True
    assert (output.data["issues"], output.data["indeterminate"]) == ([], [])
    assert [step.state for step in steps] == ["LOADING_RUBRIC", "EVALUATING", "AGGREGATING", "COMPLETED"]
    assert output.text == "Passed: 2 of 2 criteria, score 1.00."
    assert call.notes.detail["rubric"] == "tone@1.0.0"
    assert json.loads(call.notes.raw) == GOOD
    assert ASSET in call.notes.rendered


def test_the_result_has_every_field_of_the_page(review):
    output, _, _ = review([GOOD])

    fields = ["pass", "issues", "suggested_fixes", "indeterminate", "criteria_results", "timings_ms"]
    assert list(output.data) == fields
    assert list(output.data["timings_ms"]) == ["evaluation", "total"]
    assert list(output.data["criteria_results"][0]) == [
        *("criterion_id", "criterion_name", "verdict", "reasoning", "confidence", "evidence"),
    ]
    assert output.result["score"] == 1.0


def test_a_failed_criterion_is_an_issue_with_its_fix(review):
    failed = entry("kind", "fail", reasoning="It is cold.", suggested_fix="Greet Ann.")
    output, _, _ = review([answer(entry("brief", suggested_fix="Cut it."), failed)])

    assert output.data["pass"] is False
    assert output.data["issues"] == ["Not met: Kind: It is cold."]
    assert output.data["suggested_fixes"] == ["Greet Ann."]
    assert "- Fix: Greet Ann." in output.text


def test_the_details_are_left_out_where_the_artifact_says_so(review):
    output, call, _ = review([GOOD], artifact=ARTIFACT.model_copy(update={"include_criteria_details": False}))

    assert "criteria_results" not in output.data
    assert "criteria_results" not in output.result
    assert json.loads(call.notes.raw) == GOOD


@pytest.mark.parametrize(
    ("threshold", "judged", "score", "passed"),
    [
        (0.5, ("pass", "fail", "fail"), 0.25, False),
        (0.5, ("fail", "fail", "pass"), 0.5, True),
        (0.5, ("pass", "pass", "fail"), 0.5, True),
        (0.75, ("pass", "indeterminate", "pass"), 0.75, True),
        (0.8, ("pass", "indeterminate", "pass"), 0.75, False),
        (None, ("pass", "pass", "pass"), 1.0, True),
        (None, ("pass", "fail", "pass"), 0.75, False),
    ],
)
def test_a_weighted_rubric_passes_by_the_share_of_the_weights(review, threshold, judged, score, passed):
    criteria = (BRIEF, KIND, TRUE)
    rubric = Rubric(id="tone", scoring_mode="weighted", pass_threshold=threshold, criteria=criteria)
    entries = [entry(one.id, said) for one, said in zip(criteria, judged, strict=True)]
    output, _, _ = review([answer(*entries)], rubric=rubric)

    assert (output.result["score"], output.data["pass"]) == (score, passed)


def test_a_threshold_in_a_binary_rubric_changes_nothing(review):
    rubric = Rubric(id="tone", scoring_mode="binary", pass_threshold=0.1, criteria=(BRIEF, KIND))
    output, _, _ = review([answer(entry("brief"), entry("kind", "fail"))], rubric=rubric)

    assert output.data["pass"] is False


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Looks good to me!", "did not answer in the requested format"),
        ("", "did not answer in the requested format"),
        ("[]", "did not answer in the requested format"),
        ('{"pass": true}', "did not answer in the requested format"),
        ({"results": GOOD["results"], "pass": True}, "did not answer in the requested format"),
        ({"results": {"brief": "pass"}}, "did not answer in the requested format"),
        (f"I say: {json.dumps(GOOD)}", "did not answer in the requested format"),
        ("[" * 50_000, "did not answer in the requested format"),
        (answer(), "no verdict"),
        (answer(entry("brief"), entry("KIND")), "no verdict"),
        (answer(entry("brief"), "kind", None, 3), "no verdict"),
        (answer(entry("brief"), entry("kind"), entry("kind")), "2 verdicts"),
        (answer(entry("brief"), entry("kind"), entry("kind", "fail")), "2 verdicts"),
        (answer(entry("brief"), entry("kind", "PASS")), "not in the requested format"),
        (answer(entry("brief"), entry("kind", True)), "not in the requested format"),
        (answer(entry("brief"), entry("kind", ["pass"])), "not in the requested format"),
        (answer(entry("brief"), entry("kind", confidence=1.5)), "not in the requested format"),
        (answer(entry("brief"), entry("kind", confidence=True)), "not in the requested format"),
        (answer(entry("brief"), entry("kind", confidence="0.9")), "not in the requested format"),
        (answer(entry("brief"), entry("kind", reasoning=" ")), "not in the requested format"),
        (answer(entry("brief"), entry("kind", evidence="apples")), "not in the requested format"),
        (answer(entry("brief"), entry("kind", evidence=[1])), "not in the requested format"),
        (answer(entry("brief"), entry("kind", override="yes")), "not in the requested format"),
        (answer(entry("brief"), {"criterion_id": "kind", "verdict": "pass"}), "not in the requested format"),
        ('{"results": [{"confidence": NaN}]}', "no verdict"),
    ],
)
def test_what_is_not_judged_in_the_form_that_is_asked_for_is_undecided_and_never_passes(review, said, why):
    output, _, _ = review([said])

    assert output.data["pass"] is False
    assert verdicts(output)[-1] == "indeterminate"
    assert why in output.data["indeterminate"][-1]
    assert output.data["issues"] == []


def test_an_answer_in_a_code_fence_counts(review):
    output, _, _ = review([f"```json\n{json.dumps(GOOD, indent=1)}\n```"])

    assert output.data["pass"] is True


def test_evidence_is_only_what_stands_in_the_asset(review):
    quotes = ["thank you for the apples", "Dear Ann", "the pears", "  ", "Dear Ann"]
    output, _, _ = review([answer(entry("brief", evidence=quotes), entry("kind"))])

    assert output.data["criteria_results"][0]["evidence"] == ["thank you for the apples", "Dear Ann"]


def test_evidence_from_data_is_found_as_it_reads(review):
    asset = {"title": 'The "old"\nmill', "n": 3}
    quotes = ['The "old" mill', '"n": 3', "new"]
    output, _, _ = review([answer(entry("brief", evidence=quotes), entry("kind"))], asset)

    assert output.data["criteria_results"][0]["evidence"] == ['The "old" mill', '"n": 3']


def test_one_request_asks_for_all_criteria(review):
    _, _, model = review([GOOD])
    [request] = model.requests
    entries = request.schema["properties"]["results"]["items"]

    assert entries["properties"]["criterion_id"]["enum"] == ["brief", "kind"]
    assert request.temperature == 0
    for words in ("A good note.", "It is kind.", "It is not kind.", "Whether it is brief."):
        assert words in request.messages[-1].text


def test_each_criterion_is_asked_for_by_itself_where_that_is_set(review):
    answers = [
        Answer(when='criteria "kind"', reply=answer(entry("kind", "fail"))),
        Answer(when='criteria "brief"', reply=answer(entry("brief"))),
    ]
    output, _, model = review(answers, artifact=PER_CRITERION)

    assert verdicts(output) == ["pass", "fail"]
    assert [
        request.schema["properties"]["results"]["items"]["properties"]["criterion_id"]["enum"]
        for request in model.requests
    ] == [["brief"], ["kind"]]


def test_an_error_in_one_of_several_requests_leaves_only_its_criterion_undecided(review):
    answers = [
        Answer(when='criteria "kind"', reply=RunFailed("It broke.")),
        Answer(when='criteria "brief"', reply=answer(entry("brief"))),
    ]
    output, _, _ = review(answers, artifact=PER_CRITERION)

    assert verdicts(output) == ["pass", "indeterminate"]
    assert output.data["pass"] is False


def test_a_verdict_on_a_criterion_that_was_not_asked_for_counts_for_nothing(review):
    answers = [
        Answer(when='criteria "kind"', reply=answer(entry("kind", "fail"), entry("brief"))),
        Answer(when='criteria "brief"', reply=answer(entry("brief", "fail"))),
    ]
    output, _, _ = review(answers, artifact=PER_CRITERION)

    assert verdicts(output) == ["fail", "fail"]


@pytest.mark.parametrize("error", [Unavailable("It is overloaded."), RunFailed("It broke."), TimedOut("Too long.")])
def test_a_review_fails_if_no_request_was_answered(review, error):
    with pytest.raises(type(error)):
        review([error])


def test_what_may_not_be_spent_is_no_review(review):
    with pytest.raises(SpendExceeded):
        review([SpendExceeded("Enough.")])


def test_a_model_that_is_unavailable_leaves_it_to_a_fallback_where_there_is_one(review):
    with pytest.raises(Unavailable):
        review([Unavailable("Gone.")], artifact=ARTIFACT.model_copy(update={"fallback": "other"}))


def test_the_model_for_evaluations_judges(review):
    with ScriptedModel([GOOD], name="scripted:judge") as judge:
        output, _, _ = review([], evaluation_model=judge)

    assert output.data["pass"] is True


def test_a_skill_cannot_name_a_model_that_is_a_path(review):
    with pytest.raises(Refused):
        review([], artifact=ARTIFACT.model_copy(update={"evaluation_model": "local:/tmp/x.gguf"}))


@pytest.mark.parametrize(
    ("inputs", "judged"),
    [
        ({"asset": "A", "content": "B"}, "A"),
        ({"content": "B", "text": "C"}, "B"),
        ({"text": "C", "previous": "P"}, "C"),
        ({"output": "D"}, "D"),
        ({"previous": "P", "topic": "x"}, "P"),
        ({"previous": {"text": "C"}, "text": "mine"}, "mine"),
        ({"topic": "x", "n": 1}, '{\n  "topic": "x",\n  "n": 1\n}'),
        ({"asset": ["ä", 1]}, '[\n  "ä",\n  1\n]'),
        ({"asset": False}, "false"),
    ],
)
def test_the_asset_is_the_input_of_that_name_or_the_nearest_thing_to_it(review, inputs, judged):
    _, _, model = review([GOOD], inputs=inputs)

    block = re.search(r"BEGIN (\w+)\n(.*)\nEND \1", model.requests[0].messages[-1].text, re.DOTALL)
    assert block[2] == judged


@pytest.mark.parametrize(
    ("inputs", "handed_on", "judged"),
    [
        (
            {"notes": {"asset": "A decoy."}, "asset": "A decoy.", "letter": "Rude.", "previous": "Rude."},
            {"notes", "asset", "letter", "previous"},
            "Rude.",
        ),
        ({"text": "C", "n": 1, "previous": {"text": "C"}}, {"text", "previous"}, '{\n  "text": "C"\n}'),
        ({"text": "mine", "previous": {"text": "C"}}, {"previous"}, "mine"),
        ({"asset": "A decoy.", "text": "mine", "previous": "P"}, {"asset", "previous"}, "mine"),
    ],
)
def test_no_earlier_artifact_chooses_what_is_judged(review, inputs, handed_on, judged):
    _, _, model = review([GOOD], inputs=inputs, handed_on=frozenset(handed_on))

    block = re.search(r"BEGIN (\w+)\n(.*)\nEND \1", model.requests[0].messages[-1].text, re.DOTALL)
    assert block[2] == judged


def test_data_that_nests_too_deep_to_be_written_is_refused(review):
    deep = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(Invalid, match="nested too deeply"):
        review([], deep)


def test_data_that_nests_deep_is_judged_without_indentation():
    deep = "x"
    for _ in range(200):
        deep = [deep]
    assert find_asset({"asset": [deep] * 1_000}).text == json.dumps([deep] * 1_000)


@pytest.mark.parametrize("inputs", [{}, {"asset": ""}, {"asset": " \n"}, {"asset": "x" * 1_000_001}])
def test_nothing_and_too_much_are_not_judged(review, inputs):
    with pytest.raises(Invalid):
        review([], inputs=inputs)


def test_inputs_are_held_to_what_the_skill_declares(review):
    with pytest.raises(Invalid):
        review([], skill={"parameters": {"type": "object", "required": ["brand"]}})


def test_an_unknown_rubric_is_not_found(review):
    with pytest.raises(NotFound, match=r"Rubric '.*' not found"):
        review([], artifact=Review(name="review", rubric_id="other"))


def test_the_rubric_of_the_skill_itself_comes_before_the_registry(review):
    own = Rubric(id="tone", scoring_mode="binary", criteria=(TRUE,)).as_json()
    output, _, _ = review(
        [answer(entry("true"))], artifact=Review(name="review", rubric_id="tone", content=json.dumps(own))
    )

    assert [result["criterion_id"] for result in output.data["criteria_results"]] == ["true"]


def test_an_output_schema_that_a_review_does_not_satisfy_is_noted(review):
    _, call, _ = review([GOOD], artifact=ARTIFACT.model_copy(update={"output_schema": {"required": ["stars"]}}))

    assert call.notes.detail["output_schema_errors"] == ['/: "stars" is a required property']


def test_a_dry_run_shows_every_request_and_sends_none(review, model_client, call_of):
    handler = ReviewHandler(model_client, Registry(lambda: [MemoryShelf(BINARY)]))
    call = call_of(PER_CRITERION, {"asset": ASSET}, model=ScriptedModel([]), dry_run=True)

    with pytest.raises(DryRunEnded):
        asyncio.run(handler.run(call))
    assert [sent.purpose for sent in call.notes.sent] == ["evaluation", "evaluation"]
