"""A scripted model says what its script says, and nothing goes unnoticed that the script does not expect."""

from __future__ import annotations

import asyncio
import json

import pytest

from prowess.errors import Invalid, NotFound, RunFailed, TimedOut, Unavailable
from prowess.llm.model import Message, ModelConfig, Reply, Request, ToolCall, Usage
from prowess.llm.models import Models
from prowess.llm.scripted import Answer, ScriptedModel, read_script

pytestmark = pytest.mark.anyio


def asking(text: str = "Where?") -> Request:
    return Request(messages=(Message(role="user", text=text),))


async def test_steps_are_answered_in_order_and_what_was_asked_is_kept():
    with ScriptedModel(["one", {"two": 2}, Reply(text="three", usage=Usage(input_tokens=7))]) as model:
        replies = [await model.complete(asking(text)) for text in ("a", "b", "c")]

    assert [reply.text for reply in replies] == ["one", '{"two": 2}', "three"]
    assert replies[2].usage.input_tokens == 7
    assert [request.messages[0].text for request in model.requests] == ["a", "b", "c"]


async def test_tokens_are_estimated_alike_every_time():
    model = ScriptedModel(["12345", "12345"])

    first, second = [await model.complete(asking("1234567")) for _ in range(2)]

    assert first.usage == second.usage == Usage(input_tokens=2, output_tokens=2, requests=1)


async def test_one_request_too_many_shows_what_was_asked():
    model = ScriptedModel([])

    with pytest.raises(RunFailed, match=r"Unexpected request number 1 .*: user: 'Who\?'\. It expects no more requests"):
        await model.complete(asking("Who?"))


async def test_a_request_that_does_not_fit_shows_both_and_takes_no_step():
    model = ScriptedModel([Answer(when="Paris", reply="France"), Answer(when=lambda _: False, reply="")])

    with pytest.raises(RunFailed, match=r"user: 'Rome'\. It expects a request with 'Paris'"):
        await model.complete(asking("Rome"))

    assert model.left == 2
    assert (await model.complete(asking("Where is Paris?"))).text == "France"


async def test_steps_that_nobody_asked_for_are_an_error_at_the_end():
    with (
        pytest.raises(RunFailed, match="1 step of the script scripted:test was not used"),
        ScriptedModel(["x"]),
    ):
        pass


async def test_an_error_inside_the_block_is_not_hidden_by_steps_that_are_left():
    with pytest.raises(ZeroDivisionError), ScriptedModel(["x"]):
        _ = 1 / 0


async def test_an_exception_of_the_script_is_raised_in_its_turn():
    model = ScriptedModel([Unavailable("busy"), "ok"])

    with pytest.raises(Unavailable, match="busy"):
        await model.complete(asking())
    assert (await model.complete(asking())).text == "ok"


async def test_an_unordered_script_answers_whoever_fits():
    steps = [Answer(when=f"number {number}.", reply=f"{number}") for number in range(20)]

    with ScriptedModel(steps, unordered=True) as model:
        asked = reversed(range(20))
        replies = await asyncio.gather(*(model.complete(asking(f"number {number}.")) for number in asked))

    assert [reply.text for reply in replies] == [f"{number}" for number in reversed(range(20))]


def script(folder, content) -> str:
    path = folder / "script.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


async def test_a_script_in_a_file_is_opened_by_name(tmp_path):
    steps = [
        "plain",
        {"text": "counted", "usage": {"input_tokens": 3, "output_tokens": 4}},
        {"json": {"a": [1, "ü"]}, "when": "as JSON"},
        {"calls": [{"name": "find", "arguments": {"slug": "anna"}}]},
        {"error": {"code": "unavailable", "message": "busy"}},
        {"error": {"code": "timed-out"}},
    ]
    path = script(tmp_path, {"steps": steps, "family": "anthropic", "structured": False})
    model = Models(ModelConfig()).open(f"scripted:{path}")

    assert (model.name, model.family, model.structured) == ("scripted:script.json", "anthropic", False)
    assert (await model.complete(asking())).text == "plain"
    assert (await model.complete(asking())).usage == Usage(input_tokens=3, output_tokens=4, requests=1)
    assert (await model.complete(asking("as JSON"))).text == '{"a": [1, "ü"]}'
    assert (await model.complete(asking())).calls == (ToolCall(id="call-1", name="find", arguments={"slug": "anna"}),)
    with pytest.raises(Unavailable, match="busy"):
        await model.complete(asking())
    with pytest.raises(TimedOut):
        await model.complete(asking())
    with pytest.raises(RunFailed, match="no more requests"):
        await model.complete(asking())


@pytest.mark.parametrize(
    "content",
    ["", "nonsense", "3", "{}", '{"steps": 3}', "[3]", "[null]", "[{}]", '[{"text": "a", "json": 1}]', "[" * 100_000,
     '[{"text": "a", "wen": "b"}]', '[{"text": "a", "when": 3}]', '[{"calls": [{}]}]', '[{"calls": 3}]',
     '[{"error": {"code": "nonsense"}}]', '[{"text": "a", "usage": 3}]', '[{"text": "a", "usage": {"input_tokens": "x"}}]',
     '[{"calls": ["x"]}]'],
)  # fmt: skip
def test_a_script_that_cannot_be_read_says_what_a_step_is(tmp_path, content):
    with pytest.raises(Invalid) as caught:
        read_script(tmp_path / script(tmp_path, content))

    assert '"when"' in caught.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{"when": "a", "reply": "b"}], 'has an unknown field "reply" at steps.0'),
        ({"steps": [], "unorderd": True}, 'has an unknown field "unorderd"'),
        (["a", {"when": "b"}], 'at steps.1: a step must have exactly one of "text"'),
    ],
)
def test_a_wrong_step_is_named_with_what_is_wrong(tmp_path, content, said):
    with pytest.raises(Invalid, match=said):
        read_script(tmp_path / script(tmp_path, content))


def test_a_script_that_is_no_file_is_not_found(tmp_path):
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(NotFound):
            read_script(path)


def test_a_script_without_steps_says_what_is_missing(tmp_path):
    with pytest.raises(Invalid, match='without "steps"'):
        read_script(tmp_path / script(tmp_path, {"family": "anthropic"}))


@pytest.mark.parametrize(
    "steps",
    ["Hello", b"Hello", {"a": 1}, None, 5, [None], [5], [["Hello"]], [{"a": object()}],
     [Answer(when="x", reply=5)], [Answer(when=5, reply="x")]],  # pyright: ignore[reportArgumentType]
)  # fmt: skip
def test_what_is_no_list_of_steps_is_refused_at_once(steps):
    with pytest.raises(Invalid, match=r"script is") as caught:
        ScriptedModel(steps)

    assert "list" in caught.value.hint


async def test_closing_models_tells_of_steps_that_were_not_asked_for_once_any_was(tmp_path):
    models = Models(ModelConfig())
    model = models.open(f"scripted:{script(tmp_path, ['one', 'two'])}")
    await models.close()
    await model.complete(asking())

    with pytest.raises(RunFailed, match="1 step of the script"):
        await models.close()
    await model.complete(asking())
    await models.close()
