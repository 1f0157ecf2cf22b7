"""Traces for other programs: each row as JSON, or as an example of an evaluation data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, Literal, get_args

from prowess.traces.trace import Trace

ExportFormat = Literal["jsonl", "dspy"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)

_JUDGED_STATUSES = frozenset({"ok", "failed"})
_OWN_FIELDS = frozenset({"output", "assertions", "passed", "input_keys", "metadata"})
_RESERVED_FIELDS = _OWN_FIELDS | {"self", "base"}
"""What an input may not be called in an example: our own fields, and what the constructor of an example takes."""

_HIDDEN_PREFIX = "dspy_"
"""Fields whose names begin so are not among those of an example."""

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
    """A JSON object for each trace that the format has a place for, in the same order."""
    make = _FORMATS[format]
    return (row for trace in traces if (row := make(trace)) is not None)


def to_json_row(trace: Trace) -> dict[str, Any]:
    """Every column of a trace."""
    return asdict(trace)


def to_dspy_example(trace: Trace) -> dict[str, Any] | None:
    """A finished run as `dspy.Example(**row).with_inputs(*row["input_keys"])` takes it; None where nothing came out.

    The inputs stand under their own names. One that is called as another field, or as the constructor takes it, has
    `input_` before its name. `assertions` has the verdict of each; `passed` says that the run ended well, which it does
    not where a hard assertion failed.
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
    """The inputs under names that nothing else in an example has."""
    named: dict[str, Any] = {}
    for name, value in inputs.items():
        free = name
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


_FORMATS: dict[ExportFormat, Callable[[Trace], dict[str, Any] | None]] = {"jsonl": to_json_row, "dspy": to_dspy_example}
