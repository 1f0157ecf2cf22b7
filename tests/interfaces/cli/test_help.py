"""The help: grouped, with examples that work, and useful for commands that do not exist."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from prowess.interfaces.cli.main import ALIASES, COMMANDS, EXAMPLES, GROUPS, cli, load_command


def every_command() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = load_command(name)
        yield name, command
        if isinstance(command, click.Group):
            for part, sub in command.commands.items():
                yield f"{name} {part}", sub


COMMAND_OF = dict(every_command())


def parse(line: str) -> str:
    """Parse a command line without running it, and return the path of its command."""
    line = line.removeprefix('eval "$(').removesuffix(')"')
    words = shlex.split(line.partition(" > ")[0].partition(" | ")[0])
    assert words.pop(0) == "prowess"
    ctx = cli.make_context("prowess", words)
    while isinstance(ctx.command, click.Group) and (rest := [*ctx._protected_args, *ctx.args]):
        name, command, args = ctx.command.resolve_command(ctx, rest)
        assert command is not None
        ctx = command.make_context(name, args, parent=ctx)
    return ctx.command_path


# One test for all commands: each takes a few milliseconds, as much as a test takes by itself.
def test_every_command_has_two_examples_whose_options_parse():
    for path, command in COMMAND_OF.items():
        assert len(command.examples) >= 2, path
        for line in command.examples:
            assert len(line) <= 78, line
            called = parse(line)
            assert called == f"prowess {path}" or called.startswith(f"prowess {path} "), line


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_examples_of_the_program_parse(line):
    assert parse(line)


def test_help_is_grouped_by_task_and_cuts_nothing_off(prowess, workspace, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = prowess("--help").out
    assert [f"{title}:" in shown for title in GROUPS] == [True] * 8
    assert "..." not in shown.replace("[ARGS]...", "")
    assert prowess("help").out == shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_help_of_a_command_ends_with_its_examples(prowess):
    for path in COMMAND_OF:
        shown = prowess(*path.split(), "--help").out
        assert "\nExamples:\n  " in shown, path
        assert prowess("help", *path.split()).out == shown


def test_help_fits_a_narrow_terminal(prowess, workspace, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = prowess("--help").out.partition("Examples:")[0].splitlines()
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(("name", "meant"), list(ALIASES.items()))
def test_the_names_that_people_try_do_the_obvious_thing(prowess, workspace, name, meant):
    assert prowess(name, "--help").out == prowess(meant, "--help").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("lst", "'list'"), ("mtach", "'match'"), ("val", "'validate'"), ("upgrad", "'update'")),
        *(("publish", "registry publish SLUG"), ("test", "eval triggers SLUG"), ("phrases", "eval triggers SLUG")),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(prowess, workspace, name, words):
    ran = prowess(name)
    assert ran.code == 2
    assert words in ran.err


def test_an_unknown_subcommand_is_answered_with_those_that_exist(prowess, workspace):
    ran = prowess("eval", "my-skill")
    assert ran.code == 2
    assert "Use one of: run, resume, " in ran.err
    assert "Did you mean 'triggers'?" in prowess("eval", "trigers").err


@pytest.mark.parametrize("path", [("list",), ("source", "list")])
def test_an_option_of_the_program_says_where_it_belongs(prowess, workspace, path):
    ran = prowess(*path, "--server", "http://127.0.0.1:7717")
    assert ran.code == 2
    assert f"`prowess --server … {' '.join(path)} …`" in ran.err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("skills list", "Unknown command 'skills list'. Run `prowess list`."),
        ("skill show tidy", "Unknown command 'skill show'. Run `prowess show`."),
        ("skills rm tidy", "Unknown command 'skills rm'. Run `prowess delete`."),
        ("skills enabel tidy", "Unknown command 'enabel'. Did you mean 'enable'?"),
    ],
)
def test_a_command_after_skills_is_answered_with_the_one_of_the_program(prowess, workspace, line, meant):
    ran = prowess(*line.split())
    assert (ran.code, meant in ran.err) == (2, True)


def test_no_suggestion_is_better_than_a_silly_one(prowess, workspace):
    assert "prowess help" in prowess("zzzzzz").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_for_each_shell(prowess, workspace, shell):
    assert "_PROWESS_COMPLETE" in prowess("completion", shell).out


def test_the_completion_script_is_by_default_that_of_the_shell_in_use(prowess, workspace, monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert prowess("completion").out == prowess("completion", "zsh").out
    monkeypatch.setenv("SHELL", "/opt/nu")
    ran = prowess("completion")
    assert (ran.code, "bash, zsh, fish" in ran.err) == (2, True)


def test_a_command_is_completed_without_importing_any(prowess, workspace, monkeypatch):
    monkeypatch.setenv("_PROWESS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "prowess va")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert prowess().out == "plain,validate\n"
