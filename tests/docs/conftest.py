"""Run commands in this process, as the documentation prints them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from prowess.interfaces.cli.main import run


@dataclass(frozen=True)
class Ran:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def prowess(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Return a function that runs a command and returns its exit code, stdout and stderr."""

    def call(*args: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["prowess", *args])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)

    return call
