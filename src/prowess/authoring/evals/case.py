"""Eval cases, however their file wrote them: what to ask, what to check, and which cases are held out."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import shorten
from typing import Any, Literal

from prowess.errors import Problem
from prowess.skill.json_values import map_texts
from prowess.skill.kinds import JsonObject

Split = Literal["train", "validation", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")

_SPACE = re.compile(r"\s+")
_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition on an output. `type` names a check of `checks.py`; `settings` are what its author wrote."""

    type: str
    settings: JsonObject = field(default_factory=dict[str, Any])
    description: str = ""
    weight: float = 1.0
    negate: bool = False
    """True if the condition must not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFile:
    """A text file that belongs to the message of a case."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class EvalCase:
    """One case: a message for a model that may use the skill, or inputs for one of its artifacts.

    The digest covers everything that decides the result, and nothing else.
    """

    id: str
    """Unique in its suite."""
    name: str = ""
    """The title, for people; '' if the author gave none."""
    prompt: str = ""
    """A message, answered with and without the skill in the prompt; '' for a case that runs an artifact."""
    inputs: JsonObject | None = None
    """The inputs of `artifact`."""
    artifact: str = ""
    """The artifact to run; '' for the whole skill."""
    files: tuple[EvalFile, ...] = ()
    """Files whose text is part of the message."""
    expected: Any = None
    """The expected output, for exact scorers, judges and optimizers."""
    checks: tuple[Check, ...] = ()
    """Empty if the assertions of the artifact decide."""
    threshold: float | None = None
    """The weighted share of checks that this case must pass; None for that of the suite."""
    label: str = ""
    """The group of the case, such as a class or a category; splits keep the share of each group."""
    split: Split | None = None
    """Set by the author; None to be assigned by digest."""
    source: str = ""
    """The file that the case comes from."""

    @property
    def title(self) -> str:
        """The name, or the beginning of the message if there is only a number, which says nothing to a person; else ''."""
        return self.name or (shorten(self.prompt, _TITLE_CHARS, placeholder=" …") if self.id.isdigit() else "")

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the case's content."""
        fields: list[Any] = [self.prompt, self.inputs, self.artifact, self.expected, self.threshold]
        fields.append([[file.path, file.text] for file in self.files])
        fields.append([[check.type, check.settings, check.weight, check.negate] for check in self.checks])
        return _hash(fields)

    @cached_property
    def inputs_digest(self) -> str:
        """The SHA-256 of the inputs alone, whatever their case and spacing: equal for near duplicates."""
        return _hash(
            [_plain(self.prompt), _plain(self.inputs), self.artifact, [_plain(file.text) for file in self.files]]
        )


def _hash(fields: list[Any]) -> str:
    # Escaped, because JSON may have lone surrogates, which UTF-8 cannot hold.
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return a value with all text in lower case and single spaces."""
    return map_texts(value, lambda text: _SPACE.sub(" ", text).strip().casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSuite:
    """The cases of one skill, with the settings of their file."""

    skill: str
    cases: tuple[EvalCase, ...]
    trials: int = 1
    """How often each case is asked."""
    model: str = ""
    """The model that the file names, for people. A file does not choose the model of a run."""
    timeout_seconds: float | None = None
    concurrency: int = 4
    pass_threshold: float = 1.0
    """The weighted share of checks that a case must pass."""
    problems: tuple[Problem, ...] = ()
    """What could not be read, or is not supported. A suite with an error is not run."""

    @property
    def is_usable(self) -> bool:
        """True if there are cases and nothing in the files is an error."""
        return bool(self.cases) and all(problem.severity != "error" for problem in self.problems)
