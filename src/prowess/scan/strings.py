"""Follow code in a language without an analyser here: the commands in its strings, and what it evaluates from a host."""

from __future__ import annotations

import re

from prowess.scan.behaviour import Behaviour
from prowess.scan.languages import scan_code
from prowess.scan.markdown import looks_like_command
from prowess.scan.values import NO_LABELS, Label, Value

_QUOTED = re.compile(r"\"((?:[^\"\\\n]|\\.){6,2000})\"|'((?:[^'\\\n]|\\.){6,2000})'|`([^`\n]{6,2000})`")
_EVALUATED = re.compile(
    r"\b(?:eval|load|loadstring|include|require)(?:_once)?\b[\s(]{0,20}(?:[\w:.>-]{1,80}[\s(]{1,20})?[\"'](https?://[^\"'\s]+)"
)


def analyse(behaviour: Behaviour, text: str, _taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan the strings of code in any language."""
    report = behaviour.report
    for found in _QUOTED.finditer(text):
        report.budget.spend(5)
        inner = next(part for part in found.groups() if part is not None)
        if looks_like_command(inner):
            line = text.count("\n", 0, found.start()) + 1
            scan_code(Behaviour(report=report.nested(inner, line)), inner.replace('\\"', '"'), "shell")
    for found in _EVALUATED.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        behaviour.execute(Value(labels=frozenset({Label("network", found[1])})), "text", line)
