"""A script with the inputs of one run.

A function is a script, too: its file is run first, then the function is called with the inputs.

No value ever becomes part of the source. Each `{{ name }}` is replaced by a mark; in the sandbox, once the source has been
parsed, the mark is replaced by the value: as a literal where it is an expression, as text within a string.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, cast

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.skill.limits import MIB
from prowess.skill.python_source import PLACEHOLDER, PROMPT_SYNTAX

Language = Literal["python", "typescript", "javascript"]
HOST_MODULES = ("inklings", "prowess")
"""The names under which a script imports its host's functions."""
MAX_INPUT_BYTES = 4 * MIB
MAX_SCRIPT_CHARS = 256 * 1024
MAX_DEPTH = 64

_BYTE_ORDER_MARK = "\ufeff"
"""At the start of files that were saved on Windows. Python accepts it in a file, and not in a text."""
_HINT = "Scripts support only {{ name }} placeholders and `inputs`. Write everything else in Python."


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script or a function, and its inputs."""

    source: str
    """The source with marks."""
    shown: str
    """The source as it was written."""
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The value of each mark."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """What each mark replaced, as it was written."""
    entry: str = ""
    """The function that is called with the inputs and a context, and returns the result; '' for a script."""
    env: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"], repr=False)
    """The `env` of the context: every declared name; None for one that was not granted or is not set."""
    language: Language = "python"
    file: str = "<script>"
    """The name of the file in tracebacks."""
    packages: Path | None = None
    """The folder of packages that a native run can import."""
    seed: str = ""
    """The seed of `random`, for runs that must be repeatable; '' for another one each time."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The inputs that are variables of the script; a function gets them as arguments."""
        return tuple(name for name in self.inputs if _is_free_name(name))

    def task(self, functions: list[str]) -> bytes:
        """Return the task for the sandbox as JSON, with the names of the functions that the script can call."""
        task = {
            "source": self.source,
            "shown": self.shown,
            "marks": self.marks,
            "inputs": self.inputs,
            "variables": self.variables,
            "modules": HOST_MODULES,
            "functions": functions,
            "entry": self.entry,
            "env": dict(self.env),
            "file": self.file,
            "seed": self.seed,
        }
        return json.dumps(task).encode()

    def unmarked(self, text: str) -> str:
        """Return a text about the script with marks replaced by what was written."""
        for mark, written in self.names.items():
            text = text.replace(mark, written)
        return text


def script_from_template(template: str, inputs: Mapping[str, Any]) -> Script:
    """Return the script of a template; raise `Invalid` for each `{{ name }}` without an input, and for inputs that are not JSON."""
    template = template.removeprefix(_BYTE_ORDER_MARK)
    if len(template) > MAX_SCRIPT_CHARS:
        raise Invalid(f"The script has {len(template):,} characters, more than the limit of {MAX_SCRIPT_CHARS:,}.")
    values = _check_inputs(inputs)
    problems = [_unsupported_syntax(template, found) for found in PROMPT_SYNTAX.finditer(template)]
    stem = _mark_prefix(template, values)
    marks: dict[str, Any] = {}
    names: dict[str, str] = {}

    def mark(found: re.Match[str]) -> str:
        known, value = _lookup(values, found[1])
        if not known:
            problems.append(_missing_input(template, found))
        mark = f"{stem}{len(marks)}_"
        marks[mark], names[mark] = value, found[0]
        return mark

    source = PLACEHOLDER.sub(mark, template)
    if problems:
        summary = " ".join(problem.message for problem in problems[:3])
        raise Invalid(summary, hint=problems[0].hint, problems=problems)
    return Script(source=source, shown=template, inputs=values, marks=marks, names=names)


def script_from_function(
    code: str,
    inputs: Mapping[str, Any],
    *,
    entry: str = "execute",
    env: Mapping[str, str | None] | None = None,
    language: Language = "python",
    file: str = "execute.py",
    packages: Path | None = None,
) -> Script:
    """Return a function with its inputs; its source is used as it is, `{{ }}` included."""
    code = code.removeprefix(_BYTE_ORDER_MARK)
    if len(code) > MAX_SCRIPT_CHARS:
        raise Invalid(f"The function has {len(code):,} characters, more than the limit of {MAX_SCRIPT_CHARS:,}.")
    return Script(
        source=code,
        shown=code,
        inputs=_check_inputs(inputs),
        entry=entry,
        env=env or {},
        language=language,
        file=file,
        packages=packages,
    )


def require_python(script: Script) -> None:
    """Raise `Invalid` unless a script is written in Python."""
    if script.language != "python":
        raise Invalid(f"This sandbox runs Python, not {script.language}.")


def _check_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the inputs; raise `Invalid` unless they are JSON values within the limits."""
    try:
        # Through JSON and back: the copy cannot change in the meantime, and has only types that the sandbox gets as well.
        text = json.dumps(dict(inputs), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"The inputs of the script are not JSON: {error}.") from error
    if len(text) > MAX_INPUT_BYTES:
        raise Invalid(f"The inputs have {len(text):,} bytes, more than the limit of {MAX_INPUT_BYTES:,}.")
    values: dict[str, Any] = json.loads(text)
    if json_depth(values) > MAX_DEPTH + 1:
        raise Invalid(f"The inputs are nested more than {MAX_DEPTH} levels deep.")
    return values


def json_depth(value: Any) -> int:
    """Return how deep the lists and objects of a JSON value are nested. No recursion: the value may be hostile."""
    depth, level = 0, _containers([value])
    while level:
        depth += 1
        level = _containers(item for items in level for item in items)
    return depth


def _containers(values: Iterable[Any]) -> list[list[Any]]:
    """Return the contents of those values that are lists or objects."""
    lists: list[list[Any]] = []
    for value in values:
        if isinstance(value, dict):
            lists.append(list(cast("dict[str, Any]", value).values()))
        elif isinstance(value, list):
            lists.append(cast("list[Any]", value))
    return lists


def _mark_prefix(template: str, values: Mapping[str, Any]) -> str:
    """Return a prefix for marks: an identifier that occurs neither in the script nor in a value."""
    text = json.dumps(values)
    # Random, so that a script or an input cannot contain a mark on purpose.
    while True:
        stem = f"_input_{secrets.token_hex(8)}_"
        if stem not in template and stem not in text:
            return stem


def _lookup(values: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Return whether the inputs have a value at a path, and the value."""
    found: Any = values
    for name in path.split("."):
        if isinstance(found, Mapping) and name in found:
            found = cast("Mapping[str, Any]", found)[name]
        # `isdigit` accepts digits of all scripts, and `int` of a long text takes long.
        elif isinstance(found, list) and name.isascii() and name.isdigit() and len(name) < 10:
            items = cast("list[Any]", found)
            if int(name) >= len(items):
                return False, None
            found = items[int(name)]
        else:
            return False, None
    return True, found


def _is_free_name(name: str) -> bool:
    """Return True if a variable of that name hides nothing."""
    # An input called `list` or `inputs` would break scripts that use those; it is still in `inputs`.
    taken = name.startswith("_") or keyword.iskeyword(name) or name in {"inputs", *HOST_MODULES}
    return name.isidentifier() and not taken and not callable(getattr(builtins, name, None))


def _line_number(template: str, found: re.Match[str]) -> int:
    return template.count("\n", 0, found.start()) + 1


def _missing_input(template: str, found: re.Match[str]) -> Problem:
    line = _line_number(template, found)
    message = f"Line {line} of the script uses {found[0]}, but there is no such input."
    return Problem(
        code="template-undefined",
        severity="error",
        message=message,
        hint=f"Pass the input {found[1]!r}.",
        field=found[1],
        line=line,
    )


def _unsupported_syntax(template: str, found: re.Match[str]) -> Problem:
    line = _line_number(template, found)
    message = f"Line {line} of the script uses {found[0][:80]}, which is only supported in prompts."
    return Problem(code="template-unknown", severity="error", message=message, hint=_HINT, line=line)
