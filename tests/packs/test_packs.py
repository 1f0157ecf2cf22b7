"""The packs that are shipped: sound, distinct, and made of exactly the files that they list."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.catalog.store import SearchDocument
from prowess.engine.places import PACKS
from prowess.interfaces.cli.main import run
from prowess.match.index import Index
from prowess.match.ranking import rank
from prowess.skill.text.hidden import show_hidden
from prowess.skill.validate import validate
from prowess.storage.files.skill_packages import read_folder

ROLES = sorted(folder.name for folder in PACKS.iterdir())


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """What a command says in JSON, in a workspace without any skills of its own."""

    def call(*arguments: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["prowess", *arguments, "--workspace", str(tmp_path), "--json"])
        capfd.readouterr()
        with pytest.raises(SystemExit):
            run()
        return json.loads(capfd.readouterr().out)

    return call


@pytest.fixture(scope="module")
def own() -> Index:
    """The packs as somebody's own skills."""
    return Index.build([SearchDocument.of(validate(read_folder(PACKS / role)).reading.skill) for role in ROLES])


def fields(role: str) -> dict:
    reading = validate(read_folder(PACKS / role), "bernstein").reading
    assert reading.document is not None
    return dict(reading.document.fields)


def fenced(role: str) -> dict:
    """The JSON block of a pack's text."""
    block = re.search(r"^```json\n(.*?)^```", (PACKS / role / "SKILL.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    return json.loads(block[1])


def test_packs_have_the_source_system_and_their_copies_do_not(
    told: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "true")
    cards = told("list", "--scope", "system")
    assert {(card["slug"], card["source"]) for card in cards} == {(role, "system") for role in ROLES}
    assert told("show", "backend")["provenance"]["source"] == "system"
    exported = told("export", "backend", "--form", "bernstein", "--to", str(tmp_path / "out"))
    assert exported["left_out"] == []
    told("fork", "backend")
    assert told("show", "backend")["provenance"]["source"] == "user"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("profile", ["bernstein", "prowess"])
def test_a_pack_is_in_order(role: str, profile) -> None:
    report = validate(read_folder(PACKS / role), profile)
    assert report.problems == ()
    assert report.reading.form == "bernstein"


@pytest.mark.parametrize("role", ROLES)
def test_the_frontmatter_is_strict_and_the_description_terse(role: str) -> None:
    stated = fields(role)
    assert set(stated) - {"references", "scripts"} == {"name", "description", "trigger_keywords", "version", "author"}
    assert (stated["name"], stated["version"], stated["author"]) == (role, "1.0.0", "Prowess")
    assert 20 <= len(stated["description"]) <= 160
    assert "\n" not in stated["description"]
    assert " Use " in stated["description"]
    assert 3 <= len(stated["trigger_keywords"]) <= 8


@pytest.mark.parametrize("role", ROLES)
def test_a_pack_holds_exactly_the_files_that_it_lists(role: str) -> None:
    stated = fields(role)
    listed = {f"{bucket}/{name}" for bucket in ("references", "scripts") for name in stated.get(bucket, ())}
    assert set(read_folder(PACKS / role).paths) == {"SKILL.md"} | listed


@pytest.mark.parametrize("role", ROLES)
def test_a_text_is_long_enough_to_help_and_short_enough_to_be_read(role: str) -> None:
    package = read_folder(PACKS / role)
    body = validate(package).reading.document.body
    assert 40 <= len(body.strip().splitlines()) <= 90
    assert len(body) < 8_000
    for file in package.files:
        if file.path.startswith("references/"):
            assert 40 <= file.content.count(b"\n") <= 120, file.path


@pytest.mark.parametrize("role", ROLES)
def test_a_text_says_when_to_refuse_and_names_each_of_its_files(role: str) -> None:
    package = read_folder(PACKS / role)
    body = package.get("SKILL.md").content.decode()
    assert "# First" in body
    assert "efuse" in body
    for path in package.paths:
        assert path == "SKILL.md" or path in body


@pytest.mark.parametrize("role", ROLES)
def test_a_pack_hides_nothing_and_asks_for_nothing(role: str) -> None:
    for file in read_folder(PACKS / role).files:
        text = file.content.decode()
        assert show_hidden(text) == text, file.path
        assert text.endswith("\n")
        assert "\r" not in text
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), file.path


def test_only_scripts_can_be_executed() -> None:
    for path in PACKS.rglob("*"):
        if path.is_file():
            assert bool(stat.S_IMODE(path.stat().st_mode) & 0o111) == (path.parent.name == "scripts"), path


def test_no_two_packs_compete_for_the_same_messages(told) -> None:
    assert told("lint", str(PACKS)) == {"ok": True, "skills": len(ROLES), "collisions": []}


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ("Write an async endpoint in Python that stores orders", "backend"),
        ("Make a test plan and write a bug report for the checkout", "qa"),
        ("Is there a vulnerability in how we check authentication?", "security"),
        ("The React component is not accessible with the keyboard", "frontend"),
        ("Set up a docker deployment with monitoring", "devops"),
        ("Write an ADR about the boundaries of our modules", "architect"),
        ("Write a README and a tutorial for new users", "docs"),
        ("Our RAG finds the wrong passages, should we rerank embeddings?", "retrieval"),
        ("Evaluate the fine-tuning run on the dataset", "ml-engineer"),
        ("Please do a code review of this pull request", "reviewer"),
        ("Break the goal into tasks and assign them to agents", "manager"),
        ("Should we pivot or stop the project and reallocate the teams?", "vp"),
        ("Improve this system prompt with few-shot examples", "prompt-engineer"),
        ("Brainstorm bold product ideas for next year", "visionary"),
        ("Score these three proposals by a weighted rubric", "analyst"),
        ("The rebase stopped with a merge conflict", "resolver"),
        ("CI failed on main, a flaky test makes the build red", "ci-fixer"),
    ],
)
def test_kept_as_skills_of_ones_own_each_is_found_for_a_message_about_its_role(
    own: Index, message: str, role: str
) -> None:
    first = rank(own, message, limit=1)[0]
    assert (first.slug, first.decision) == (role, "offer")


def test_a_role_is_not_offered_for_a_message_where_it_only_ships_with_prowess(
    told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")
    assert told("match", "CI failed on main, a flaky test makes the build red") == []
    assert "ci-fixer" in {card["slug"] for card in told("list", "--scope", "system")}


def test_the_visionary_gives_a_schema_that_is_closed_and_requires_what_it_names() -> None:
    schema = fenced("visionary")
    idea = schema["properties"]["ideas"]["items"]
    for part in (schema, idea):
        assert part["additionalProperties"] is False
        assert set(part["required"]) == set(part["properties"])


def test_the_weights_of_the_rubrics_add_up_and_the_example_follows_the_formula() -> None:
    weights = re.findall(r"^\| [A-Z][^|]*\| (\d+) \|", (PACKS / "analyst/SKILL.md").read_text(), re.MULTILINE)
    assert sum(map(int, weights)) == 100
    pivot = (PACKS / "vp/references/pivot-evaluation.md").read_text()
    assert sum(map(int, re.findall(r"^\| [A-Z][^|]*\| (\d+) \|", pivot, re.MULTILINE))) == 100
    [result] = fenced("analyst")["results"]
    width = 25 * (1 - result["confidence"])
    assert result["range"] == [round(result["score"] - width, 1), round(result["score"] + width, 1)]


def test_the_json_of_the_task_shape_can_be_read() -> None:
    text = (PACKS / "manager/references/task-api.md").read_text()
    task, report = (json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    documented = set(re.findall(r"^\| `([a-z_]+)", text, re.MULTILINE))
    assert documented - {"inputs"} == set(task) - {"inputs", "report"}
    assert report["id"] == task["id"]
    assert task["role"] in ROLES
