"""A subset of promptfoo's `promptfooconfig.yaml`: prompts, tests, variables and assertions.

    prompts: ["Summarise: {{text}}"]
    defaultTest: {assert: [{type: latency, threshold: 5000}]}
    tests:
      - vars: {text: file://article.txt}
        assert: [{type: icontains, value: budget}, {type: llm-rubric, value: "Is neutral."}]

Each prompt with each test is a case. Variables are filled in as text: there are no filters, conditions or loops, and nothing
runs code. Providers are ignored, because the command chooses the model.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prowess.authoring.evals.case import EvalCase, EvalSuite
from prowess.authoring.evals.formats.entries import MAX_NAME_CHARS, finish_case, read_share, run_settings
from prowess.authoring.evals.formats.promptfoo_assertions import read_assertions
from prowess.authoring.evals.formats.source import At, EvalSource, as_list, as_object, as_text, open_file, resolve
from prowess.errors import Problem
from prowess.skill.json_values import json_value
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import MIB

MAX_TESTS = 2_000
"""Of tests, and of prompts with their variables filled in."""
MAX_COMBINATIONS = 100
MAX_FILLED_CHARS = 32 * MIB
"""Of all texts of a file with their variables filled in. A few kilobytes could ask for any number of them, of any length."""
NAMES = {"trials": "repeat", "concurrency": "maxConcurrency"}

_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_][A-Za-z0-9_.]{0,80})\s*-?\}\}")
_LOGIC = re.compile(r"\{%|\{\{")
_SEPARATOR = re.compile(r"\r?\n---\r?\n")
_CODE = (".js", ".cjs", ".mjs", ".ts", ".py", ".rb", ".sh")
_FILE = "file://"


def read(source: EvalSource) -> EvalSuite:
    """Return the cases of a configuration, and its settings."""
    top = as_object(source.value) or {}
    if top.get("scenarios"):
        source.report(
            "eval-setting", "`scenarios` are not supported; they are ignored.", "scenarios", hint="Use `tests`."
        )
    prompts = list(_prompts(source, top))
    cases: list[EvalCase] = []
    sources: dict[str, EvalSource] = {}
    room = _Room()
    usual = _Usual(source=source, test=as_object(top.get("defaultTest")) or {}, room=room)
    for number, (opened, at, test) in enumerate(itertools.islice(_tests(source, top), MAX_TESTS), 1):
        sources[opened.path] = opened
        cases += _read_test(opened, at, test, usual, prompts, str(number))
        if room.is_spent:
            message = f"The file expands to more than {MAX_TESTS:,} cases, or to cases that are too long; only the first {len(cases):,} are read."
            source.report("eval-too-many", message, hint="Split it into several files and run one at a time.")
            break
    source.problems += [problem for one in sources.values() if one is not source for problem in one.problems]
    options = {**(as_object(top.get("commandLineOptions")) or {}), **(as_object(top.get("evaluateOptions")) or {})}
    return EvalSuite(skill="", cases=tuple(cases), **run_settings(source, options, NAMES))


@dataclass(slots=True, kw_only=True)
class _Room:
    """How many prompts can still be filled in, and the characters that these may have."""

    prompts: int = MAX_TESTS
    chars: int = MAX_FILLED_CHARS

    @property
    def is_spent(self) -> bool:
        return self.prompts < 0 or self.chars < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Usual:
    """The parts that all tests share, and the file that they come from."""

    source: EvalSource
    test: JsonObject
    room: _Room


def _prompts(source: EvalSource, top: JsonObject) -> Iterator[str]:
    for index, written in enumerate(as_list(top.get("prompts"))):
        fields = as_object(written)
        text = as_text(fields.get("raw") or fields.get("id")) if fields else as_text(written)
        at: At = ("prompts", index)
        if _is_code(text):
            source.report(
                "eval-code",
                f"{text[:200]!r} is code, which eval files never run.",
                *at,
                hint="Write the prompt as text.",
            )
        elif text.startswith(_FILE) or (" " not in text and text.endswith((".txt", ".md", ".json", ".yaml"))):
            file = source.read_file(text.removeprefix(_FILE), *at, folders=(source.folder, ""))
            if file is not None:
                yield from (_message(source, at, part) for part in _SEPARATOR.split(file.text) if part.strip())
        elif text:
            yield _message(source, at, text)


def _message(source: EvalSource, at: At, text: str) -> str:
    """Return the user's message of a prompt, which may be a list of chat messages as JSON."""
    if not text.lstrip().startswith("["):
        return text.strip()
    turns = [fields for one in as_list(json_value(text)) if (fields := as_object(one)) and "content" in fields]
    user_texts = [as_text(turn["content"]) for turn in turns if turn.get("role", "user") == "user"]
    if not user_texts:
        return text.strip()
    if len(user_texts) < len(turns):
        message = "Only the user's messages are used: the skill takes the place of the system message."
        source.report("eval-setting", message, *at)
    return "\n\n".join(user_texts)


def _tests(source: EvalSource, top: JsonObject) -> Iterator[tuple[EvalSource, At, Any]]:
    """Yield each test with its source and place; tests may be in their own files."""
    known: set[str] = set()
    for index, written in enumerate(as_list(top.get("tests"))):
        at: At = ("tests", index)
        if not isinstance(written, str):
            yield source, at, written
            continue
        for opened in _open_tests(source, at, written, known):
            entries = as_list(opened.value)
            is_list = isinstance(opened.value, list)
            yield from ((opened, (number,) if is_list else (), entry) for number, entry in enumerate(entries))


def _open_tests(source: EvalSource, at: At, written: str, known: set[str]) -> Iterator[EvalSource]:
    """Yield the files with tests that a pattern names, except those that are known."""
    inside = resolve(source.folder, written.removeprefix(_FILE))
    if inside is None:
        source.report("eval-file", f"{written[:200]!r} is outside the folder of the skill.", *at)
    elif _is_code(written):
        source.report(
            "eval-code", f"{written[:200]!r} is code, which eval files never run.", *at, hint="Write the tests as YAML."
        )
    elif not inside.endswith((".yaml", ".yml", ".json", ".jsonl")):
        source.report(
            "eval-file", f"Tests in {written[:200]!r} are not supported.", *at, hint="Write the tests as YAML or JSON."
        )
    else:
        names = [path for path in source.files if fnmatch.fnmatchcase(path, inside)]
        if not names:
            source.report("eval-file", f"The file {written[:200]!r} does not exist.", *at)
        new = sorted(set(names) - known)
        known.update(new)
        for path in new:
            opened = open_file(path, source.files)
            if isinstance(opened, Problem):
                source.problems.append(opened)
            else:
                yield opened


def _read_test(
    source: EvalSource, at: At, written: Any, usual: _Usual, prompts: Sequence[str], number: str
) -> Iterator[EvalCase]:
    test = as_object(written)
    if test is None:
        source.report("eval-case", "A test must be an object with `vars` and `assert`.", *at, severity="error")
        return
    if (as_object(test.get("metadata")) or {}).get("conversationId"):
        source.report("eval-case", "The test is a turn of a conversation, which is not supported; it is skipped.", *at)
        return
    variables = {**_variables(usual.source, ("defaultTest",), usual.test), **_variables(source, at, test)}
    title = as_text(test.get("description"))
    share = read_share(source, (*at, "threshold"), test.get("threshold", usual.test.get("threshold")))
    combinations = list(itertools.islice(_combinations(variables), MAX_COMBINATIONS))
    templates = prompts or [_default_prompt(variables)]
    is_only_one = len(templates) * len(combinations) == 1
    for index, (prompt, values) in enumerate(itertools.product(templates, combinations), 1):
        usual.room.prompts -= 1
        if usual.room.is_spent:
            return
        fill = _Filling(source, at, values, usual.room)
        checks = [
            *read_assertions(source, (*at, "assert"), test.get("assert"), fill),
            *read_assertions(usual.source, ("defaultTest", "assert"), usual.test.get("assert"), fill),
        ]
        case = EvalCase(
            id=number if is_only_one else f"{number}.{index}",
            name=title[:MAX_NAME_CHARS],
            prompt=fill(prompt),
            checks=tuple(checks),
            threshold=share,
            source=source.path,
        )
        if not fill.failed:
            yield from finish_case(source, at, case)


def _default_prompt(variables: Mapping[str, Any]) -> str:
    """Return a template for tests without prompts: agents of promptfoo get their only variable."""
    names = [name for name in ("prompt", "message", "query", "input", "question") if name in variables]
    return f"{{{{{(names or list(variables) or ['prompt'])[0]}}}}}"


def _variables(source: EvalSource, at: At, test: JsonObject) -> JsonObject:
    variables = test.get("vars")
    if variables is not None and not isinstance(variables, dict):
        source.report(
            "eval-case",
            "`vars` must be an object; it is ignored.",
            *at,
            "vars",
            hint="Write the variables in the test.",
        )
    return as_object(variables) or {}


def _combinations(variables: JsonObject) -> Iterator[JsonObject]:
    """Yield one object for each combination of values: a list stands for several tests."""
    lists = [as_list(value) or [value] for value in variables.values()]
    for values in itertools.product(*lists):
        yield dict(zip(variables, values, strict=True))


@dataclass
class _Filling:
    """Fills variables into texts. `failed` is True if a text needed more than that."""

    source: EvalSource
    at: At
    values: JsonObject
    room: _Room
    failed: bool = False

    def __call__(self, text: str) -> str:
        """Return the text with its variables; report what cannot be filled in."""
        self.room.chars -= len(text)
        filled = _VARIABLE.sub(self._value, text)
        if _LOGIC.search(_VARIABLE.sub("", text)):
            message = (
                "Only plain variables such as `{{text}}` are supported, no filters or conditions. The test is skipped."
            )
            self._fail("eval-case", message)
        return filled

    def _value(self, found: re.Match[str]) -> str:
        if self.failed:
            return ""
        value: Any = self.values
        for step in found[1].split("."):
            value = (as_object(value) or {}).get(step)
        if value is None:
            self._fail("eval-case", f"The variable {found[1]!r} has no value. The test is skipped.")
            return ""
        if isinstance(value, str) and value.startswith(_FILE):
            text = self._file(value)
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self.room.chars -= len(text)
        self.failed = self.failed or self.room.is_spent
        return text

    def _file(self, written: str) -> str:
        if _is_code(written):
            self._fail("eval-code", f"{written[:200]!r} is code, which eval files never run. The test is skipped.")
            return ""
        file = self.source.read_file(written.removeprefix(_FILE), *self.at, "vars", folders=(self.source.folder, ""))
        self.failed = self.failed or file is None
        return file.text if file else ""

    def _fail(self, code: str, message: str) -> None:
        if not self.failed:
            self.source.report(code, message, *self.at)
        self.failed = True


def _is_code(text: str) -> bool:
    path = text.rpartition(":")[0] if text.count(":") > 1 else text
    return text.startswith(("python:", "exec:", "javascript:")) or (
        text.startswith(_FILE) and (text.endswith(_CODE) or path.endswith(_CODE))
    )
