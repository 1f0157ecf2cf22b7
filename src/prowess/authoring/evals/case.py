"""Eval cases, however their file wrote them: what to ask, what to check, and which cases are held out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from prowess.errors import Problem
from prowess.skill.kinds import JsonObject

Split = Literal["train", "validation", "held_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition on an output. `type` names a scorer of `checks.py`; `settings` are what its author wrote."""

    type: str
    settings: JsonObject = field(default_factory=dict[str, Any])
    description: str = ""
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class EvalCase:
    """One case: a message for a model that may use the skill, or inputs for one of its artifacts.

    The digest covers everything that decides the result, and nothing else.
    """

    id: str
    prompt: str = ""
    """A message, answered with and without the skill in the prompt; '' for a case that runs an artifact."""
    inputs: JsonObject | None = None
    """The inputs of `artifact`."""
    artifact: str = ""
    """The artifact to run; '' for the whole skill."""
    files: tuple[str, ...] = ()
    """Paths inside the skill's eval folder whose text is part of the message."""
    expected: Any = None
    """The expected output, for exact scorers, judges and optimisers."""
    checks: tuple[Check, ...] = ()
    split: Split | None = None
    """Set by the author; None to be assigned by digest."""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the case's content."""
        told = [self.prompt, self.inputs, self.artifact, self.files, self.expected]
        told.append([[one.type, one.settings, one.weight] for one in self.checks])
        return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSuite:
    """The cases of one skill, with the settings of their file."""

    skill: str
    cases: tuple[EvalCase, ...]
    trials: int = 1
    """How often each case is asked."""
    model: str = ""
    timeout_seconds: float | None = None
    concurrency: int = 4
    pass_threshold: float = 1.0
    """The weighted share of checks that a case must pass."""
    problems: tuple[Problem, ...] = ()
    """What could not be read, or is not supported. A suite with an error is not run."""
