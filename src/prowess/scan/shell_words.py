"""Spellings of a word that the shell resolves before it runs a command: brace lists, changed variables, patterns for programs."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from prowess.scan.behaviour import Behaviour
from prowess.scan.places import normalize_path
from prowess.scan.values import UNKNOWN, Value

_BRACES = re.compile(r"(?m)(^[ \t]*|[|;&(][ \t]*)\{((?:[^\s{},;|&()\"'`]+,)+[^\s{},;|&()\"'`]+)\}(?=[\s|;&)]|$)")
_EXPANSION = re.compile(r"\$\{\w+(?:\[\w+\])?(.*)\}", re.DOTALL)
_PART = re.compile(r":[ ]*([0-9]{1,9})(?::([0-9]{1,9}))?")
_REPLACEMENT = re.compile(r"//?([^/]+)(?:/([^/]*))?")
_PROGRAMS = ("curl", "wget", "bash", "sh", "zsh", "dash", "python3", "python", "perl", "node", "nc", "base64", "xxd")
_PATTERN = frozenset("?*[")
_COMMAND_VARIABLES = frozenset({
    "PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND", "PAGER", "MANPAGER", "LESSOPEN", "EDITOR", "VISUAL",
})  # fmt: skip


def spread_braces(code: str) -> str:
    """Return the code with `{curl,-s,URL}` as `curl -s URL` where a command starts."""
    return _BRACES.sub(lambda found: found[1] + found[2].replace(",", " "), code)


def change_text(expansion: str, value: Value) -> Value | None:
    """Return the value after `${x%end}`, `${x//a/b}`, `${x:1:2}` or `${x,,}`; None if nothing changes it, or not to a known text."""
    found = _EXPANSION.fullmatch(expansion)
    if found is None or not found[1] or not value.is_known:
        return None
    text = _change(value.text, found[1])
    return None if text is None else Value(texts=(text,), labels=value.labels)


def _change(text: str, operation: str) -> str | None:
    part, replaced = _PART.fullmatch(operation), _REPLACEMENT.fullmatch(operation)
    if part:
        start = int(part[1])
        return text[start : start + int(part[2])] if part[2] else text[start:]
    if operation in (",,", ","):
        return text.lower()
    if operation in ("^^", "^"):
        return text.upper()
    if _PATTERN & set(operation):
        return None
    if replaced:
        return text.replace(replaced[1], replaced[2] or "", -1 if operation.startswith("//") else 1)
    if operation[0] == "%":
        return text.removesuffix(operation.lstrip("%"))
    return text.removeprefix(operation.lstrip("#")) if operation[0] == "#" else None


def judge_variable(behaviour: Behaviour, name: str, value: Value, line: int) -> None:
    """Judge a variable that makes shells run something, or forget what they ran."""
    content = behaviour.files.get(normalize_path(value.text)) if name == "BASH_ENV" else None
    if name in _COMMAND_VARIABLES or content is not None:
        behaviour.execute(content or value, "shell", line)
    elif name == "HISTFILE" and value.text in ("/dev/null", ""):
        behaviour.report.add("danger", "deception", line, "Disables the shell history.")


def find_program(text: str) -> str:
    """Return the program that a word names by a pattern (`/???/b??h`) or around empty variables (`cu$@rl`), or the word."""
    if _PATTERN & set(text) and text.startswith("/"):
        pattern = text.rpartition("/")[2]
        return next((name for name in _PROGRAMS if fnmatchcase(name, pattern)), text)
    bare = text.replace(UNKNOWN, "")
    return bare if bare.rpartition("/")[2] in _PROGRAMS else text
