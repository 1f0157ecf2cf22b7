"""A person approves exactly the candidate that was tested; live runs are watched after that, and a regression rolls back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.authoring.optimize.change import Change, build_candidate
from prowess.authoring.optimize.decision import LOOKS, MIN_OLD_RUNS
from prowess.authoring.optimize.proposal import to_proposal
from prowess.errors import Conflict, Refused
from prowess.policy.actor import agent_of
from prowess.storage import proposals, watched
from prowess.storage.clock import seconds_from_now

from .conftest import BETTER, PROMPT, SortingModel

pytestmark = pytest.mark.anyio


async def propose(prowess, ask):
    """Store the proposal that an optimization would make, without the work."""
    made = await prowess.optimize.prepare(ask())
    store, skill = prowess.catalog.find("triage")
    change = Change(kind="prompt", artifact="sort", content=BETTER)
    _, changed = build_candidate(skill, store.get_package(skill.id), change, prowess.context.resources.limits)
    values = {"state": "proposed", "change": change.model_dump(), "candidate_digest": changed.digest}
    row = await prowess.optimize._records.change(made.id, values, states=("running",))
    return to_proposal(row)


async def prompt_of(prowess) -> str:
    return (await prowess.skills.get("triage")).find_artifact("sort").content


async def run_live(prowess, count, *, answers) -> None:
    """Run the skill as people do, with a model that answers this."""

    class Fixed(SortingModel):
        def answer(self, _: str) -> str:
            return answers

    for number in range(count):
        await prowess.run("triage", {"message": f"Live {number} about billing"}, model=Fixed())


async def test_an_approved_candidate_is_a_new_version_that_is_trusted_and_watched(each_place, triage, ask, model):
    triage(each_place)
    async with each_place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model))
        assert done.state == "proposed", done.reason
        assert await prompt_of(prowess) == PROMPT
        approved = await prowess.optimize.approve(done.id[:8], digest=done.candidate_digest, note="Good.")
        assert (approved.state, approved.approver) == ("watching", prowess.actor.label)
        assert await prompt_of(prowess) == BETTER
        skill = await prowess.skills.get("triage")
        assert skill.digest == done.candidate_digest
        last = (await prowess.skills.history("triage"))[-1]
        assert (last.number, last.digest) == (approved.version, done.candidate_digest)
        assert last.note.startswith("Good. Optimized with rewrite")
        with pytest.raises(Conflict, match="is watching, not proposed"):
            await prowess.optimize.approve(done.id)
        with pytest.raises(Conflict, match="is watching, not proposed"):
            await prowess.optimize.reject(done.id)


async def test_an_agent_can_neither_see_nor_decide(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        agent = prowess.as_actor(agent_of(prowess.actor)).optimize
        for refuse in (agent.approve, agent.reject, agent.diff):
            with pytest.raises(Refused, match="Only a person can"):
                await refuse(done.id)
        assert (await prowess.optimize.get(done.id)).state == "proposed"
        assert await prompt_of(prowess) == PROMPT


async def test_a_rejected_proposal_changes_nothing_and_says_why(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        rejected = await prowess.optimize.reject(done.id, note="Too long.")
        assert (rejected.state, await prompt_of(prowess)) == ("rejected", PROMPT)
        assert "Too long." in rejected.reason
        with pytest.raises(Conflict):
            await prowess.optimize.approve(done.id)


async def test_a_skill_that_changed_meanwhile_is_a_conflict_and_nothing_is_lost(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        triage(place, prompt="Mine: {{ message }}")
        for refused in (prowess.optimize.approve, prowess.optimize.diff):
            with pytest.raises(Conflict, match="has changed since the optimization started"):
                await refused(done.id)
        assert await prompt_of(prowess) == "Mine: {{ message }}"
        triage(place)
        with pytest.raises(Conflict, match="differs from the one that was shown"):
            await prowess.optimize.approve(done.id, digest="0" * 64)
        assert (await prowess.optimize.approve(done.id)).state == "watching"


async def test_an_approval_that_ended_half_way_can_be_given_again(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        records = prowess.optimize._records
        await records.change(done.id, {"state": "approved"}, states=("proposed",))
        assert (await prowess.optimize.approve(done.id)).state == "watching"
        await records.change(done.id, {"state": "approved"}, states=("watching",))
        # The version is there already; it is not made twice.
        versions = len(await prowess.skills.history("triage"))
        assert (await prowess.optimize.approve(done.id)).state == "watching"
        assert len(await prowess.skills.history("triage")) == versions


async def test_a_regression_in_live_runs_rolls_back_with_an_event(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        trust = (await prowess.skills.cards())[0].trust
        await run_live(prowess, MIN_OLD_RUNS, answers="billing")
        done = await propose(prowess, ask)
        await prowess.optimize.approve(done.id)
        await run_live(prowess, LOOKS[0] - 1, answers="It may be billing.")
        assert await prowess.optimize.watch() == []
        await run_live(prowess, 1, answers="It may be billing.")
        [ended] = await prowess.optimize.watch(skill="triage")
        assert ended.state == "rolled_back"
        assert "0% of 20 runs passed, before 100% of 20 runs passed" in ended.reason
        assert ended.live["difference"]["high"] < 0
        assert await prompt_of(prowess) == PROMPT
        assert (await prowess.skills.cards())[0].trust == trust
        assert (await prowess.skills.get("triage")).digest == done.base_digest
        last = (await prowess.skills.history("triage"))[-1]
        assert (last.change, "Rolled back by the optimizer" in last.note) == ("rollback", True)
        events = await prowess.events.list(names=["optimization_changed"])
        assert events[-1].data["state"] == "rolled_back"
        assert await prowess.optimize.watch() == []


async def test_measurements_are_not_live_runs(place, triage, ask, model):
    triage(place)
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model))
        with prowess.context.resources.records().read() as connection:
            for digest in (done.base_digest, done.candidate_digest):
                assert proposals.read_live(connection, "", "triage", digest, ["sort"], limit=100) == []


async def test_a_version_that_someone_changed_is_no_longer_watched(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        await prowess.optimize.approve(done.id)
        triage(place, prompt="Mine: {{ message }}")
        [ended] = await prowess.optimize.watch()
        assert (ended.state, await prompt_of(prowess)) == ("kept", "Mine: {{ message }}")
        assert "no longer watched" in ended.reason


@pytest.mark.parametrize("column", ["actor", "change"])
async def test_an_optimization_that_another_program_damaged_holds_up_no_other(place, triage, ask, caplog, column):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        await prowess.optimize.approve(done.id)
        with closing(sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db"))) as database, database:
            database.row_factory = sqlite3.Row
            row = dict(database.execute("SELECT * FROM optimizer_proposals").fetchone()) | {"id": "bad", column: "{}"}
            database.execute(f"INSERT INTO optimizer_proposals VALUES ({', '.join('?' * len(row))})", [*row.values()])
            database.execute("UPDATE optimizer_proposals SET updated_at = '2020', created_at = '2020' WHERE id = 'bad'")
        await prowess.skills.rollback("triage", 1)
        [ended] = await prowess.optimize.watch()
    assert (ended.id, ended.state) == (done.id, "rolled_back")
    assert "The optimization bad could not be judged" in caplog.text


async def test_a_version_that_someone_rolled_back_says_so(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        await prowess.optimize.approve(done.id)
        await prowess.skills.rollback("triage", 1)
        [ended] = await prowess.optimize.watch()
        assert (ended.state, ended.reason) == ("rolled_back", "The previous version was restored.")


async def test_a_version_without_a_regression_is_kept(place, triage, ask, monkeypatch):
    monkeypatch.setattr("prowess.authoring.optimize.decision.LOOKS", (2, 4))
    triage(place)
    async with place.open() as prowess:
        done = await propose(prowess, ask)
        await prowess.optimize.approve(done.id)
        await run_live(prowess, 4, answers="billing")
        [ended] = await prowess.optimize.watch()
        assert ended.state == "kept"
        assert ended.reason == "No regression in 4 live runs (100% of 4 runs passed, before no runs)."
        assert await prompt_of(prowess) == BETTER


async def test_cancelling_what_no_process_does_any_more_refuses_it(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        row = await prowess.optimize.prepare(ask())
        assert (await prowess.optimize.cancel(row.id)).state == "running"
        with prowess.context.resources.records().write() as connection:
            old = {"updated_at": seconds_from_now(-7_200)}
            stored = proposals.get(connection, row.id)
            connection.execute(proposals.proposals.delete())
            proposals.add(connection, replace(stored, **old))
        ended = await prowess.optimize.cancel(row.id)
        assert (ended.state, ended.reason) == ("refused", "It was interrupted before its test.")
        with pytest.raises(Conflict):
            await prowess.optimize.cancel(row.id)


async def test_a_run_is_enough_to_roll_back_without_a_worker(place, triage, ask, monkeypatch):
    monkeypatch.setattr("prowess.authoring.optimize.decision.LOOKS", (6, 12))
    monkeypatch.setattr("prowess.authoring.optimize.decision.MIN_OLD_RUNS", 6)
    triage(place)
    async with place.open() as prowess:
        await run_live(prowess, 6, answers="billing")
        done = await propose(prowess, ask)
        await prowess.optimize.approve(done.id)
    async with place.open() as prowess:
        await run_live(prowess, 6, answers="It may be billing.")
        assert await prompt_of(prowess) == PROMPT
        assert (await prowess.optimize.get(done.id)).state == "rolled_back"


async def test_records_that_cannot_be_read_do_not_fail_a_run(place, triage, model, monkeypatch):
    def refuse(*_, **__):
        raise Refused("Not now.")

    monkeypatch.setattr(watched, "list_watched_skills", refuse)
    triage(place)
    async with place.open() as prowess:
        assert (await prowess.run("triage", {"message": "One word about billing"}, model=model)).ok
