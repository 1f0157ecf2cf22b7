"""Our own format: `evals/cases.yaml`, `.json` or `.jsonl`.

    artifact: classify
    threshold: 0.8
    cases:
      - id: refund
        inputs: {message: "I want my money back."}
        expected: refund
        checks: [{type: one_of, values: [refund, return]}]

In JSON Lines, each line is a case. A list without the settings around it is accepted too.
"""

from __future__ import annotations

from typing import Any, cast

from prowess.authoring.evals.case import SPLITS, EvalCase, EvalSuite
from prowess.authoring.evals.formats.entries import MAX_NAME_CHARS, finish_case, read_share, run_settings, written_check
from prowess.authoring.evals.formats.source import At, EvalSource, as_list, as_object, as_text
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.suggestions import did_you_mean

_FIELDS = ("id", "name", "prompt", "inputs", "artifact", "files", "expected", "checks", "threshold", "label", "split")
NAMES = {name: name for name in ("threshold", "trials", "timeout_seconds", "concurrency", "model")}
_SETTINGS = ("skill", "artifact", "checks", "threshold", "trials", "timeout_seconds", "concurrency", "model", "cases")


def read(source: EvalSource) -> EvalSuite:
    """Return the cases of the file, and its settings."""
    source.strict = True
    top = as_object(source.value)
    settings = top or {}
    _report_unknown(source, (), settings, _SETTINGS)
    at: At = ("cases",) if top is not None else ()
    entries, data = (
        as_list(json_object(value).get("cases") if top is not None else value) for value in (source.value, source.data)
    )
    cases = [
        case
        for index, (entry, values) in enumerate(zip(entries, data, strict=True))
        for case in _read_case(source, (*at, index), entry, json_object(values), settings)
    ]
    return EvalSuite(skill=as_text(settings.get("skill")), cases=tuple(cases), **run_settings(source, settings, NAMES))


def _read_case(source: EvalSource, at: At, entry: Any, data: JsonObject, usual: JsonObject) -> list[EvalCase]:
    """Return the case of an entry in a list, or an empty list. `data` is the entry with its numbers as numbers."""
    fields = as_object(entry)
    if fields is None:
        source.report("eval-case", "A case must be an object.", *at, severity="error")
        return []
    _report_unknown(source, at, fields, _FIELDS)
    files = [
        source.read_file(path, *at, "files", index, folders=("", source.folder))
        for index, path in enumerate(as_list(fields.get("files")))
    ]
    inputs = data.get("inputs")
    if inputs is not None and not isinstance(inputs, dict):
        source.report("eval-case", "`inputs` must be an object.", *at, "inputs", severity="error")
        return []
    if inputs is not None and (fields.get("prompt") or files):
        message = "A case has either a message, with its files, or inputs."
        source.report("eval-case", message, *at, hint="Split it into two cases.", severity="error")
        return []
    if None in files:
        return []
    # A text is compared as it was written: a version 1.10 is not 1.1.
    expected = fields.get("expected") if isinstance(fields.get("expected"), str) else data.get("expected")
    written = fields.get("checks", usual.get("checks"))
    checks = [
        check
        for index, one in enumerate(as_list(written))
        for check in written_check(
            source, (*at, "checks", index) if "checks" in fields else ("checks", index), one, expected
        )
    ]
    if written is None and expected is not None:
        checks = written_check(source, at, {"type": "normalized" if isinstance(expected, str) else "equals"}, expected)
    case = EvalCase(
        id=as_text(fields.get("id")) or str(at[-1]),
        name=as_text(fields.get("name"))[:MAX_NAME_CHARS],
        prompt=as_text(fields.get("prompt")),
        inputs=cast("JsonObject | None", inputs),
        artifact=as_text(fields.get("artifact", usual.get("artifact"))),
        files=tuple(file for file in files if file is not None),
        expected=expected,
        checks=tuple(checks),
        threshold=read_share(source, (*at, "threshold"), fields.get("threshold")),
        label=_label(fields),
        split=_split(source, at, fields),
        source=source.path,
    )
    return finish_case(source, at, case)


def _label(fields: JsonObject) -> str:
    """Return the group of a case; a short expected text is one, as in a classification."""
    label = as_text(fields.get("label"))
    expected = fields.get("expected")
    short = isinstance(expected, str) and len(expected) <= 40 and "\n" not in expected
    return (label or (as_text(expected) if short else ""))[:MAX_NAME_CHARS]


def _split(source: EvalSource, at: At, fields: JsonObject) -> Any:
    split = fields.get("split")
    name = str(split).strip().replace("-", "_") if split is not None else None
    known = {"test": "held_out", "heldout": "held_out", "dev": "validation", "val": "validation"}
    name = known.get(name, name) if name else None
    if name is None or name in SPLITS:
        return name
    # An unknown name may well mean the held-out set: a case must not be learned from by mistake.
    source.report(
        "eval-setting",
        f"Unknown split {str(split)[:40]!r}; the case is held out.",
        *at,
        "split",
        hint=f"Use one of: {', '.join(SPLITS)}.",
    )
    return "held_out"


def _report_unknown(source: EvalSource, at: At, fields: JsonObject, known: tuple[str, ...]) -> None:
    for name in fields:
        if name not in known:
            hint = did_you_mean(name, known) or f"Fields: {', '.join(known)}."
            source.report("eval-setting", f"Unknown field {name[:60]!r}; it is ignored.", *at, hint=hint)
