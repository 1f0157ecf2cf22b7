"""Scripts and commands of skills through the engine: asked about first, confined, with a receipt in the trace."""

from __future__ import annotations

import sys

import pytest

from prowess.errors import ApprovalRequired, Refused, RunFailed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux"),
]

SIDECAR = """
roots: [texts]
artifacts:
  - {kind: cli_command, name: count, handler: "wc -l texts/{{ file }}", metadata: {output: lines}}
"""
SCRIPT = "import sys, settings\nprint(settings.GREETING, sys.argv[1:], sys.stdin.read())\n"


@pytest.fixture
def tools(place):
    """A skill with a script and a command, in a workspace with a file."""
    files = {"agents/prowess.yaml": SIDECAR, "scripts/greet.py": SCRIPT, "scripts/settings.py": "GREETING = 'Hello'"}
    place.skill("tools", files=files)
    (place.workspace / "texts").mkdir()
    (place.workspace / "texts" / "a.txt").write_text("one\ntwo\n")
    return place


async def _agree(prowess, inputs, *, artifact) -> None:
    with pytest.raises(ApprovalRequired) as asked:
        await prowess.run("tools", inputs, artifacts=artifact)
    show = f"`prowess approvals show {asked.value.approval_id[:8]}`"
    assert asked.value.hint == f"Review the request with {show}."
    await prowess.approvals.resolve(asked.value.approval_id, approved=True)


async def test_a_script_runs_after_a_person_has_agreed_to_its_bytes(tools):
    inputs = {"args": ["a b", "$HOME"], "stdin": "in"}
    async with tools.open() as prowess:
        await _agree(prowess, inputs, artifact="greet.py")
        result = await prowess.run("tools", inputs, artifacts="greet.py")
        assert result.output.text == "Hello ['a b', '$HOME'] in\n"
        assert {"files", "network", "processes"} <= set(result.output.result["confined"])
        trace = await prowess.traces.get(result.parts[0].trace)
        assert trace.detail["receipt"]["touched"]["binaries"] == [{"name": "python3", "times": 1}]
        tools.write("tools", {"scripts/settings.py": "GREETING = 'Go away'"})
        await prowess.skills.reload()
        with pytest.raises(ApprovalRequired):
            await prowess.run("tools", inputs, artifacts="greet.py")


async def test_a_command_needs_an_administrator_to_allow_its_program(tools):
    async with tools.open() as prowess:
        await _agree(prowess, {"file": "a.txt"}, artifact="count")
        with pytest.raises(Refused, match="'wc' is not allowed") as caught:
            await prowess.run("tools", {"file": "a.txt"}, artifacts="count")
        command = """prowess policy set allowed_binaries '["wc"]'"""
        assert caught.value.hint == f"An administrator can allow it: `{command}`."
        await prowess.policy.set("allowed_binaries", ["wc"])
        result = await prowess.run("tools", {"file": "a.txt"}, artifacts="count")
        assert result.output.data == ["2 texts/a.txt"]
        with pytest.raises(RunFailed, match="exited with code 1"):
            await prowess.run("tools", {"file": "../../../../../../etc/passwd"}, artifacts="count")


async def test_a_dry_run_starts_nothing(tools):
    tools.write("tools", {"scripts/greet.py": "open('texts/made', 'w')"})
    async with tools.open() as prowess:
        await _agree(prowess, {}, artifact="greet.py")
        result = await prowess.run("tools", {}, artifacts="greet.py", dry_run=True)
    assert result.output is None
