"""prompt_template: the variant for the model, with its values in place, after what the skill says before it asks."""

from __future__ import annotations

import asyncio
import json

import pytest

from prowess.errors import Invalid, NoModel, OutputInvalid, TimedOut
from prowess.handlers.prompt_template import PromptTemplateHandler
from prowess.llm.model import Message, Reply
from prowess.llm.scripted import ScriptedModel
from prowess.run.call import Call, DryRunEnded
from prowess.skill.kinds import Approach, Example, PromptTemplate
from prowess.skill.model import Skill


@pytest.fixture
def called(new_call):
    """A call of the first of these artifacts of a skill."""

    def make(model, *artifacts, inputs=None, parameters=None, **settings) -> Call:
        skill = Skill(slug="checker", title="C", description="Checks.", artifacts=artifacts, parameters=parameters)
        return new_call(skill, artifacts[0], inputs, model=model, **settings)

    return make


@pytest.fixture
def finish(model_client, renderer):
    """The output of a call."""
    handler = PromptTemplateHandler(model_client, renderer)
    return lambda call: asyncio.run(handler.run(call))


@pytest.fixture
def run(finish, called):
    """Call the first of these artifacts; its output, and the call."""

    def started(model, *artifacts, **settings):
        call = called(model, *artifacts, **settings)
        return finish(call), call

    return started


def asked(model: ScriptedModel) -> str:
    """What the model was last asked."""
    return model.requests[-1].messages[-1].text


CHECK = PromptTemplate(name="Check", content="Check {{ entity }}.")


def test_the_rendered_template_is_sent_and_the_answer_is_the_output(run):
    with ScriptedModel(["All is well."]) as model:
        output, call = run(model, CHECK, inputs={"entity": "Älva <b>"})

    assert (output.kind, output.text, output.data, output.value) == (
        "prompt_template",
        "All is well.",
        None,
        "All is well.",
    )
    assert model.requests[0].messages == (Message(role="user", text="Check Älva <b>."),)
    assert (call.notes.rendered, call.notes.raw) == ("Check Älva <b>.", "All is well.")
    assert (call.notes.model, call.notes.usage.requests) == ("scripted:test", 1)


def test_mustache_templates_are_rendered_as_such(run):
    template = PromptTemplate(name="Check", syntax="mustache", content="Check {{entity}}{{#more}}, {{.}}{{/more}}.")
    with ScriptedModel(["Fine."]) as model:
        run(model, template, inputs={"entity": "Älva", "more": ["Bo", "Cy"]})

    assert asked(model) == "Check Älva, Bo, Cy."


@pytest.mark.parametrize(
    ("family", "expected"), [("anthropic", "claude"), ("openai", "default"), ("meta", "default"), ("google", "gemini")]
)
def test_the_variant_is_the_one_for_the_model_in_use(run, family, expected):
    artifacts = (
        PromptTemplate(name="Check", content="default"),
        PromptTemplate(name="Check", variant="anthropic", content="claude"),
        PromptTemplate(name="Check", variant="google", content="gemini"),
        PromptTemplate(name="Other", variant="openai", content="another artifact"),
    )
    with ScriptedModel(["Fine."], family=family) as model:
        _, call = run(model, *artifacts)

    assert asked(model) == expected
    assert call.notes.artifact.content == expected


def test_without_a_default_the_first_variant_by_ordinal_is_taken(run):
    artifacts = (
        PromptTemplate(name="Check", variant="anthropic", ordinal=2, content="second"),
        PromptTemplate(name="Check", variant="google", ordinal=1, content="first"),
    )
    with ScriptedModel(["Fine."], family="openai") as model:
        run(model, *artifacts)

    assert asked(model) == "first"


def test_approaches_are_the_system_prompt_and_examples_come_before_what_is_asked(run):
    artifacts = (
        CHECK,
        Approach(name="method", content="Quote both places."),
        Example(name="one", content="Input: Check Bo.\nOutput: Bo is fine."),
        Example(name="long", content=f"Input: a\nOutput: {'b' * 5_000}"),
    )
    with ScriptedModel(["Fine."]) as model:
        _, call = run(model, *artifacts, inputs={"entity": "Älva"})

    assert model.requests[0].messages == (
        Message(role="system", text="Quote both places."),
        Message(role="user", text="Check Bo."),
        Message(role="assistant", text="Bo is fine."),
        Message(role="user", text="Check Älva."),
    )
    assert call.notes.detail["examples_omitted"] == 1


def test_the_answer_is_watched_as_it_comes(run):
    steps = []
    answer = "A long answer that comes in several pieces, one after the other."
    with ScriptedModel([answer]) as model:
        run(model, CHECK, inputs={"entity": "Älva"}, on_step=steps.append)

    assert len(steps) > 1
    assert "".join(step.text for step in steps) == answer


PARAMETERS = {
    "type": "object",
    "required": ["entity"],
    "properties": {"entity": {"type": "string"}, "depth": {"type": "integer", "default": 2}},
    "additionalProperties": False,
}


def test_defaults_of_the_skill_and_of_the_template_are_filled_in(run):
    template = PromptTemplate(
        name="Check",
        content="{{ entity }} {{ depth }} {{ tone }}",
        vars_schema={"properties": {"tone": {"default": "kind"}}, "additionalProperties": False},
    )
    with ScriptedModel(["Fine."]) as model:
        run(model, template, inputs={"entity": "Älva"}, parameters=PARAMETERS)

    assert asked(model) == "Älva 2 kind"


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ({}, "entity"),
        ({"entity": 3}, "/entity"),
        ({"entity": "a", "depth": "deep"}, "/depth"),
        ({"entity": "a", "x": 1}, "x"),
    ],
)
def test_inputs_that_the_skill_does_not_take_are_refused_before_anything_is_asked(run, inputs, field):
    with ScriptedModel([]) as model, pytest.raises(Invalid, match="Invalid inputs") as raised:
        run(model, CHECK, inputs=inputs, parameters=PARAMETERS)

    assert [problem.field for problem in raised.value.problems] == [field]
    assert raised.value.hint == "The skill takes: entity (required), depth."
    assert model.requests == []


def test_what_earlier_artifacts_gave_is_not_held_against_the_inputs(run):
    inputs = {"entity": "Älva", "collect": {"claims": 3}, "claims": 3, "previous": {"claims": 3}}
    template = PromptTemplate(name="Check", content="{{ entity }} {{ claims }} {{ previous.claims }}")
    with ScriptedModel(["Fine."]) as model:
        run(model, template, inputs=inputs, parameters=PARAMETERS)

    assert asked(model) == "Älva 3 3"


def test_an_input_that_is_missing_in_the_template_is_named(run):
    with ScriptedModel([]) as model, pytest.raises(Invalid, match="entity"):
        run(model, CHECK)


def test_an_input_is_never_taken_for_a_template(run):
    with ScriptedModel(["Fine."]) as model:
        run(model, CHECK, inputs={"entity": "{{ 7 * 7 }}{% include 'x' %}"})

    assert asked(model) == "Check {{ 7 * 7 }}{% include 'x' %}."


SCHEMA = {"type": "object", "required": ["found"], "properties": {"found": {"type": "array"}}}
LISTING = PromptTemplate(name="List", content="List them.", output_schema=SCHEMA)


def test_with_an_output_schema_the_answer_is_data_that_satisfies_it(run):
    with ScriptedModel([{"found": ["Älva"]}]) as model:
        output, call = run(model, LISTING)

    assert output.value == output.data == {"found": ["Älva"]}
    assert output.text == '{\n  "found": [\n    "Älva"\n  ]\n}'
    assert call.notes.raw == '{"found": ["Älva"]}'
    assert model.requests[0].schema == SCHEMA
    assert asked(model) == "List them."


def test_a_text_that_was_cut_is_an_output_that_says_so(run):
    with ScriptedModel([Reply(text="Once upon", complete=False), "Once."]) as model:
        (cut, call), (whole, _) = (
            run(model, PromptTemplate(name="tell", content="Tell.")),
            run(model, PromptTemplate(name="tell", content="Tell.")),
        )

    assert (cut.text, cut.result, call.notes.detail["truncated"]) == ("Once upon", {"truncated": True}, True)
    assert whole.result == {}


def test_a_model_that_cannot_be_held_to_a_schema_is_told_it(run):
    with ScriptedModel(['Here you are:\n```json\n{"found": []}\n```'], structured=False) as model:
        output, call = run(model, LISTING)

    assert output.data == {"found": []}
    assert asked(model).startswith("List them.")
    assert '"required": ["found"]' in asked(model)
    assert call.notes.rendered == "List them."


@pytest.mark.parametrize(
    ("answer", "words"), [("None.", "JSON"), ({"found": 3}, "/found"), ({}, "found"), ("", "JSON")]
)
def test_an_answer_that_does_not_satisfy_the_schema_is_invalid_and_still_noted(finish, answer, words, called):
    call = called(ScriptedModel([answer]), LISTING)

    with pytest.raises(OutputInvalid, match=words) as raised:
        finish(call)
    assert raised.value.problems
    assert call.notes.raw == (answer if isinstance(answer, str) else json.dumps(answer))
    assert call.notes.usage.requests == 1


def test_an_output_schema_that_cannot_be_used_is_told_before_anything_is_asked(run):
    template = PromptTemplate(name="List", content="x", output_schema={"type": "thing"})
    with ScriptedModel([]) as model, pytest.raises(Invalid, match="schema"):
        run(model, template)


def test_without_a_model_it_says_so(run):
    with pytest.raises(NoModel):
        run("", CHECK, inputs={"entity": "Älva"})


def test_an_error_of_the_model_comes_through_with_what_was_rendered_noted(finish, called):
    call = called(ScriptedModel([TimedOut("Too slow.")]), CHECK, inputs={"entity": "a"})

    with pytest.raises(TimedOut):
        finish(call)
    assert (call.notes.rendered, call.notes.raw) == ("Check a.", "")


def test_a_dry_run_ends_with_exactly_what_would_be_sent(finish, called):
    model = ScriptedModel([])
    call = called(model, CHECK, Approach(name="a", content="Be kind."), inputs={"entity": "a"}, dry_run=True)

    with pytest.raises(DryRunEnded):
        finish(call)
    [sent] = call.notes.sent
    assert sent.model == "scripted:test"
    assert [message.text for message in sent.request.messages] == ["Be kind.", "Check a."]
    assert model.requests == []
