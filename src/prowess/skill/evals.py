"""The queries that a skill ships to say when it should be chosen and when not.

Supported are lists of `{"query", "should_trigger"}`, the `evals.json` of skill authors (where every prompt should trigger),
and waza's `trigger_tests.yaml`. Files of other tools in the same folder are ignored. Bad content never raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from prowess.errors import Problem, Severity
from prowess.skill.limits import MIB, Limits

EVAL_CODES = {
    "eval-unreadable": "A file with evals cannot be read; its queries are left out.",
    "eval-shape": "A file with evals has no queries in a form that Prowess knows.",
    "eval-case": "One query of an eval file is left out, because it is no text or does not say what is expected.",
    "eval-contradiction": "The same query should trigger the skill and should not; it is left out.",
    "eval-too-many": "There are more queries than are run; the rest is left out.",
}

MAX_CASES = 2000
MAX_EVAL_BYTES = MIB
_LIMITS = Limits(frontmatter_bytes=MAX_EVAL_BYTES, yaml_depth=16)

_SUFFIXES = (".json", ".yaml", ".yml")
_NAMES = frozenset({"evals", "triggers", "trigger_evals", "trigger-evals", "trigger_tests", "trigger-tests"})
"""Names of files with evals. Files with other names are only looked for in `evals/`."""

_LISTS = ("queries", "evals", "cases", "prompts", "trigger_tests", "triggers")
_POSITIVE = ("should_trigger_prompts", "shouldTriggerPrompts", "should_trigger")
_NEGATIVE = ("should_not_trigger_prompts", "shouldNotTriggerPrompts", "should_not_trigger")
_SKILL = ("skill_name", "skill")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCase:
    """One message, whether the skill should be chosen for it, and the file that says so."""

    query: str
    should_trigger: bool
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSet:
    """The queries of one skill. `skill` is the name that the files give it, or None."""

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
    """Return all queries of these files, each once, in order. `named` says that a person named the files explicitly."""
    read = [_read_file(path, data, named=named) for path, data in files.items()]
    problems = [problem for one in read for problem in one.problems]
    cases = _merge_cases((case for one in read for case in one.cases), problems)
    if len(cases) > MAX_CASES:
        message = f"There are {len(cases):,} queries; the first {MAX_CASES:,} are run."
        problems.append(_problem("eval-too-many", message, "Split them into several files and name one."))
    skill = next((one.skill for one in read if one.skill), None)
    return TriggerSet(cases=tuple(cases[:MAX_CASES]), skill=skill, problems=tuple(problems))


def _merge_cases(cases: Iterable[TriggerCase], problems: list[Problem]) -> list[TriggerCase]:
    found: dict[str, TriggerCase] = {}
    contradicted: set[str] = set()
    for case in cases:
        first = found.setdefault(case.query, case)
        if first.should_trigger != case.should_trigger and case.query not in contradicted:
            contradicted.add(case.query)
            message = f"{_shorten(case.query)} should trigger and should not."
            problems.append(_problem("eval-contradiction", message, "Keep one of the two.", file=case.file))
    return [case for query, case in found.items() if query not in contradicted]


def _read_file(path: str, data: bytes, *, named: bool) -> TriggerSet:
    if len(data) > MAX_EVAL_BYTES:
        message = f"{len(data):,} bytes are too many; the limit is {MAX_EVAL_BYTES:,}."
        return _refuse("eval-unreadable", message, "Keep only the queries in it.", path)
    try:
        value = _parse(path, data)
    except (ValueError, RecursionError) as fault:
        return _refuse("eval-unreadable", f"It is not {_language_of(path)}: {fault}.", "Mend the file.", path)
    read = _read_value(value, path)
    if read.cases or read.problems or not (named or _is_eval_name(path.rpartition("/")[2])):
        return read
    return _refuse("eval-shape", "There are no queries in it.", EVAL_EXAMPLE, path)


EVAL_EXAMPLE = 'Write them as [{"query": "what a user says", "should_trigger": true}, …].'


def _parse(path: str, data: bytes) -> Any:
    text = data.decode("utf-8-sig")
    if path.endswith(".json"):
        return json.loads(text)
    from prowess.skill.text.yaml import YamlRefused, load

    try:
        return load(text, typed=True, limits=_LIMITS).value
    except YamlRefused as refused:
        raise ValueError(f"line {refused.line}: {refused.message.rstrip('.')}") from None


def _language_of(path: str) -> str:
    return "JSON" if path.endswith(".json") else "YAML"


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
"""The position in its list counted from 1, the entry, and what the list says is expected."""


def _list_entries(fields: dict[str, Any]) -> Iterator[_Entry]:
    for keys, expected in ((_LISTS, None), (_POSITIVE, True), (_NEGATIVE, False)):
        for key in keys:
            listed = fields.get(key)
            if isinstance(listed, list):
                yield from _number_entries(cast("list[Any]", listed), expected)


def _number_entries(listed: list[Any], expected: bool | None) -> Iterator[_Entry]:
    for place, item in enumerate(listed, start=1):
        yield place, item, expected


def _collect_cases(entries: Iterable[_Entry], path: str) -> TriggerSet:
    """Return the cases of a list. A list without a single case belongs to another tool and gives no problems either."""
    cases: list[TriggerCase] = []
    problems: list[Problem] = []
    for place, item, expected in entries:
        query, should_trigger = _read_case(item, expected)
        if query is None or should_trigger is None:
            what = "has no query" if query is None else "does not say true or false for should_trigger"
            problems.append(_problem("eval-case", f"Entry {place} {what}.", EVAL_EXAMPLE, file=path))
        else:
            cases.append(TriggerCase(query=query, should_trigger=should_trigger, file=path))
    return TriggerSet(cases=tuple(cases), problems=tuple(problems)) if cases else TriggerSet()


def _read_case(item: Any, expected: bool | None) -> tuple[str | None, bool | None]:
    """Return the query of an entry and what is expected of it; None for what the entry does not say."""
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
