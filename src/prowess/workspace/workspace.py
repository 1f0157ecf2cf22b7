"""A workspace: a folder of markdown pages, with the functions that scripts of skills may call."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prowess.errors import Invalid, NotFound, Unavailable
from prowess.suggestions import did_you_mean
from prowess.workspace.page_index import PageIndex, PageNames, has_type, make_snippet
from prowess.workspace.pages import Link, Page, PageFolder, PageLimits, SkippedFile, resolve_path

GIT_SECONDS = 10.0

# A repository's own settings can name programs to run: hooks, pagers, monitors, filters. None of them may run here, and
# nothing may be fetched.
_GIT_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "log.showSignature=false",
    "log.mailmap=false",
    "i18n.logOutputEncoding=UTF-8",
    "protocol.allow=never",
)
_GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
    "HOME": os.devnull,
    "LC_ALL": "C.UTF-8",
}
_LOG_FORMAT = "%H%x00%aI%x00%<(120,trunc)%an%x00%<(300,trunc)%s%x00"
_LOG_FIELDS = ("commit", "at", "author", "subject")


def read_history(root: str, path: str, limit: int) -> list[dict[str, Any]]:
    """Return the commits that changed a file, latest first; [] if there is no git, no repository or no such commit.

    Raise `Unavailable` if git takes too long.
    """
    git = shutil.which("git")
    if git is None:
        return []
    settings = [part for setting in _GIT_SETTINGS for part in ("-c", setting)]
    command = [git, *settings, "--no-pager", "--literal-pathspecs", "-C", root, "log", "--no-ext-diff", "--no-textconv"]
    command += ["--no-show-signature", "--no-color", "--no-decorate", f"--max-count={limit}", f"--format={_LOG_FORMAT}"]
    try:
        ran = subprocess.run(  # noqa: S603  (a list of arguments, the path after "--")
            [*command, "--", path],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**_GIT_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)},
            timeout=GIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"git took longer than {GIT_SECONDS:.0f} seconds to read the history of {path!r}.",
            hint="Try again, or ask for fewer commits.",
        ) from None
    return _parse_log(ran.stdout.decode("utf-8", "replace")) if ran.returncode == 0 else []


def _parse_log(text: str) -> list[dict[str, Any]]:
    """Parse commits of four fields, each followed by a NUL."""
    values = [value.strip() for value in text.split("\x00")][:-1]
    return [
        dict(zip(_LOG_FIELDS, values[start : start + len(_LOG_FIELDS)], strict=True))
        for start in range(0, len(values), len(_LOG_FIELDS))
    ]


MAX_RESULTS = 200


class Workspace:
    """Answers queries about the pages, at most `hold_seconds` out of date. Blocking and thread-safe."""

    def __init__(
        self,
        folder: Path,
        limits: PageLimits | None = None,
        *,
        hold_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = PageFolder(folder, limits or PageLimits())
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._scanned_at = -math.inf
        self._lock = threading.Lock()
        self._names = PageNames([])
        self._index = PageIndex([])
        self._indexed = self._names

    @property
    def skipped(self) -> tuple[SkippedFile, ...]:
        """The files that could not be read at the last query, and why."""
        return self._folder.skipped

    def workspace_search(self, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """Return the pages that match the words, best first, each with its score and an excerpt.

        If the query is a type, pages of that type come first. An empty query returns all pages by path.
        """
        limit = _check_limit(limit)
        if not query.strip():
            return self.get_all_pages()[:limit]
        with self._lock:
            names = self._fresh()
            if self._indexed is not names:
                self._index, self._indexed = PageIndex(names.pages, self._index.pages), names
            index = self._index
        found = index.search(query, limit)
        return [{**page.card, "score": round(score, 4), "snippet": make_snippet(page, query)} for page, score in found]

    def search(self, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """Short for `workspace_search`."""
        return self.workspace_search(query, limit)

    def get_all_pages(self) -> list[dict[str, Any]]:
        """Return all pages by path, without their text."""
        return [page.card for page in self._pages().pages]

    def get_page(self, slug: str) -> dict[str, Any]:
        """Return one page with its text, by slug, path, title or alias, or raise `NotFound`."""
        return self._page(self._pages(), slug).as_json()

    def get_pages(self, slugs: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return several pages with their text in the order of the slugs, with None for those not found."""
        names = self._pages()
        found = [names.find(slug) for slug in slugs]
        return [page.as_json() if page else None for page in found]

    def get_pages_by_type(self, type: str) -> list[dict[str, Any]]:
        """Return the pages of a type by path, without their text."""
        return [page.card for page in self._pages().pages if has_type(page, type)]

    def get_tags(self) -> list[dict[str, Any]]:
        """Return every tag with its number of pages, most used first."""
        counts: dict[str, int] = {}
        for page in self._pages().pages:
            for tag in page.tags:
                counts[tag] = counts.get(tag, 0) + 1
        return [{"tag": tag, "pages": counts[tag]} for tag in sorted(counts, key=lambda tag: (-counts[tag], tag))]

    def get_references(self, slug: str) -> dict[str, Any]:
        """Return the pages that a page links to, the pages that link to it, and its broken links."""
        names = self._pages()
        page = self._page(names, slug)
        out = [(link, _link_target(names, page, link)) for link in page.links]
        linking = [
            other
            for other in names.pages
            if other is not page and any(_link_target(names, other, link) is page for link in other.links)
        ]
        return {
            "slug": page.slug,
            "links": list({found.slug: found.card for _, found in out if found and found is not page}.values()),
            "backlinks": [other.card for other in linking],
            "missing": [link.target for link, found in out if found is None],
        }

    def get_history(self, slug: str, limit: int = 20) -> list[dict[str, Any]]:
        """Return the commits that changed a page, latest first; [] outside a git repository."""
        page = self._page(self._pages(), slug)
        return read_history(self._folder.root, page.path, _check_limit(limit))

    def _pages(self) -> PageNames:
        with self._lock:
            return self._fresh()

    def _fresh(self) -> PageNames:
        now = self._clock()
        if now - self._scanned_at >= self._hold_seconds:
            pages, changed = self._folder.look()
            self._scanned_at = now
            if changed:
                self._names = PageNames(pages)
        return self._names

    def _page(self, names: PageNames, slug: str) -> Page:
        page = names.find(slug)
        if page is None:
            hint = did_you_mean(slug, names.slugs) or "Search the pages with `workspace_search`."
            raise NotFound(f"Page {slug[:200]!r} not found.", hint=hint)
        return page


def _link_target(names: PageNames, page: Page, link: Link) -> Page | None:
    if not link.is_path:
        return names.find(link.target)
    path = resolve_path(page.path, link.target)
    return names.by_path(path) if path else None


def _check_limit(limit: int) -> int:
    if limit < 1:
        raise Invalid(f"Invalid number of results: {limit}.", hint=f"Use a number from 1 to {MAX_RESULTS}.")
    return min(limit, MAX_RESULTS)
