"""A workspace: a folder of markdown pages, with the functions that scripts of skills may call."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prowess.errors import Invalid, NotFound, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.suggestions import did_you_mean
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
        counts = Counter(tag for page in self._pages().pages for tag in page.tags)
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
            hint = did_you_mean(slug, names.slugs) or "`prowess pages` lists all pages; code calls `workspace_search`."
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


_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[^\W_]{2}[^\W_s])s(?![^\W_])")
_SATURATION, _LENGTH_PENALTY = 1.2, 0.75
"""The constants k1 and b of BM25: how fast repeated words stop adding, and how much long pages are penalized."""
_FIELD_WEIGHTS = {"title": 6, "slug": 3, "tags": 3, "type": 3}
"""The weight of a word by field; a word in the text has weight 1."""
_MAX_QUERY, _MAX_QUERY_WORDS = 2_000, 64
"""Longer queries are cut, so that no query takes long."""
_SNIPPET = 160
_SNIPPET_SEARCH = 100_000  # characters of a page that are searched for a snippet


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """A page with its weighted word counts, and their sum."""

    page: Page
    words: Counter[str]
    length: int


class PageIndex:
    """A word index of pages; entries of an earlier index are reused for pages that have not changed."""

    def __init__(self, pages: Sequence[Page], before: Sequence[IndexedPage] = ()) -> None:
        # By identity: the folder hands out the same object as long as a file does not change.
        known = {id(entry.page): entry for entry in before}
        self.pages: list[IndexedPage] = [known.get(id(page)) or _index_page(page) for page in pages]
        self._mean = sum(entry.length for entry in self.pages) / len(self.pages) if self.pages else 1.0

    def search(self, query: str, limit: int) -> list[tuple[Page, float]]:
        """Return pages with any of the words, best first; pages whose type is the query come before all others."""
        words = list(dict.fromkeys(page_words(query[:_MAX_QUERY])))[:_MAX_QUERY_WORDS]
        scores: dict[int, float] = {}
        for word in words:
            holding = [index for index, entry in enumerate(self.pages) if word in entry.words]
            rarity = math.log(1 + (len(self.pages) - len(holding) + 0.5) / (len(holding) + 0.5))
            for place in holding:
                scores[place] = scores.get(place, 0.0) + rarity * self._strength(place, word)
        found = [(self.pages[place].page, score) for place, score in scores.items()]
        found.sort(key=lambda hit: (not has_type(hit[0], query), -hit[1], hit[0].path))
        return found[:limit]

    def _strength(self, index: int, word: str) -> float:
        entry = self.pages[index]
        count = entry.words[word]
        length = 1 - _LENGTH_PENALTY + _LENGTH_PENALTY * entry.length / (self._mean or 1.0)
        return count * (_SATURATION + 1) / (count + _SATURATION * length)


def has_type(page: Page, name: str) -> bool:
    """Return True if the page has that type; `Characters` means the type `character`."""
    return bool(page.type) and page_words(page.type) == page_words(name[:_MAX_QUERY])


def make_snippet(page: Page, query: str) -> str:
    """Return an excerpt around the first matching word, on one line."""
    words = set(page_words(query[:_MAX_QUERY]))
    text = " ".join(page.content[:_SNIPPET_SEARCH].split())
    begin = next((found.start() for found in _WORD.finditer(text) if words.intersection(page_words(found[0]))), 0)
    start = max(0, text.rfind(" ", 0, max(begin - _SNIPPET // 3, 0)) + 1)
    cut = text[start : start + _SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"


def page_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents and plural s."""
    return _WORD.findall(_PLURAL.sub("", _fold(text)))


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _index_page(page: Page) -> IndexedPage:
    words = Counter(page_words(page.content))
    named = {"title": (page.title, *page.aliases), "slug": (page.slug,), "tags": page.tags, "type": (page.type,)}
    for name, texts in named.items():
        for word in page_words(" ".join(texts)):
            words[word] += _FIELD_WEIGHTS[name]
    return IndexedPage(page, words, words.total())


class PageNames:
    """Pages by every name they have. Slugs are unique: if several pages claim one, the first by path gets it."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = _with_unique_slugs(pages)
        self._by_path = {unicodedata.normalize("NFC", page.path): page for page in self.pages}
        self._names: dict[str, Page] = {}
        # All slugs first, then all paths, and so on: a page is found by its slug before another one by its title.
        for kind in zip(*map(_names_of, self.pages), strict=True):
            for page, names in zip(self.pages, kind, strict=True):
                for name in names:
                    self._names.setdefault(_name_key(name), page)

    def find(self, name: str) -> Page | None:
        """Return the page with that slug, path, file name, title or alias (in this order), ignoring case, or None."""
        return self._names.get(_name_key(name))

    def by_path(self, path: str) -> Page | None:
        """Return the page in that file, or None."""
        return self._by_path.get(unicodedata.normalize("NFC", path))

    @property
    def slugs(self) -> list[str]:
        """The slugs of all pages."""
        return [page.slug for page in self.pages]


def _name_key(name: str) -> str:
    """Return what two names of a page have in common, whatever their case, their spaces and how their accents are encoded.

    Files that come from a Mac often have accents as their own characters, and people type them otherwise.
    """
    return unicodedata.normalize("NFC", " ".join(name.split())).casefold()


def _with_unique_slugs(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Return the pages; one whose slug is taken by an earlier page gets its path as slug."""
    used_slugs: set[str] = set()
    unique: list[Page] = []
    for page in pages:
        slug = page.slug if _name_key(page.slug) not in used_slugs else page.path
        used_slugs.add(_name_key(slug))
        unique.append(page if slug == page.slug else replace(page, slug=slug))
    return tuple(unique)


def _names_of(page: Page) -> tuple[Iterable[str], ...]:
    """Return the slug, the paths, the file name, the title and the aliases of a page."""
    stem = page.path.rpartition("/")[2].rpartition(".")[0]
    return (page.slug,), (page.path, page.path.rpartition(".")[0]), (stem,), (page.title,), page.aliases
