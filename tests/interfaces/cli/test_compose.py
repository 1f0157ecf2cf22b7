"""`prowess compose` drafts, refines, goes back and approves, for scripts and at a terminal."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from prowess.llm.scripted import ScriptedModel

from .conftest import EXAMPLES

FIRST, SECOND = (f"scripted:{EXAMPLES}/compose/{name}-draft.json" for name in ("first", "second"))
ASK = "check timeline consistency"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("PROWESS_EMBEDDER", "none")


def test_a_skill_is_composed_step_by_step(prowess, workspace, approver):
    made = prowess("compose", ASK, "--model", FIRST, "--json").json
    name = made["id"][:8]
    assert prowess("compose", "list", "--json").json[0]["id"] == made["id"]
    refined = prowess("compose", "refine", name, "add a dspy_module for optimized execution", "-m", SECOND)
    assert "dspy_module (chain_of_thought)" in refined.out
    assert f"prowess compose approve {name}" in refined.out
    assert '"add a dspy_module for optimized execution"' in prowess("compose", "rounds", name).out
    shown = prowess("compose", "show", name, "--files", "--diff").out
    assert "added dspy/module.json" in shown
    assert "List every contradiction" in shown
    assert prowess("compose", "back", name, "1", "--json").json["current_round"] == 1
    prowess("compose", "back", name, "2")
    saved = prowess("compose", "approve", name, "--scope", "account", "--json").json
    assert (saved["slug"], saved["scope"]) == ("timeline-check", "account")
    [listed] = prowess("list", "--json").json
    assert (listed["slug"], listed["trust"]) == ("timeline-check", "local")
    again = prowess("compose", "approve", name)
    assert again.code == 6
    assert "is saved as account:timeline-check" in again.err


def test_only_a_person_approves(prowess, workspace):
    made = prowess("compose", ASK, "--model", FIRST, "--json").json
    refused = prowess("compose", "approve", made["id"])
    assert "Only a person can approve a draft" in refused.err
    assert prowess("list", "--json").json == []


def test_an_existing_skill_is_changed(prowess, workspace, approver):
    made = prowess("compose", ASK, "--model", FIRST, "--json").json
    prowess("compose", "approve", made["id"])
    change = prowess("compose", "--skill", "timeline-check", "add a dspy_module", "--model", SECOND, "--json").json
    assert change["skill"] == "workspace:timeline-check"
    assert prowess("compose", "approve", change["id"]).code == 0
    assert len(prowess("history", "timeline-check", "--json").json) == 2


def test_a_composition_that_a_person_leaves_with_ctrl_d_says_how_to_go_on(prowess, workspace, terminal):
    typed = terminal("compose", ASK, "--model", FIRST, answers=["\x04"])
    [made] = prowess("compose", "list", "--json").json
    assert (typed.code, f"Continue with `prowess compose resume {made['id'][:8]}`." in typed.seen) == (130, True)


def test_ctrl_c_during_the_first_draft_says_how_to_go_on(prowess, workspace, monkeypatch):
    async def interrupted(self: ScriptedModel, request: Any) -> Any:
        import asyncio

        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "complete", interrupted)
        stopped = prowess("compose", ASK, "--model", FIRST)
    [begun] = prowess("compose", "list", "--json").json
    command = f"prowess compose refine {begun['id'][:8]}"
    assert (stopped.code, f"Continue with: {command}\n" in stopped.err) == (130, True)
    assert prowess(*command.split()[1:], "--model", FIRST, "--json").json["current_round"] == 1


def test_words_that_are_no_request_are_explained(prowess, workspace):
    assert "Did you mean 'show'?" in prowess("compose", "shwo").err
    assert "No model is configured" in prowess("compose", ASK).err
    assert "starts one" in prowess("compose").out
    assert "No composition 'abcd'" in prowess("compose", "show", "abcd").err


@pytest.mark.parametrize(
    ("word", "hint"), [("diff", "show 3f2a91bc --diff"), ("aprove", "Did you mean 'approve'?"), ("rm", "--help")]
)
def test_an_unknown_command_before_an_id_is_no_request_to_a_model(prowess, workspace, word, hint):
    refused = prowess("compose", word, "3f2a91bc", "--model", FIRST)
    assert (refused.code, f"No such command '{word}'." in refused.err, hint in refused.err) == (2, True, True)
    assert prowess("compose", "list", "--json").json == []


def test_a_package_is_imported_only_if_it_passes_the_same_checks(prowess, workspace, approver, tmp_path):
    made = prowess("compose", ASK, "--model", FIRST, "--json").json
    prowess("compose", "approve", made["id"])
    prowess("export", "timeline-check", "--form", "inklings", "--to", str(tmp_path / "out"))
    [path] = (tmp_path / "out").rglob("*.json")
    package = json.loads(path.read_text())
    for artifact in package["artifacts"]:
        if artifact["kind"] == "prompt_template":
            artifact["content"] = "{% for x in story %}never closed"
    package["slug"] = "broken-template"
    path.write_text(json.dumps(package))
    refused = prowess("import", path, "--json")
    assert refused.code != 0
    assert "template-syntax" in json.dumps(refused.json)
    assert [one["slug"] for one in prowess("list", "--json").json] == ["timeline-check"]


@pytest.mark.long
@pytest.mark.parametrize("approval", ["approve", "y"])
def test_at_a_terminal_a_person_is_asked_until_they_approve(terminal, workspace, approval):
    seen = terminal("compose", ASK, "--model", FIRST, answers=["view\n", f"{approval}\n"])
    assert "List every contradiction" in seen.seen
    assert "Saved timeline-check (workspace)" in seen.seen
    assert seen.code == 0
