"""Read, check and write prompt files and rubric files, one prompt or rubric each, as JSON or YAML."""

from __future__ import annotations

from typing import Any, cast

from prowess.errors import Problem
from prowess.patterns import lazy_pattern
from prowess.skill.forms.data import ParsedFile, json_text, parse_file
from prowess.skill.forms.form import error, warning
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.yaml_writer import dump

DATA_SUFFIXES = (".json", ".yaml", ".yml")
CRITERION_FIELDS = ("id", "name", "description", "pass_condition", "fail_condition")
MAX_CRITERIA = 1000
"""The maximum number of criteria per rubric."""

_WRITTEN = lazy_pattern(r"[-+]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,3})?")
_HUGE = 1e300
"""Larger numbers, infinity and NaN cannot be used in sums."""

PROMPT_FIELDS = ("version", "vars_schema", "output_schema")


def is_data(path: str) -> bool:
    """Return True if the file is JSON or YAML by its name."""
    return path.endswith(DATA_SUFFIXES)


def file_stem(path: str) -> str:
    """Return the file name up to its first dot."""
    return path.rpartition("/")[2].partition(".")[0] or path.rpartition("/")[2]


def read_prompt(path: str, data: bytes, problems: list[Problem], limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """Return the settings of the prompt in a registry file, or {} if it has no prompt."""
    parsed = parse_file(path, data, limits)
    problems += parsed.problems
    document = parsed.object
    if document is None:
        if not parsed.problems:
            problems.append(_prompt_problem(path, "is not an object"))
        return {}
    return prompt_settings(path, document, problems)


def prompt_settings(path: str, document: JsonObject, problems: list[Problem]) -> JsonObject:
    """Return a prompt's document as the settings of an artifact, or {} without a template."""
    if not isinstance(document.get("template"), str):
        problems.append(_prompt_problem(path, "has no text under 'template'"))
        return {}
    settings: JsonObject = {
        "name": plain_text(document.get("prompt_id")) or file_stem(path),
        "content": document["template"],
    }
    settings["syntax"] = "mustache"
    for field in PROMPT_FIELDS:
        if document.get(field) is not None:
            settings[field] = document[field]
    return settings


def write_prompt(path: str, settings: JsonObject, before: bytes | None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return a registry file for a prompt. Other fields of the earlier file are kept."""
    document = (parse_file(path, before, limits).object if before is not None else None) or {}
    # The name of an older version carries the version, which has its own field in the file.
    name = str(settings["name"]).removesuffix(f"@{settings.get('version')}")
    fresh = {"prompt_id": name, **{field: settings.get(field) for field in PROMPT_FIELDS}}
    for field, value in {**fresh, "template": settings["content"]}.items():
        if value is not None:
            document[field] = value
        else:
            document.pop(field, None)
    return (json_text(document) if path.endswith(".json") else dump(document)).encode()


def read_rubric(path: str, data: bytes, problems: list[Problem], limits: Limits = DEFAULT_LIMITS) -> ParsedFile:
    """Read the rubric in a file, and report every violated rule."""
    parsed = parse_file(path, data, limits)
    problems += parsed.problems
    rubric = parsed.object
    if rubric is not None:
        check_rubric(path, rubric, problems, parsed)
    elif not parsed.problems:
        problems.append(
            error("rubric-invalid", f"{path} must contain an object.", "Add rubric_id and criteria.", field=path)
        )
    return parsed


def _prompt_problem(path: str, what: str) -> Problem:
    hint = "A prompt file has prompt_id, version, vars_schema, output_schema and template."
    return error("prompt-invalid", f"{path} {what}.", hint, field=path)


def check_rubric(path: str, rubric: JsonObject, problems: list[Problem], parsed: ParsedFile | None = None) -> None:
    """Report every rule that a rubric violates."""
    if not plain_text(rubric.get("rubric_id")):
        problems.append(
            warning(
                "rubric-invalid", f"{path} has no rubric_id; its file name is used.", "Add a rubric_id.", field=path
            )
        )
    mode = rubric.get("scoring_mode")
    if mode not in ("binary", "weighted"):
        message = f"{path} has the scoring mode {mode!r}; use 'binary' or 'weighted'."
        line = parsed.line("scoring_mode") if parsed else None
        problems.append(
            error("rubric-scoring-mode", message, "Set scoring_mode to 'binary' or 'weighted'.", field=path, line=line)
        )
    _check_threshold(path, mode, rubric.get("pass_threshold"), problems)
    criteria = rubric.get("criteria")
    if not isinstance(criteria, list) or not criteria:
        message = f"{path} has no criteria; a rubric needs at least one."
        line = parsed.line("criteria") if parsed else None
        problems.append(error("rubric-without-criteria", message, "Add a criterion.", field=path, line=line))
        return
    _check_criteria(path, cast("list[Any]", criteria), problems)


def _check_threshold(path: str, mode: Any, threshold: Any, problems: list[Problem]) -> None:
    """Check the threshold: the score is the passed share of the weights, so the threshold is above 0 and at most 1."""
    number = _read_number(threshold)
    if threshold is None:
        if mode == "weighted":
            message = f"{path} is weighted but has no pass_threshold; all criteria must pass."
            problems.append(warning("rubric-without-threshold", message, "Set pass_threshold.", field=path))
    elif number is None or number <= 0:
        message = f"{path} has the pass_threshold {str(threshold)[:40]}, which every asset would reach."
        hint = "Use a share of the weights greater than 0 and at most 1, such as 0.8."
        problems.append(error("rubric-threshold-range", message, hint, field=path))
    # A warning is enough here: such a rubric passes nothing, while one at 0 or below would pass everything.
    elif number > 1:
        message = f"{path} has the pass_threshold {str(threshold)[:40]}, which no asset can reach."
        hint = "Use a share of the weights greater than 0 and at most 1, such as 0.8."
        problems.append(warning("rubric-threshold-range", message, hint, field=path))


def _check_criteria(path: str, criteria: list[Any], problems: list[Problem]) -> None:
    seen: set[str] = set()
    if len(criteria) > MAX_CRITERIA:
        message = f"{path} has {len(criteria):,} criteria; the limit is {MAX_CRITERIA:,}."
        problems.append(error("rubric-invalid", message, "Split it into several rubrics.", field=path))
    for index, item in enumerate(criteria[:MAX_CRITERIA]):
        criterion = json_object(item)
        where = f"{path}: criteria[{index}]"
        lacking = [field for field in CRITERION_FIELDS if not plain_text(criterion.get(field))]
        if lacking:
            message = f"{where} is missing {', '.join(lacking)}."
            problems.append(error("rubric-criterion-incomplete", message, "Add the missing fields.", field=path))
        name = plain_text(criterion.get("id"))
        if name and name in seen:
            message = f"{where} has the id {name!r}, which another criterion already has."
            problems.append(
                error("rubric-duplicate-criterion", message, "Give each criterion a unique id.", field=path)
            )
        seen.add(name)
        weight = criterion.get("weight", 1)
        if (_read_number(weight) or 0) <= 0:
            message = f"{where} has the weight {weight!r}; a weight must be a positive number."
            problems.append(error("rubric-weight-not-positive", message, "Use 1 or more.", field=path))


def plain_text(value: Any) -> str:
    """Return a scalar as stripped text, or '' for anything else."""
    return "" if value is None or isinstance(value, (dict, list)) else str(cast("object", value)).strip()


def _read_number(value: Any) -> float | None:
    """Return a number, also one that is kept as YAML has it, such as `0.80`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and not _WRITTEN.fullmatch(value):
        return None
    number = float(str(value))  # an integer with 400 digits fits no float, while its text becomes infinite
    # Text that YAML would have read as a number was in quotes.
    if not -_HUGE < number < _HUGE or value in (str(number), f"{number:.0f}"):
        return None
    return number
