"""A server of unknown abilities is asked for JSON in words too, and a schema that it refuses is not sent again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prowess.errors import RunFailed, TimedOut, TryLater, Unavailable
from prowess.llm.model import Message, Reply, Request
from prowess.llm.scripted import Answer, ScriptedModel
from prowess.llm.wrappers import CautiousModel

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
ASKING = Request(
    messages=(Message(role="system", text="Be brief."), Message(role="user", text="Where?")), schema=SCHEMA
)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def ask(request):
    async def once(model, asking: Request = ASKING) -> str:
        if not request.param:
            return (await model.complete(asking)).text
        *pieces, last = [piece async for piece in model.stream(asking)]
        assert "".join(pieces) == last.text
        return last.text

    return once


def refuse_schemas(inner: ScriptedModel) -> list[bool]:
    return [request.schema is not None for request in inner.requests]


async def test_the_schema_is_sent_and_said(ask):
    inner = ScriptedModel(['{"city": "Rome"}'])

    assert await ask(CautiousModel(inner)) == '{"city": "Rome"}'

    assert inner.requests[0].schema == SCHEMA
    assert inner.requests[0].messages[0].text == "Be brief."
    assert inner.requests[0].messages[1].text.startswith("Where?\n\nAnswer only with JSON")
    assert '"city"' in inner.requests[0].messages[1].text


async def test_a_request_without_a_schema_goes_as_it_is(ask):
    inner = ScriptedModel(["Rome"])
    plain = Request(messages=ASKING.messages)

    assert await ask(CautiousModel(inner), plain) == "Rome"

    assert inner.requests == [plain]


async def test_a_server_that_refuses_a_schema_is_asked_in_words_from_then_on(ask):
    inner = ScriptedModel([RunFailed("status 400"), '{"city": "Rome"}', '{"city": "Bern"}'])
    model = CautiousModel(inner)
    assert model.structured

    assert [await ask(model), await ask(model)] == ['{"city": "Rome"}', '{"city": "Bern"}']

    assert refuse_schemas(inner) == [True, False, False]
    assert all('"city"' in request.messages[1].text for request in inner.requests)
    assert not model.structured
    inner.finish()


async def test_a_refusal_that_is_about_something_else_is_told_as_it_was(ask):
    inner = ScriptedModel([RunFailed("too long"), RunFailed("still too long"), '{"city": "Rome"}'])
    model = CautiousModel(inner)

    with pytest.raises(RunFailed, match=r"^too long$"):
        await ask(model)

    assert model.structured
    assert await ask(model) == '{"city": "Rome"}'
    assert refuse_schemas(inner) == [True, False, True]


async def test_a_server_that_took_a_schema_once_is_not_asked_without_one(ask):
    inner = ScriptedModel(['{"city": "Rome"}', RunFailed("no")])
    model = CautiousModel(inner)

    await ask(model)
    with pytest.raises(RunFailed):
        await ask(model)

    assert refuse_schemas(inner) == [True, True]


@pytest.mark.parametrize("error", [TimedOut("late"), TryLater("busy"), Unavailable("gone")])
async def test_what_says_nothing_about_schemas_is_passed_on(ask, error):
    inner = ScriptedModel([error])

    with pytest.raises(type(error)):
        await ask(CautiousModel(inner))

    inner.finish()


async def test_a_conversation_without_a_user_gets_a_turn_for_the_words():
    inner = ScriptedModel([Answer(when="JSON Schema", reply="{}")])
    asking = Request(messages=(Message(role="system", text="Go."),), schema=SCHEMA)

    await CautiousModel(inner).complete(asking)

    assert [message.role for message in inner.requests[0].messages] == ["system", "user"]


@pytest.mark.parametrize(("schema", "structured"), [({"type": "array"}, True), (SCHEMA, False)], ids=["list", "plain"])
async def test_a_schema_that_is_in_words_anyway_is_said_once(ask, schema, structured):
    inner = ScriptedModel(["[]", "[]"], structured=structured)
    model = CautiousModel(inner)

    await ask(model, replace(ASKING, schema=schema))
    await ask(model, replace(ASKING, schema=schema))

    assert [request.messages[1].text.count("JSON Schema") for request in inner.requests] == [1, 1]


@pytest.mark.few(1)
async def test_a_compatible_server_that_knows_no_schemas_serves_all_the_same(bench, ask):
    made = bench("compatible", attempts=1)
    unknown = json.dumps({"error": {"message": "This response_format type is unavailable now"}}).encode()
    made.will(lambda handler: handler.whole(400, unknown), Reply(text='{"city": "Rome"}', model="m"))

    assert await ask(made.model) == '{"city": "Rome"}'

    assert ["response_format" in asked for asked in made.provider.asked] == [True, False]
    await made.close()
