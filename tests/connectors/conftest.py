"""Connectors as people configure them and agents call them, with a strict server of our own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import Toolbox

ANN = Actor(name="ann")
SERVER = str(Path(__file__).with_name("scripted_server.py"))


@pytest.fixture
def ann() -> Actor:
    """A person who may do everything."""
    return ANN


@pytest.fixture
def box() -> Callable[..., Toolbox]:
    """The tools of an agent of that person."""

    def make(engine: Any, *, role: str = "", **options: Any) -> Toolbox:
        return Toolbox(engine, actor=agent_of(ANN, role=role), conversation="chat", **options)

    return make


@pytest.fixture
def stdio() -> Callable[..., dict[str, Any]]:
    """The configuration of our server as a process."""

    def make(mode: str, *arguments: str, **fields: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-IS", SERVER, mode, *arguments], **fields}

    return make
