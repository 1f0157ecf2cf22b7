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
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tools(place):
    """A skill with a script and a command, in a workspace with a file."""
    files = {"agents/prowess.yaml": SIDECAR, "scripts/greet.py": SCRIPT, "scripts/settings.py": "GREETING = 'Hello'"}
    place.skill("tools", files=files)
    (place.workspace / "texts").mkdir()
    (place.workspace / "texts" / "a.txt").write_text("one\ntwo\n")
    return place


async def _agree(prowess, *run, **given) -> None:
    with pytest.raises(ApprovalRequired) as asked:
        await prowess.run("", *run, **given)
    await prowess.resolve(asked.value.approval_id, approved=True)


async def test_a_script_runs_after_a_person_has_agreed_to_its_bytes(tools):
    run = ("tools", "greet.py")
    inputs = {"args": ["a b", "$HOME"], "stdin": "in"}
    async with tools.open() as prowess:
        await _agree(prowess, *run, inputs=inputs)
        result = await prowess.run("", *run, inputs=inputs)
        assert result.output.text == "Hello ['a b', '$HOME'] in\n"
        assert {"files", "network", "processes"} <= set(result.output.result["confined"])
        trace = await prowess.trace(result.parts[0].trace)
        assert trace.detail["receipt"]["touched"]["binaries"] == [{"name": "python3", "times": 1}]
        tools.write("tools", {"scripts/settings.py": "GREETING = 'Go away'"})
        await prowess.reload()
        with pytest.raises(ApprovalRequired):
            await prowess.run("", *run, inputs=inputs)


async def test_a_command_needs_an_administrator_to_allow_its_program(tools):
    run = ("tools", "count")
    async with tools.open() as prowess:
        await _agree(prowess, *run, inputs={"file": "a.txt"})
        with pytest.raises(Refused, match="'wc' is not allowed here") as caught:
            await prowess.run("", *run, inputs={"file": "a.txt"})
        assert "allowed_binaries" in caught.value.hint
        await prowess.set_policy("allowed_binaries", ["wc"])
        result = await prowess.run("", *run, inputs={"file": "a.txt"})
        assert result.output.data == ["2 texts/a.txt"]
        with pytest.raises(RunFailed, match="ended with code 1"):
            await prowess.run("", *run, inputs={"file": "../../../../../../etc/passwd"})


async def test_a_dry_run_starts_nothing(tools):
    tools.write("tools", {"scripts/greet.py": "open('texts/made', 'w')"})
    async with tools.open() as prowess:
        await _agree(prowess, "tools", "greet.py", inputs={})
        result = await prowess.run("", "tools", "greet.py", inputs={}, dry_run=True)
    assert result.output is None
