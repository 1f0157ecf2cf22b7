"""cli_command: a declared, allowed program with arguments from a template; what it prints is the output."""

from __future__ import annotations

import asyncio
import sys

import pytest

from prowess.errors import Invalid, OutputInvalid, Refused, RunFailed, TimedOut, Unavailable
from prowess.handlers.cli_command import CliCommandHandler
from prowess.handlers.command_runner import CommandRunner
from prowess.policy.grants import Grants
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.roots import Root
from prowess.skill.forms import read_package
from prowess.skill.kinds import CliCommand
from prowess.skill.package import Package

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux")

BINARIES = ("cat", "echo", "printf", "sh", "sleep", "env", "no-such-program")
TOKEN = "s3cret-t0ken-value"


@pytest.fixture
def run(call_of):
    """What a command gives; `calls` keeps the call that it was made by."""

    def ran(handler, inputs=None, *, grants=None, files=None, skill=None, calls=None, **metadata):
        async def files_of(skill):
            return files or {}

        async def grants_of(call):
            return grants or Grants(binaries=BINARIES)

        about = {"extra": {"binaries": list(BINARIES), "env": ["API_TOKEN"]}, **(skill or {})}
        call = call_of(CliCommand(name="Tool", handler=handler, metadata=metadata), inputs or {}, skill=about)
        if calls is not None:
            calls.append(call)
        commands = CommandRunner(LockedCommandSandbox(), files_of, grants_of)
        return asyncio.run(CliCommandHandler(commands).run(call))

    return ran


def test_what_it_prints_is_the_output(run):
    calls = []
    output = run("echo hello {{ who }}", {"who": "Ann; id"}, calls=calls)
    assert (output.text, output.value, output.result["exit_code"]) == ("hello Ann; id\n", "hello Ann; id\n", 0)
    assert "files" in output.result["confined"]
    assert calls[0].notes.rendered == "echo hello 'Ann; id'"
    assert calls[0].notes.receipt.as_json()["touched"]["binaries"] == {"echo": 1}


def test_arguments_can_stand_in_a_list_of_their_own(run):
    output = run("printf", {"a": "x y"}, args=["%s|", "{{ a }}", 3, ["{{ none }}"]])
    assert output.text == "x y|3|"


def test_lines_and_json_are_read(run):
    assert run("printf 'a\\nb\\r\\n\\nc'", output="lines").data == ["a", "b", "", "c"]
    assert run("printf 'a\\n'", output="lines").data == ["a"]
    assert run("""printf '{"n": [1, 2]}'""", output="json").data == {"n": [1, 2]}


@pytest.mark.parametrize("printed", ["", "no json", "NaN", "[-1e999]", "[" * 60_000])
def test_json_that_is_none_fails_the_run(run, printed):
    with pytest.raises(RunFailed, match="is not JSON"):
        run("cat", {"text": printed}, stdin="{{ text }}", output="json")


def test_the_result_is_held_to_the_output_schema(run):
    skill = {"output_schema": {"type": "object", "required": ["n"]}}
    assert run("printf '{\"n\": 1}'", output="json", skill=skill).data == {"n": 1}
    with pytest.raises(OutputInvalid, match="does not match the output schema of 'checker'"):
        run("printf '{}'", output="json", skill=skill)


def test_stdin_is_a_template_too(run):
    assert run("cat", {"text": "-x\n$(id)"}, stdin="<{{ text }}>").text == "<-x\n$(id)>"


def test_the_files_of_the_skill_are_in_its_folder(run):
    assert run("cat assets/a.txt", files={"assets/a.txt": b"mine"}).text == "mine"


def test_the_files_of_the_skill_are_read_and_not_executed(run):
    files = {"tool.sh": b"#!/bin/sh\necho ran\n", ".profile": b"echo ran"}
    output = run("sh -c 'chmod +x tool.sh; ./tool.sh || ls -A \"$HOME\"; cat tool.sh'", files=files)
    assert output.text.encode() == files["tool.sh"]


def test_a_program_that_nobody_allowed_is_refused_with_the_reason(run, tmp_path):
    calls = []
    given = Grants(denied={"curl": "Ask Ann."}, env={"API_TOKEN": TOKEN}, roots=(Root(name="texts", path=tmp_path),))
    with pytest.raises(Refused, match="'curl' is not allowed") as caught:
        run("curl http://localhost", grants=given, calls=calls)
    assert caught.value.hint == "Ask Ann."
    assert calls[0].notes.receipt.as_json()["refused"] == {"binaries": {"curl": 1}}
    assert calls[0].notes.receipt.as_json()["touched"] == {}


def test_a_program_that_is_not_installed_leaves_it_to_a_fallback(run):
    with pytest.raises(Unavailable, match="Program 'no-such-program' not found"):
        run("no-such-program")


@pytest.mark.parametrize("handler", ["", "{{ program }} x", "/bin/echo x", "./echo", "../echo", "-x", "'' x"])
def test_the_program_is_a_bare_name_that_no_input_changes(run, handler):
    with pytest.raises(Invalid, match="program name"):
        run(handler, {"program": "echo"})


@pytest.mark.parametrize(
    "metadata",
    [
        {"args": 3},
        {"args": [{}]},
        {"output": "xml"},
        {"timeout_seconds": 0},
        {"timeout_seconds": "soon"},
        {"success_codes": ["x"]},
    ],
)
def test_settings_that_cannot_be_read_are_named(run, metadata):
    with pytest.raises(Invalid, match=f"is not valid: {next(iter(metadata))}"):
        run("echo", **metadata)


def test_a_code_that_is_no_success_fails_with_what_it_complained_of(run):
    calls = []
    with pytest.raises(RunFailed, match="exited with code 3: no such thing") as caught:
        run("sh -c 'echo so far; echo no such thing >&2; exit 3'", calls=calls)
    assert "no network" in caught.value.hint
    assert calls[0].notes.raw == "so far\n"
    assert run("sh -c 'exit 3'", success_codes=[0, 3]).result["exit_code"] == 3


def test_time_and_output_are_bounded(run):
    with pytest.raises(TimedOut, match=r"after 0\.3 s"):
        run("sleep 60", timeout_seconds=0.3)
    with pytest.raises(RunFailed, match="output limit"):
        run("sh -c 'while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done'")


def test_granted_values_are_in_its_environment_and_nowhere_else(run):
    calls = []
    grants = Grants(binaries=BINARIES, env={"API_TOKEN": TOKEN})
    output = run(
        "sh -c 'test -n \"$API_TOKEN\" && echo has $API_TOKEN; echo $API_TOKEN >&2'", grants=grants, calls=calls
    )
    assert output.text == "has [redacted]\n"
    assert TOKEN not in f"{output}{calls[0].notes}"
    assert calls[0].notes.receipt.as_json()["touched"]["env"] == {"API_TOKEN": 1}
    with pytest.raises(RunFailed) as caught:
        run("sh -c 'echo $API_TOKEN >&2; exit 1'", grants=grants)
    assert TOKEN not in caught.value.message


def test_a_name_that_was_not_granted_is_told_where_it_fails(run):
    grants = Grants(binaries=BINARIES, denied={"API_TOKEN": "Nobody allowed API_TOKEN."})
    with pytest.raises(RunFailed) as caught:
        run("sh -c 'exit 1'", grants=grants)
    assert caught.value.hint == "Nobody allowed API_TOKEN."


def test_roots_are_seen_by_their_names(run, tmp_path):
    (tmp_path / "a.txt").write_text("page")
    grants = Grants(binaries=BINARIES, roots=(Root(name="pages", path=tmp_path),))
    assert run("cat pages/a.txt", grants=grants).text == "page"


def test_inputs_are_held_to_the_schema_with_its_defaults(run):
    skill = {"parameters": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}}
    assert run("echo {{ n }}", skill=skill).text == "7\n"
    with pytest.raises(Invalid):
        run("echo {{ n }}", {"n": "x"}, skill=skill)


def test_a_command_of_a_descriptor_and_of_a_sidecar_are_the_same(run):
    descriptor = """
skill_id: org.example.upper
name: Upper
description: Says it.
version: 1.0.0
implementation:
  type: cli_command
  handler: printf
  args: ["%s", "{{ word }}"]
  output: lines
"""
    sidecar = """
artifacts:
  - kind: cli_command
    name: handler
    handler: printf
    metadata: {args: ["%s", "{{ word }}"], output: lines}
"""
    folder = {"SKILL.md": "---\nname: upper\ndescription: Says it.\n---\n\nSay it.\n", "agents/prowess.yaml": sidecar}
    for files in ({"upper.yaml": descriptor}, folder):
        skill = read_package(Package.of_texts("upper", files)).skill
        [artifact] = [one for one in skill.artifacts if isinstance(one, CliCommand)]
        assert run(artifact.handler, {"word": "x y"}, **artifact.metadata).data == ["x y"]
