"""A plugin that brings one of everything: each part works from the file to the answer, and survives the plugin's absence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from prowess.plugins import Plugin
from prowess.skill.kinds import KindInfo

HERE = Path(__file__).parent
PACK = HERE / "acme" / "acme_pack"
PAGE = HERE.parents[1] / "docs" / "plugins.md"
ORDERS = 'rows:=[{"customer": "Ann", "amount": 3}, {"customer": "Bo", "amount": 4}, {"customer": "Ann", "amount": 5}]'
TOTALS = [{"customer": "Ann", "total": 8}, {"customer": "Bo", "total": 4}]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A skill with a query, in a folder that is none of the plugin's."""
    folder = tmp_path / "mine" / "my-totals"
    for path in ("SKILL.md", "queries/totals.sql", "agents/prowess.yaml"):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((PACK / "skills/order-totals" / path).read_text().replace("order-totals", "my-totals"))
    return folder


@pytest.fixture
def none(tmp_path: Path) -> Path:
    return tmp_path / "nothing-installed"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def artifact(shown):
    return next(one for one in shown.json["artifacts"] if one["kind"] == "acme.sql-query")


def test_a_plugin_says_what_it_brings(prowess, acme):
    (found,) = prowess(acme, "plugins", "--json").json
    assert (found["ok"], found["kinds"], found["handlers"]) == (True, ["acme.sql-query"], ["acme.sql-query"])
    assert (found["forms"], found["assertions"]) == (["acme.notebook"], ["acme.tone"])
    assert (found["embedders"], found["tools"]) == (["acme.letters"], ["acme_weekday"])
    shown = prowess(acme, "plugins").out
    assert "kind acme.sql-query" in shown


def test_an_artifact_of_a_plugins_kind_is_listed_validated_and_run(prowess, acme):
    card = next(card for card in prowess(acme, "list", "--json").json if card["slug"] == "order-totals")
    assert card["kinds"] == ["instructions", "acme.sql-query"]
    assert prowess(acme, "validate", str(PACK / "skills/order-totals")).code == 0
    ran = prowess(acme, "run", "order-totals", "-i", ORDERS, "--json")
    assert (ran.code, ran.json["output"]) == (0, TOTALS)
    assert [verdict["type"] for verdict in ran.json["parts"][0]["verdicts"]] == ["acme.tone"]


def test_it_is_dry_run_without_its_handler_being_asked(prowess, acme):
    ran = prowess(acme, "run", "order-totals", "-i", ORDERS, "--dry-run", "--json")
    assert (ran.code, ran.json["parts"][0]["kind"], ran.json["output"]) == (0, "acme.sql-query", None)


def test_it_is_imported_stored_and_exported_as_it_came(prowess, acme, orders, tmp_path):
    assert prowess(acme, "import", str(orders)).code == 0
    kept = artifact(prowess(acme, "show", "my-totals", "--json"))
    assert (kept["name"], kept["limit"], kept["path"]) == ("totals", 10, "queries/totals.sql")
    assert prowess(acme, "run", "my-totals", "-i", ORDERS, "--json").json["output"] == TOTALS
    assert prowess(acme, "export", "my-totals", "--to", str(tmp_path / "out")).code == 0
    assert files(tmp_path / "out/my-totals") == files(orders)
    assert prowess(acme, "export", "my-totals", "--to", str(tmp_path / "native"), "--form", "native").code == 0
    assert prowess(acme, "validate", str(tmp_path / "native/my-totals")).code == 0


def test_without_the_plugin_it_is_kept_reported_and_not_run(prowess, acme, none, orders, tmp_path):
    assert prowess(acme, "import", str(orders)).code == 0
    card = next(card for card in prowess(none, "list", "--json").json if card["slug"] == "my-totals")
    assert "acme.sql-query" in card["kinds"]
    assert artifact(prowess(none, "show", "my-totals", "--json"))["limit"] == 10
    ran = prowess(none, "run", "my-totals", "-i", ORDERS, "--json")
    assert (ran.code != 0, ran.json["error"]["code"]) == (True, "no-handler")
    problems = prowess(none, "validate", str(orders), "--json")
    assert (problems.code, "kind-not-installed" in problems.out) == (0, True)
    assert prowess(none, "export", "my-totals", "--to", str(tmp_path / "out"), "--form", "native").code == 0
    assert prowess(acme, "run", "my-totals", "-i", ORDERS, "--json").json["output"] == TOTALS


@pytest.mark.long
def test_a_skill_that_was_imported_without_the_plugin_runs_once_it_is_there(prowess, acme, none, orders):
    assert prowess(none, "import", str(orders)).code == 0
    assert artifact(prowess(none, "show", "my-totals", "--json"))["limit"] == 10
    assert prowess(acme, "run", "my-totals", "-i", ORDERS, "--json").json["output"] == TOTALS


def test_a_folder_in_a_plugins_form_is_a_skill(prowess, acme, none, tmp_path):
    folder = tmp_path / "books" / "tidy-desk"
    folder.mkdir(parents=True)
    book = {"title": "Tidy desk", "about": "Keeps a desk tidy. Use for desks.", "cells": ["Sort.", "Throw away."]}
    (folder / "notebook.json").write_text(json.dumps(book))
    assert prowess(acme, "validate", str(folder)).code == 0
    assert prowess(acme, "import", str(folder)).code == 0
    assert "Throw away." in prowess(acme, "load", "tidy-desk").out
    assert prowess(acme, "show", "tidy-desk", "--json").json["form"] == "acme.notebook"
    assert prowess(acme, "export", "tidy-desk", "--to", str(tmp_path / "a"), "--form", "agentskills").code == 0
    assert prowess(acme, "import", str(tmp_path / "a"), "--replace").code == 0
    assert prowess(acme, "export", "tidy-desk", "--to", str(tmp_path / "b"), "--form", "acme.notebook").code == 0
    assert json.loads((tmp_path / "b/tidy-desk/notebook.json").read_text())["cells"][-1] == "Throw away."
    assert prowess(none, "export", "tidy-desk", "--to", str(tmp_path / "c"), "--form", "acme.notebook").code != 0


def test_a_plugins_embedder_is_opened_by_its_name(prowess, acme, none, monkeypatch):
    monkeypatch.setenv("PROWESS_EMBEDDER", "acme.letters")
    matched = prowess(acme, "match", "add up the totals of these orders by customer", "--json")
    assert (matched.code, matched.json[0]["slug"]) == (0, "order-totals")
    assert prowess(none, "match", "anything").code != 0


CALL = """
import asyncio, json
from prowess import Prowess, Toolbox

async def main():
    async with Prowess.open() as prowess:
        tools = Toolbox(prowess, actor=prowess.actor)
        names = [tool.name for tool in await tools.offered()]
        answers = [await tools.call("acme_weekday", {"day": day}) for day in ("2026-11-15", "soon")]
        print(json.dumps([names, *[answer.data for answer in answers]]))

asyncio.run(main())
"""


def test_agents_call_a_plugins_tool(acme, tmp_path, home):
    environment = {**os.environ, "PYTHONPATH": str(acme)}
    ran = subprocess.run(
        [sys.executable, "-c", CALL], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    names, good, bad = json.loads(ran.stdout)
    assert "acme_weekday" in names
    assert "skill_order_totals" in names
    assert good == {"weekday": "Sunday"}
    assert (bad["error"]["code"], bad["hint"]) == ("invalid", "Give it as YYYY-MM-DD.")


TOOLS = """
async def odd_one(context, day):
    "Without a type."

async def odd_two(context, day: "Never"):
    "With a type that does not exist."

async def odd_three(context, day: str):
    "As it should be."
    return {"day": day}

tools = tuple(PluginTool(function=one, effect="reads") for one in (odd_one, odd_two, odd_three))
plugin = Plugin(name="odd", tools=tools)
"""


def test_a_tool_whose_arguments_have_no_schema_is_left_out_alone(package, tmp_path, home):
    environment = {**os.environ, "PYTHONPATH": str(package(TOOLS))}
    code = CALL.replace("acme_weekday", "odd_three")
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    names, good, _ = json.loads(ran.stdout)
    assert ([name for name in names if name.startswith("odd_")], good) == (["odd_three"], {"day": "2026-11-15"})
    assert "Skipping the tool odd_one of a plugin: KeyError" in ran.stderr


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("raise ZeroDivisionError", "ZeroDivisionError"),
        ("return None", "TypeError"),
        ("return {'day': {1, 2}}", "TypeError"),
        ("return {'day': '\\ud800'}", "UnicodeEncodeError"),
        ("return {'n': 1e999}", "ValueError"),
    ],
)
def test_a_call_of_a_tool_that_exits_fails_or_has_no_json_answer_names_the_plugin(package, tmp_path, home, end, error):
    fails = TOOLS.replace('return {"day": day}', end)
    environment = {**os.environ, "PYTHONPATH": str(package(fails))}
    code = CALL.replace("acme_weekday", "odd_three")
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)[1]["error"]["message"] == f"The tool odd_three of the plugin odd failed: {error}."


@pytest.mark.parametrize("path", [*sorted(PACK.glob("*.py")), HERE / "shelf/shelf_pack/__init__.py"], ids=str)
def test_the_page_on_plugins_shows_the_code_that_is_tested_here(path):
    assert path.read_text() in re.findall(r"```(?:python|py)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("field", [field.name for field in [*fields(Plugin), *fields(KindInfo)]])
def test_the_page_on_plugins_names_every_field(field):
    assert f"`{field}`" in PAGE.read_text()
