"""script: a program that a skill brings, run with its arguments one by one in a folder with the skill's files."""

from __future__ import annotations

import asyncio
import shutil
import sys

import pytest

from prowess.errors import Invalid, Refused, RunFailed, Unavailable
from prowess.handlers.command_runner import CommandRunner
from prowess.handlers.script import PYTHON_COMMAND, ScriptHandler, find_interpreter
from prowess.policy.grants import Grants
from prowess.sandbox.commands.command import CommandLimits
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.roots import Root
from prowess.skill.kinds import Script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux")


@pytest.fixture
def run(call_of):
    """What the script at a path gives, of a skill with these files."""

    def ran(path, files, inputs=None, *, grants=None, provision=None, calls=None, searched=None, **skill):
        async def files_of(skill):
            return {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}

        async def grants_of(call):
            return grants or Grants()

        call = call_of(Script(name="tool", path=path), inputs or {}, skill=skill)
        if calls is not None:
            calls.append(call)
        sandbox = LockedCommandSandbox(**({"searched": searched} if searched else {}))
        commands = CommandRunner(sandbox, files_of, grants_of, CommandLimits(seconds=20))
        return asyncio.run(ScriptHandler(commands, provision).run(call))

    return ran


def test_a_python_script_gets_its_arguments_and_stdin(run):
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    calls = []
    output = run("scripts/a.py", {"scripts/a.py": code}, {"args": ["a b", "-x", 3], "stdin": "in"}, calls=calls)
    assert (output.text, output.kind, output.result["exit_code"]) == ("['a b', '-x', '3'] in\n", "script", 0)
    assert {"files", "network", "processes"} <= set(output.result["confined"])
    assert calls[0].notes.rendered == "python3 scripts/a.py 'a b' -x 3"
    assert calls[0].notes.receipt.as_json()["touched"]["binaries"] == {"python3": 1}


def test_a_script_finds_its_siblings_and_the_other_files_of_its_skill(run):
    files = {
        "scripts/a.py": "import b; print(b.N, open('assets/x.txt').read())",
        "scripts/b.py": "N = 7",
        "assets/x.txt": "text",
    }
    assert run("scripts/a.py", files).text == "7 text\n"
    shell = {"scripts/a.sh": '. "$(dirname "$0")/b.sh"; say "$@"', "scripts/b.sh": 'say() { echo "said $1"; }'}
    assert run("scripts/a.sh", shell, {"args": ["$(id)"]}).text == "said $(id)\n"


@pytest.mark.skipif(not shutil.which("node", path="/usr/local/bin:/usr/bin"), reason="Node is not installed")
def test_a_javascript_file_runs_in_node(run):
    assert (
        run("scripts/a.js", {"scripts/a.js": "console.log(process.argv.slice(2))"}, {"args": ["x"]}).text == "[ 'x' ]\n"
    )


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("a.py", b"print(1)", PYTHON_COMMAND),
        ("a.PY", b"", PYTHON_COMMAND),
        ("a.sh", b"#!/bin/bash -eu\n", ("bash", "-eu")),
        ("a", b"#!/usr/bin/env python3\r\n", PYTHON_COMMAND),
        ("a", b"#!/usr/bin/env -S python3 -u\n", (*PYTHON_COMMAND, "-u")),
        ("a", b"\xef\xbb\xbf#! /bin/sh\n", ("sh",)),
        ("a.py", b"#!/usr/bin/env -S uv run --script\n", PYTHON_COMMAND),
        ("a", b"#!/opt/local/bin/python3.13", PYTHON_COMMAND),
        ("a.mjs", b"", ("node",)),
        ("a.sh", b"#!\n", ("sh",)),
    ],
)
def test_the_first_line_says_what_runs_a_script_or_else_its_suffix(path, content, expected):
    assert find_interpreter(path, content) == expected


@pytest.mark.parametrize(
    ("path", "content"), [("a", b""), ("a.ts", b""), ("a.py", b"#!/bin/evil\n"), ("a", b"\x7fELF")]
)
def test_a_script_that_nothing_runs_is_refused_with_what_does(path, content):
    with pytest.raises(Invalid) as caught:
        find_interpreter(path, content)
    assert "python3, bash" in caught.value.hint


@pytest.mark.parametrize(
    "inputs", [{"args": "x"}, {"args": [None]}, {"args": [["x"]]}, {"args": ["x"] * 1001}, {"stdin": 3}]
)
def test_inputs_of_another_form_are_refused(run, inputs):
    with pytest.raises(Invalid):
        run("a.py", {"a.py": ""}, inputs)


def test_a_script_that_fails_tells_its_code_and_what_it_complained_of(run):
    calls = []
    with pytest.raises(RunFailed, match=r"The script 'a\.sh' exited with code 2: wrong") as caught:
        run("a.sh", {"a.sh": "echo partly; echo wrong >&2; exit 2"}, calls=calls)
    assert "no network" in caught.value.hint
    assert calls[0].notes.raw == "partly\n"
    with pytest.raises(RunFailed, match="exited with code 1: 3 faults"):
        run("a.sh", {"a.sh": "echo 3 faults; exit 1"})


def test_an_interpreter_that_is_not_installed_leaves_it_to_a_fallback(run, tmp_path):
    with pytest.raises(Unavailable, match="'ruby' not found"):
        run("a.rb", {"a.rb": ""}, searched=(str(tmp_path),))


def test_a_package_that_is_missing_is_named_with_the_line_to_add(run):
    with pytest.raises(RunFailed) as caught:
        run("a.py", {"a.py": "import nosuchpackage.x"}, extra={"requirements": ["rich"]})
    assert 'requirements: ["rich", "nosuchpackage"]' in caught.value.hint


def test_required_packages_are_provided_first(run, tmp_path):
    (tmp_path / "brought.py").write_text("N = 3")
    asked = []

    def provision(requirements):
        asked.append(requirements)
        return tmp_path

    calls = []
    files = {"a.py": "import brought; print(brought.N)"}
    output = run("a.py", files, provision=provision, calls=calls, extra={"requirements": ["brought==1"]})
    assert (output.text, asked) == ("3\n", [("brought==1",)])
    assert calls[0].notes.receipt.as_json()["touched"]["packages"] == {"brought==1": 1}


def test_it_has_the_values_and_folders_that_it_was_granted(run, tmp_path):
    (tmp_path / "a.txt").write_text("page")
    grants = Grants(env={"MODE": "careful"}, roots=(Root(name="pages", path=tmp_path, writable=True),))
    files = {"a.sh": 'cat pages/a.txt; echo " in mode" ${#MODE}; echo new > pages/b.txt'}
    calls = []
    output = run("a.sh", files, grants=grants, calls=calls, extra={"env": ["MODE", "OTHER"]})
    assert (output.text, (tmp_path / "b.txt").read_text()) == ("page in mode 7\n", "new\n")
    receipt = calls[0].notes.receipt.as_json()
    assert receipt["touched"] | receipt["refused"] == {
        "env": {"OTHER": 1},
        "written": {"pages": 1},
        "binaries": {"sh": 1},
    }


def test_the_file_has_to_be_there(run):
    with pytest.raises(Invalid, match="no file"):
        run("scripts/none.py", {})


def test_a_script_leaves_no_skill_and_nothing_hidden_in_a_folder(run, tmp_path):
    data = tmp_path.resolve() / "data"
    data.mkdir()
    grants = Grants(roots=(Root(name="data", path=data, writable=True),))
    code = (
        "mkdir -p data/skills/x data/.git; echo a > data/skills/x/SKILL.md; echo b > data/.git/config; echo c > data/c"
    )
    calls = []
    with pytest.raises(Refused, match=r"data/\.git, data/skills"):
        run("a.sh", {"a.sh": code}, grants=grants, calls=calls)
    assert [path.name for path in data.iterdir()] == ["c"]
    assert calls[0].notes.receipt.as_json()["refused"] == {"written": {"data/.git": 1, "data/skills": 1}}


def test_what_a_script_leaves_is_removed_also_where_it_fails(run, tmp_path):
    data = tmp_path.resolve() / "data"
    data.mkdir()
    grants = Grants(roots=(Root(name="data", path=data, writable=True),))
    with pytest.raises(Refused, match=r"data/\.envrc"):
        run("a.sh", {"a.sh": "echo b > data/.envrc; exit 3"}, grants=grants)
    assert list(data.iterdir()) == []
