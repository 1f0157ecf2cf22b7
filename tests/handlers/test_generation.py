"""json_generation: data that satisfies its schema or an error that says why not, through states that can be watched."""

from __future__ import annotations

import asyncio
import json

import pytest

from prowess.errors import Invalid, NoModel, NotFound, OutputInvalid, RunFailed, Unavailable
from prowess.handlers.json_generation import JsonGenerationHandler
from prowess.llm.model import Reply
from prowess.llm.scripted import ScriptedModel
from prowess.llm.wrappers import CautiousModel
from prowess.prompts.prompt import Prompt
from prowess.prompts.registry import Registry
from prowess.prompts.shelf import MemoryShelf
from prowess.run.call import DryRunEnded
from prowess.skill.kinds import Approach, Example, JsonGeneration, PromptTemplate

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ASK = Prompt(
    id="extract",
    version="1.0.0",
    template="Extract the person from: {{text}} ({{tone}})",
    vars_schema={
        "type": "object",
        "properties": {"text": {"type": "string"}, "tone": {"type": "string", "default": "plain"}},
        "required": ["text"],
    },
)
ARTIFACT = JsonGeneration(name="generate", prompt_id="extract", output_schema=PERSON)
INPUTS = {"text": "Ann is 7."}
ANN = {"name": "Ann", "age": 7}


@pytest.fixture
def generate(model_client, renderer, call_of):
    """The output of one generation by a model that answers so, the call, and the model."""

    def run(answers, *others, artifact=ARTIFACT, inputs=INPUTS, prompts=(ASK,), structured=True, **settings):
        handler = JsonGenerationHandler(model_client, renderer, Registry(lambda: [MemoryShelf(*prompts)]))
        with ScriptedModel(answers, structured=structured) as model:
            call = call_of(artifact, inputs, *others, model=model, **settings)
            try:
                output = asyncio.run(handler.run(call))
            except OutputInvalid as failed:
                output = failed
        return output, call, model

    return run


def states(steps):
    return [step.state for step in steps]


def test_an_answer_that_satisfies_the_schema_is_the_data(generate, steps):
    output, call, model = generate([ANN])

    assert output.data == ANN
    assert json.loads(output.text) == ANN
    assert states(steps) == ["VALIDATING", "GENERATING", "VALIDATING_OUT", "COMPLETED"]
    assert model.requests[0].schema == PERSON
    assert model.requests[0].messages[-1].text == "Extract the person from: Ann is 7. (plain)"
    assert call.notes.rendered == "Extract the person from: Ann is 7. (plain)"
    assert call.notes.raw == json.dumps(ANN)
    assert call.notes.detail["prompt"] == "extract@1.0.0"


def test_the_result_has_every_field_of_the_page(generate):
    output, _, _ = generate([ANN])
    result = output.result

    assert list(result) == ["success", "data", "rawResponse", "attempts", "timings_ms"]
    assert (result["success"], result["data"], result["attempts"]) == (True, ANN, 1)
    assert result["rawResponse"] == json.dumps(ANN)
    assert list(result["timings_ms"]) == ["prompt_render", "llm_call", "validation", "total"]
    parts = [value for name, value in result["timings_ms"].items() if name != "total"]
    assert all(part >= 0 for part in parts)


def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_the_errors(generate, steps):
    output, _, model = generate([{"name": "Ann", "age": "seven"}, ANN])
    first, second = model.requests

    assert output.data == ANN
    assert output.result["attempts"] == 2
    assert states(steps) == [
        *("VALIDATING", "GENERATING", "VALIDATING_OUT"),
        *("RETRYING", "GENERATING", "VALIDATING_OUT", "COMPLETED"),
    ]
    assert second.messages[: len(first.messages)] == first.messages
    answered, told = second.messages[len(first.messages) :]
    assert (answered.role, json.loads(answered.text)) == ("assistant", {"name": "Ann", "age": "seven"})
    assert told.role == "user"
    assert '- /age: it is not of type "integer"' in told.text
    assert second.schema == PERSON


def test_a_second_answer_that_does_not_fit_fails_and_its_result_is_kept(generate, steps):
    failed, call, _ = generate(["I will not.", {"name": 1}])

    assert isinstance(failed, OutputInvalid)
    assert "after 2 attempts" in failed.message
    assert {problem.field for problem in failed.problems} == {"", "/name"}
    assert states(steps)[-4:] == ["RETRYING", "GENERATING", "VALIDATING_OUT", "FAILED"]
    result = call.notes.detail["result"]
    assert (result["success"], result["attempts"], result["rawResponse"]) == (False, 2, '{"name": 1}')
    assert {error["rule"] for error in result["validationErrors"]} == {"type", "required"}
    assert "data" not in result


def test_nothing_is_asked_twice_where_the_artifact_says_so(generate, steps):
    artifact = ARTIFACT.model_copy(update={"retry_on_validation_failure": False})
    failed, call, model = generate(["{}"], artifact=artifact)

    assert isinstance(failed, OutputInvalid)
    assert len(model.requests) == 1
    assert states(steps) == ["VALIDATING", "GENERATING", "VALIDATING_OUT", "FAILED"]
    assert call.notes.detail["result"]["attempts"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        'Here you are:\n```json\n{"name": "Ann", "age": 7,}\n```\nAnything else?',
        'The schema says {"type": "object"}, so it is {"name": "Ann", "age": 7}.',
        '\ufeff{"name": "Ann", "age": 7}}',
    ],
)
def test_json_among_other_words_is_found(generate, answer):
    output, _, _ = generate([answer])

    assert output.data == ANN
    assert output.result["rawResponse"] == answer


def test_a_model_that_cannot_be_held_to_a_schema_is_told_it(generate):
    _, _, model = generate([ANN], structured=False)

    assert json.dumps(PERSON) in model.requests[0].messages[-1].text


def test_a_schema_that_no_model_is_held_to_is_told_to_every_model_at_each_attempt(generate):
    people = {"type": "array", "items": PERSON}
    artifact = JsonGeneration(name="generate", prompt_id="extract", output_schema=people)

    output, _, model = generate(["none", json.dumps([ANN])], artifact=artifact)

    assert output.data == [ANN]
    assert [request.messages[-1].text.count(json.dumps(people)) for request in model.requests] == [1, 1]


def test_a_server_that_refused_the_schema_is_told_it_once(model_client, renderer, call_of):
    inner = ScriptedModel([RunFailed("status 400"), ANN, ANN])
    model = CautiousModel(inner)
    handler = JsonGenerationHandler(model_client, renderer, Registry(lambda: [MemoryShelf(ASK)]))

    for _ in range(2):
        assert asyncio.run(handler.run(call_of(ARTIFACT, INPUTS, model=model))).data == ANN

    assert [request.messages[-1].text.count("JSON Schema") for request in inner.requests] == [1, 1, 1]


def test_answers_that_were_cut_are_told_as_such(generate):
    failed, call, _ = generate([Reply(text='{"name": "A', complete=False)] * 2)

    assert "truncated at its length limit" in failed.message
    assert "max_tokens" in failed.hint
    assert call.notes.detail["truncated"] is True


def test_a_whole_answer_after_one_that_was_cut_is_whole(generate):
    output, call, _ = generate([Reply(text='{"name": "A', complete=False), ANN])

    assert output.data == ANN
    assert "truncated" not in call.notes.detail


def test_a_model_that_can_be_held_to_it_is_not_told_it_as_well(generate):
    _, _, model = generate([ANN])

    assert "JSON Schema" not in model.requests[0].messages[-1].text


def test_an_empty_answer_is_not_repeated_to_the_model(generate):
    _, _, model = generate(["", ANN])

    assert [message.role for message in model.requests[1].messages] == ["user", "user"]


def test_temperature_and_length_are_those_of_the_artifact(generate):
    artifact = ARTIFACT.model_copy(update={"temperature": 0.2, "max_tokens": 99})
    _, _, model = generate([ANN], artifact=artifact)

    assert (model.requests[0].temperature, model.requests[0].max_tokens) == (0.2, 99)


def test_approaches_and_examples_of_the_skill_come_first(generate):
    example = Example(name="one", content=json.dumps({"input": "Bo is 3.", "output": '{"name": "Bo", "age": 3}'}))
    _, _, model = generate([ANN], Approach(name="how", content="Read closely."), example)

    assert [message.role for message in model.requests[0].messages] == ["system", "user", "assistant", "user"]


def test_the_prompt_of_the_skill_itself_comes_before_the_registry(generate):
    own = PromptTemplate(name="extract", content="Mine: {{ text }}", syntax="jinja")
    _, call, _ = generate([ANN], own)

    assert call.notes.rendered == "Mine: Ann is 7."


def test_the_skills_own_prompt_is_taken_in_the_variant_for_the_model(generate):
    plain = PromptTemplate(name="extract", content="For any: {{ text }}")
    suited = PromptTemplate(name="extract", content="For you: {{ text }}", variant="scripted", ordinal=1)
    foreign = PromptTemplate(name="extract", content="For others: {{ text }}", variant="openai", ordinal=2)
    _, call, _ = generate([ANN], plain, suited, foreign)
    _, other, _ = generate([ANN], plain, foreign)

    assert call.notes.rendered == "For you: Ann is 7."
    assert other.notes.rendered == "For any: Ann is 7."


def test_the_prompts_own_schema_serves_where_the_artifact_has_none(generate):
    artifact = JsonGeneration(name="generate", prompt_id="extract")
    prompt = Prompt(id="extract", template="{{text}}", output_schema={"type": "array"})
    output, _, _ = generate(["[1]"], artifact=artifact, prompts=[prompt])

    assert output.data == [1]


def test_the_skills_schema_serves_where_neither_has_one(generate):
    artifact = JsonGeneration(name="generate", prompt_id="extract")
    output, _, _ = generate(["true"], artifact=artifact, skill={"output_schema": {"type": "boolean"}})

    assert output.data is True


def test_without_any_schema_nothing_is_asked(generate):
    with pytest.raises(Invalid, match="no output schema"):
        generate([], artifact=JsonGeneration(name="generate", prompt_id="extract"))


def test_a_schema_that_reaches_outside_itself_is_refused_before_anything_is_asked(generate):
    artifact = ARTIFACT.model_copy(update={"output_schema": {"$ref": "file:///etc/passwd"}})

    with pytest.raises(Invalid, match="schema is not valid"):
        generate([], artifact=artifact)


def test_inputs_that_the_skill_or_its_prompt_does_not_allow_are_refused_before_anything_is_asked(generate, steps):
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    with pytest.raises(Invalid) as refused:
        generate([], inputs={"tone": 3}, skill={"parameters": parameters})

    assert len(refused.value.problems) == 3
    assert states(steps) == ["VALIDATING"]


def test_an_unknown_prompt_is_not_found(generate):
    with pytest.raises(NotFound, match=r"Prompt '.*' not found"):
        generate([], prompts=[])


def test_a_model_that_is_unavailable_leaves_it_to_a_fallback(generate):
    with pytest.raises(Unavailable, match="overloaded"):
        generate([Unavailable("It is overloaded.")])


def test_without_a_model_it_says_so(model_client, renderer, call_of):
    handler = JsonGenerationHandler(model_client, renderer, Registry(lambda: [MemoryShelf(ASK)]))

    with pytest.raises(NoModel):
        asyncio.run(handler.run(call_of(ARTIFACT, INPUTS)))


def test_a_dry_run_ends_with_what_would_be_sent(generate):
    with pytest.raises(DryRunEnded):
        generate([], dry_run=True)


def test_a_generation_can_be_cancelled_while_it_waits(model_client, renderer, call_of, steps):
    asked = asyncio.Event()

    class Endless(ScriptedModel):
        async def complete(self, request):
            self.requests.append(request)
            asked.set()
            await asyncio.Event().wait()

    async def cancelled():
        handler = JsonGenerationHandler(model_client, renderer, Registry(lambda: [MemoryShelf(ASK)]))
        task = asyncio.create_task(handler.run(call_of(ARTIFACT, INPUTS, model=Endless([]))))
        await asked.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert states(steps) == ["VALIDATING", "GENERATING"]
