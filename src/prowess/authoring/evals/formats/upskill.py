"""upskill's tests: a list of `{"input", "context", "expected": {"contains": […]}}`, in `skill_meta.json` or a file of their own."""

from __future__ import annotations

from typing import Any

from prowess.authoring.evals.case import Check, EvalCase, EvalFile, EvalSuite
from prowess.authoring.evals.formats.entries import contains, expectation, finish_case
from prowess.authoring.evals.formats.source import At, EvalSource, as_list, as_object, as_text

LISTS = ("tests", "test_cases", "cases")
_CODE = ("validator", "command", "script", "code")


def read(source: EvalSource) -> EvalSuite:
    """Return the tests of the file."""
    top = as_object(source.value)
    cases: list[EvalCase] = []
    for key in LISTS if top is not None else ("",):
        entries = as_list(top.get(key)) if top is not None else as_list(source.value)
        at: At = (key,) if top is not None else ()
        for index, entry in enumerate(entries):
            cases += _read_case(source, (*at, index), entry)
    return EvalSuite(skill=as_text((top or {}).get("name")), cases=tuple(cases))


def _read_case(source: EvalSource, at: At, entry: Any) -> list[EvalCase]:
    fields = as_object(entry)
    if fields is None:
        source.report("eval-case", "A test must be an object with `input`.", *at, severity="error")
        return []
    file_texts = as_object((as_object(fields.get("context")) or {}).get("files")) or {}
    files = tuple(EvalFile(path=path, text=text) for path, text in file_texts.items() if isinstance(text, str))
    expected = fields.get("expected")
    case = EvalCase(
        id=as_text(fields.get("id")) or as_text(fields.get("name")) or str(at[-1]),
        name=as_text(fields.get("name")),
        prompt=as_text(fields.get("input")),
        files=files,
        expected=expected if isinstance(expected, str) else None,
        checks=tuple(_read_checks(source, at, fields, expected)),
        source=source.path,
    )
    return finish_case(source, at, case)


def _read_checks(source: EvalSource, at: At, fields: dict[str, Any], expected: Any) -> list[Check]:
    for name in _CODE:
        if fields.get(name):
            message = f"`{name}` is code, which eval files never run. The check is left out."
            source.report("eval-code", message, *at, name, hint="Use `contains`, or describe the result.")
    if isinstance(expected, str):
        return [expectation(f"The output fits this description: {expected}")]
    criteria = as_object(expected) or {}
    found: list[Check] = []
    for name, value in criteria.items():
        texts = [text for one in as_list(value) if (text := as_text(one))]
        if name in ("contains", "not_contains") and texts:
            # Unwanted texts count one by one: none of them may occur.
            found += (
                [contains(texts, ignore_case=True)]
                if name == "contains"
                else [contains([text], ignore_case=True, negate=True) for text in texts]
            )
        elif name == "contains_any" and texts:
            found.append(contains(texts, mode="any", ignore_case=True))
        else:
            source.report_check(f"`expected.{name[:60]}` is not supported.", *at, "expected", name)
    return found
