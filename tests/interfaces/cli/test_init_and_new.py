"""Set up a workspace and create skills from the command line."""

from __future__ import annotations

import json

import pytest

KINDS = ["instructions", "function", "prompt", "review"]


def test_init_sets_up_a_workspace_once_and_shows_what_agents_have(prowess, workspace, home, monkeypatch):
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    for folder in (workspace / ".claude/skills/tidy", home / ".codex/skills/sweep"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Cleans up.\n---\nDo it.\n")
    first = prowess("init", "--json").json
    assert first["created"] == [str(workspace / ".agents/skills"), str(home / ".prowess")]
    assert [(one["skills"], one["scope"]) for one in first["folders"]] == [
        (0, "workspace"),
        (1, "workspace"),
        (1, "user"),
    ]
    assert {"claude-code", "goose"} <= {*first["folders"][1]["agents"]}
    assert (first["skills"], first["not_accepted"]) == (2, 2)
    assert prowess("init", "--json").json["created"] == []
    shown = prowess("init").out
    assert "already set up" in shown
    assert all(words in shown for words in ("prowess trust", "prowess match", "prowess new", "--install claude-code"))


def test_init_names_the_skills_that_another_one_of_the_same_name_keeps_out(prowess, workspace):
    for folder in (".agents/skills/tidy", ".claude/skills/tidy"):
        (workspace / folder).mkdir(parents=True)
        (workspace / folder / "SKILL.md").write_text(f"---\nname: tidy\ndescription: Cleans {folder}.\n---\nDo it.\n")
    shown = prowess("init")
    assert "1 skill available" in shown.out
    assert "'tidy'" in shown.err
    assert ".claude/skills/tidy" in shown.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_skill_is_valid_trusted_and_passes_its_own_evals(prowess, workspace, kind):
    made = prowess("new", "tone-check", "--kind", kind, "--json").json
    assert made["trusted"]
    assert prowess("validate", made["path"]).code == 0
    assert prowess("eval", "triggers", "tone-check").code == 0
    [card] = prowess("list", "--json").json
    assert (card["slug"], card["trust"]) == ("tone-check", "local")
    assert prowess("load", "tone-check").code == 0


@pytest.mark.parametrize("kind", ["prompt", "review"])
def test_a_new_prompt_or_review_runs_with_a_scripted_model(prowess, workspace, kind):
    prowess("new", "tone-check", "--kind", kind)
    plan = prowess("run", "tone-check", "-i", "text=Hello.", "--dry-run")
    assert (plan.code, "Hello." in plan.out) == (0, True)
    verdicts = [
        {"criterion_id": name, "reasoning": "It is.", "evidence": [], "verdict": "pass", "confidence": 1.0}
        for name in ("clear", "complete")
    ]
    steps = (
        ["Hello!"] if kind == "prompt" else [{"json": {"results": [{**one, "suggested_fix": ""} for one in verdicts]}}]
    )
    (workspace / "steps.json").write_text(json.dumps(steps))
    ran = prowess("run", "tone-check", "-i", "text=Hello.", "--model", "scripted:steps.json", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["ok"]


def test_a_new_function_runs_in_the_sandbox(prowess, workspace, home, sandbox_home):
    (home / ".prowess").mkdir(mode=0o700, exist_ok=True)
    (home / ".prowess" / "sandbox").symlink_to(sandbox_home / "sandbox")
    prowess("new", "acme.count", "--kind", "function")
    ran = prowess("run", "acme.count", "-i", "text=Hello big world", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["output"] == {"words": 3, "characters": 15}


def test_new_never_overwrites(prowess, workspace, write_skill):
    folder = write_skill("tidy")
    before = (folder / "SKILL.md").read_text()
    assert prowess("new", "tidy").code == 6
    assert (folder / "SKILL.md").read_text() == before
    (workspace / ".agents/skills/empty").mkdir()
    assert prowess("new", "empty").code == 6
    assert prowess("new", "Not A Slug").code == 3


def test_new_refuses_a_slug_that_another_skill_has(prowess, sample):
    prowess("import", "../more/word-count")
    ran = prowess("new", "word-count")
    assert (ran.code, "prowess show word-count" in ran.err) == (6, True)


def test_a_new_skill_can_be_created_for_all_workspaces_or_elsewhere(prowess, workspace, home, tmp_path):
    assert prowess("new", "mine", "--scope", "user", "--json").json["trusted"]
    assert (home / ".agents/skills/mine/SKILL.md").exists()
    away = prowess("new", "away", "--to", tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere/away/SKILL.md").exists()
    assert "prowess import" in away.out


def test_a_new_skill_is_accepted_as_it_was_written_and_asked_about_after_an_edit(prowess, workspace, monkeypatch):
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    path = workspace / ".agents/skills/tidy/SKILL.md"
    assert prowess("new", "tidy", "--json").json["trusted"]
    assert [card["trust"] for card in prowess("list", "--json").json] == ["local"]
    path.write_text(path.read_text() + "\nAnd mail it to everyone.\n")
    assert [card["trust"] for card in prowess("list", "--json").json] == ["found"]


def test_a_description_with_any_characters_is_kept(prowess, workspace):
    text = 'Checks "tone": #1, {really}, ümläut & \\ more.'
    prowess("new", "tidy", "--description", text)
    assert prowess("list", "--json").json[0]["description"] == text


def test_a_new_skill_that_cannot_be_accepted_is_said_to_be_created(prowess, workspace, home, monkeypatch):
    blocked = home / "a file in the way"
    blocked.write_text("")
    monkeypatch.setenv("PROWESS_DATABASE_URL", f"sqlite:///{blocked}/agents.db")
    monkeypatch.setenv("PROWESS_TRUSTED_FOLDERS", "")
    ran = prowess("new", "notes")
    assert (ran.code, (workspace / ".agents/skills/notes/SKILL.md").is_file()) == (7, True)
    said = " ".join(ran.err.split())
    assert "notes, but it could not be accepted: " in said
    assert said.endswith("Then run `prowess trust notes`.")
