"""Links of a page to others: `[[Page]]`, `[[Page|words]]`, and markdown links to files of the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import normpath
from urllib.parse import unquote

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"`[^`\n]{1,500}`")
_WIKI = re.compile(r"\[\[([^\[\]\n|#]{1,300})(?:#[^\[\]\n|]{0,300})?(?:\|([^\[\]\n]{0,300}))?\]\]")
_MARKDOWN = re.compile(r"(?<!!)\[([^\[\]\n]{0,500})\]\([ \t]*(?:<([^<>\n]{1,500})>|([^()\s<>]{1,500}))")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
_SUFFIX = ".md"
_MOST = 1_000
"""So many links of one page are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link as it is written: `target` names a page, or a file seen from the page's folder where it `is_path`."""

    target: str
    text: str
    is_path: bool = False


def links_of(body: str) -> tuple[Link, ...]:
    """The links of a text in order, each once; none from code."""
    found: dict[Link, None] = {}
    for line in _prose(body):
        for link in _in_line(line):
            found[link] = None
            if len(found) >= _MOST:
                return tuple(found)
    return tuple(found)


def path_from(page: str, target: str) -> str | None:
    """The path below the workspace that a link of a page leads to; None where it leads out of it."""
    folder = "" if target.startswith("/") else page.rpartition("/")[0]
    path = normpath(f"{folder}/{target}".lstrip("/"))
    return None if path == ".." or path.startswith("../") else path


def _prose(body: str) -> Iterator[str]:
    """The lines outside fenced code, without what stands between backticks."""
    fence = ""
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark[1]
        elif "[" in line:
            yield _CODE.sub("", line)


def _in_line(line: str) -> Iterator[Link]:
    for found in _WIKI.finditer(line):
        name = found[1].strip()
        if name:
            yield Link(target=name, text=(found[2] or name).strip())
    for found in _MARKDOWN.finditer(line):
        target = unquote((found[2] or found[3]).partition("#")[0].partition("?")[0])
        if target.lower().endswith(_SUFFIX) and not _SCHEME.match(target) and "\x00" not in target:
            yield Link(target=target, text=found[1].strip(), is_path=True)
