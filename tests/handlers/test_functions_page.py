"""The page about functions says what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.handlers.function import MAX_CALLS, MEMORY_BYTES
from prowess.handlers.function_context import MAX_FILES, MAX_LOG_CHARS, MAX_LOG_LINES, MAX_OWN_BYTES, MAX_REQUESTS
from prowess.net.client import MAX_CONCURRENT, PARTIES
from prowess.sandbox.protocol import CONTEXT_FUNCTIONS, DEFAULT_LIMITS
from prowess.sandbox.roots import MAX_READ_BYTES, MAX_WRITE_BYTES
from prowess.skill.kinds import Function
from prowess.skill.needs import NEED_FIELDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()


def test_every_call_of_the_context_is_on_the_page():
    assert all(f"`ctx.{name}(" in PAGE for name in CONTEXT_FUNCTIONS)
    assert "`ctx.env`" in PAGE


def test_every_need_of_a_function_is_on_the_page():
    assert all(f"| `{name}` |" in PAGE for name in NEED_FIELDS if name != "binaries")


@pytest.mark.parametrize(
    "shown",
    [
        f"{Function.model_fields['timeout_seconds'].default:g} s, or",
        f"{MEMORY_BYTES['wasm'] >> 20} MiB; {MEMORY_BYTES['native'] >> 20:,} MiB for a native function; {MEMORY_BYTES['deno'] >> 20} MiB",
        f"{MAX_CALLS:,}, of these {MAX_REQUESTS} requests and {MAX_FILES} files",
        f"| {MAX_READ_BYTES >> 20} MiB |",
        f"| {MAX_WRITE_BYTES >> 20} MiB |",
        f"| the run's own folder | {MAX_OWN_BYTES >> 20} MiB |",
        f"those of runs that it starts included | {MAX_CONCURRENT // PARTIES} |",
        f"{MAX_LOG_LINES:,} lines, {MAX_LOG_CHARS:,} characters",
        f"at most {DEFAULT_LIMITS.result_bytes >> 20} MiB",
    ],
)
def test_every_limit_is_on_the_page(shown):
    assert shown in PAGE
