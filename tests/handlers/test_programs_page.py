"""The page about programs says what is there, and what it shows is true."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.handlers.cli_command import CliCommandHandler
from prowess.handlers.command_runner import CommandRunner
from prowess.policy.grants import Grants
from prowess.sandbox.commands.command import DEFAULT_COMMAND_LIMITS
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.programs import SEARCH_PATH
from prowess.sandbox.roots import Root
from prowess.skill.declarations import CommandSettings
from prowess.skill.filenames import SCRIPT_SUFFIXES
from prowess.skill.forms import read_package
from prowess.skill.kinds import CliCommand
from prowess.skill.package import Package

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "programs.md").read_text()


def test_the_example_in_python_prints_what_it_says(tmp_path):
    [code] = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.stdout, ran.returncode) == ("done 0 ['Ann', 'Bob']\n", 0), ran.stderr


def test_the_command_on_the_page_runs(call_of, tmp_path):
    [sidecar] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    files = {"SKILL.md": "---\nname: finder\ndescription: Finds.\n---\n\nFind.\n", "agents/prowess.yaml": sidecar}
    reading = read_package(Package.of_texts("finder", files))
    assert not [problem for problem in reading.problems if problem.severity == "error"]
    [command] = [one for one in reading.skill.artifacts if isinstance(one, CliCommand)]
    (tmp_path / "a.txt").write_text("one\n-v two\nthree -v\n")

    async def files_of(skill):
        return {}

    async def grants_of(call):
        return Grants(binaries=("grep",), roots=(Root(name="texts", path=tmp_path),))

    handler = CliCommandHandler(CommandRunner(LockedCommandSandbox(), files_of, grants_of))

    def found(**inputs):
        call = call_of(command, inputs, skill={"parameters": reading.skill.parameters})
        return asyncio.run(handler.run(call)).data

    assert found(word="-v", file="a.txt") == ["2:-v two", "3:three -v"]
    assert found(word="-v", file="a.txt", most=1) == ["2:-v two"]
    assert found(word="none", file="a.txt") == []


@pytest.mark.parametrize(
    "shown",
    [
        f"{DEFAULT_COMMAND_LIMITS.seconds:g} s",
        f"{DEFAULT_COMMAND_LIMITS.memory_bytes >> 20} MiB",
        f"{DEFAULT_COMMAND_LIMITS.output_bytes:,} bytes",
        f"{DEFAULT_COMMAND_LIMITS.file_bytes >> 20} MiB",
        f"| processes | {DEFAULT_COMMAND_LIMITS.processes} |",
        *(f"`{name}`" for name in (*CommandSettings.model_fields, *SCRIPT_SUFFIXES, *SEARCH_PATH)),
    ],
)
def test_every_setting_and_limit_is_on_the_page(shown):
    assert shown in PAGE
