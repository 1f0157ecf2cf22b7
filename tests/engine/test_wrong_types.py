"""Arguments of a wrong type: the error is one of Prowess, and says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess import Prowess, sync
from prowess.authoring.evals.plan import EvalPlan
from prowess.errors import Invalid, ProwessError
from prowess.run.request import RunRequest

pytestmark = pytest.mark.anyio

MESSAGES = {
    "match": lambda engine, value: engine.match(value),
    "why": lambda engine, value: engine.why(value),
    "rank": lambda engine, value: engine.skills.rank(value),
}
NAMES = {
    "enable": lambda engine, value: engine.enable(value, session="chat"),
    "disable": lambda engine, value: engine.disable(value, session="chat"),
    "load": lambda engine, value: engine.load(value),
    "run": lambda engine, value: engine.run(value),
    "get": lambda engine, value: engine.skills.get(value),
    "row": lambda engine, value: engine.skills.row(value),
    "history": lambda engine, value: engine.skills.history(value),
}
SESSIONS = {
    "prompt": lambda engine, value: engine.prompt(value),
    "enable": lambda engine, value: engine.enable("greeter", session=value),
    "run": lambda engine, value: engine.run("greeter", session=value),
    "sessions.get": lambda engine, value: engine.sessions.get(value),
}
OTHERS = {
    "limit": (lambda engine: engine.match("hello", limit=None), "The limit must be an integer, not NoneType"),
    "tags": (lambda engine: engine.match("hello", tags=5), "tags a collection of strings"),
    "context": (lambda engine: engine.match("hello", context=5), "context must be strings"),
    "artifacts": (lambda engine: engine.run("greeter", artifacts=5), "Artifacts are given by name"),
    "artifact": (lambda engine: engine.run("greeter", artifacts=[5]), "Artifacts are given by name"),
    "timeout": (lambda engine: engine.run("greeter", {"name": "Ada"}, timeout="60"), "Invalid timeout of '60' seconds"),
    "model": (lambda engine: engine.run("greeter", {"name": "Ada"}, model=5), "Not a model: int"),
    "resume": (lambda engine: engine.run("greeter", resume=5), "The trace to resume must be a string, not int"),
    "reference": (
        lambda engine: engine.load("greeter", reference=5),
        "The name of a reference must be a string, not int",
    ),
    "script": (lambda engine: engine.load("greeter", script=5), "The name of a script must be a string, not int"),
    "trace": (lambda engine: engine.traces.get(5), "The id of a trace must be a string, not int"),
    "scope": (lambda engine: engine.skills.list(scope="x"), "Unknown scope 'x'"),
    "skill": (lambda engine: engine.skills.create({"slug": "greeter"}), "Not a Skill: dict"),
    "preview": (lambda engine: engine.trust.accept("greeter"), "Not a TrustPreview: str"),
    "request": (lambda engine: engine.runs.attempt("greeter"), "Not a RunRequest: str"),
    "durable": (lambda engine: engine.jobs.start_run("greeter"), "Not a RunRequest: str"),
    "batch": (lambda engine: engine.jobs.start_batch("greeter", [{}]), "Not a RunRequest: str"),
    "no items": (
        lambda engine: engine.jobs.start_batch(RunRequest(slug="greeter"), iter([])),
        "The batch has no items",
    ),
    "plan": (lambda engine: engine.evals.run("greeter"), "Not a EvalPlan: str"),
    "optimization": (lambda engine: engine.optimize.run("greeter"), "Not a OptimizationRequest: str"),
    "reason": (lambda engine: engine.enable("greeter", session="chat", reason=None), "The reason must be a string"),
    "policies": (lambda engine: engine.prompt("chat", policies=None), "`policies` must be a string, not NoneType"),
    "budget": (lambda engine: engine.sessions.open("new", budget=1.5), "The budget must be a whole number, not float"),
    "window": (lambda engine: engine.sessions.open("new", window="5"), "The window must be a whole number, not str"),
    "days": (lambda engine: engine.traces.stats(days=float("nan")), "Invalid number of days 'nan'"),
    "endless days": (lambda engine: engine.skills.unused(days=float("inf")), "Invalid number of days 'inf'"),
    "kind": (lambda engine: engine.registry.list("prompts"), "Unknown kind 'prompts'"),
    "kind of one": (lambda engine: engine.registry.get("prompts", "x"), "Unknown kind 'prompts'"),
    "kind to add": (lambda engine: engine.registry.add_content("prompts", "x", "1", {}), "Unknown kind 'prompts'"),
    "filter": (lambda engine: engine.traces.list(skill=5), "The filter `skill` must be a string, not int"),
}

OTHERS |= {
    f"{name} {limit}": (lambda engine, read=read, limit=limit: read(engine)(limit=limit), told)
    for name, read in {
        "traces": lambda engine: engine.traces.list,
        "events": lambda engine: engine.events.list,
        "audit rows": lambda engine: engine.audit.rows,
        "audit": lambda engine: engine.audit.find,
    }.items()
    for limit, told in ((-1, "The limit must not be negative: -1"), ("5", "The limit must be an integer, not str"))
}


@pytest.fixture
async def engine(place, greeter):
    greeter(place)
    async with place.open() as opened:
        await opened.sessions.open("chat")
        yield opened


@pytest.mark.parametrize("value", [5, None, b"x", ["x"]])
@pytest.mark.parametrize("verb", MESSAGES)
async def test_a_message_is_a_string(engine, verb, value):
    with pytest.raises(Invalid, match=f"The message must be a string, not {type(value).__name__}"):
        await MESSAGES[verb](engine, value)


@pytest.mark.parametrize("value", [5, None, b"x", ["x"]])
@pytest.mark.parametrize("verb", NAMES)
async def test_a_skill_is_named_by_a_string(engine, verb, value):
    with pytest.raises(Invalid, match=f"The name of a skill must be a string, not {type(value).__name__}"):
        await NAMES[verb](engine, value)


@pytest.mark.parametrize("value", [5, None, b"x", ["x"]])
@pytest.mark.parametrize("verb", SESSIONS)
async def test_a_session_is_a_session_or_its_name(engine, verb, value):
    with pytest.raises(Invalid, match=f"Not a session: {type(value).__name__}"):
        await SESSIONS[verb](engine, value)


@pytest.mark.parametrize("option", OTHERS)
async def test_an_option_of_a_wrong_type_is_refused(engine, option):
    call, told = OTHERS[option]
    with pytest.raises(Invalid, match=told):
        await call(engine)


@pytest.mark.parametrize("given", [(), (".",), (".", "ann")])
@pytest.mark.parametrize("named", [{}, {"workspace": "."}])
@pytest.mark.parametrize("made", [Prowess, sync.Prowess])
def test_prowess_is_opened_not_called(made, given, named):
    with pytest.raises(Invalid, match="opens nothing") as raised:
        made(*given, **named)
    assert "Prowess.open" in raised.value.hint


def test_a_workspace_is_a_path():
    with pytest.raises(Invalid, match="The workspace must be a path, not int"):
        Prowess.open(workspace=5)


@pytest.mark.parametrize("folders", ["/opt/skills", Path("/opt/skills")])
async def test_one_path_is_no_list_of_trusted_folders(folders):
    with pytest.raises(Invalid, match="is one folder, not a list of folders") as raised:
        Prowess.open(trusted_folders=folders)
    assert raised.value.hint == "Pass ['/opt/skills']."


TOO_LONG = "a" * 300
PATHS = {
    "import": lambda engine: engine.skills.import_path(TOO_LONG),
    "install": lambda engine: engine.installs.plan(f"./{TOO_LONG}"),
    "export": lambda engine: engine.skills.export("greeter", TOO_LONG),
    "prompts": lambda engine: engine.registry.check("prompt", TOO_LONG),
}


@pytest.mark.parametrize("name", PATHS)
async def test_a_path_that_the_file_system_cannot_have_is_an_error_of_prowess(engine, name):
    with pytest.raises(ProwessError, match="File name too long"):
        await PATHS[name](engine)


def test_a_workspace_that_the_file_system_cannot_have_is_not_a_folder():
    with pytest.raises(Invalid, match="is not a folder"):
        Prowess.open(TOO_LONG)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "`target`: Field required"),
        ({"target": "greeter", "model": "x"}, "`model`: Extra inputs are not permitted"),
        ({"target": "greeter", "repeats": 0}, "`repeats`: Input should be greater than or equal to 1"),
    ],
)
def test_a_plan_of_an_evaluation_with_wrong_fields_is_refused(fields, told):
    with pytest.raises(Invalid, match=told) as raised:
        EvalPlan(**fields)
    assert "models" in raised.value.hint
