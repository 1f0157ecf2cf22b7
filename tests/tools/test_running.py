"""The tool that runs skills, as an agent calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor
from prowess.policy.organization import OrgPolicy
from prowess.policy.roles import find_role
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

SIDECAR = """
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    ordinal: 1
    assertions:
      - {type: length, check: char_range, min: 1, max: 40, description: short enough}
      - {type: pattern, check: match, pattern: '!$', severity: soft, description: ends loudly}
"""


@pytest.fixture
def greeter(place: Any) -> Any:
    """A place with a skill that has something to run."""
    place.skill("greeter", files={"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."})
    return place


async def test_an_agent_gets_what_came_out_and_which_checks_did_not_pass(
    greeter: Any, box: Callable[..., Toolbox], ann: Actor
):
    async with greeter.open(ann) as engine:
        with ScriptedModel(["Good morning, Ada."]) as model:
            answer = await box(engine, fallback_model=model).call(
                "run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}}
            )
        assert answer.ok
        (part,) = answer.data["parts"]
        trace = await engine.traces.get(part["trace"])
    assert answer.data["output"] == "Good morning, Ada."
    assert (part["artifact"], part["kind"], part["status"]) == ("greet", "prompt_template", "ok")
    assert [(one["check"], one["severity"]) for one in part["failed"]] == [("ends loudly", "soft")]
    assert (trace.run_id, trace.status) == (answer.data["run_id"], "ok")
    json.dumps(answer.data)


async def test_a_run_that_gave_nothing_good_says_why_and_what_came_out(
    greeter: Any, box: Callable[..., Toolbox], ann: Actor
):
    async with greeter.open(ann) as engine:
        with ScriptedModel(["Good morning, " + "dear " * 20 + "Ada!"]) as model:
            answer = await box(engine, fallback_model=model).call(
                "run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}}
            )
    assert answer.data["error"]["code"] == "assertion-failed"
    assert (answer.ok, answer.error and answer.error.code) == (False, "assertion-failed")
    assert answer.data["hint"]
    assert [one["check"] for one in answer.data["parts"][0]["failed"]] == ["short enough"]
    assert "dear" in answer.data["output"]


async def test_who_watches_is_told_of_the_progress(greeter: Any, box: Callable[..., Toolbox], ann: Actor):
    steps = []
    async with greeter.open(ann) as engine:
        toolbox = box(engine, fallback_model=ScriptedModel(["Good morning, Ada!"]), on_step=steps.append)
        await toolbox.call("run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}})
    assert "".join(step.text for step in steps) == "Good morning, Ada!"
    assert {step.artifact for step in steps} == {"greet"}


async def test_a_run_belongs_to_the_conversation_of_the_agent(greeter: Any, box: Callable[..., Toolbox], ann: Actor):
    async with greeter.open(ann) as engine:
        toolbox = box(engine, fallback_model=ScriptedModel(["Hello!"]))
        session = await toolbox.context.session()
        await toolbox.call("run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}})
        (row,) = await engine.traces.list()
    assert row.session_id == session.id


async def test_a_run_opens_the_conversation_of_an_agent_that_has_enabled_nothing(
    greeter: Any, box: Callable[..., Toolbox], ann: Actor
):
    call = ("run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}})
    async with greeter.open(ann) as engine:
        toolbox = box(engine, fallback_model=ScriptedModel(["Hello!", "Hello!"]))
        assert (await toolbox.call("run_skill", {"skill": "nothing"})).ok is False
        assert await toolbox.context.find_session() is None
        for _ in range(2):
            assert (await toolbox.call(*call)).ok
        session = await toolbox.context.find_session()
        rows = await engine.traces.list()
    assert session is not None
    assert [row.session_id for row in rows] == [session.id] * 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"skill": "nothing"}, "not-found"),
        ({"skill": "greeter", "artifact": "nothing"}, "not-found"),
        ({"skill": "triage"}, "invalid"),
        ({"skill": "greeter", "inputs": {"name": "Ada"}}, "no-model"),
    ],
)
async def test_what_cannot_be_run_is_said_with_what_to_do(
    greeter: Any, box: Callable[..., Toolbox], ann: Actor, arguments: dict[str, Any], code: str
):
    greeter.skill("triage")
    async with greeter.open(ann) as engine:
        answer = await box(engine).call("run_skill", arguments)
    assert (answer.data["error"]["code"], bool(answer.data["hint"])) == (code, True)
    assert (answer.ok, answer.error and answer.error.code) == (False, code)


async def test_a_person_is_asked_first_where_the_policy_says_so(greeter: Any, box: Callable[..., Toolbox], ann: Actor):
    call = ("run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}})
    async with greeter.open(ann) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        toolbox = box(engine, fallback_model=ScriptedModel(["Hello!"]))
        asked = await toolbox.call(*call)
        assert asked.data["error"]["code"] == "approval-required"
        await engine.approvals.resolve(asked.data["approval_id"], approved=True)
        assert (await toolbox.call(*call)).data["output"] == "Hello!"


@pytest.mark.parametrize(
    ("role", "offered"), [("builder", True), ("coordinator", True), ("communicator", True), ("scout", False)]
)
def test_the_tool_goes_to_the_roles_that_run(role: str, offered: bool):
    found = find_role(role, OrgPolicy())
    assert (found.offers("run_skill"), found.may("run")) == (offered, offered)


async def test_a_communicator_runs_only_skills_for_communication(greeter: Any, box: Callable[..., Toolbox], ann: Actor):
    greeter.skill(
        "letters",
        files={"agents/prowess.yaml": f"tags: [communication]\n{SIDECAR}", "prompts/greet.j2": "Greet {{ name }}."},
    )
    async with greeter.open(ann) as engine:
        toolbox = box(engine, role="communicator", fallback_model=ScriptedModel(["Hello!"]))
        refused = await toolbox.call("run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}})
        ran = await toolbox.call("run_skill", {"skill": "letters", "inputs": {"name": "Ada"}})
    assert refused.data["error"]["code"] == "refused"
    assert ran.data["output"] == "Hello!"


SCRIPT = "import sys\nprint(sys.argv[1:], sys.stdin.read(), open('references/word.md').read())\n"


@pytest.fixture
def scripted(place: Any) -> Any:
    """A place with a skill that brings a script and a file that it reads."""
    place.skill("echo", files={"scripts/echo.py": SCRIPT, "references/word.md": "beside"})
    return place


@pytest.mark.parametrize("name", ["echo.py", "scripts/echo.py"])
async def test_a_script_runs_once_a_person_has_agreed_with_arguments_that_no_shell_reads(
    scripted: Any, box: Callable[..., Toolbox], ann: Actor, name: str
):
    call = ("run_skill_script", {"skill": "echo", "script": name, "args": ["$HOME; ls", "-x"], "stdin": "in"})
    async with scripted.open(ann) as engine:
        toolbox = box(engine)
        asked = await toolbox.call(*call)
        assert asked.data["error"]["code"] == "approval-required"
        assert await engine.traces.list() == []
        await engine.approvals.resolve(asked.data["approval_id"], approved=True)
        answer = await toolbox.call(*call)
        assert answer.ok
        assert answer.data["output"] == "['$HOME; ls', '-x'] in beside\n"
        assert answer.data["result"]["exit_code"] == 0
        (part,) = answer.data["parts"]
        assert (part["kind"], (await engine.traces.get(part["trace"])).status) == ("script", "ok")


@pytest.mark.parametrize("path", ["tools/echo.py", "echo.py"])
async def test_a_script_outside_of_its_folder_runs_by_its_path_once_a_person_has_agreed(
    place: Any, box: Callable[..., Toolbox], ann: Actor, path: str
):
    place.skill("echo", files={path: SCRIPT, "references/word.md": "beside"})
    async with place.open(ann) as engine:
        toolbox = box(engine)
        asked = await toolbox.call("run_skill", {"skill": "echo", "artifact": path})
        assert asked.data["error"]["code"] == "approval-required"
        assert (await engine.approvals.get(asked.data["approval_id"])).detail["reach"] == "machine"
        await engine.approvals.resolve(asked.data["approval_id"], approved=True)
        answer = await toolbox.call("run_skill_script", {"skill": "echo", "script": path, "args": ["a"]})
        assert answer.data["output"] == "['a']  beside\n"
        assert (answer.data["parts"][0]["artifact"], answer.data["parts"][0]["kind"]) == (path, "script")


@pytest.mark.parametrize("asked", [{"skill": "echo", "script": "word.md"}, {"skill": "nothing", "script": "echo.py"}])
async def test_a_script_that_there_is_not_is_said_with_where_to_find_the_others(
    scripted: Any, box: Callable[..., Toolbox], ann: Actor, asked: dict[str, str]
):
    async with scripted.open(ann) as engine:
        answer = await box(engine).call("run_skill_script", asked)
        assert answer.data["error"]["code"] == "not-found"
        assert "load_skill" in answer.data["hint"] or asked["skill"] == "nothing"
        assert await engine.approvals.list() == []


@pytest.mark.parametrize(
    ("role", "offered"), [("builder", True), ("coordinator", True), ("communicator", True), ("scout", False)]
)
def test_scripts_go_to_the_roles_that_run(role: str, offered: bool):
    assert find_role(role, OrgPolicy()).offers("run_skill_script") == offered
