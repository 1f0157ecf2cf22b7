"""Find the eval files of a skill, recognise their formats, and read them into one suite.

| format | files |
|---|---|
| ours | `evals/cases.yaml`, `.json`, `.jsonl` |
| skill-creator | `evals/evals.json` |
| waza | `eval.yaml` with `tasks/*.yaml` |
| promptfoo | `promptfooconfig.yaml` |
| upskill | `skill_meta.json`, or a list of `{"input", "expected"}` |

Files of other tools, and those with trigger queries only, are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prowess.authoring.evals.case import EvalCase, EvalSuite
from prowess.authoring.evals.formats import native, promptfoo, skill_creator, upskill, waza
from prowess.authoring.evals.formats.source import EvalSource, FolderFiles, as_list, as_object, open_source
from prowess.errors import Problem
from prowess.paths import real_path
from prowess.skill.filenames import has_marker
from prowess.skill.kinds import JsonObject

MAX_CASES = 2_000
_MAX_ID_CHARS = 100

_SUFFIXES = (".json", ".yaml", ".yml", ".jsonl")
_NAMES = frozenset({"evals", "eval", "promptfooconfig", "skill_meta"})
"""Names of eval files outside `evals/`, and in its folders."""
_HINT = """Create evals/cases.yaml next to SKILL.md:
  cases:
    - id: greeting
      prompt: a message that needs this skill
      checks: [The answer greets the user by name.]"""


Format = Callable[[EvalSource], EvalSuite]


def find_suite_paths(paths: Iterable[str]) -> list[str]:
    """Return the paths that may hold cases, sorted."""
    return sorted(path for path in paths if path.endswith(_SUFFIXES) and _is_suite_path(path))


def _is_suite_path(path: str) -> bool:
    *folders, name = path.split("/")
    is_named = name.rpartition(".")[0].lower() in _NAMES
    return folders == ["evals"] or (is_named and (not folders or (folders[0] == "evals" and len(folders) == 2)))


def read_suite(place: Path | Mapping[str, bytes], skill: str = "", *, file: str = "") -> EvalSuite:
    """Return all cases of a skill's folder, of its files, or of one eval file.

    `file` names the only eval file to read. Nothing in the files raises: a suite that cannot be run has an error among its
    problems. Blocks while files are read.
    """
    if not isinstance(place, Path):
        return _read(place, skill, file)
    if place.is_dir():
        return _read(FolderFiles(place), skill, file)
    # A person may name a file through a link.
    file_path = real_path(place)
    root = _root_of(file_path)
    return _read(FolderFiles(root), skill, file_path.relative_to(root).as_posix())


def _root_of(file: Path) -> Path:
    """Return the folder of the skill around an eval file, or else the file's own folder."""
    folders = [file.parent, *file.parent.parents][:3]
    return next((folder for folder in folders if _is_skill(folder)), file.parent)


def _is_skill(folder: Path) -> bool:
    try:
        return has_marker(child.name for child in folder.iterdir())
    except OSError:
        return False


def _read(files: Mapping[str, bytes], skill: str, file: str) -> EvalSuite:
    problems: list[Problem] = []
    suites: list[EvalSuite] = []
    for path in [file] if file else find_suite_paths(files):
        suite = _read_file(path, files, problems, named=bool(file))
        if suite is not None:
            suites.append(suite)
    merged = _merge(suites, problems)
    if not merged.cases and not any(problem.severity == "error" for problem in problems):
        problems.append(_no_cases("There are no eval cases."))
    return replace(merged, skill=skill or merged.skill, problems=tuple(problems))


def _read_file(path: str, files: Mapping[str, bytes], problems: list[Problem], *, named: bool) -> EvalSuite | None:
    try:
        data = files[path]
    except KeyError:
        problems.append(_no_cases(f"The file {path[:200]!r} does not exist or cannot be read.", path))
        return None
    source = open_source(path, data, files)
    if isinstance(source, Problem):
        problems.append(source)
        return None
    read = recognise(path, source.value)
    if read is None:
        if named:
            problems.append(_no_cases("The file has no cases in a supported format.", path))
        return None
    suite = read(source)
    problems += source.problems
    return suite


def _no_cases(message: str, path: str | None = None) -> Problem:
    return Problem(code="eval-shape", severity="error", message=message, hint=_HINT, field=path)


def recognise(path: str, value: Any) -> Format | None:
    """Return the reader of a file's format; None if it has no cases that can be run."""
    stem = path.rpartition("/")[2].rpartition(".")[0].lower()
    top = as_object(value)
    if top is None:
        return _recognise_list(stem, as_list(value))
    if ("tasks" in top or "tasks_from" in top) and any(name in top for name in ("graders", "metrics", "config")):
        return waza.read
    if stem.startswith("promptfoo") or ("tests" in top and any(name in top for name in ("prompts", "providers"))):
        return promptfoo.read
    if stem == "cases" or _have(top.get("cases"), ("inputs", "checks")):
        return native.read
    if any(_are_upskill(top.get(key)) for key in upskill.LISTS):
        return upskill.read
    if any(_have(top.get(key), ("prompt", "input")) for key in skill_creator.LISTS):
        return skill_creator.read
    return None


def _recognise_list(stem: str, entries: Sequence[Any]) -> Format | None:
    if stem == "cases" or _have(entries, ("inputs", "checks")):
        return native.read
    return upskill.read if _are_upskill(entries) else None


def _are_upskill(entries: Any) -> bool:
    objects = [fields for entry in as_list(entries) if (fields := as_object(entry)) is not None]
    return any("input" in fields and "expected" in fields for fields in objects)


def _have(entries: Any, names: tuple[str, ...]) -> bool:
    """Return True if an entry has one of these fields and is more than a trigger query."""
    objects = [fields for entry in as_list(entries) if (fields := as_object(entry)) is not None]
    return any(any(name in fields for name in names) and not _is_trigger(fields) for fields in objects)


def _is_trigger(fields: JsonObject) -> bool:
    tested = ("expected_output", "expectations", "assertions", "expected", "checks")
    return "should_trigger" in fields and not any(fields.get(name) for name in tested)


def _merge(suites: Sequence[EvalSuite], problems: list[Problem]) -> EvalSuite:
    """Return one suite with all cases, each with an id of its own; of each setting, the first that a file gives."""
    if not suites:
        return EvalSuite(skill="", cases=())
    usual = EvalSuite(skill="", cases=())
    settings: dict[str, Any] = {}
    for name in ("skill", "trials", "model", "timeout_seconds", "concurrency"):
        values = [getattr(suite, name) for suite in suites if getattr(suite, name) != getattr(usual, name)]
        settings[name] = values[0] if values else getattr(usual, name)
    threshold = suites[0].pass_threshold
    cases = [
        case
        if case.threshold is not None or suite.pass_threshold == threshold
        else replace(case, threshold=suite.pass_threshold)
        for suite in suites
        for case in suite.cases
    ]
    if len(cases) > MAX_CASES:
        message = f"There are {len(cases):,} cases; only the first {MAX_CASES:,} run."
        hint = "Split them into several files and run one at a time."
        problems.append(Problem(code="eval-too-many", severity="warning", message=message, hint=hint))
    return EvalSuite(cases=tuple(_with_ids(cases[:MAX_CASES], problems)), pass_threshold=threshold, **settings)


def _with_ids(cases: Sequence[EvalCase], problems: list[Problem]) -> list[EvalCase]:
    found: dict[str, EvalCase] = {}
    for case in cases:
        plain_id = "".join(sign if sign.isprintable() else " " for sign in case.id).strip()[:_MAX_ID_CHARS] or "case"
        name, number = plain_id, 1
        while name in found:
            number += 1
            name = f"{plain_id}-{number}"
        # Two files may both count from 1; within a file it is a mistake.
        if number > 1 and any(one.source == case.source for one in found.values() if one.id == plain_id):
            message = f"The id {plain_id!r} is used twice; the second case is called {name!r}."
            problems.append(Problem(code="eval-id", severity="warning", message=message, field=case.source))
        found[name] = replace(case, id=name)
    return list(found.values())
