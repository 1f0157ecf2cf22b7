"""skill-creator's `evals/evals.json`: messages with statements that a good answer fulfils.

    {"skill_name", "evals": [{"id", "name", "prompt", "expected_output", "files": [], "expectations": []}]}

The guide of agentskills.io calls the statements `assertions`, and authors write them as text or as objects with `text` or
`description`. Without statements, the expected output is judged as one.
"""

from __future__ import annotations

from typing import Any

from prowess.authoring.evals.case import Check, EvalCase, EvalSuite
from prowess.authoring.evals.formats.entries import (
    MAX_NAME_CHARS,
    contains,
    expectation,
    finish_case,
    read_weight,
    valid_check,
    written_check,
)
from prowess.authoring.evals.formats.source import At, EvalSource, as_list, as_object, as_text

LISTS = ("evals", "test_cases", "cases")
_PROMPTS = ("prompt", "input", "query")
_STATEMENTS = ("expectations", "assertions")
_TEXTS = ("text", "description", "assertion", "expectation", "check", "statement", "criterion", "criteria")
_LABELS = ("category", "group", "type")


def read(source: EvalSource) -> EvalSuite:
    """Return the cases of the file."""
    top = as_object(source.value) or {}
    found: list[EvalCase] = []
    for key in LISTS:
        for index, entry in enumerate(as_list(top.get(key))):
            found += _read_case(source, (key, index), entry)
    skill = next((text for key in ("skill_name", "skill") if (text := as_text(top.get(key)))), "")
    return EvalSuite(skill=skill, cases=tuple(found))


def _read_case(source: EvalSource, at: At, entry: Any) -> list[EvalCase]:
    fields = as_object(entry)
    if fields is None:
        source.report("eval-case", "An eval must be an object with `prompt`.", *at, severity="error")
        return []
    files = [
        source.read_file(path, *at, "files", index, folders=("", source.folder))
        for index, path in enumerate(as_list(fields.get("files")))
    ]
    if None in files:
        return []
    expected = as_text(fields.get("expected_output"))
    checks = [
        check
        for key in _STATEMENTS
        for index, written in enumerate(as_list(fields.get(key)))
        for check in _read_statement(source, (*at, key, index), written)
    ]
    if not checks and expected:
        checks = [
            expectation(
                f"The output fits this description of success: {expected}", description=expected[:MAX_NAME_CHARS]
            )
        ]
    case = EvalCase(
        id=as_text(fields.get("id")) or as_text(fields.get("name")) or str(at[-1]),
        name=as_text(fields.get("name"))[:MAX_NAME_CHARS],
        prompt=next((text for key in _PROMPTS if (text := as_text(fields.get(key)))), ""),
        files=tuple(file for file in files if file is not None),
        expected=expected or None,
        checks=tuple(checks),
        label=next((text for key in _LABELS if (text := as_text(fields.get(key)))), "")[:MAX_NAME_CHARS],
        source=source.path,
    )
    return finish_case(source, at, case)


def _read_statement(source: EvalSource, at: At, written: Any) -> list[Check]:
    """Return the check of a statement, however its author wrote it."""
    if isinstance(written, str):
        return [expectation(written.strip())] if written.strip() else []
    fields = as_object(written) or {}
    weight = read_weight(source, at, fields) if fields else 1.0
    kind, value = fields.get("type"), fields.get("value")
    if isinstance(kind, str) and kind.replace("_", "-") in ("contains", "not-contains") and isinstance(value, str):
        return [contains([value], negate=kind.startswith("not"), weight=weight)]
    if isinstance(kind, str) and "check" in fields and kind in ("structural", "length", "pattern", "semantic"):
        return written_check(source, at, fields, None)
    if any(name in fields for name in ("cmd", "command", "script")):
        source.report(
            "eval-code",
            "Eval files never run commands. The check is left out.",
            *at,
            hint="Describe the result as text instead.",
        )
        return []
    text = next((text for name in _TEXTS if (text := as_text(fields.get(name)))), "")
    if not text:
        source.report_check(
            "The statement has no text.", *at, hint='Write a sentence, such as "The answer names the file".'
        )
        return []
    return valid_check(source, at, expectation(text, weight=weight))
