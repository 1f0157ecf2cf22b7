"""Prompt and rubric files: one prompt or one rubric each, as JSON or YAML, and the rules that they must keep."""

from __future__ import annotations

from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.forms.codes import error, warning
from prowess.skill.forms.data import Parsed, json_text, parse
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.yaml import dump

DATA_SUFFIXES = (".json", ".yaml", ".yml")
CRITERION_FIELDS = ("id", "name", "description", "pass_condition", "fail_condition")
CRITERIA = 1000
"""How many criteria of one rubric are checked."""

PROMPT_FIELDS = ("version", "vars_schema", "output_schema")


def is_data(path: str) -> bool:
    """Whether the file is JSON or YAML by its name."""
    return path.endswith(DATA_SUFFIXES)


def stem(path: str) -> str:
    """The file's name up to its first dot."""
    return path.rpartition("/")[2].partition(".")[0] or path.rpartition("/")[2]


def read_prompt(path: str, data: bytes, problems: list[Problem], limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """The settings of the prompt that a registry file holds; empty when it holds none."""
    parsed = parse(path, data, limits)
    problems += parsed.problems
    document = parsed.object
    if document is None:
        if not parsed.problems:
            problems.append(_bad_prompt(path, "is not an object"))
        return {}
    if not isinstance(document.get("template"), str):
        problems.append(_bad_prompt(path, "has no text under 'template'"))
        return {}
    settings: JsonObject = {"name": _text(document.get("prompt_id")) or stem(path), "content": document["template"]}
    settings["syntax"] = "mustache"
    for field in PROMPT_FIELDS:
        if document.get(field) is not None:
            settings[field] = document[field]
    return settings


def write_prompt(path: str, settings: JsonObject, before: bytes | None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """A registry file for a prompt; whatever else the file said before stays in it."""
    document = (parse(path, before, limits).object if before is not None else None) or {}
    name = str(settings["name"]).removesuffix(f"@{settings.get('version')}")
    fresh = {"prompt_id": name, **{field: settings.get(field) for field in PROMPT_FIELDS}}
    for field, value in {**fresh, "template": settings["content"]}.items():
        if value is not None:
            document[field] = value
        else:
            document.pop(field, None)
    return (json_text(document) if path.endswith(".json") else dump(document)).encode()


def read_rubric(path: str, data: bytes, problems: list[Problem], limits: Limits = DEFAULT_LIMITS) -> Parsed:
    """The rubric in a file, with every rule that it breaks reported."""
    parsed = parse(path, data, limits)
    problems += parsed.problems
    rubric = parsed.object
    if rubric is not None:
        _check_rubric(path, rubric, parsed, problems)
    elif not parsed.problems:
        problems.append(
            error("rubric-invalid", f"{path} is not an object.", "Write rubric_id and criteria.", field=path)
        )
    return parsed


def _bad_prompt(path: str, what: str) -> Problem:
    hint = "A prompt file has prompt_id, version, vars_schema, output_schema and template."
    return error("prompt-invalid", f"{path} {what}.", hint, field=path)


def _check_rubric(path: str, rubric: JsonObject, parsed: Parsed, problems: list[Problem]) -> None:
    if not _text(rubric.get("rubric_id")):
        problems.append(
            warning("rubric-invalid", f"{path} has no rubric_id; its file name stands in.", "Add one.", field=path)
        )
    mode = rubric.get("scoring_mode")
    if mode not in ("binary", "weighted"):
        message = f"{path} has the scoring mode {mode!r}; it must be 'binary' or 'weighted'."
        line = parsed.line("scoring_mode")
        problems.append(error("rubric-scoring-mode", message, "Set scoring_mode.", field=path, line=line))
    if mode == "weighted" and not _is_number(rubric.get("pass_threshold")):
        message = f"{path} is weighted but has no pass_threshold."
        problems.append(warning("rubric-without-threshold", message, "Set pass_threshold.", field=path))
    criteria = rubric.get("criteria")
    if not isinstance(criteria, list) or not criteria:
        message = f"{path} has no criteria; a rubric has at least one."
        line = parsed.line("criteria")
        problems.append(error("rubric-without-criteria", message, "Add a criterion.", field=path, line=line))
        return
    _check_criteria(path, cast("list[Any]", criteria), problems)


def _check_criteria(path: str, criteria: list[Any], problems: list[Problem]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(criteria[:CRITERIA]):
        criterion = cast("JsonObject", item) if isinstance(item, dict) else {}
        where = f"{path}: criteria[{index}]"
        lacking = [field for field in CRITERION_FIELDS if not _text(criterion.get(field))]
        if lacking:
            message = f"{where} has no {', '.join(lacking)}."
            problems.append(error("rubric-criterion-incomplete", message, "Add what is missing.", field=path))
        name = _text(criterion.get("id"))
        if name and name in seen:
            message = f"{where} has the id {name!r}, which another criterion has."
            problems.append(error("rubric-duplicate-criterion", message, "Give each its own id.", field=path))
        seen.add(name)
        weight = criterion.get("weight", 1)
        if not _is_number(weight) or weight <= 0:
            message = f"{where} has the weight {weight!r}; a weight is a positive number."
            problems.append(error("rubric-weight-not-positive", message, "Use 1 or more.", field=path))


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, (dict, list)) else str(cast("object", value)).strip()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
