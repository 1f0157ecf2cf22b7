"""Prowess without `await`: the same API, over a loop in a thread of its own."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from prowess import ScriptedModel
from prowess import open as open_module
from prowess.agent.updates import TurnEnded
from prowess.engine.engine import Engine
from prowess.errors import Invalid, NotFound
from prowess.llm.model import Reply, Request
from prowess.policy.actor import agent_of
from prowess.settings import read_settings
from prowess.sync import Prowess, Toolbox

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def prowess(place: Any) -> Any:
    place.skill("triage")
    place.skill("greet", files={"agents/prowess.yaml": "title: Greet\n", "prompts/greet.j2": "Greet {{ name }}."})
    with Prowess.open(settings=read_settings(place.environment)) as opened:
        yield opened


def test_verbs_and_parts_answer_at_once(prowess: Prowess):
    session = prowess.sessions.open("chat")
    assert prowess.enable("triage", session=session).has("triage")
    assert "triage" in prowess.prompt(session)
    assert [card.slug for card in prowess.skills.cards()] == ["greet", "triage"]
    with pytest.raises(NotFound):
        prowess.skills.get("nothing")


def test_a_notebook_shows_what_a_part_is(prowess: Prowess):
    assert repr(prowess.skills) == "<Skills without await>"


def test_inputs_that_are_no_mapping_say_what_to_pass(prowess: Prowess):
    with pytest.raises(Invalid, match="The inputs are a list, not a mapping") as raised:
        prowess.run("greet", ["some text"])  # pyright: ignore[reportArgumentType]
    assert '{"text": "…"}' in raised.value.hint


def test_an_asynchronous_iterator_is_an_iterator(prowess: Prowess):
    prowess.enable("triage", session=prowess.sessions.open("chat"))
    events = prowess.events.follow(after=0)
    assert next(iter(events)).name == "skills_state_changed"
    events.close()
    assert list(prowess.traces.export()) == []


def test_a_conversation_answers_step_by_step(prowess: Prowess):
    conversation = prowess.agent.start(title="Notes")
    updates = list(prowess.agent.send(conversation.id, "good morning", model=ScriptedModel(["Good morning!"])))
    assert [update.text for update in updates if isinstance(update, TurnEnded)] == ["Good morning!"]


def test_an_interrupted_call_has_ended_when_the_interrupt_is_raised(prowess: Prowess):
    ended: list[str] = []

    class InterruptedModel(ScriptedModel):
        async def complete(self, request: Request) -> Reply:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(1000):  # cleaning up takes longer than raising the interrupt
                    await asyncio.sleep(0)
                ended.append(request.messages[0].text)
            raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        prowess.run("greet", {"name": "Ann"}, model=InterruptedModel([]))
    assert ended == ["Greet Ann."]
    assert [trace.status for trace in prowess.traces.list()] == ["cancelled"]


def test_it_works_where_a_loop_is_running_as_in_a_notebook(prowess: Prowess):
    async def cell() -> list[str]:
        return [card.slug for card in prowess.skills.cards()]

    assert asyncio.run(cell()) == ["greet", "triage"]


def test_another_actor_shares_what_is_open(prowess: Prowess):
    agent = prowess.as_actor(agent_of(prowess.actor, name="bot"))
    assert agent.actor.label == "agent:bot"
    assert agent.sessions.open("own").actor == "agent:bot"


def test_a_toolbox_is_called_at_once(prowess: Prowess):
    box = Toolbox(prowess, conversation="chat")
    assert "search_skills" in [tool.name for tool in box.offered()]
    assert box.call("load_skill", {"name": "triage"}).ok
    assert box.specs("anthropic")[0]["input_schema"]["type"] == "object"


def test_closing_ends_the_thread_and_later_calls_are_refused(place: Any):
    opened = Prowess.open(settings=read_settings(place.environment))
    assert any(thread.name == "prowess-sync" for thread in threading.enumerate())
    opened.close()
    opened.close()
    assert not any(thread.name == "prowess-sync" for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="was closed"):
        opened.skills.cards()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_use_what_its_parent_opened(prowess: Prowess):
    prowess.match("greet")
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            os._exit(0 if prowess.sessions.open("child").id else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert prowess.sessions.find("child")


def test_a_callback_that_would_wait_for_itself_is_refused(prowess: Prowess):
    async def callback() -> None:
        prowess.skills.cards()

    with pytest.raises(RuntimeError, match="callbacks"):
        prowess._loop.run(callback())


def test_completion_sees_the_same_names(prowess: Prowess):
    assert {"skills", "match", "run"} <= set(dir(prowess))
    assert dir(prowess) == [name for name in dir(open_module.Prowess) if not name.startswith("_")]
    assert prowess.match.__doc__ == Engine.match.__doc__


def test_the_types_have_every_name_that_completion_sees(prowess: Prowess):
    tree = ast.parse((ROOT / "src/prowess/sync.pyi").read_text())
    [typed] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Prowess"]
    names = {node.name for node in typed.body if isinstance(node, ast.FunctionDef)}
    assert set(dir(prowess)) <= names
    assert "evals" in names


def test_the_generated_types_are_current():
    command = [sys.executable, str(ROOT / "scripts/sync_stub.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
