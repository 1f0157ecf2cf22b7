"""Findings of a static scan: what a skill appears to do, where, and how severe that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from prowess.skill.text.hidden import show_hidden

Severity = Literal["danger", "warning", "info"]
FindingKind = Literal[
    "agent-settings", "credentials", "deception", "destruction", "download-execute", "encoded-execute", "exfiltration",
    "hidden-text", "host", "install", "not-scanned", "obfuscation", "outside-file", "override", "paste-command",
    "persistence", "remote-control", "shell", "unsafe-mode",
]  # fmt: skip

KINDS: dict[FindingKind, str] = {
    "agent-settings": "Changes the settings, hooks, servers or standing instructions of an AI agent.",
    "credentials": "Reads keys, tokens, password stores, browser data or the whole environment.",
    "deception": "Tells the agent to hide something from the user or to lie, or removes traces.",
    "destruction": "Deletes or overwrites far more than its own files.",
    "download-execute": "Runs code that it downloads.",
    "encoded-execute": "Runs code that is stored in encoded form.",
    "exfiltration": "Sends credentials, private files or the conversation to a host.",
    "hidden-text": "Contains text that a model reads but a person does not see.",
    "host": "Contacts a host.",
    "install": "Installs packages.",
    "not-scanned": "Could not be scanned completely.",
    "obfuscation": "Is written in a way that hides what it does.",
    "outside-file": "Reads or writes files outside the skill and the workspace.",
    "override": "Tells the agent to ignore its rules, the user or the operator.",
    "paste-command": "Asks the user to run something from an unknown source as a prerequisite.",
    "persistence": "Changes shell profiles, SSH access, scheduled jobs, services or git hooks.",
    "remote-control": "Lets another machine control this one or the agent.",
    "shell": "Runs shell commands or other programs.",
    "unsafe-mode": "Disables confirmations, sandboxes or protection.",
}
"""Every kind of finding, with its meaning in one line."""

SEVERITIES: tuple[Severity, ...] = ("danger", "warning", "info")
"""From most to least severe."""

MAX_FINDINGS = 200
MAX_EXCERPT = 160
_MAX_PER_KIND = 12
"""The maximum number of findings of one kind and severity in one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One observation. `excerpt` is short and has every hidden character written out."""

    severity: Severity
    kind: FindingKind
    path: str
    line: int | None = None
    excerpt: str = ""
    message: str
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON, as every interface shows it."""
        return asdict(self)


class ScanLimitError(Exception):
    """The scan has used up its work budget."""


class LongCodeError(Exception):
    """The code may take the parser too long for this process."""


@dataclass(slots=True)
class Budget:
    """The work that one scan may do, counted in syntax nodes, sentences and the like, so that hostile input cannot stall it."""

    steps: int
    parsing: int | None = None
    """The sum of the squares of the lengths of parsed texts, because the worst texts take about that long; None is no limit."""

    def spend(self, steps: int = 1) -> None:
        """Count work; raise `ScanLimitError` when the budget is used up."""
        self.steps -= steps
        if self.steps < 0:
            raise ScanLimitError

    def spend_parsing(self, length: int) -> None:
        """Count the work of a parser that is not ours; raise `LongCodeError` when that would be too much for this process."""
        if self.parsing is not None:
            if length * length > self.parsing:
                raise LongCodeError
            self.parsing -= length * length


@dataclass(slots=True)
class Report:
    """Collect the findings about one file. `cap` lowers the severity, for text that only documents an attack."""

    path: str
    text: str
    budget: Budget
    cap: Severity = "danger"
    depth: int = 0
    fixed_line: int | None = None
    first_line: int = 1
    findings: list[Finding] = field(default_factory=list[Finding])
    _counts: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    _seen: set[tuple[str, int | None, str]] = field(default_factory=set[tuple[str, int | None, str]])
    _lines: list[str] | None = None

    def add(
        self,
        severity: Severity,
        kind: FindingKind,
        line: int | None,
        message: str,
        *,
        hint: str = "",
        excerpt: str = "",
    ) -> None:
        """Record a finding at a line of this report's text, once."""
        severity = _milder(severity, self.cap)
        where = self.fixed_line if self.fixed_line is not None else (line + self.first_line - 1 if line else None)
        group = (severity, kind)
        if (kind, where, message) in self._seen or self._counts.get(group, 0) >= _MAX_PER_KIND:
            return
        self._seen.add((kind, where, message))
        self._counts[group] = self._counts.get(group, 0) + 1
        shortened = shorten(excerpt or self._line_text(line))
        self.findings.append(
            Finding(
                severity=severity, kind=kind, path=self.path, line=where, excerpt=shortened, message=message, hint=hint
            )
        )

    def cut(self, code: str, limit: int) -> str:
        """Return the start of the code, and record it if there is more than that."""
        if len(code) > limit:
            message = f"The code has more than {limit:,} characters; only the start was scanned."
            self.add("warning", "not-scanned", None, message)
        return code[:limit]

    def part(self, text: str, line: int | None, *, cap: Severity | None = None) -> Report:
        """Return a report about a part that starts at this line of the file, such as a code block. It shares the findings."""
        return self._child(text, None, (line or 1) + self.first_line - 1, cap or self.cap, self.depth)

    def nested(self, text: str, line: int | None) -> Report:
        """Return a report about code inside code: every finding is at the outer line, with an excerpt of the inner code."""
        where = self.fixed_line if self.fixed_line is not None else (line or 1) + self.first_line - 1
        return self._child(text, where, 1, self.cap, self.depth + 1)

    def _child(self, text: str, fixed: int | None, first: int, cap: Severity, depth: int) -> Report:
        cap = _milder(cap, self.cap)
        return Report(
            path=self.path, text=text, budget=self.budget, cap=cap, depth=depth, fixed_line=fixed, first_line=first,
            findings=self.findings, _counts=self._counts, _seen=self._seen,
        )  # fmt: skip

    def _line_text(self, line: int | None) -> str:
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines[line - 1].strip() if line and line <= len(self._lines) else ""


def _milder(severity: Severity, other: Severity) -> Severity:
    return severity if SEVERITIES.index(severity) >= SEVERITIES.index(other) else other


def shorten(text: str) -> str:
    """Return the start of a text on one line, with hidden characters and controls written out."""
    cut = " ".join(text[: MAX_EXCERPT * 4].split())
    visible = show_hidden(cut)
    return visible if len(visible) <= MAX_EXCERPT else visible[: MAX_EXCERPT - 1] + "…"


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings, most severe first, then by file and line, at most `MAX_FINDINGS`."""
    ordered = sorted(
        findings,
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.path, finding.line or 0, finding.kind),
    )
    return tuple(ordered[:MAX_FINDINGS])


def count_dangers(findings: tuple[Finding, ...]) -> int:
    """Return how many findings have the highest severity."""
    return sum(finding.severity == "danger" for finding in findings)
