"""Read the queries that a skill ships to test when it should be chosen and when not.

Supported are lists of `{"query", "should_trigger"}`, the `evals.json` of skill authors (where every prompt should trigger),
and waza's `trigger_tests.yaml`. Files of other tools in the same folder are ignored. Bad content never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from prowess.errors import Problem, Severity
from prowess.skill.json_values import parse_json
from prowess.skill.limits import MIB, Limits

EVAL_CODES = {
    "eval-unreadable": "An eval file cannot be read; its queries or cases are skipped.",
    "eval-shape": "An eval file has no queries or cases in a supported format.",
    "eval-case": "An entry of an eval file is skipped: a query without an expected result, or a case that cannot be run.",
    "eval-contradiction": "The same query is expected both to trigger the skill and not to; it is skipped.",
    "eval-too-many": "There are more queries or cases than the limit; the rest are skipped.",
    "eval-check": "A check of an eval case is left out, because it is not valid or not supported.",
    "eval-code": "A check of an eval case is code, which eval files never run; it is left out.",
    "eval-file": "An eval case is skipped: a file that it names is missing, not text, too large, or outside the skill.",
    "eval-unchecked": "An eval case has nothing to check; it is skipped.",
    "eval-setting": "A setting of an eval file is not valid or not supported; it is ignored.",
    "eval-id": "Two cases of an eval file have the same id; the second gets another one.",
}
"""The problems of eval files, with queries or with cases."""

MAX_CASES = 2000
MAX_EVAL_BYTES = MIB
_LIMITS = Limits(frontmatter_bytes=MAX_EVAL_BYTES, yaml_depth=16)

_SUFFIXES = (".json", ".yaml", ".yml")
_NAMES = frozenset({"evals", "triggers", "trigger_evals", "trigger-evals", "trigger_tests", "trigger-tests"})
"""Names of eval files. Files with other names are only looked for in `evals/`."""

_LISTS = ("queries", "evals", "cases", "prompts", "trigger_tests", "triggers")
_POSITIVE = ("should_trigger_prompts", "shouldTriggerPrompts", "should_trigger")
_NEGATIVE = ("should_not_trigger_prompts", "shouldNotTriggerPrompts", "should_not_trigger")
_SKILL = ("skill_name", "skill")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCase:
    """One query, whether the skill should be chosen for it, and the file it comes from."""

    query: str
    should_trigger: bool
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSet:
    """The queries of one skill. `skill` is the name given in the files, or None."""

    cases: tuple[TriggerCase, ...] = ()
    skill: str | None = None
    problems: tuple[Problem, ...] = ()


def find_eval_paths(paths: Iterable[str]) -> list[str]:
    """Return the paths of a package that may hold queries, sorted."""
    return sorted(path for path in paths if path.endswith(_SUFFIXES) and _is_eval_path(path))


def _is_eval_path(path: str) -> bool:
    *folders, name = path.split("/")
    return folders == ["evals"] or (len(folders) <= 1 and _is_eval_name(name))


def _is_eval_name(name: str) -> bool:
    return name.rpartition(".")[0].lower() in _NAMES


def read_trigger_set(files: Mapping[str, bytes], *, named: bool = False) -> TriggerSet:
    """Return all queries of these files, each once, in order. `named` means that the user named the files explicitly."""
    read = [_read_file(path, data, named=named) for path, data in files.items()]
    problems = [problem for entry in read for problem in entry.problems]
    cases = _merge_cases((case for one in read for case in one.cases), problems)
    if len(cases) > MAX_CASES:
        message = f"There are {len(cases):,} queries; only the first {MAX_CASES:,} run."
        problems.append(_problem("eval-too-many", message, "Split them into several files and run one at a time."))
    skill = next((one.skill for one in read if one.skill), None)
    return TriggerSet(cases=tuple(cases[:MAX_CASES]), skill=skill, problems=tuple(problems))


def _merge_cases(cases: Iterable[TriggerCase], problems: list[Problem]) -> list[TriggerCase]:
    found: dict[str, TriggerCase] = {}
    contradicted: set[str] = set()
    for case in cases:
        first = found.setdefault(case.query, case)
        if first.should_trigger != case.should_trigger and case.query not in contradicted:
            contradicted.add(case.query)
            message = f"{_shorten(case.query)} is listed both as a query that triggers and as one that does not."
            problems.append(_problem("eval-contradiction", message, "Remove one of the two entries.", file=case.file))
    return [case for query, case in found.items() if query not in contradicted]


def _read_file(path: str, data: bytes, *, named: bool) -> TriggerSet:
    if len(data) > MAX_EVAL_BYTES:
        message = f"The file is {len(data):,} bytes; the limit is {MAX_EVAL_BYTES:,}."
        return _refuse("eval-unreadable", message, "Keep only queries in this file.", path)
    try:
        value = parse_eval(path, data.decode("utf-8-sig"), _LIMITS)
    except (ValueError, RecursionError) as fault:
        language = "JSON" if path.endswith(".json") else "YAML"
        hint = "Fix the file and run the command again."
        return _refuse("eval-unreadable", f"The file is not valid {language}: {fault}.", hint, path)
    read = _read_value(value, path)
    if read.cases or read.problems or not (named or _is_eval_name(path.rpartition("/")[2])):
        return read
    return _refuse("eval-shape", "The file contains no queries.", EVAL_EXAMPLE, path)


EVAL_EXAMPLE = 'Use this format: [{"query": "what a user says", "should_trigger": true}, …].'


def parse_eval(path: str, text: str, limits: Limits, *, exact: bool = True) -> Any:
    """Return the value of a JSON or YAML file; raise `ValueError` or `RecursionError` if it is not valid.

    Numbers such as `1.10` in YAML are text, unless not `exact`.
    """
    if path.endswith(".json"):
        return parse_json(text)
    from prowess.skill.text.yaml import YamlRefused, load

    try:
        return load(text, typed=True, exact=exact, limits=limits).value
    except YamlRefused as refused:
        raise ValueError(f"line {refused.line}: {refused.message.rstrip('.')}") from None


def _read_value(value: Any, path: str) -> TriggerSet:
    if isinstance(value, list):
        return _collect_cases(_number_entries(cast("list[Any]", value), None), path)
    if not isinstance(value, dict):
        return TriggerSet()
    fields = cast("dict[str, Any]", value)
    skill = next((fields[key] for key in _SKILL if isinstance(fields.get(key), str)), None)
    read = _collect_cases(_list_entries(fields), path)
    return replace(read, skill=skill)


_Entry = tuple[int, Any, bool | None]
"""The position in its list counted from 1, the entry, and the result the list expects."""


def _list_entries(fields: dict[str, Any]) -> Iterator[_Entry]:
    for keys, expected in ((_LISTS, None), (_POSITIVE, True), (_NEGATIVE, False)):
        for key in keys:
            listed = fields.get(key)
            if isinstance(listed, list):
                yield from _number_entries(cast("list[Any]", listed), expected)


def _number_entries(listed: list[Any], expected: bool | None) -> Iterator[_Entry]:
    for number, item in enumerate(listed, start=1):
        yield number, item, expected


def _collect_cases(entries: Iterable[_Entry], path: str) -> TriggerSet:
    """Return the cases of a list. A list without any valid case belongs to another tool and gives no problems."""
    cases: list[TriggerCase] = []
    problems: list[Problem] = []
    for number, item, expected in entries:
        # A case that runs an artifact has no message that could trigger the skill.
        if isinstance(item, dict) and "inputs" in item:
            continue
        query, should_trigger = _read_case(item, expected)
        if query is None or should_trigger is None:
            what = "has no query" if query is None else "needs `should_trigger` set to true or false"
            problems.append(_problem("eval-case", f"Entry {number} {what}.", EVAL_EXAMPLE, file=path))
        else:
            cases.append(TriggerCase(query=query, should_trigger=should_trigger, file=path))
    return TriggerSet(cases=tuple(cases), problems=tuple(problems)) if cases else TriggerSet()


def _read_case(item: Any, expected: bool | None) -> tuple[str | None, bool | None]:
    """Return the query of an entry and its expected result; None for each that is missing."""
    if isinstance(item, str):
        return (item if item.strip() and expected is not None else None), expected
    if not isinstance(item, dict):
        return None, None
    fields = cast("dict[str, Any]", item)
    texts = (fields.get(key) for key in ("query", "prompt"))
    query = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    # A prompt of `evals.json` is one that the skill is for; a query has to say so.
    usual = True if expected is None and "query" not in fields else expected
    stated = fields.get("should_trigger", usual)
    return query, _WORDS.get(str(stated).strip().lower()) if isinstance(stated, (str, int)) else None


def _refuse(code: str, message: str, hint: str, path: str) -> TriggerSet:
    return TriggerSet(problems=(_problem(code, message, hint, file=path),))


def _problem(code: str, message: str, hint: str, *, file: str | None = None) -> Problem:
    severity: Severity = "error" if code in ("eval-unreadable", "eval-case") else "warning"
    return Problem(code=code, severity=severity, message=message, hint=hint, field=file)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
