"""List what a skill requests beyond text: tools, hosts, folders, environment variables, commands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prowess.errors import Problem
from prowess.patterns import lazy_pattern
from prowess.skill.filenames import is_marker, is_skill_md
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Kind, kind_info
from prowess.skill.needs import RUN_ANY_SKILL, SKILL_TOOL_PREFIX, Needs, read_needs, split_root

_HINT = "Storing the skill does not grant this. Approve it only if you trust the skill."
_FILES = {
    ".mcp.json": "to connect to MCP servers",
    ".claude/settings.json": "to change the settings of Claude Code, including hooks",
    ".claude/settings.local.json": "to change the settings of Claude Code, including hooks",
    "hooks/hooks.json": "to run hooks",
}
_TOGETHER = "which it can send to these hosts"
# A longer list continues in another line and is never cut: padding once hid a host from the person who approved it.
_LONGEST = 1_000
# Claude Code runs these commands when it loads the text, before a model reads it.
_COMMAND = lazy_pattern(r"(?:^|[\s(])!`[^`\n]+`|^```!", re.MULTILINE)


def list_permissions(reading: Reading) -> Iterator[Problem]:
    """Yield one problem of the severity `info` per permission that the skill requests."""
    yield from _in_frontmatter(reading)
    yield from _in_body(reading)
    for path in reading.package.paths:
        what = _in_file(path)
        if what:
            yield _permission(what, path, None)
    if reading.skill is not None:
        for what in describe_needs(read_needs(reading.skill), reading.skill.kinds):
            yield _permission(what, "needs", None)


def summarize_permissions(allowed_tools: Sequence[str], paths: Iterable[str], body: str) -> tuple[str, ...]:
    """Return the permissions that a skill requests from its host, for the person who approves it. Nothing is cut."""
    granted = _lines("to use tools without asking:", allowed_tools)
    if ("!`" in body or "```!" in body) and _COMMAND.search(body):
        granted.append("to run a command whenever its text is loaded")
    granted += [f"{what} ({path})" for path in paths if (what := _in_file(path))]
    return tuple(granted)


def describe_needs(needs: Needs, kinds: Collection[Kind]) -> tuple[str, ...]:
    """Describe what a skill with artifacts of these kinds needs outside the sandbox, most dangerous first. Nothing is cut."""
    reads = [path for path, writable in map(split_root, needs.roots) if not writable]
    writes = [path for path, writable in map(split_root, needs.roots) if writable]
    native = needs.runtime == "native" and "function" in kinds
    code = any(kind_info(kind).runs_code for kind in kinds)
    groups: list[tuple[str, Sequence[str]]] = [
        ("to read environment variables:", needs.env),
        ("to read and write files in", writes),
        ("to connect to", needs.hosts),
        (
            "to read the pages of the workspace and ask models,",
            [_TOGETHER] if needs.hosts and "function" in kinds else [],
        ),
        ("to run programs:", needs.binaries),
        ("to run outside the sandbox, as a process on this machine:", ["runtime native"] if native else []),
        ("to install packages:", needs.requirements if native else []),
        ("to read files in", reads),
        ("to run other skills:", _skills_run(needs.allowed_tools) if code else []),
    ]
    return tuple(line for what, names in groups for line in _lines(what, names))


def _skills_run(allowed_tools: Sequence[str]) -> list[str]:
    """Return the skills that a skill's code may run, by their tools, or `any` for all of them."""
    if any(tool in RUN_ANY_SKILL for tool in allowed_tools):
        return ["any"]
    return [tool for tool in allowed_tools if tool.startswith(SKILL_TOOL_PREFIX)]


def _lines(what: str, names: Sequence[str]) -> list[str]:
    """Return as many lines as needed to name all of them: the person who approves must see every one."""
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + len(name) < _LONGEST:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{what} {name}")
    return lines


def _in_frontmatter(reading: Reading) -> Iterator[Problem]:
    fields: Mapping[str, Any] = reading.document.fields if reading.document else {}
    lines: Mapping[str, int] = reading.document.lines if reading.document else {}
    if fields.get("hooks"):
        yield _permission("to run hooks", "hooks", lines.get("hooks"))
    tools = reading.skill.allowed_tools if reading.skill else ()
    if tools:
        key = next((key for key in fields if key.replace("_", "-").lower() in _TOOL_KEYS), "allowed-tools")
        for what in _lines("to use tools without asking:", tools):
            yield _permission(what, key, lines.get(key))


_TOOL_KEYS = frozenset({"allowed-tools", "allowedtools"})


def _in_body(reading: Reading) -> Iterator[Problem]:
    document = reading.document
    if document is None or not ("!`" in document.body or "```!" in document.body):
        return
    found = _COMMAND.search(document.body)
    if found is not None:
        line = document.body_line + document.body.count("\n", 0, found.start() + len(found[0]) - len(found[0].lstrip()))
        yield _permission("to run a command whenever its text is loaded", "body", line)


def _in_file(path: str) -> str:
    name = path.rpartition("/")[2]
    for known, what in _FILES.items():
        if path == known or path.endswith("/" + known):
            return what
    if name.endswith(".pth"):
        return "to run code whenever Python starts"
    if "/" in path and is_skill_md(name) and is_marker(name):
        return "to bring another skill, which needs its own approval"
    return ""


def _permission(what: str, key: str, line: int | None) -> Problem:
    return Problem(
        code="asks-for", severity="info", message=f"The skill asks {what}.", hint=_HINT, field=key, line=line
    )
