"""Export traces for other programs: rows as JSON, or examples of an evaluation data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, Literal, get_args

from prowess.storage.traces import Trace

ExportFormat = Literal["jsonl", "dspy"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)

_JUDGED_STATUSES = frozenset({"ok", "failed"})
_OWN_FIELDS = frozenset({"output", "assertions", "passed", "input_keys", "metadata"})
_RESERVED_FIELDS = _OWN_FIELDS | {"self", "base"}
"""Names that an input cannot have in an example: our own fields, and the parameters of the example's constructor."""

_HIDDEN_PREFIX = "dspy_"
"""dspy hides fields whose names start with this."""

_METADATA_FIELDS = (
    "run_id",
    "skill_slug",
    "skill_digest",
    "artifact_name",
    "artifact_kind",
    "status",
    "started_at",
    "duration_ms",
    "model_id",
    "input_tokens",
    "output_tokens",
    "estimated_cost",
    "error_code",
    "error",
)


def export_traces(traces: Iterable[Trace], format: ExportFormat) -> Iterator[dict[str, Any]]:
    """Yield a JSON object for each trace that the format can express, in the same order."""
    make = _FORMATS[format]
    return (row for trace in traces if (row := make(trace)) is not None)


def to_dspy_example(trace: Trace) -> dict[str, Any] | None:
    """Return a finished run for `dspy.Example(**row).with_inputs(*row["input_keys"])`; None if it had no output.

    Inputs keep their names, except that one whose name is reserved gets the prefix `input_`. `assertions` has the verdict
    of each assertion. `passed` is True if the run succeeded, which it does not if a hard assertion fails.
    """
    if trace.status not in _JUDGED_STATUSES or trace.raw_output is None:
        return None
    inputs = _rename_inputs(trace.inputs)
    return {
        **inputs,
        "output": trace.raw_output,
        "assertions": [_assertion_result(verdict) for verdict in trace.verdicts],
        "passed": trace.status == "ok",
        "input_keys": list(inputs),
        "metadata": {"trace_id": trace.id, **{name: getattr(trace, name) for name in _METADATA_FIELDS}},
    }


def _rename_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs under names that are free in an example."""
    named: dict[str, Any] = {}
    for name, value in inputs.items():
        free = name
        # Prefixed until it is free. The name of another input is not free either: that one keeps it.
        while (
            free in _RESERVED_FIELDS
            or free.startswith(_HIDDEN_PREFIX)
            or free in named
            or (free != name and free in inputs)
        ):
            free = f"input_{free}"
        named[free] = value
    return named


def _assertion_result(verdict: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": verdict.get("type", ""),
        "description": verdict.get("description", ""),
        "severity": verdict.get("severity", "hard"),
        "passed": bool(verdict.get("passed")),
        "explanation": verdict.get("explanation", ""),
    }


_FORMATS: dict[ExportFormat, Callable[[Trace], dict[str, Any] | None]] = {"jsonl": asdict, "dspy": to_dspy_example}
