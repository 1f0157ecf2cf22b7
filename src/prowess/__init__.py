"""Prowess, the skill engine for AI agents.

The names below are the public API; each is imported when it is first used, so that `import prowess` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.errors import (
        ApprovalDenied,
        ApprovalRequired,
        AssertionFailed,
        BudgetExceeded,
        Conflict,
        Invalid,
        NoHandler,
        NoModel,
        NotFound,
        OutputInvalid,
        Problem,
        ProwessError,
        Refused,
        RunFailed,
        SpendExceeded,
        TimedOut,
        TryLater,
        Unavailable,
    )
    from prowess.events import Event
    from prowess.llm.model import Model
    from prowess.llm.scripted import ScriptedModel
    from prowess.open import Prowess
    from prowess.plugins import Plugin
    from prowess.policy.actor import Actor
    from prowess.run.result import RunResult
    from prowess.session.session import Session
    from prowess.session.turn import TurnDecision
    from prowess.skill.forms import read_package, write_package
    from prowess.skill.model import Skill, SkillCard
    from prowess.skill.package import File, Package
    from prowess.skill.validate import validate
    from prowess.tools.toolbox import Toolbox

__all__ = [
    "Actor",
    "ApprovalDenied",
    "ApprovalRequired",
    "AssertionFailed",
    "BudgetExceeded",
    "Conflict",
    "Event",
    "File",
    "Invalid",
    "Model",
    "NoHandler",
    "NoModel",
    "NotFound",
    "OutputInvalid",
    "Package",
    "Plugin",
    "Problem",
    "Prowess",
    "ProwessError",
    "Refused",
    "RunFailed",
    "RunResult",
    "ScriptedModel",
    "Session",
    "Skill",
    "SkillCard",
    "SpendExceeded",
    "TimedOut",
    "Toolbox",
    "TryLater",
    "TurnDecision",
    "Unavailable",
    "read_package",
    "validate",
    "write_package",
]

_HOMES = {
    "Actor": "policy.actor",
    "Event": "events",
    "File": "skill.package",
    "Model": "llm.model",
    "Package": "skill.package",
    "Plugin": "plugins",
    "Prowess": "open",
    "RunResult": "run.result",
    "ScriptedModel": "llm.scripted",
    "Session": "session.session",
    "Skill": "skill.model",
    "SkillCard": "skill.model",
    "Toolbox": "tools.toolbox",
    "TurnDecision": "session.turn",
    "read_package": "skill.forms",
    "validate": "skill.validate",
    "write_package": "skill.forms",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'prowess' has no attribute {name!r}")
    return getattr(importlib.import_module(f"prowess.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return __all__
