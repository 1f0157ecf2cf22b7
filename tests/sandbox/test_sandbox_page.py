"""The page about the sandbox says what is there, and what it shows is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.handlers.host_functions import HOST_FUNCTION_NAMES
from prowess.run.allowance import MAX_QUESTIONS
from prowess.sandbox.messages import MAX_VALUES
from prowess.sandbox.protocol import DEFAULT_LIMITS
from prowess.sandbox.script import MAX_DEPTH
from prowess.sandbox.wasm.sandbox import MAX_CONCURRENT

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sandbox.md").read_text()


def test_the_example_prints_what_it_says(sandbox_home, tmp_path):
    (tmp_path / ".prowess").symlink_to(sandbox_home)
    [code] = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.stdout, ran.returncode) == ('done [42, "it\'s"] 1\n', 0), ran.stderr


def test_every_function_is_on_the_page():
    assert all(f"`{name}(" in PAGE for name in (*HOST_FUNCTION_NAMES, "submit"))


@pytest.mark.parametrize(
    "shown",
    [
        f"{DEFAULT_LIMITS.fuel:,}",
        f"{DEFAULT_LIMITS.seconds:g} s",
        f"{DEFAULT_LIMITS.memory_bytes >> 20} MiB",
        f"{DEFAULT_LIMITS.output_chars:,} characters",
        f"submitted | {DEFAULT_LIMITS.result_bytes >> 20} MiB and {MAX_VALUES:,} values in {MAX_DEPTH} levels",
        f"{DEFAULT_LIMITS.calls} calls, {MAX_QUESTIONS} questions, {DEFAULT_LIMITS.traffic_bytes >> 20} MiB",
        f"one call | {DEFAULT_LIMITS.call_bytes >> 20} MiB and {MAX_VALUES:,} values in {MAX_DEPTH} levels",
        f"{DEFAULT_LIMITS.answer_bytes >> 20} MiB in answer",
        f"{MAX_CONCURRENT} scripts at a time",
    ],
)
def test_every_limit_is_on_the_page(shown):
    assert shown in PAGE


def test_the_modules_that_the_page_names_can_be_imported(run):
    line = re.search(r"as far as it only computes: (.*?) and similar modules", PAGE, re.DOTALL)[1]
    names = re.findall(r"`(\w+)`", line)
    assert len(names) > 10
    assert run("\n".join(f"import {name}" for name in names)).ended == "done"
