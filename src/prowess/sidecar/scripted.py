"""A sidecar that answers from a script: for tests of what uses one, without DSPy."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from prowess.errors import RunFailed
from prowess.sidecar.protocol import OPTIMIZERS, Callbacks, Manifest, Optimized, OptimizeRequest, Program
from prowess.skill.kinds import JsonObject

Execute = Callable[[Program, JsonObject, Callbacks], Awaitable[JsonObject]]
Optimize = Callable[[OptimizeRequest, Callbacks, Callable[[JsonObject], None]], Awaitable[Optimized]]
Step = Mapping[str, Any] | Optimized | Exception | Execute | Optimize
"""Outputs of an `execute`, the result of an `optimize`, an error to raise, or a function that works with the callbacks."""


@dataclass(slots=True)
class ScriptedSidecar:
    """Answers requests step by step; a request without a step raises `RunFailed`, and so does `finish` if steps are left."""

    steps: Sequence[Step] = ()
    dspy: str = "3.4.1"
    templates: JsonObject = field(default_factory=dict[str, Any])
    programs: list[tuple[Program, JsonObject]] = field(default_factory=list[tuple[Program, JsonObject]])
    """The programs that were executed, with their parameters."""
    optimizations: list[OptimizeRequest] = field(default_factory=list[OptimizeRequest])
    is_closed: bool = False
    _used: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()

    def finish(self) -> None:
        """Raise `RunFailed` if steps are left."""
        if self._used < len(self.steps):
            raise RunFailed(f"The script of the sidecar has {len(self.steps) - self._used} steps left.")

    def for_organization(self, organization: str) -> Self:
        """Return itself: one script answers all organizations."""
        del organization
        return self

    async def version(self) -> str:
        """Return its version of DSPy."""
        return self.dspy

    async def manifest(self) -> Manifest:
        """Return what it offers."""
        return Manifest(dspy=self.dspy, python="3.11", templates=self.templates, optimizers=OPTIMIZERS)

    async def execute(self, program: Program, params: JsonObject, callbacks: Callbacks) -> JsonObject:
        """Return the outputs of the next step."""
        self.programs.append((program, params))
        outcome = await self._take(program, params, callbacks)
        if not isinstance(outcome, Mapping):
            raise RunFailed(f"The next step of the sidecar's script is not outputs but {type(outcome).__name__}.")
        return dict(cast("Mapping[str, Any]", outcome))

    async def optimize(
        self, request: OptimizeRequest, callbacks: Callbacks, on_progress: Callable[[JsonObject], None]
    ) -> Optimized:
        """Return the result of the next step."""
        self.optimizations.append(request)
        outcome = await self._take(request, callbacks, on_progress)
        if not isinstance(outcome, Optimized):
            raise RunFailed(
                f"The next step of the sidecar's script is not an `Optimized` but {type(outcome).__name__}."
            )
        return outcome

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    async def _take(self, *arguments: Any) -> Any:
        if self._used >= len(self.steps):
            raise RunFailed("The script of the sidecar has no step for this request.", hint=str(arguments[0])[:400])
        step: Any = self.steps[self._used]
        self._used += 1
        if isinstance(step, Exception):
            raise step
        if callable(step):
            outcome = step(*arguments)
            return await outcome if inspect.isawaitable(outcome) else outcome
        return step
