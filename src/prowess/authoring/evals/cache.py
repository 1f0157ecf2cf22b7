"""Results that are used again: the key of a result, and a log that stores results as they come.

A second run with the same skill, cases and models asks no model, and one that was interrupted goes on where it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.results import CaseResult
from prowess.engine.context import Context
from prowess.engine.records import read_rows
from prowess.errors import ProwessError
from prowess.prompts.registry import entry_digest
from prowess.skill.model import Skill
from prowess.storage import evals
from prowess.storage.evals import StoredResult
from prowess.threads import offload, offload_to_completion

if TYPE_CHECKING:
    import sqlalchemy as sa


GRADER_VERSION = "1"
"""Raise it when the same output would get another grade, or the same case another prompt."""

FLUSH_RESULTS = 50
FLUSH_SECONDS = 0.5
"""Results are stored when there are this many, or the oldest is this old. A process that dies loses at most those."""


def cache_key(
    *,
    skill: str,
    case: EvalCase,
    rubrics: Sequence[str],
    model: str,
    judge: str,
    repeat: int,
    threshold: float,
    seconds: float | None,
) -> str:
    """Return the key of a result: everything that decides it. `skill` is '' without a skill."""
    fields = [GRADER_VERSION, skill, case.digest, list(rubrics), model, judge, repeat, threshold, seconds]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def rubric_digests(context: Context, skill: Skill, case: EvalCase) -> list[str]:
    """Return the digests of the rubrics that a case names, as they are now; '' for one that is missing. Blocking."""
    found: list[str] = []
    for check in case.checks:
        if check.type == "rubric":
            name, version = str(check.settings["rubric"]), str(check.settings.get("version") or "") or None
            try:
                rubric = context.resources.registry.rubric(
                    name, version, skill=skill, organization=context.actor.organization
                )
            except ProwessError:
                found.append("")
            else:
                found.append(entry_digest(rubric))
    return found


async def find_cached(context: Context, keys: Sequence[str]) -> dict[str, CaseResult]:
    """Return the results of earlier runs of the same person, by key. Errors are never among them."""

    def read(connection: sa.Connection) -> dict[str, CaseResult]:
        found = evals.find_cached(connection, context.actor.owner, keys)
        return {key: CaseResult.of(result) for key, result in found.items()}

    return await offload(read_rows, context, read, {})


class ResultLog:
    """Stores the results of a run in batches. Secrets are removed first."""

    def __init__(self, context: Context, run_id: str) -> None:
        self._context = context
        self._run_id = run_id
        self._lock = asyncio.Lock()
        self._pending: list[tuple[int, str, CaseResult]] = []
        self._since = 0.0

    async def add(self, position: int, key: str, result: CaseResult) -> None:
        """Keep a result, and store it soon. One with an error is stored without its key, so that it is not used again."""
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append((position, key if result.passed is not None else "", result))
        if len(self._pending) >= FLUSH_RESULTS or time.monotonic() - self._since >= FLUSH_SECONDS:
            await self.flush()

    async def flush(self) -> None:
        """Store what is pending. Runs to its end even if the caller is cancelled."""
        async with self._lock:
            pending, self._pending = self._pending, []
            if pending:
                await offload_to_completion(self._write, pending)

    def _write(self, pending: Sequence[tuple[int, str, CaseResult]]) -> None:
        redact = self._context.resources.runner.redact
        rows = [
            StoredResult(position=position, key=key, result=redact(result.as_json()))
            for position, key, result in pending
        ]
        with self._context.resources.records().write() as connection:
            evals.add_results(connection, self._run_id, self._context.actor.owner, rows)
