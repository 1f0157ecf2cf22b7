"""Scan every file of a package. A file that cannot be scanned gives a finding, never an exception."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, cast

from prowess.scan.behaviour import Behaviour
from prowess.scan.decoding import decode_base64
from prowess.scan.finding import Budget, Finding, FindingKind, LongCodeError, Report, ScanLimitError, sort_findings
from prowess.scan.languages import language_of_first_line, language_of_name, scan_code, text_of_file
from prowess.scan.markdown import scan_markdown
from prowess.scan.prose import judge_paragraph
from prowess.scan.values import constant, listed
from prowess.skill.filenames import is_skill_md, read_shebang
from prowess.skill.json_values import json_value
from prowess.skill.package import File, Package
from prowess.skill.text.hidden import MAX_HIDDEN, find_hidden

SCANNER_VERSION = 11
"""Raise this when the same bytes may give other findings; caches store it with the findings."""
FILE_STEPS = 60_000
PACKAGE_STEPS = 600_000
PARSING = 3_000**2
"""How much of a package is parsed in this process: one text of 3,000 bytes, or several shorter ones. The worst takes a second.

In longer texts the time grows with the third power of the length: 8,000 bytes took 16 seconds.
"""
FILE_SECONDS = 4
"""CPU time for a file whose code is too long for this process. Of 977 ordinary files, the slowest took 0.3 seconds to parse."""
PACKAGE_SECONDS = 12.0
"""CPU time for all such files; the last one to start gets its whole time."""
MAX_FILE_BYTES = 1024 * 1024
_CACHED = 512
_PROGRAM_MAGIC = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa", b"\xca\xfe\xba\xbe", b"\x00asm")
_BLOB = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{60,}={0,2}(?![A-Za-z0-9+/=])")
_CODE_LIKE = re.compile(
    r"(?:curl|wget|bash|/bin/sh|powershell|exec\(|eval\(|import os|subprocess|require\(|https?://\S+\s*\|)"
)
_ENCODING = re.compile(r"[ \t\f]*#.{0,200}?coding[:=][ \t]*([-\w.]+)")
"""How Python declares the encoding of a file, in its first or second line (PEP 263)."""
_PLAIN_ENCODING = re.compile(
    r"(?i:utf[-_]?8[-\w]*|(?:us[-_])?ascii|latin[-_]?\d+|iso[-_]?8859[-_]?\w*"
    r"|cp(?:125\d|437|85\d|866|93\d|949|950)|windows[-_]?125\d|koi8[-_]?\w|gbk|gb\d+|big5\w*|euc[-_]?\w+|s(?:hift[-_]?)?jis)"
)
_memory: OrderedDict[str, tuple[Finding, ...]] = OrderedDict()


def scan_package(package: Package) -> tuple[Finding, ...]:
    """Return the findings about a package, most severe first. The last packages are cached by digest."""
    digest = package.digest
    known = _memory.get(digest)
    if known is None:
        known = _memory[digest] = _scan(package)
        while len(_memory) > _CACHED:
            _memory.popitem(last=False)
    return known


def _scan(package: Package) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    steps, parsing, seconds = PACKAGE_STEPS, PARSING, PACKAGE_SECONDS
    for file in sorted(package.files, key=_order):
        budget = Budget(min(FILE_STEPS, steps), parsing)
        before = budget.steps
        try:
            findings += scan_file(file, budget)
        except LongCodeError:
            from prowess.scan.worker import scan_in_child  # lazy: most skills have little code

            budget.steps = before
            found, spent = scan_in_child(file, budget, FILE_SECONDS) if seconds > 0 else (_no_time_left(file), 0.0)
            findings += found
            seconds -= spent
        parsing = budget.parsing or 0
        steps -= before - max(budget.steps, 0)
    return sort_findings(findings)


def _order(file: File) -> int:
    """Return when a file is scanned: before much else can use up the steps, what every model reads, then what is run."""
    if is_skill_md(file.path):
        return 0
    return 1 if language_of_name(file.path) or file.content.startswith(b"#!") else 2


def _no_time_left(file: File) -> list[Finding]:
    message = "The code of this skill takes too long to parse; this file was not scanned."
    return [Finding(severity="warning", kind="not-scanned", path=file.path, message=message)]


def scan_file(file: File, budget: Budget) -> list[Finding]:
    """Return the findings about one file. Raise `LongCodeError` if its code exceeds the budget for parsing."""
    text = _read_text(file)
    report = Report(path=file.path, text=text or "", budget=budget)
    if file.content.startswith(_PROGRAM_MAGIC):
        report.add("warning", "not-scanned", None, "Is a compiled program, which cannot be scanned.")
        return report.findings
    if text is None:
        return report.findings
    if len(file.content) > MAX_FILE_BYTES:
        report.add(
            "warning", "not-scanned", None, f"Is larger than {MAX_FILE_BYTES // 1024:,} KB; only the start was scanned."
        )
    try:
        _judge_hidden(report, text)
        # Shells ignore NULs, and PowerShell, npm and agents a byte order mark: neither may hide a word.
        text = report.text = text.replace("\0", "").lstrip("\ufeff")
        _scan_text(report, file.path, text)
        _judge_blobs(report, text)
    except LongCodeError:
        raise
    except (ScanLimitError, RecursionError):
        report.add("warning", "not-scanned", None, "Is too large or too deeply nested to be scanned completely.")
    except Exception as error:  # noqa: BLE001  a bug in an analyser must not stop an import, and must not pass in silence
        report.add("warning", "not-scanned", None, f"Could not be scanned ({type(error).__name__}).")
    return report.findings


def _read_text(file: File) -> str | None:
    """Return what a model or an interpreter reads in a file; None for binary data."""
    text = text_of_file(file)
    return None if text is None else _with_plain_line_ends(file.path, text[:MAX_FILE_BYTES])


def _with_plain_line_ends(path: str, text: str) -> str:
    """Return the text with a line feed wherever its readers end a line."""
    text = text.replace("\r\n", "\n")
    # Shells and make take a carriage return alone as part of a word. Markdown, YAML and other languages end a line at it.
    name = path.rpartition("/")[2].lower()
    is_line_end = (language_of_name(path) or language_of_first_line(text)) != "shell" and not _is_recipe(name)
    return text.replace("\r", "\n") if is_line_end else text


def _is_recipe(name: str) -> bool:
    return name in ("makefile", "dockerfile", "justfile", "procfile") or name.endswith(
        (".plist", ".service", ".mk", ".desktop")
    )


def _scan_text(report: Report, path: str, text: str) -> None:
    language, of_first_line = language_of_name(path), language_of_first_line(text)
    if of_first_line is not None:
        _scan_words(report, read_shebang(text), 1)
    if "python" in (language, of_first_line):
        _judge_encoding(report, text)
    # A script is run by its first line, or by its name, and can be code of two languages at once.
    for one in dict.fromkeys((of_first_line, language)):
        if one is not None:
            scan_code(Behaviour(report=report), text, one)
    name = path.rpartition("/")[2].lower()
    if name.endswith((".md", ".mdx", ".markdown", ".mdc")):
        _scan_frontmatter(report, text)
        scan_markdown(report, text)
    elif language is None and of_first_line is None:
        _scan_data(report, path, name, text)


def _scan_data(report: Report, path: str, name: str, text: str) -> None:
    """Judge a file that is neither markdown nor code in a language with an analyser."""
    if name.endswith(_OTHER_CODE):
        scan_code(Behaviour(report=report), text, "text")
    elif name.endswith((".json", ".jsonc", ".yaml", ".yml", ".toml")):
        _scan_configuration(report, path, text)
    elif _is_recipe(name):
        _scan_recipe(report, text)
    elif (
        name.endswith(
            (".txt", ".j2", ".jinja", ".rst", ".html", ".htm", ".xml", ".svg", ".prompt", ".tmpl", ".mustache")
        )
        or "." not in name
    ):
        scan_markdown(report, text)


def _judge_encoding(report: Report, text: str) -> None:
    """Report a Python file in an encoding that turns plain text, such as a comment, into other code."""
    for number, line in enumerate(text.split("\n", 2)[:2], start=1):
        found = _ENCODING.match(line)
        if found and not _PLAIN_ENCODING.fullmatch(found[1]):
            message = f"Is read as {found[1][:40]}, so the code that runs differs from the text you see."
            report.add("danger", "obfuscation", number, message, hint="Ask for the code as UTF-8.")
            return


_OTHER_CODE = (
    ".rb", ".pl", ".pm", ".php", ".go", ".lua", ".applescript", ".scpt", ".r", ".rs", ".java", ".kt", ".swift", ".c", ".cpp", ".cs", ".vbs", ".tcl",
)  # fmt: skip


def _scan_frontmatter(report: Report, text: str) -> None:
    """Judge the commands in frontmatter: hooks and install steps."""
    if not text.startswith("---"):
        return
    end = text.find("\n---", 3)
    block = text[3:end] if end > 0 else ""
    for found in re.finditer(
        r"(?m)^[ \t-]*(?:command|run|install|cmd|shell)[\"']?[ \t]*:[ \t]*[\"']?(.{4,2000})$", block
    ):
        line = text.count("\n", 0, 3 + found.start()) + 1
        scan_code(Behaviour(report=report.nested(found[1], line)), found[1].rstrip("\"'},] "), "shell")


_COMMAND_KEYS = frozenset({
    "command", "cmd", "run", "script", "postinstall", "preinstall", "install", "prepare", "prestart", "poststart",
    "shell", "exec", "entrypoint", "onopen", "postcreatecommand",
})  # fmt: skip


def _scan_configuration(report: Report, path: str, text: str) -> None:
    """Judge a configuration file: the commands in it, and settings that stop an agent from asking."""
    data: Any = None
    if path.lower().endswith((".json", ".jsonc")):
        data = json_value(text)
    if data is not None:
        _walk(report, text, data, "", 0)
    else:
        for number, line in enumerate(text.split("\n")[:5000], start=1):
            found = re.match(r"^[ \t-]*[\"']?(\w+)[\"']?[ \t]*[:=][ \t]*(.+)$", line)
            if found and found[1].lower() in _COMMAND_KEYS:
                scan_code(Behaviour(report=report.nested(found[2], number)), found[2].strip("\"' "), "shell")
    unsafe = re.search(
        r"bypassPermissions|danger-full-access|dangerously|\"Bash\(\*\)\"|enableAllProjectMcpServers\"?\s*:\s*true|\"?approval_policy\"?\s*=\s*\"never\"",
        text,
    )
    if unsafe and re.search(r"settings(\.local)?\.json$|config\.toml$|\.claude", path):
        report.add(
            "danger",
            "unsafe-mode",
            text.count("\n", 0, unsafe.start()) + 1,
            "Contains settings that turn off an agent's confirmations.",
        )
    if path.lower().endswith("package.json") and isinstance(data, dict):
        _judge_package_scripts(report, text, cast("dict[str, Any]", data))


def _walk(report: Report, text: str, data: Any, key: str, depth: int) -> None:
    report.budget.spend()
    if depth > 30:
        raise ScanLimitError
    if isinstance(data, dict):
        fields = cast("dict[str, Any]", data)
        command, arguments = fields.get("command"), fields.get("args")
        if isinstance(command, str) and isinstance(arguments, list):
            words = [command, *(str(argument) for argument in cast("list[Any]", arguments))]
            _scan_words(report, words, _find_line(text, words[-1]))
        for name, value in fields.items():
            _walk(report, text, value, name, depth + 1)
    elif isinstance(data, list):
        for value in cast("list[Any]", data):
            _walk(report, text, value, key, depth + 1)
    elif isinstance(data, str) and len(data) > 3:
        if key.lower() in _COMMAND_KEYS:
            scan_code(Behaviour(report=report.nested(data, _find_line(text, data))), data, "shell")
        elif len(data) > 30 and " " in data:
            judge_paragraph(report, data, _find_line(text, data), documents_attacks=False)


def _scan_words(report: Report, words: Sequence[str], line: int) -> None:
    """Judge a command that is given as a list."""
    from prowess.scan.python_text import run_words

    run_words(Behaviour(report=report.nested(" ".join(words), line)), listed([constant(word) for word in words]), 1)


def _judge_package_scripts(report: Report, text: str, data: dict[str, Any]) -> None:
    scripts: Any = data.get("scripts")
    for name in ("preinstall", "install", "postinstall", "prepare"):
        if isinstance(scripts, dict) and isinstance(cast("dict[str, Any]", scripts).get(name), str):
            report.add(
                "info",
                "install",
                _find_line(text, f'"{name}"'),
                f"Runs a command when its packages are installed ({name}).",
            )


def _find_line(text: str, part: str) -> int:
    at = text.find(json.dumps(part)[1:-1][:40])
    return text.count("\n", 0, at) + 1 if at >= 0 else 1


def _scan_recipe(report: Report, text: str) -> None:
    commands = re.sub(r"(?m)^(?:RUN|CMD|ENTRYPOINT)\s+|^Exec\w*=|</?(?:string|array|dict|key|plist)[^>]*>", "", text)
    scan_code(Behaviour(report=report), commands, "shell")


def _judge_hidden(report: Report, text: str) -> None:
    found = find_hidden(text)
    if not found:
        return
    classes: dict[str, int] = {}
    for run in found:
        classes[run.char_class] = classes.get(run.char_class, 0) + run.count
    first = found[0]
    spelled = "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) <= 0xE007E)
    total = sum(classes.values())
    grave = (
        total >= MAX_HIDDEN
        or classes.get("tag", 0) >= 8
        or classes.get("variation-selector", 0) >= 12
        or classes.get("zero-width", 0) >= 24
        or classes.get("invisible", 0) >= 24
    )
    meaning = f" They spell: {spelled[:80]!r}" if len(spelled) >= 8 else ""
    kind: FindingKind = "hidden-text"
    report.add("danger" if grave else "warning", kind, first.line, f"Contains {total:,} hidden characters ({', '.join(sorted(classes))}).{meaning}", hint="Run `prowess validate` to see each one.")  # fmt: skip


def _judge_blobs(report: Report, text: str) -> None:
    """Report encoded text that contains commands."""
    for count, found in enumerate(_BLOB.finditer(text)):
        report.budget.spend(20)
        if count >= 50:
            return
        inner = decode_base64(found[0]) if len(found[0]) < 200_000 else None
        if (
            inner
            and _CODE_LIKE.search(inner)
            and sum(char.isprintable() or char.isspace() for char in inner) > len(inner) * 0.95
        ):
            report.add(
                "warning",
                "obfuscation",
                text.count("\n", 0, found.start()) + 1,
                "Contains encoded text with commands.",
                excerpt=inner,
            )
