"""The sandbox that all tests share, and a plain way to run a script in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prowess.sandbox.confine.lockdown import NEEDED, probe_confinement
from prowess.sandbox.process.sandbox import ProcessSandbox
from prowess.sandbox.protocol import DEFAULT_LIMITS, ScriptOutcome
from prowess.sandbox.script import script_from_template
from prowess.sandbox.wasm.sandbox import WasmSandbox


@pytest.fixture(scope="session")
def sandbox(sandbox_home: Path) -> Iterator[WasmSandbox]:
    """The sandbox that is used outside tests."""
    opened = WasmSandbox(sandbox_home)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def run(sandbox: WasmSandbox) -> Callable[..., ScriptOutcome]:
    """What comes of a script with inputs, host functions and changed limits."""

    def ran(
        code: str, inputs: dict[str, Any] | None = None, functions: dict[str, Any] | None = None, **limits
    ) -> ScriptOutcome:
        made = script_from_template(code, inputs or {})
        return asyncio.run(sandbox.run(made, functions or {}, replace(DEFAULT_LIMITS, **limits)))

    return ran


@pytest.fixture(scope="session")
def native() -> Iterator[ProcessSandbox]:
    """The sandbox of processes, where the system can confine them."""
    if not set(NEEDED) <= set(probe_confinement()):
        pytest.skip("processes cannot be confined here")
    opened = ProcessSandbox()
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def run_native(native: ProcessSandbox) -> Callable[..., ScriptOutcome]:
    """What comes of a script in a process of its own, with inputs, host functions and changed limits."""

    def ran(
        code: str, inputs: dict[str, Any] | None = None, functions: dict[str, Any] | None = None, **limits
    ) -> ScriptOutcome:
        made = script_from_template(code, inputs or {})
        return asyncio.run(native.run(made, functions or {}, replace(DEFAULT_LIMITS, **limits)))

    return ran
