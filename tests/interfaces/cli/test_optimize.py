"""`prowess optimize`: run, list, show, see the change, approve, reject and cancel."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess import ScriptedModel
from prowess.authoring.optimize import decision, search, trigger_plan
from prowess.llm.model import Reply, Request

VERBS = ("trim", "cut", "shorten", "split", "join", "crop")
QUERIES = [
    *(
        {"query": f"{verb} my screen recording number {number}", "should_trigger": True}
        for number in range(7)
        for verb in VERBS
    ),
    *({"query": f"write {number} poems about the sea", "should_trigger": False} for number in range(6)),
]
VIDEO = "---\nname: video\ndescription: Knows the flags of the encoder.\n---\n\n# Video\n\nUse ffmpeg.\n"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for fewer cases, so that tests are fast."""
    for module in (search, decision, trigger_plan):
        monkeypatch.setattr(module, "MIN_HELD_OUT", 6)
    monkeypatch.setattr(search, "MIN_TRAIN", 3)
    monkeypatch.setattr(search, "MIN_VALIDATION", 3)


@pytest.fixture
def video(write_skill: Callable[..., Path]) -> Callable[..., None]:
    """Write a skill whose queries do not find it."""

    def write(queries: object = QUERIES) -> None:
        folder = write_skill("video", VIDEO)
        (folder / "evals").mkdir(exist_ok=True)
        (folder / "evals" / "triggers.json").write_text(json.dumps(queries))

    return write


def test_a_proposal_is_made_listed_shown_and_approved_by_a_person(prowess, video, approver):
    video()
    made = prowess("optimize", "run", "video", "--method", "phrases")
    assert made.code == 0, made.err
    assert "State     proposed" in made.out
    assert "Significantly better:" in made.out
    [listed] = prowess("optimize", "--json").json
    short = listed["id"][:8]
    assert short in prowess("optimize", "list", "--state", "proposed").out
    changed = prowess("optimize", "diff", short).out
    assert "Trigger phrases" in changed
    assert "+ " in changed
    assert prowess("optimize", "show", short, "--json").json == listed
    approved = prowess("optimize", "approve", short, "--note", "Read.", "--json").json
    assert (approved["state"], approved["version"]) == ("kept", 2)
    assert "recording" in prowess("show", "video", "--json").out
    again = prowess("optimize", "approve", short)
    assert again.code != 0
    assert "has changed since the optimization started" in again.err


@pytest.mark.long
def test_approving_without_a_person_is_refused_and_a_no_changes_nothing(prowess, video, terminal):
    video()
    prowess("optimize", "run", "video", "--method", "phrases")
    [listed] = prowess("optimize", "--json").json
    refused = prowess("optimize", "approve", listed["id"])
    assert refused.code != 0
    assert "Only a person can approve a candidate" in refused.err
    typed = terminal("optimize", "approve", listed["id"][:8], answers=["n\n"])
    assert (typed.code, "Not approved. Nothing changed." in typed.seen) == (1, True)
    assert "Make this the next version of video?" in typed.seen
    rejected = prowess("optimize", "reject", listed["id"], "--note", "Not now.")
    assert (rejected.code, rejected.out) == (0, f"Rejected: phrases of video ({listed['id'][:8]}).\n")


def test_a_refusal_has_its_figures_and_the_exit_code_one(prowess, video):
    video([{**one, "query": f"ffmpeg {number}"} for number, one in enumerate(QUERIES)])
    ran = prowess("optimize", "run", "video", "--method", "phrases")
    assert ran.code == 1
    assert "State     refused" in ran.out


def test_too_few_queries_say_what_to_add(prowess, video):
    video(QUERIES[:4])
    ran = prowess("optimize", "run", "video", "--method", "phrases")
    assert ran.code != 0
    assert "Too few queries" in ran.err
    assert "evals/triggers.json" in ran.err
    [listed] = prowess("optimize", "list", "--json").json
    cancelled = prowess("optimize", "cancel", listed["id"])
    assert "is refused, not running" in cancelled.err
    diff = prowess("optimize", "diff", listed["id"])
    assert "has no candidate: Too few queries" in diff.err
    assert ".." not in diff.err


def test_nothing_yet_says_how_to_begin(prowess, workspace):
    assert "prowess optimize run SKILL" in prowess("optimize").out
    assert "No optimization 'abcd'" in prowess("optimize", "show", "abcd").err
    assert "made with the installed version" in prowess("optimize", "refresh").out


@pytest.mark.long
def test_a_durable_optimisation_is_a_job_that_a_worker_does(prowess, video):
    video()
    started = prowess("optimize", "run", "video", "--method", "phrases", "--durable")
    assert started.code == 0, started.err
    [job] = prowess("jobs", "list", "--json").json
    assert (job["kind"], job["skill"]) == ("task", "video")
    retried = prowess("jobs", "retry", job["name"], "--json")
    assert retried.code == 0, retried.err
    [listed] = prowess("optimize", "list", "--json").json
    assert listed["state"] == "proposed"
    resumed = prowess("optimize", "resume", listed["id"], "--json").json
    assert resumed == listed


@pytest.fixture
def triage(prowess, write_skill, workspace, approver, monkeypatch) -> Callable[..., Any]:
    """Return a function that optimizes a prompt, and is interrupted by the first request with a text and those that follow."""
    cases = [{"id": f"c{one}", "inputs": {"message": f"Message {one}"}, "expected": "billing"} for one in range(40)]
    files = {"prompts__sort.j2": "Sort. {{ message }}", "evals__cases.json": json.dumps(cases)}
    write_skill("triage", **{**files, "agents__prowess.yaml": "title: Triage\n"})
    prowess("trust", "accept", "triage")
    (workspace / "model.json").write_text("[]")

    def run(interrupted_at: str, times: int) -> Any:
        sent = 0

        async def answer(_: ScriptedModel, request: Request) -> Reply:
            nonlocal sent
            text = request.messages[-1].text
            if sent or interrupted_at in text:
                sent += 1
                if sent <= times:
                    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
                await asyncio.Event().wait()
            if text.startswith("You improve"):
                return Reply(text=json.dumps({"rewrites": ["One word. {{ message }}", "Tell. {{ message }}"]}))
            return Reply(text="billing" if "One word" in text and text[-1] not in "37" else "It is billing.")

        monkeypatch.setattr(ScriptedModel, "complete", answer)
        options = ("--method", "rewrite", "--metric", "exact", "--model", "scripted:model.json")
        return prowess("optimize", "run", "triage", *options)

    return run


def test_an_optimization_that_is_interrupted_twice_says_how_to_go_on(prowess, triage):
    ran = triage("Tell.", 2)
    [row] = prowess("optimize", "--json").json
    assert (ran.code, row["state"]) == (130, "running")
    assert f"Continue with: prowess optimize resume {row['id'][:8]}\n" in ran.err
    for shown in (prowess("optimize"), prowess("optimize", "show", row["id"])):
        assert f"`prowess optimize resume {row['id'][:8]}` continues it." in shown.out


def test_an_optimization_that_is_interrupted_without_a_candidate_says_so(prowess, triage):
    ran = triage("Sort.", 1)
    [row] = prowess("optimize", "--json").json
    assert (ran.code, row["state"]) == (130, "refused")
    assert "It was interrupted before a candidate was found.\n" in ran.err


def test_a_skill_without_artifacts_to_optimize_says_what_can_be(prowess, workspace):
    prowess("new", "greet", "--kind", "function")
    ran = prowess("optimize", "run", "greet")
    assert ran.err.splitlines() == [
        "Error: The skill 'greet' has no artifacts that can be optimized.",
        "To optimize how it is found, use `--method phrases`.",
    ]
