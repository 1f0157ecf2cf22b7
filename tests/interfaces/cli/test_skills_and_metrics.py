"""Unused skills, metrics and role prompts from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

PROWESS = Path(sys.executable).parent / "prowess"
CARD_KEYS = {"slug", "title", "scope", "loads", "runs", "last_loaded", "last_run", "last_enabled"}


@pytest.fixture
def long_ago(monkeypatch: pytest.MonkeyPatch):
    """Return a function that dates the next records back by a number of days."""

    def move(days: float) -> str:
        moment = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        monkeypatch.setattr("prowess.storage.ledger.now", lambda: moment)
        return moment

    return move


def figures(ran) -> dict[str, float]:
    """Return every sample of the Prometheus output by its name and labels."""
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(ran.out)
        for sample in family.samples
    }


def test_skills_shows_the_usage_of_every_skill(prowess, write_skill):
    write_skill("tidy")
    write_skill("sweep")
    prowess("load", "tidy")
    assert [(found["slug"], found["loads"]) for found in prowess("skills", "--json").json] == [
        ("sweep", 0),
        ("tidy", 1),
    ]
    assert prowess("skills").out.endswith("2 skills.\n")


def test_skills_that_were_never_used_are_dead(prowess, write_skill, workspace, home):
    write_skill("tidy")
    ran = prowess("skills", "--dead", "30d", "--json")
    assert ran.code == 0
    (found,) = ran.json
    assert set(found) == CARD_KEYS
    assert (found["slug"], found["loads"], found["last_loaded"], found["last_enabled"]) == ("tidy", 0, None, None)
    assert "never" in prowess("skills", "--dead", "30d").out
    assert not (home / ".prowess").exists()


def test_a_load_brings_a_skill_to_life_for_so_long(prowess, write_skill, long_ago):
    write_skill("tidy")
    write_skill("sweep")
    moment = long_ago(20)
    prowess("load", "tidy")
    prowess("load", "sweep", "--reference", "nowhere.md")

    assert [found["slug"] for found in prowess("skills", "--dead", "30d", "--json").json] == ["sweep"]
    dead = prowess("skills", "--dead", "2w", "--json").json
    assert [(found["slug"], found["loads"], found["last_loaded"]) for found in dead] == [
        ("sweep", 0, None),
        ("tidy", 1, moment),
    ]
    shown = prowess("skills", "--dead", "2w").out
    assert moment[:10] in shown
    assert "2 skills not used in this period." in shown


def test_a_skill_that_enters_or_leaves_a_prompt_is_used(prowess, write_skill, long_ago):
    write_skill("tidy")
    long_ago(20)
    prowess("enable", "tidy")
    assert prowess("skills", "--unused", "480h", "--json").json != []
    assert prowess("skills", "--dead", "30d", "--json").json == []
    assert "All skills were used in this period." in prowess("skills", "--dead", "30d").out

    moment = long_ago(3)
    prowess("disable", "tidy")
    assert prowess("skills", "--dead", "4d", "--json").json == []
    (found,) = prowess("skills", "--dead", "1d", "--json").json
    assert (found["loads"], found["last_enabled"]) == (0, moment)


def test_a_run_is_a_use_of_the_skill(prowess, write_skill, long_ago):
    write_skill("greet")
    moment = long_ago(3)
    prowess("run", "greet", "instructions")
    (found,) = prowess("skills", "--json").json
    assert (found["runs"], found["loads"], found["last_run"]) == (1, 0, moment)
    assert moment[:10] in prowess("skills").out
    assert prowess("skills", "--unused", "4d", "--json").json == []
    assert "greet" in prowess("skills", "--usage", "1d").out
    assert "greet" not in prowess("skills", "--usage", "4d").out


def test_skills_that_came_with_prowess_are_left_out_unless_all_are_asked_for(prowess, write_skill, monkeypatch):
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "true")
    write_skill("tidy")
    assert [found["slug"] for found in prowess("skills", "--dead", "30d", "--json").json] == ["tidy"]
    everything = {found["slug"] for found in prowess("skills", "--dead", "30d", "--all", "--json").json}
    assert {"tidy", "backend", "reviewer"} <= everything


@pytest.mark.parametrize("period", ["", "30", "d", "5x", "-1d", "0d", "1.5d", "999999w", "30 days", "١d"])
def test_a_period_that_is_none_is_said_so(prowess, workspace, period):
    ran = prowess("skills", "--dead", period)
    assert (ran.code, "for example 30d, 12h or 2w" in ran.err) == (2, True)


def test_options_that_do_not_go_together_are_refused(prowess, workspace):
    assert prowess("skills", "list").code == 2
    assert prowess("skills", "--unused").code == 2


def test_metrics_are_printed_from_the_records(prowess, write_skill, home):
    write_skill("tidy")
    before = figures(prowess("metrics"))
    assert before["skill_events_total skill_loaded"] == 0
    assert not (home / ".prowess").exists()

    prowess("load", "tidy")
    prowess("load", "workspace:tidy")
    prowess("load", "tidy", "--script", "none.sh")
    prowess("load", "no-such-skill")
    prowess("enable", "tidy")
    after = figures(prowess("metrics"))
    assert after["skill_load_total tidy workspace"] == 2
    assert after["skill_load_duration_seconds_count tidy"] == 2
    assert after["skill_load_errors_total tidy workspace"] == 1
    assert after["skill_load_errors_total unknown unknown"] == 1
    assert after["skill_sessions_open"] == 1
    assert after["skill_events_total skills_state_changed"] == 1
    assert any(name.startswith("skill_gate_total enable ") for name in after)


def test_metrics_as_json_are_the_same_samples(prowess, write_skill):
    write_skill("tidy")
    prowess("load", "tidy")
    samples = prowess("metrics", "--json").json
    assert {"name": "skill_load_total", "labels": {"name": "tidy", "source": "workspace"}, "value": 1.0} in samples


def test_metrics_are_written_to_a_file_in_one_step(prowess, workspace, tmp_path):
    folder = tmp_path / "collector"
    folder.mkdir()
    (folder / "prowess.prom").write_text("old")
    ran = prowess("metrics", "--output", folder / "prowess.prom")
    assert (ran.code, ran.out) == (0, "")
    assert (folder / "prowess.prom").read_text().startswith("# HELP skill_load_total")
    assert os.listdir(folder) == ["prowess.prom"]

    nowhere = prowess("metrics", "--output", tmp_path / "nowhere" / "prowess.prom")
    assert nowhere.code != 0
    assert nowhere.err


def test_a_role_is_told_by_its_shipped_pack_below_the_index(prowess, write_skill):
    write_skill("tidy")
    ran = prowess("role", "backend", "--json")
    assert (ran.json["role"], ran.json["source"]) == ("backend", "pack")
    assert ran.json["text"].startswith("<available_skills>")
    assert "- tidy: What tidy does, in one line." in ran.json["text"]
    assert '<skill name="' in ran.json["text"]
    assert prowess("role", "backend").out.strip() == ran.json["text"].strip()


def test_templates_come_before_shipped_packs_and_a_stub_after_all(prowess, workspace, monkeypatch):
    template = Path("templates/roles/backend/system_prompt.md")
    template.parent.mkdir(parents=True)
    template.write_text("You serve {{ project }}.\n")
    given = ("role", "backend", "--templates", "templates")
    assert prowess(*given, "--value", "project=Acme = good").out.strip() == "You serve Acme = good."
    missing = prowess(*given)
    assert (missing.code, "project" in missing.err) == (3, True)
    assert prowess(*given, "--value", "project").code == 3
    unknown = prowess("role", "juggler", "--templates", "templates")
    assert unknown.out.strip() == "You are a juggler specialist."
    assert "No pack or template for this role. `prowess list --scope system`" in unknown.err
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")
    assert "No pack or template for this role. Did you mean 'reviewer'?" in prowess("role", "revewer").err


@pytest.mark.parametrize("name", ["../backend", "Back End", "-x-", ""])
def test_what_is_no_role_is_refused(prowess, workspace, name):
    assert prowess("role", "--", name).code == 3
    assert prowess("role", "backend", "--templates", "nowhere").code == 2


def test_the_usage_of_skills_and_references_is_reported(prowess, write_skill):
    for slug in ("tidy", "other"):
        write_skill(slug, **{"references__how.md": "How."})
    for _ in range(3):
        prowess("load", "tidy")
    prowess("load", "tidy", "--reference", "how.md")
    shown = prowess("skills", "--usage")
    assert "Core set: 1 of 1 used skills account for 80 % of the 4 loads." in shown.out
    assert "tidy: how.md loaded 1 time\n" in shown.out
    assert "Not used in the last 30 days (1): other\n" in shown.out
    report = prowess("skills", "--usage", "7d", "--json").json
    assert (report["days"], report["skills"], report["core"]) == (7, [["tidy", 4]], ["tidy"])
    for number in range(12):
        write_skill(f"more-{number:02}")
    shown = prowess("skills", "--usage").out
    assert "Not used in the last 30 days (13): more-00, more-01," in shown
    assert "more-09 and 3 more\n" in shown


def test_a_skill_that_was_enabled_counts_as_loaded_once_and_its_unread_references_are_named(prowess, write_skill):
    for slug in ("tidy", "other"):
        write_skill(slug, **{"references__how.md": "How."})
    prowess("enable", "tidy")
    prowess("disable", "tidy")
    prowess("enable", "tidy", "--session", "second")
    prowess("load", "other", "--reference", "how.md")
    report = prowess("skills", "--usage", "7d", "--json").json
    assert (report["loads"], report["skills"]) == (3, [["tidy", 2], ["other", 1]])
    assert [(file["slug"], file["file"]) for file in report["unused_files"]] == [("tidy", "how.md")]
    assert report["sessions"] == 2


@pytest.mark.parametrize(
    ("agent", "program", "expected"),
    [
        ("claude-code", "claude", ["--append-system-prompt", "PROMPT", "-p", "go"]),
        ("codex", "codex", ["-c", 'developer_instructions="PROMPT"', "-p", "go"]),
        ("gemini-cli", "gemini", ["-p", "go"]),
    ],
)
def test_an_agent_of_another_maker_is_started_with_the_prompt_of_a_role(tmp_path, workspace, agent, program, expected):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / program).write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"\n[ -z "$GEMINI_SYSTEM_MD" ] || cat "$GEMINI_SYSTEM_MD"\n'
    )
    (folder / program).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    call = [PROWESS, "role", "juggler", "--for", agent, "--", program, "-p", "go"]
    ran = subprocess.run(call, capture_output=True, text=True, env=environment, check=True)
    told = ran.stdout.replace("You are a juggler specialist.", "PROMPT").splitlines()
    assert told == [*expected, *(["PROMPT"] if agent == "gemini-cli" else [])]


def test_any_prompt_is_one_toml_string_for_codex(tmp_path, workspace):
    text = 'Quote " and \\ and \u00fc, \U0001f680, a tab \t and a line\nend.'
    template = workspace / "templates/roles/juggler/system_prompt.md"
    template.parent.mkdir(parents=True)
    template.write_text(text, encoding="utf-8")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "codex").write_text('#!/bin/sh\nprintf "%s" "$2"\n')
    (folder / "codex").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    call = [PROWESS, "role", "juggler", "--templates", "templates", "--for", "codex"]
    ran = subprocess.run(call, capture_output=True, text=True, env=environment, check=True)
    assert tomllib.loads(ran.stdout) == {"developer_instructions": text}


def test_an_agent_that_is_not_installed_or_not_named_is_an_error(prowess, workspace, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    missing = prowess("role", "juggler", "--for", "codex")
    assert "'codex' is not installed" in missing.err
    assert "--for claude-code" in prowess("role", "juggler", "--", "claude").err
