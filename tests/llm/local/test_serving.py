"""The real small model: it answers, keeps to a schema, and its process ends when it must."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import aclosing

import jsonschema_rs
import pytest

from prowess.errors import RunFailed, Unavailable
from prowess.llm.local import open_local
from prowess.llm.model import Message, ModelConfig, Reply, Request

pytestmark = pytest.mark.local_model

SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", "green", "blue"]},
        "words": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2, "maxItems": 2},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["colour", "words", "count"],
    "additionalProperties": False,
}


def asking(text, **more):
    return Request(messages=(Message(role="user", text=text),), temperature=0, **{"max_tokens": 24, **more})


def done(model, work):
    """What comes of some work in an event loop of its own, in which every connection is closed at last."""

    async def whole():
        try:
            return await work
        finally:
            await model.close()

    return asyncio.run(whole())


@pytest.fixture
def model(smollm2, home):
    return open_local(smollm2, ModelConfig(home=home / ".prowess"))


def serving(model):
    """The process that serves it."""
    return model._server.serving


def test_an_answer_has_words_and_counts_its_tokens(model):
    reply = done(model, model.complete(asking("Say hello.")))
    assert (reply.text.strip() != "", reply.usage.requests) == (True, 1)
    assert reply.usage.input_tokens > 0
    assert 0 < reply.usage.output_tokens <= 24


def test_an_answer_keeps_to_a_schema(model):
    reply = done(model, model.complete(asking("Give a colour and two words.", schema=SCHEMA, max_tokens=200)))
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(reply.text))


def test_a_stream_ends_with_the_whole_of_its_pieces(model):
    async def pieces():
        return [piece async for piece in model.stream(asking("Count to five."))]

    *texts, last = done(model, pieces())
    assert isinstance(last, Reply)
    assert (len(texts) > 1, "".join(texts)) == (True, last.text)


def test_a_stream_that_nobody_wants_any_more_leaves_room_for_the_next(model):
    async def work():
        async with aclosing(model.stream(asking("Tell a long story.", max_tokens=1000))) as pieces:
            async for _ in pieces:
                break
        return await model.complete(asking("Say hello.", max_tokens=4))

    assert done(model, work()).usage.output_tokens <= 4


def test_it_serves_several_event_loops_one_after_the_other_by_one_process(model):
    done(model, model.complete(asking("Say hello.", max_tokens=2)))
    process = serving(model).process.pid
    done(model, model.complete(asking("Say hello.", max_tokens=2)))
    assert serving(model).process.pid == process


def test_only_who_knows_the_key_is_answered_and_only_on_this_machine(model):
    done(model, model.complete(asking("Say hello.", max_tokens=2)))
    url = serving(model).url
    assert url.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/models")
    assert caught.value.code == 401
    caught.value.close()
    assert serving(model).key not in f"{serving(model)!r} {model!r}"


def test_a_server_that_died_is_started_again(model):
    done(model, model.complete(asking("Say hello.", max_tokens=2)))
    first = serving(model).process
    first.kill()
    first.wait()
    assert done(model, model.complete(asking("Say hello.", max_tokens=2))).usage.requests == 1
    assert serving(model).process.pid != first.pid


def test_a_server_that_dies_while_it_answers_is_an_error_of_ours(model):
    async def work():
        async with aclosing(model.stream(asking("Tell a long story.", max_tokens=1000))) as pieces:
            async for _ in pieces:
                if serving(model) is not None:
                    serving(model).process.kill()

    with pytest.raises((Unavailable, RunFailed)):
        done(model, work())


def test_its_process_ends_when_nobody_holds_the_model(smollm2, home):
    model = open_local(smollm2, ModelConfig(home=home / ".prowess"))
    done(model, model.complete(asking("Say hello.", max_tokens=2)))
    process = serving(model).process
    del model
    gc.collect()
    assert process.returncode == 0


OWNER = """
import asyncio, sys, time
from pathlib import Path
from prowess.llm.model import ModelConfig
from prowess.llm.local import open_local
from prowess.llm.model import Message, Request
model = open_local("smollm2", ModelConfig(home=Path(sys.argv[1])))
asyncio.run(model.complete(Request(messages=(Message(role="user", text="Hi."),), max_tokens=1)))
print(model._server.serving.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_its_process_ends_with_the_one_that_started_it_however_that_ends(smollm2, home, end):
    command = [sys.executable, "-c", OWNER, str(home / ".prowess")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        watched = os.pidfd_open(pid)
        if end == "kill":
            owner.send_signal(signal.SIGKILL)
        else:
            owner.stdin.close()
        owner.wait()
    assert ended(watched)


def ended(process: int) -> bool:
    """Wait until a process is gone; False where it stays."""
    try:
        return bool(select.select([process], [], [], 30)[0])
    finally:
        os.close(process)
