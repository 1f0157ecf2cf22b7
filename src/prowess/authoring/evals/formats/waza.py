"""waza's `eval.yaml`, with its tasks in `tasks/*.yaml`.

    skill: my-skill
    config: {trials_per_task: 3, timeout_seconds: 300, parallel: true, workers: 4, model: …}
    graders: [{type: text, name: polite, config: {contains: [please]}}]
    tasks: ["tasks/*.yaml"]

Graders of the eval apply to all tasks. Metrics are ignored: they weigh figures of a whole evaluation. Graders that run code or
look at files and tool calls are left out.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from prowess.authoring.evals.case import Check, EvalCase, EvalFile, EvalSuite
from prowess.authoring.evals.formats.entries import (
    MAX_NAME_CHARS,
    contains,
    expectation,
    finish_case,
    pattern,
    read_weight,
    run_settings,
    structural,
    valid_check,
)
from prowess.authoring.evals.formats.expressions import read_expression
from prowess.authoring.evals.formats.source import (
    At,
    EvalSource,
    as_list,
    as_object,
    as_text,
    open_file,
    read_schema,
    resolve,
)
from prowess.errors import Problem
from prowess.skill.kinds import JsonObject

MAX_TASKS = 2_000
NAMES = {"trials": "trials_per_task", "timeout_seconds": "timeout_seconds", "concurrency": "workers", "model": "model"}

_SEVERAL_TURNS = ("follow_up_prompts", "responder")
_UNSEEN = "Prowess sees the answer of a case, not the files and tool calls of an agent."
_CODE_HINT = "Describe the result with a `text` or `prompt` grader instead."


def read(source: EvalSource) -> EvalSuite:
    """Return the tasks of an eval, and its settings."""
    top = as_object(source.value) or {}
    config = as_object(top.get("config")) or {}
    # Without `parallel`, waza runs one task after the other, whatever `workers` says.
    usable = config if config.get("parallel") is True else {key: one for key, one in config.items() if key != "workers"}
    if top.get("tasks_from"):
        source.report(
            "eval-setting", "Tasks from a CSV file are not supported.", "tasks_from", hint="Write task files."
        )
    cases: list[EvalCase] = []
    for opened, at, task in _tasks(source, top):
        cases += _read_task(source, opened, at, task, top)
        source.problems += [] if opened is source else opened.problems
    return EvalSuite(skill=as_text(top.get("skill")), cases=tuple(cases), **run_settings(source, usable, NAMES))


def _tasks(source: EvalSource, top: JsonObject) -> Iterator[tuple[EvalSource, At, Any]]:
    """Yield each task with its source and its place there."""
    found: dict[str, None] = {}
    for index, written in enumerate(as_list(top.get("tasks"))):
        if isinstance(written, dict):
            yield source, ("tasks", index), cast("JsonObject", written)
            continue
        inside = resolve(source.folder, written) if isinstance(written, str) else None
        if inside is None:
            source.report("eval-file", f"{str(written)[:200]!r} is outside the skill's folder.", "tasks", index)
            continue
        # Of `*`, `fnmatch` also matches slashes; waza's tasks are in one folder.
        depth = inside.count("/")
        names = [path for path in source.files if fnmatch.fnmatchcase(path, inside) and path.count("/") == depth]
        if not names:
            source.report("eval-file", f"No task file matches {inside[:200]!r}.", "tasks", index)
        found |= dict.fromkeys(sorted(names))
    for path in list(found)[:MAX_TASKS]:
        opened = open_file(path, source.files)
        if isinstance(opened, Problem):
            source.problems.append(opened)
        else:
            yield opened, (), opened.value


def _read_task(eval_source: EvalSource, source: EvalSource, at: At, written: Any, top: JsonObject) -> list[EvalCase]:
    task = as_object(written)
    if task is None:
        source.report("eval-case", "A task must be an object with `inputs`.", *at, severity="error")
        return []
    if task.get("enabled") is False:
        return []
    inputs = as_object(task.get("inputs")) or {}
    if any(inputs.get(name) for name in _SEVERAL_TURNS):
        source.report("eval-case", "The task has several turns, which are not supported; it is skipped.", *at, "inputs")
        return []
    folders = tuple(dict.fromkeys(_folders(eval_source, source, as_text(task.get("context_dir")))))
    prompt = as_text(inputs.get("prompt"))
    files = _files(source, (*at, "inputs"), inputs, folders)
    if not prompt and inputs.get("prompt_file"):
        file_text = source.read_file(inputs["prompt_file"], *at, "inputs", "prompt_file", folders=folders)
        prompt = file_text.text if file_text else ""
    if files is None:
        return []
    checks = [
        *_expected_checks(source, (*at, "expected"), as_object(task.get("expected")) or {}),
        *_grader_checks(source, (*at, "graders"), task.get("graders"), folders),
        *_grader_checks(eval_source, ("graders",), top.get("graders"), (eval_source.folder,)),
    ]
    tags = [as_text(tag) for tag in as_list(task.get("tags"))]
    case = EvalCase(
        id=as_text(task.get("id")) or source.path.rpartition("/")[2].rpartition(".")[0],
        name=as_text(task.get("name"))[:MAX_NAME_CHARS],
        prompt=prompt,
        files=files,
        checks=tuple(checks),
        label=next((tag for tag in tags if tag), "")[:MAX_NAME_CHARS],
        source=source.path,
    )
    return finish_case(source, at, case)


def _folders(eval_source: EvalSource, source: EvalSource, context: str) -> Iterator[str]:
    """Yield the folders in which a task's files may be: its context, the fixtures, and those of the task and the eval."""
    for folder in (eval_source.folder, source.folder):
        yield from (inside for name in (context, "fixtures") if name and (inside := resolve(folder, name)))
    yield from (source.folder, eval_source.folder)


def _files(source: EvalSource, at: At, inputs: JsonObject, folders: tuple[str, ...]) -> tuple[EvalFile, ...] | None:
    found: list[EvalFile] = []
    for index, entry in enumerate(as_list(inputs.get("files"))):
        fields = as_object(entry) or {"path": entry}
        if isinstance(fields.get("content"), str):
            found.append(EvalFile(path=as_text(fields.get("path")) or f"file-{index + 1}", text=fields["content"]))
            continue
        read_one = source.read_file(fields.get("path"), *at, "files", index, folders=folders)
        if read_one is None:
            return None
        found.append(read_one)
    return tuple(found)


def _expected_checks(source: EvalSource, at: At, expected: JsonObject) -> Iterator[Check]:
    yield from _each(source, at, expected, "output_contains", lambda text: contains([text], ignore_case=True))
    unwanted = expected.get("output_not_contains")
    if unwanted:
        yield from _each(source, at, expected, "output_not_contains", _absent)
    yield from _behavior(source, (*at, "behavior"), as_object(expected.get("behavior")) or {})
    for index, outcome in enumerate(as_list(expected.get("outcomes"))):
        text = as_text((as_object(outcome) or {}).get("value")) if not isinstance(outcome, str) else outcome
        if text and len(text.split()) > 1:
            yield expectation(text)
        else:
            source.report_check("An outcome must be described in a sentence.", *at, "outcomes", index)


def _absent(text: str) -> Check:
    return contains([text], ignore_case=True, negate=True)


def _each(source: EvalSource, at: At, fields: JsonObject, name: str, make: Callable[[str], Check]) -> Iterator[Check]:
    for index, value in enumerate(as_list(fields.get(name))):
        if text := as_text(value):
            yield from valid_check(source, (*at, name, index), make(text))


def _grader_checks(source: EvalSource, at: At, graders: Any, folders: tuple[str, ...]) -> list[Check]:
    found: list[Check] = []
    for index, entry in enumerate(as_list(graders)):
        grader = as_object(entry)
        if grader is None:
            source.report_check("A grader must be an object with `type` and `config`.", *at, index)
            continue
        config = {**(as_object(grader.get("config")) or {})}
        for name in ("assertions", "rubric"):
            config.setdefault(name, grader.get(name))
        kind = as_text(grader.get("type")) or ("prompt" if config["rubric"] else "code")
        checks = list(_GRADERS.get(kind, _unsupported)(source, (*at, index), config, folders, kind))
        weight, title = read_weight(source, (*at, index), grader), as_text(grader.get("name"))
        # A grader counts once, however many checks it stands for.
        found += [
            replace(check, weight=weight / len(checks), description=_titled(title, check, len(checks)))
            for check in checks
        ]
    return found


def _titled(title: str, check: Check, count: int) -> str:
    if check.type == "expectation" or not title:
        return ""
    detail = check.settings.get("values") or check.settings.get("pattern") or check.type
    return f"{title}: {detail}"[:MAX_NAME_CHARS] if count > 1 else title[:MAX_NAME_CHARS]


Grader = Callable[[EvalSource, At, JsonObject, tuple[str, ...], str], Iterator[Check]]


def _text(source: EvalSource, at: At, config: JsonObject, _: tuple[str, ...], __: str) -> Iterator[Check]:
    makers: dict[str, Callable[[str], Check]] = {
        "contains": lambda text: contains([text], ignore_case=True),
        "not_contains": _absent,
        "contains_cs": lambda text: contains([text]),
        "not_contains_cs": lambda text: contains([text], negate=True),
        "regex_match": pattern,
        "regex_not_match": lambda text: pattern(text, wanted=False),
        # Names of earlier versions of waza.
        "must_match": pattern,
        "must_not_match": lambda text: pattern(text, wanted=False),
        "must_contain": lambda text: contains([text], ignore_case=True),
        "must_not_contain": _absent,
    }
    for name, make in makers.items():
        yield from _each(source, (*at, "config"), config, name, make)


def _schema(source: EvalSource, at: At, config: JsonObject, folders: tuple[str, ...], _: str) -> Iterator[Check]:
    schema = config.get("schema")
    if schema is None:
        schema = read_schema(source, config.get("schema_file"), (*at, "config", "schema_file"), folders)
    check = Check(type="structural", settings=structural("json_schema", schema=schema))
    yield from valid_check(source, (*at, "config"), check)


def _prompt(source: EvalSource, at: At, config: JsonObject, _: tuple[str, ...], __: str) -> Iterator[Check]:
    text = as_text(config.get("prompt")) or as_text(config.get("rubric"))
    if config.get("mode") == "pairwise":
        source.report_check("Pairwise grading is not supported; compare versions instead.", *at)
    else:
        statement = f"The output satisfies these instructions for a grader: {text}" if text else ""
        yield from valid_check(source, (*at, "config"), expectation(statement))


def _code(source: EvalSource, at: At, config: JsonObject, _: tuple[str, ...], __: str) -> Iterator[Check]:
    for index, written in enumerate(as_list(config.get("assertions"))):
        checks = read_expression(written) if isinstance(written, str) else []
        for check in checks:
            yield from valid_check(source, (*at, "config", "assertions", index), check)
        if not checks:
            message = f"{str(written)[:120]!r} is code, which eval files never run. The check is left out."
            source.report("eval-code", message, *at, "config", "assertions", index, hint=_CODE_HINT)


def _program(source: EvalSource, at: At, _: JsonObject, __: tuple[str, ...], kind: str) -> Iterator[Check]:
    message = f"A {kind!r} grader is code, which eval files never run. The check is left out."
    source.report("eval-code", message, *at, hint=_CODE_HINT)
    return iter(())


def _behavior_grader(source: EvalSource, at: At, config: JsonObject, _: tuple[str, ...], __: str) -> Iterator[Check]:
    yield from _behavior(source, (*at, "config"), config)


def _behavior(source: EvalSource, at: At, rules: JsonObject) -> Iterator[Check]:
    for name in rules:
        limit = {"max_duration_ms": ("latency", "max_ms"), "max_response_time_ms": ("latency", "max_ms")}.get(name)
        limit = ("tokens", "max") if name == "max_tokens" else limit
        if limit:
            yield from valid_check(source, (*at, name), Check(type=limit[0], settings={limit[1]: rules[name]}))
        elif name not in ("assertions", "rubric"):
            source.report_check(f"`{name}` is not supported: {_UNSEEN}", *at, name)


def _skills(source: EvalSource, at: At, config: JsonObject, _: tuple[str, ...], __: str) -> Iterator[Check]:
    for name, negate in (("required_skills", False), ("forbidden_skills", True)):
        for skill in as_list(config.get(name)):
            check = Check(type="skill_used", settings={"skill": skill}, negate=negate)
            yield from valid_check(source, (*at, "config", name), check)


def _trigger(source: EvalSource, at: At, _: JsonObject, __: tuple[str, ...], ___: str) -> Iterator[Check]:
    source.report_check("A trigger grader tests when the skill is chosen.", *at, hint="Run `prowess eval triggers`.")
    return iter(())


def _unsupported(source: EvalSource, at: At, _: JsonObject, __: tuple[str, ...], kind: str) -> Iterator[Check]:
    source.report_check(f"The grader type {kind[:60]!r} is not supported. {_UNSEEN}", *at)
    return iter(())


_GRADERS: dict[str, Grader] = {
    "text": _text,
    "regex": _text,
    "keyword": _text,
    "json_schema": _schema,
    "prompt": _prompt,
    "llm": _prompt,
    "code": _code,
    "program": _program,
    "script": _program,
    "behavior": _behavior_grader,
    "skill_invocation": _skills,
    "trigger": _trigger,
}
