"""The page about functions says what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.handlers.context import MOST_FILES, MOST_LOGGED_CHARS, MOST_LOGGED_LINES, MOST_REQUESTS
from prowess.handlers.function import MEMORY, MOST_CALLS
from prowess.handlers.run_files import OWN_BYTES
from prowess.outbound.guarded import AT_ONCE, PARTIES
from prowess.sandbox.roots import READ_BYTES, WRITE_BYTES
from prowess.sandbox.sandbox import DEFAULT_LIMITS, OF_CONTEXT
from prowess.skill.kinds import Function
from prowess.skill.needs import NEED_FIELDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()


def test_every_call_of_the_context_is_on_the_page():
    assert all(f"`ctx.{name}(" in PAGE for name in OF_CONTEXT)
    assert "`ctx.env`" in PAGE


def test_every_need_of_a_function_is_on_the_page():
    assert all(f"| `{name}` |" in PAGE for name in NEED_FIELDS if name != "binaries")


@pytest.mark.parametrize(
    "shown",
    [
        f"{Function.model_fields['timeout_seconds'].default:g} s, or",
        f"{MEMORY['wasm'] >> 20} MiB; {MEMORY['native'] >> 20:,} MiB for a native function; {MEMORY['deno'] >> 20} MiB",
        f"{MOST_CALLS:,}, of these {MOST_REQUESTS} requests and {MOST_FILES} files",
        f"| {READ_BYTES >> 20} MiB |",
        f"| {WRITE_BYTES >> 20} MiB |",
        f"| the run's own folder | {OWN_BYTES >> 20} MiB |",
        f"those of runs that it starts included | {AT_ONCE // PARTIES} |",
        f"{MOST_LOGGED_LINES:,} lines, {MOST_LOGGED_CHARS:,} characters",
        f"at most {DEFAULT_LIMITS.result_bytes >> 20} MiB",
    ],
)
def test_every_limit_is_on_the_page(shown):
    assert shown in PAGE
