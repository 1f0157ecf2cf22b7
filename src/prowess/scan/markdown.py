"""Scan a markdown file: its code blocks and inline commands as code, its paragraphs as prose, its comments as hidden text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from prowess.scan.behaviour import Behaviour
from prowess.scan.finding import Report
from prowess.scan.languages import Language, language_of_fence, scan_code
from prowess.scan.prose import describes_attacks, judge_beacon, judge_paragraph

MAX_LINES = 20_000
# Quantifiers that give nothing back: with others, a long line of spaces takes time with the square of its length.
_FENCE = re.compile(r"^[ \t>]*+(?:(?:[-*+]|\d++[.)])[ \t]*+)?(`{3,}+|~{3,}+)[ \t]*+([^`\n]*+)$")
_HEADING = re.compile(r"^[ \t]*(#{1,6})[ \t]+(.+)$")
_INLINE = re.compile(r"`([^`\n]{6,600})`")
_INVISIBLE = re.compile(
    r"<(\w{1,20})\b[^<>]{0,200}?\b(?:style\s*=\s*[\"'][^\"'>]*(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*[01](?:px|pt|em)?\s*[;\"']|opacity\s*:\s*0(?![.\d])|color\s*:\s*(?:#fff(?:fff)?\b|white\b|transparent))[^>]*|hidden)\s*>",
    re.IGNORECASE,
)
_FAR_RIGHT = re.compile(r"(?<![ \t\u00a0])[ \t\u00a0]{120,}(?=[A-Za-z])([^\n|]{20,})")
_COMMANDS = re.compile(
    r"^\s*(?:\$\s+)?(?:sudo\s+)?(?:curl|wget|bash|sh|zsh|eval|source|python3?|node|perl|ruby|powershell|pwsh|mshta|iex|irm|iwr|echo|cat|nc|ncat|scp|rsync|rm|dd|crontab|chmod|launchctl|systemctl|osascript|npx|pip3?|npm|git|claude|codex|export|printf|tee|cp|mv|ln|ssh|openssl|base64|security|gh|aws|env|printenv|certutil|regsvr32|rundll32|msiexec|schtasks|reg)\b"
)
_ADDRESSES_AGENT = re.compile(
    r"\b(?:assistant|agent|model|AI|system|claude|gpt|you(?:r)?)\b.{0,200}\b(?:must|should|run|read|send|execute|include|never|always|ignore|before answering|do not|don't|fetch|follow|reply|output|append)\b|\b(?:ignore|disregard) (?:all|any|the|previous)\b",
    re.IGNORECASE | re.DOTALL,
)
_BAD_COMMENT = re.compile(
    r"(?im)^[^\S\n]*+(?:(?:#|//|--|<!--)[^\S\n]*+)?(?:❌|bad\b|wrong\b|don'?t\b|never\b|avoid\b|dangerous\b|unsafe\b|insecure\b|malicious\b|vulnerable\b|attacker\b|attack\b|exploit\b|not recommended)"
)


_OFFENSIVE = re.compile(
    r"\b(?:pen(?:etration)?[- ]?test\w*|privilege escalation|exploit\w*|red[- ]team\w*|ctf|xss|ethical hacking|hacktricks|reverse shells?|malware|offensive security|渗透)",
    re.IGNORECASE,
)
"""A document that is openly about attacks: its code blocks are examples. Its sentences are judged as usual."""


@dataclass(slots=True)
class _State:
    offensive: bool = False
    headings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    intro: str = ""

    @property
    def documents_attacks(self) -> bool:
        """True below a heading, or after a sentence, about attacks or about what not to do."""
        return any(describes_attacks(title) for _, title in self.headings[-3:]) or describes_attacks(self.intro[-200:])

    def enter(self, level: int, title: str) -> None:
        self.headings = [*((depth, text) for depth, text in self.headings if depth < level), (level, title)]
        self.intro = ""


def scan_markdown(report: Report, text: str) -> None:
    """Scan a markdown file."""
    _judge_hidden(report, text)
    visible = _blank_comments(text)
    lines = visible.split("\n")
    if len(lines) > MAX_LINES:
        report.add(
            "warning", "not-scanned", None, f"The file has more than {MAX_LINES:,} lines; only the start was scanned."
        )
    state = _State(offensive=bool(_OFFENSIVE.search(visible[:1500])))
    behaviour = Behaviour(report=report)
    paragraph: list[str] = []
    number = 0
    while number < min(len(lines), MAX_LINES):
        line = lines[number]
        opened = _FENCE.match(line)
        heading = _HEADING.match(line)
        if opened or heading or not line.strip():
            _end_paragraph(behaviour, paragraph, number - len(paragraph) + 1, state)
            paragraph = []
        if opened:
            number = _scan_block(behaviour, lines, number, opened, state)
            continue
        if heading:
            state.enter(len(heading[1]), heading[2])
            # A heading is prose too: an instruction can stand in it.
            judge_paragraph(report, heading[2], number + 1, documents_attacks=True)
        elif line.strip():
            paragraph.append(line)
        number += 1
    _end_paragraph(behaviour, paragraph, number - len(paragraph) + 1, state)


def _end_paragraph(behaviour: Behaviour, lines: list[str], first: int, state: _State) -> None:
    if not lines:
        return
    text = "\n".join(lines)
    # Findings in a table or a list of forbidden things are descriptions as often as orders: its heading decides.
    documents = any(describes_attacks(title) for _, title in state.headings[-3:])
    judge_paragraph(behaviour.report, text, first, documents_attacks=documents)
    judge_beacon(behaviour.report, state.intro, text, first)
    for offset, line in enumerate(lines):
        for found in _INLINE.finditer(line):
            if looks_like_command(found[1]):
                cap = "warning" if documents or describes_attacks(line) else None
                part = behaviour.report.part(found[1], first + offset, cap=cap)
                scan_code(Behaviour(report=part, files=behaviour.files), found[1], "shell")
    state.intro = text


def _scan_block(behaviour: Behaviour, lines: list[str], start: int, opened: re.Match[str], state: _State) -> int:
    """Scan a fenced block; return the number of the line after it."""
    end, following = _find_block_end(lines, start, opened)
    code = "\n".join(lines[start + 1 : end])
    language = language_of_fence(opened[2]) or (
        _guess(code) if not opened[2].strip() or opened[2].strip().lower() in ("text", "txt", "plaintext") else None
    )
    documents = state.offensive or state.documents_attacks or bool(_BAD_COMMENT.search(code))
    part = behaviour.report.part(code, start + 2, cap="warning" if documents else None)
    if language is not None:
        scan_code(Behaviour(report=part, files=behaviour.files), code, language)
    elif opened[2].strip().lower() in ("", "text", "txt", "markdown", "md", "plaintext", "prompt"):
        # Templates for output are often about other things: only the plainest orders count.
        judge_paragraph(part, code, 1, documents_attacks=documents)
    return following


def _find_block_end(lines: list[str], start: int, opened: re.Match[str]) -> tuple[int, int]:
    """Return the number of the line that ends a fenced block, and of the line after it."""
    end = start + 1
    sign = re.escape(opened[1])
    # A block that was left open ends where the next one starts; otherwise one slip would turn the rest of the file inside out.
    while end < len(lines) and not re.match(rf"^[ \t>]*{sign}", lines[end]):
        end += 1
    closed = end < len(lines) and re.fullmatch(rf"[ \t>]*{sign}[`~]*[ \t]*", lines[end]) is not None
    return end, end + 1 if closed else end


def _find_code_lines(text: str) -> set[int]:
    """Return the numbers of the lines in fenced blocks, counted from 1."""
    lines = text.split("\n")[:MAX_LINES]
    found: set[int] = set()
    number = 0
    while number < len(lines):
        start = number
        number += 1
        if opened := _FENCE.match(lines[start]):
            end, number = _find_block_end(lines, start, opened)
            found.update(range(start + 2, end + 1))
    return found


def looks_like_command(text: str) -> bool:
    """Return True for a text that starts with a well-known command."""
    return bool(_COMMANDS.match(text)) and " " in text.strip()


def _guess(code: str) -> Language | None:
    first = [line for line in code.split("\n") if line.strip()][:6]
    if any(
        re.match(r"\s*(?:PS[^>]*>|\$\w+\s*=\s*|IEX\b|Invoke-|New-Object|Get-)", line, re.IGNORECASE) for line in first
    ):
        return "powershell"
    return "shell" if any(_COMMANDS.match(line) for line in first) else None


def _find_comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each comment. By hand: a pattern for it takes quadratic time when comments are left open."""
    start = text.find("<!--")
    while start >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            return
        yield start, end + 3
        start = text.find("<!--", end)


def _blank_comments(text: str) -> str:
    parts: list[str] = []
    at = 0
    for start, end in _find_comments(text):
        parts += [text[at:start], "\n" * text.count("\n", start, end)]
        at = end
    return "".join([*parts, text[at:]])


def _judge_hidden(report: Report, text: str) -> None:
    """Report text that is invisible on the rendered page and addresses the agent."""
    for start, end in _find_comments(text):
        report.budget.spend(5)
        _judge_hidden_text(
            report, text[start + 4 : end - 3][:4000].strip(), text.count("\n", 0, start) + 1, "in a comment"
        )
    code: set[int] | None = None
    for found in _INVISIBLE.finditer(text):
        report.budget.spend(50)
        code = _find_code_lines(text) if code is None else code
        inner = text[found.end() : found.end() + 4000].partition(f"</{found[1]}")[0]
        line = text.count("\n", 0, found.start()) + 1
        _judge_hidden_text(report, inner.strip(), line, "in a style that hides it", is_example=line in code)
    for found in _FAR_RIGHT.finditer(text):
        report.budget.spend(50)
        _judge_hidden_text(report, found[1][:4000].strip(), text.count("\n", 0, found.start()) + 1, "far to the right")


def _judge_hidden_text(report: Report, inner: str, line: int, where: str, *, is_example: bool = False) -> None:
    """Report hidden text. The code of a page, as an example, is shown: of it, only what addresses the agent counts."""
    if len(inner) < 12:
        return
    trial = Report(path=report.path, text=inner, budget=report.budget)
    judge_paragraph(trial, inner, 1, documents_attacks=False, hidden=True)
    scan_code(Behaviour(report=trial), inner, "shell") if _COMMANDS.match(inner) else None
    grave = any(finding.severity == "danger" for finding in trial.findings)
    is_addressed = _ADDRESSES_AGENT.search(inner) is not None
    if grave or (where != "in a comment" and (is_addressed or not is_example)):
        severity = "danger" if grave or is_addressed else "warning"
        report.add(severity, "hidden-text", line, f"Contains instructions {where}.", excerpt=inner)
    elif is_addressed:
        report.add("info", "hidden-text", line, "Addresses the agent in a comment.", excerpt=inner)
