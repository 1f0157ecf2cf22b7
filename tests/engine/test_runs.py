"""A run that was allowed a moment ago is judged again as soon as anything has changed that it was judged by."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.errors import ApprovalRequired, NotFound, Refused, Unavailable
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor
from prowess.run.request import RunRequest

pytestmark = pytest.mark.anyio
AGENT = Actor(name="helper", kind="agent")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def untrusted(each_place, greeter):
    """A place whose folders nobody trusts, with a skill."""
    greeter(each_place)
    each_place.environment["PROWESS_TRUSTED_FOLDERS"] = ""
    return each_place


async def greet(prowess) -> None:
    """Run the skill twice: the second run is allowed by what was decided about the first."""
    with ScriptedModel(["Hello!", "Hello!"]) as model:
        for _ in range(2):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=model)


async def is_refused(prowess, error=ApprovalRequired) -> None:
    with pytest.raises(error):
        await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel([]))


async def test_a_skill_that_is_no_longer_trusted_does_not_run(untrusted):
    async with untrusted.open() as prowess:
        await prowess.trust.accept(await prowess.trust.preview("greeter"))
        await greet(prowess)
        await prowess.trust.revoke("greeter")
        await is_refused(prowess)


async def test_a_folder_that_is_no_longer_trusted_counts_at_once(untrusted):
    async with untrusted.open() as prowess:
        await prowess.trust.add_folder(untrusted.workspace)
        await greet(prowess)
        await prowess.trust.revoke(untrusted.workspace)
        await is_refused(prowess)


async def test_what_another_process_revokes_does_not_run(untrusted):
    async with untrusted.open() as prowess, untrusted.open() as other:
        await prowess.trust.accept(await prowess.trust.preview("greeter"))
        await greet(prowess)
        await other.trust.revoke("greeter")
        await is_refused(prowess)


async def test_other_bytes_do_not_run(untrusted):
    async with untrusted.open() as prowess:
        await prowess.trust.accept(await prowess.trust.preview("greeter"))
        await greet(prowess)
        untrusted.write("greeter", {"prompts/greet.j2": "Insult {{ name }}."})
        await is_refused(prowess)


async def test_a_skill_that_is_switched_off_does_not_run(each_place, greeter):
    greeter(each_place)
    async with each_place.open() as prowess:
        await greet(prowess)
        await prowess.policy.set("disabled_skills", ["greeter"])
        await is_refused(prowess, NotFound)
        await prowess.policy.set("disabled_skills", [])
        await greet(prowess)


async def test_a_stricter_policy_counts_at_once_and_for_each_actor(each_place, greeter):
    greeter(each_place)
    async with each_place.open() as prowess, each_place.open() as other:
        agent = prowess.as_actor(AGENT)
        await greet(agent)
        await greet(prowess)
        await other.policy.set("skill_enablement_policy", "admin-only")
        await is_refused(agent, Refused)
        await greet(prowess)


async def test_a_trusted_skill_that_comes_to_be_hidden_asks_first(untrusted, tmp_path: Path):
    async with untrusted.open() as prowess:
        await prowess.trust.accept(await prowess.trust.preview("greeter"))
        await greet(prowess)
        other = tmp_path / "elsewhere" / "greeter"
        other.mkdir(parents=True)
        (other / "SKILL.md").write_text("---\nname: greeter\ndescription: Greets otherwise.\n---\n\nGreet.\n")
        await prowess.skills.import_path(other, scope="account")
        await is_refused(prowess)


async def test_an_approval_that_is_revoked_allows_no_further_run(each_place, greeter):
    greeter(each_place)
    async with each_place.open() as prowess:
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        agent = prowess.as_actor(AGENT)
        await is_refused(agent)
        [request] = await prowess.approvals.list()
        await prowess.approvals.resolve(request.id, approved=True)
        await greet(agent)
        await prowess.approvals.revoke(request.id)
        await is_refused(agent)


async def test_a_run_that_a_database_ends_does_not_say_where_that_is(each_place, greeter, caplog):
    greeter(each_place)
    failure = Unavailable("Cannot connect to the database server at db.corp:5432: no route to 10.0.0.5.")
    failure.location = "db.corp:5432"
    async with each_place.open() as prowess:
        request = RunRequest(
            slug="greeter", inputs={"name": "Ada"}, artifacts=("greet",), model=ScriptedModel([failure])
        )
        result = await prowess.runs.attempt(request)
        trace = await prowess.traces.get(result.parts[0].trace)

    for told in (result.as_json()["error"]["message"], result.as_json()["parts"][0]["error"]["message"], trace.error):
        assert told == "The database does not answer."
    assert failure.message in caplog.text
