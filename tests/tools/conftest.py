"""Tools as an agent calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import Toolbox

ANN = Actor(name="ann")


@pytest.fixture
def ann() -> Actor:
    """A person who may do everything."""
    return ANN


@pytest.fixture
def box() -> Callable[..., Toolbox]:
    """The tools of an agent of that person in a conversation."""

    def make(
        engine: Any, *, role: str = "", name: str = "agent", conversation: str = "chat", **options: Any
    ) -> Toolbox:
        return Toolbox(engine, actor=agent_of(ANN, name=name, role=role), conversation=conversation, **options)

    return make
