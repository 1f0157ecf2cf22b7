"""The real small model calls tools: the call is valid. Whether it is a good one is not judged."""

from __future__ import annotations

import pytest

from prowess.llm.model import Message, ModelConfig, Request, ToolSpec
from prowess.llm.models import Models

pytestmark = [pytest.mark.anyio, pytest.mark.local_model]

WEATHER = ToolSpec(
    name="weather",
    description="Show the weather of a city.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"enum": ["Rome", "Bern"]},
            "unit": {"enum": ["celsius", "kelvin"]},
            "note": {"type": "string", "maxLength": 12, "pattern": "a pattern that no grammar takes"},
        },
        "required": ["city", "unit", "note"],
        "additionalProperties": False,
    },
)
ASKING = (
    Message(role="system", text="Always call a tool."),
    Message(role="user", text="What is the weather in Rome?"),
)


async def test_the_small_model_calls_a_tool_and_goes_on_with_its_result(smollm2, home):
    models = Models(ModelConfig(home=home / ".prowess"))
    model = models.open(f"local:{smollm2}")
    request = Request(messages=ASKING, tools=(WEATHER,), temperature=0, max_tokens=120, seconds=600)

    first = await model.complete(request)
    (call,) = first.calls
    assert call.name == "weather"
    assert call.arguments["city"] in ("Rome", "Bern")
    assert set(call.arguments) == {"city", "unit", "note"}

    said = Message(role="assistant", calls=first.calls)
    answered = Message(role="tool", name=call.name, call_id=call.id, text='{"sky": "clear"}')
    last = Request(messages=(*ASKING, said, answered), tools=(WEATHER,), temperature=0, max_tokens=120, seconds=600)
    *pieces, whole = [piece async for piece in model.stream(last)]
    assert "".join(pieces) == whole.text
    assert bool(whole.text) != bool(whole.calls)
    assert whole.usage.output_tokens > 0
    await models.close()
