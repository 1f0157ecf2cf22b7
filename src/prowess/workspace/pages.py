"""Read the markdown pages of a folder: frontmatter, text and links; unchanged files are not read again.

Symbolic links are not followed. Hidden files and tool folders are skipped.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import unquote

from prowess.errors import Invalid, NotFound
from prowess.lazy_dataclass import dataclass
from prowess.skill.limits import MIB
from prowess.skill.text.fields import as_list, first_heading
from prowess.skill.text.reader import read_document
from prowess.storage.files.freshness import Stamp, is_settled, make_stamp
from prowess.storage.files.safe_read import open_folder, read_regular_file
from prowess.storage.files.skill_paths import IGNORED_FOLDERS, MAX_DEPTH

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"`[^`\n]{1,500}`")
_WIKI_LINK = re.compile(r"\[\[([^\[\]\n|#]{1,300})(?:#[^\[\]\n|]{0,300})?(?:\|([^\[\]\n]{0,300}))?\]\]")
_MARKDOWN_LINK = re.compile(r"(?<!!)\[([^\[\]\n]{0,500})\]\([ \t]*(?:<([^<>\n]{1,500})>|([^()\s<>]{1,500}))")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
_PAGE_SUFFIX = ".md"
_MAX_LINKS = 1_000  # of one page


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link: `target` is the name of a page or, if `is_path`, a path relative to the page's folder."""

    target: str
    text: str
    is_path: bool = False


def find_links(body: str) -> tuple[Link, ...]:
    """Return the links of a text in order, without duplicates; links in code do not count."""
    found: dict[Link, None] = {}
    for line in _prose_lines(body):
        for link in _line_links(line):
            found[link] = None
            if len(found) >= _MAX_LINKS:
                return tuple(found)
    return tuple(found)


def resolve_path(page: str, target: str) -> str | None:
    """Return the path, relative to the workspace, that a link of a page leads to, or None if it leads outside."""
    folder = "" if target.startswith("/") else page.rpartition("/")[0]
    path = normpath(f"{folder}/{target}".lstrip("/"))
    return None if path == ".." or path.startswith("../") else path


def _prose_lines(body: str) -> Iterator[str]:
    """Yield the lines outside fenced code, without inline code."""
    fence = ""
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark[1]
        elif "[" in line:
            yield _INLINE_CODE.sub("", line)


def _line_links(line: str) -> Iterator[Link]:
    for found in _WIKI_LINK.finditer(line):
        name = found[1].strip()
        if name:
            yield Link(target=name, text=(found[2] or name).strip())
    for found in _MARKDOWN_LINK.finditer(line):
        target = unquote((found[2] or found[3]).partition("#")[0].partition("?")[0])
        if target.lower().endswith(_PAGE_SUFFIX) and not _SCHEME.match(target) and "\x00" not in target:
            yield Link(target=target, text=found[1].strip(), is_path=True)


_MAX_LIST = 64  # tags or aliases of a page
_MAX_CHARACTERS = 200  # of a slug, title, type or tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: `path` is relative to the workspace; `content` is the text without the frontmatter."""

    path: str
    slug: str
    title: str
    type: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    content: str = ""

    @property
    def card(self) -> dict[str, Any]:
        """The fields that lists show."""
        return {"slug": self.slug, "title": self.title, "type": self.type, "tags": list(self.tags), "path": self.path}

    def as_json(self) -> dict[str, Any]:
        """Return all fields with the text."""
        return {**self.card, "fields": self.fields, "content": self.content}


def read_page(path: str, data: bytes) -> Page:
    """Return the page in a file; never raises.

    Slug, title, type, tags and aliases come from the frontmatter. The default slug is the path without its suffix, the
    default title the first heading or the file name, and the default type the name of the page's folder.
    """
    document = read_document(data)
    fields = dict(document.fields)
    place = PurePosixPath(path)
    words = place.stem.replace("-", " ").replace("_", " ")
    return Page(
        path=path,
        slug=_clean_text(fields.get("slug")).strip("/") or str(place.with_suffix("")),
        title=_clean_text(fields.get("title")) or _clean_text(first_heading(document.body)) or words,
        type=_clean_text(fields.get("type")) or place.parent.name,
        tags=_clean_list(fields.get("tags")),
        aliases=_clean_list(fields.get("aliases")),
        links=find_links(document.body),
        fields=fields,
        content=document.body,
    )


def _clean_text(value: Any) -> str:
    return " ".join(value.split())[:_MAX_CHARACTERS] if isinstance(value, str) else ""


def _clean_list(value: Any) -> tuple[str, ...]:
    """Return the items of a list, or of a text with commas, without duplicates."""
    found = (_clean_text(word).removeprefix("#") for word in as_list(value))
    return tuple(dict.fromkeys(word for word in found if word))[:_MAX_LIST]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """Limits on reading a folder."""

    page_bytes: int = MIB
    pages: int = 20_000
    total_bytes: int = 128 * MIB
    entries: int = 200_000
    depth: int = MAX_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    """A file that was skipped, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class _KnownPage:
    page: Page
    stamp: Stamp
    settled: bool


@dataclass(slots=True)
class _Scan:
    """The result of scanning the folder once."""

    kept: dict[str, _KnownPage] = field(default_factory=dict[str, _KnownPage])
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    entries: int = 0
    total: int = 0


class PageFolder:
    """Reads the pages of a folder. Not thread-safe."""

    def __init__(self, root: Path, limits: PageLimits) -> None:
        self.root = os.path.realpath(root)
        """The real path of the folder."""
        self._limits = limits
        self._last = _Scan()

    @property
    def skipped(self) -> tuple[SkippedFile, ...]:
        """The files that the last scan skipped."""
        return tuple(self._last.skipped)

    def look(self) -> tuple[list[Page], bool]:
        """Return the pages sorted by path, and True if any differs from the last scan; raise `NotFound` if there is no folder."""
        if not Path(self.root).is_dir():
            raise NotFound(f"The folder {self.root!r} does not exist.", hint="Use the folder that contains the pages.")
        before, now = self._last, _Scan()
        for path, entry in self._files("", now, self._limits.depth):
            self._take(path, entry, before, now)
        self._last = now
        same = before.kept.keys() == now.kept.keys() and all(
            before.kept[path].page is page.page for path, page in now.kept.items()
        )
        return [now.kept[path].page for path in sorted(now.kept)], not same

    def _files(self, inside: str, look: _Scan, depth: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        try:
            with os.scandir(f"{self.root}/{inside}") as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            look.skipped.append(
                SkippedFile(path=_printable(inside), reason=error.strerror or "The folder cannot be read.")
            )
            return
        look.entries += len(entries)
        if look.entries > self._limits.entries:
            look.skipped.append(SkippedFile(path=_printable(inside), reason="There are too many files and folders."))
            return
        for entry in entries:
            if entry.name.startswith(".") or entry.name in IGNORED_FOLDERS:
                continue
            path = f"{inside}/{entry.name}" if inside else entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth:
                    yield from self._files(path, look, depth - 1)
            elif entry.name.lower().endswith(".md"):
                yield path, entry

    def _take(self, path: str, entry: os.DirEntry[str], before: _Scan, now: _Scan) -> None:
        """Add one page to the scan, without reading the file again if it is unchanged."""
        try:
            stamp = make_stamp(entry.stat(follow_symlinks=False))
            now.total += stamp[2]
            self._check_room(stamp[2], now)
            now.kept[path] = self._current(path, stamp, before.kept.get(path))
        except OSError as error:
            now.skipped.append(SkippedFile(path=_printable(path), reason=error.strerror or "The file cannot be read."))
        except (Invalid, UnicodeError) as error:
            reason = error.message if isinstance(error, Invalid) else "The file name is not valid text."
            now.skipped.append(SkippedFile(path=_printable(path), reason=reason))

    def _current(self, path: str, stamp: Stamp, known: _KnownPage | None) -> _KnownPage:
        if known and known.settled and known.stamp == stamp:
            return known
        read = self._read(path, stamp)
        return replace(read, page=known.page) if known and known.page == read.page else read

    def _check_room(self, size: int, now: _Scan) -> None:
        limits = self._limits
        if size > limits.page_bytes:
            raise Invalid(f"The file is larger than {limits.page_bytes:,} bytes.")
        if len(now.kept) >= limits.pages or now.total > limits.total_bytes:
            raise Invalid(f"Only {limits.pages:,} pages and {limits.total_bytes:,} bytes are read.")

    def _read(self, path: str, stamp: Stamp) -> _KnownPage:
        path.encode()
        inside, _, name = path.rpartition("/")
        began = time.time_ns()
        folder = open_folder(f"{self.root}/{inside}" if inside else self.root, self.root)
        try:
            data = read_regular_file(name, self._limits.page_bytes + 1, folder)
        finally:
            os.close(folder)
        if len(data) > self._limits.page_bytes:
            raise Invalid(f"The file is larger than {self._limits.page_bytes:,} bytes.")
        return _KnownPage(read_page(path, data), stamp, is_settled(stamp, began))


def _printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode() or "."
