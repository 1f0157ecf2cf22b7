"""The examples of the page about the client run against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.interfaces.cli.server import LOCAL_COMMANDS, SERVER_COMMANDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
TOKEN = "a-token-of-the-tests-that-is-long-enough"


def test_the_page_says_of_every_command_whether_it_uses_the_server():
    rows = {
        about.strip(): set(re.findall(r"`(\w+)`", names))
        for names, about in re.findall(r"^\| (`.*) \| (.*) \|$", PAGE, re.MULTILINE)
    }
    assert rows["use the server"] | {"import"} == SERVER_COMMANDS
    [local] = [names for about, names in rows.items() if about.startswith("work only on this machine")]
    assert local == LOCAL_COMMANDS


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(place, code: str):
    with place.server() as url:
        ran = subprocess.run(
            [sys.executable, "-c", code.replace("http://127.0.0.1:7717", url)],
            env={**os.environ, "PROWESS_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
