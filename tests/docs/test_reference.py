"""The reference pages are what the code says today."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import click
import pytest

from prowess.interfaces.cli.main import COMMANDS, load_command
from prowess.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load_script()
JSON_PAGE = (ROOT / "docs/json.md").read_text()


@pytest.mark.parametrize("name", REFERENCE.PAGES)
def test_a_reference_page_is_current(name):
    current = (ROOT / "docs" / f"{name}.md").read_text()
    assert current == REFERENCE.PAGES[name](), "run: .venv/bin/python scripts/reference.py"


def test_every_setting_has_a_meaning():
    undocumented = {item.name for item in fields(Settings) if not item.metadata}
    assert undocumented == {"user_home", "environment"}


@pytest.mark.parametrize(
    "command",
    ["list", "match", "lint", "skills", "enable", "prompt", "index", "stats", "metrics", "model list", "events"],
)
def test_the_page_about_json_lists_the_keys_that_a_command_prints(command, prowess, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples/workspace", tmp_path / "workspace")
    monkeypatch.chdir(tmp_path / "workspace")
    prowess("enable", "commit-messages")
    words = {"match": ["write a commit message"], "skills": ["--all"], "enable": ["release-notes"]}
    ran = prowess(*command.split(), *words.get(command, []), "--json")
    printed = json.loads(ran.out.splitlines()[0] if command == "events" else ran.out)
    row = next(line for line in JSON_PAGE.splitlines() if line.startswith("| ") and f"`{command}`" in line)
    first = printed[0] if isinstance(printed, list) else printed
    listed = re.search(r"`{([^}]*)}`", row)
    assert listed is not None
    assert listed[1].split(", ") == list(first)


def commands_below(path: str, command: click.Command) -> Iterator[tuple[str, bool]]:
    """Yield each command that is no group, and True if it has the option `--json`."""
    if isinstance(command, click.Group):
        for name, sub in command.commands.items():
            yield from commands_below(f"{path} {name}", sub)
    else:
        yield path, any(parameter.name == "as_json" for parameter in command.params)


def test_the_page_about_json_names_what_every_command_prints_and_those_that_print_none():
    takes_json = dict(row for name in COMMANDS for row in commands_below(name, load_command(name)))
    cells = [line.split("|")[1] for line in JSON_PAGE.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`([a-z -]+)`", cell)}
    assert {path for path, takes in takes_json.items() if takes} - listed == set()
    silent = JSON_PAGE.partition("except ")[2].partition(". ")[0]
    assert set(re.findall(r"`([a-z -]+)`", silent)) == {path for path, takes in takes_json.items() if not takes}


PAGES = sorted({*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")} - {ROOT / "docs/commands.md"})


def shown_commands(text: str) -> list[list[str]]:
    """Return the words of every command line of Prowess that a page shows, in blocks and in sentences."""
    code = "\n".join(re.findall(r"^(?:    |\$ )?(prowess .*)$", text, re.MULTILINE))
    code += "\n" + "\n".join(re.findall(r"`(prowess [^`\n]+)`", text))
    return [re.split(r" [#|>&] ?|  +", line)[0].split()[1:] for line in code.splitlines() if line]


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_every_command_line_of_a_page_has_a_command_and_options_that_exist(path):
    for words in shown_commands(path.read_text()):
        check_command(words)


def test_every_command_line_of_a_message_has_a_command_and_options_that_exist():
    for path in (ROOT / "src/prowess").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for words in shown_commands(message_of(node)):
                if words and re.fullmatch("[a-z-]+", words[0]):  # `…` stands for a part that is filled in
                    check_command(words)


def message_of(node: ast.AST) -> str:
    """Return a text of the source code, with … for what an f-string fills in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def check_command(words: list[str]) -> None:
    while words and words[0] in ("--server", "--token-file", "-w"):  # options before the command, with a value
        words = words[2:]
    if not words or words[0] in ("COMMAND", "--help", "--version", "[…]", "help"):
        return
    assert words[0] in COMMANDS, words
    command = load_command(words[0])
    known = option_names(command)
    while isinstance(command, click.Group):
        # Without the name of a subcommand, one of them is the default.
        words = words[1:]
        named = [command.commands[word] for word in words[:1] if word in command.commands]
        known = known.union(*(option_names(one) for one in named or command.commands.values()))
        command = named[0] if named else None
    shown = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    assert shown <= known, (words, shown - known)


def option_names(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}
