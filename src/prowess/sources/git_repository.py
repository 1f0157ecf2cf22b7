"""A bare repository in the cache: a shallow, partial copy of one remote repository, with the objects that were needed so far.

Trees come first, without any file. Discovery then chooses the folders that are skills, and only their files are fetched, all in
one request. A later fetch receives only what changed. The folder may be deleted at any time; it holds nothing of its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from prowess.errors import NotFound, TooLarge
from prowess.sources.git_program import GitProgram, ObjectNotAllowed

MAX_ENTRIES = 250_000
MAX_PACKS = 50
"""Each fetch adds a pack or two. A cache with more is discarded, which costs one complete fetch."""
_MAX_LISTING_BYTES = 64 << 20
_LOCK_POLL_SECONDS = 0.05
_TIPS = "refs/prowess/tips"
"""One ref for each commit whose trees are all here. Other commits were fetched without trees, for the history."""
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
# Ancestry is looked for in steps: most updates are few commits apart.
_HISTORY_STEPS = (200, 4_000)

_FETCH = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--no-show-forced-updates",
)


@dataclass(frozen=True, slots=True)
class Tip:
    """The target of a ref on the remote."""

    ref: str
    """The full name, such as `refs/heads/main`; '' for a commit that was named itself."""
    commit: str
    path: str
    """The path in the repository: a ref with slashes may have taken its first segments."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of a tree."""

    mode: str
    kind: str
    oid: str


class GitRepository:
    """The cached copy of the repository at `url`. Only one process uses it at a time; see `opened`."""

    def __init__(self, git: GitProgram, folder: Path, url: str) -> None:
        self._git = git
        self._folder = folder
        self._packs = folder / "objects/pack"
        self._url = url

    @contextmanager
    def opened(self) -> Generator[None]:
        """Hold the lock of the folder, and make the folder ready; wait for another process until the deadline."""
        self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._folder.with_suffix(".lock").open("w") as lock:
            self._lock(lock)
            self._repair()
            yield

    def discard(self) -> None:
        """Delete the cached objects and start again."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._repair()

    @property
    def is_empty(self) -> bool:
        """True if nothing is cached."""
        return not any(self._packs.iterdir())

    def _lock(self, lock: IO[str]) -> None:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._git.check_time()
                time.sleep(_LOCK_POLL_SECONDS)
            else:
                return

    def _repair(self) -> None:
        """Make the folder a repository. What a killed git has left behind is removed."""
        if len(list(self._packs.glob("*.pack"))) > MAX_PACKS:
            shutil.rmtree(self._folder, ignore_errors=True)
        # Written here rather than by `git init`, which copies templates with hooks.
        for name in ("objects/pack", "objects/info", "refs/heads", "info"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _CONFIG)):
            if not (self._folder / name).exists():
                (self._folder / name).write_text(text)
        # Nobody else is here, as the lock is held: whatever is left belongs to a process that is gone.
        for left in (*self._folder.glob("*.lock"), *self._folder.glob("refs/**/*.lock"), *self._packs.glob("tmp_*")):
            with suppress(OSError):
                left.unlink()

    def find_tip(self, ref: str, path: str) -> Tip:
        """Ask the remote what a ref points to; '' is the default branch. Raise `NotFound` if there is no such ref.

        Without a branch or tag of that name, one whose name continues in the path is tried: a URL does not show where the
        name ends in `/tree/feature/x/skills`.
        """
        names = list(_ref_candidates(ref, path))
        full_names = [full for name, _ in names for full in _full_names(name)] if ref else ["HEAD"]
        patterns = [pattern for full in full_names for pattern in (full, f"{full}^{{}}")]
        output = self._git.run(self._folder, "ls-remote", "--", self._url, *patterns, limit=_MAX_LISTING_BYTES)
        found = {name: oid for oid, _, name in (line.partition("\t") for line in output.decode().splitlines())}
        for name, rest in names:
            for full in _full_names(name) if ref else ["HEAD"]:
                # `^{}` is the commit of an annotated tag.
                if oid := found.get(f"{full}^{{}}") or found.get(full):
                    return Tip(full, oid, rest)
        if ref:
            raise NotFound(
                f"The repository has no branch or tag {ref!r}.",
                hint="Check its name, in an address the part after '#' or '/tree/'.",
            )
        raise NotFound(
            "The repository has no commits, or the address is not a git repository.", hint="Check the address."
        )

    def fetch_trees(self, tip: Tip) -> str:
        """Fetch a commit and its trees, unless they are there, and return the id of the commit."""
        if self._has_trees(tip.commit):
            return tip.commit
        options = ["--depth=1", "--filter=blob:none"]
        if tip.commit in self._sizes():
            options.append("--refetch")  # git asks for nothing below a commit that it has
        try:
            self._fetch(*options, refspec=f"+{tip.commit}:{_TIPS}/{tip.commit}")
        except ObjectNotAllowed:
            return self._fetch_ref(tip, options)
        return tip.commit

    def _fetch_ref(self, tip: Tip, options: Sequence[str]) -> str:
        """Fetch a commit by its ref, from a server that sends no others."""
        if not tip.ref:
            raise NotFound(
                f"The repository has no commit {tip.commit}.",
                hint="Check the commit, and that it is still on a branch.",
            )
        self._fetch(*options, refspec=f"+{tip.ref}:{_TIPS}/latest")
        # The ref may have moved since it was asked for: the commit that has arrived is the one that counts.
        commit = self._read_line("rev-parse", "--verify", f"{_TIPS}/latest^{{commit}}")
        self._git.run(self._folder, "update-ref", f"{_TIPS}/{commit}", commit)
        return commit

    def _has_trees(self, commit: str) -> bool:
        return (self._folder / _TIPS / commit).exists()

    def _fetch(self, *options: str, refspec: str = "", oids: Iterable[str] = ()) -> None:
        lines = sorted(oids)
        # For files there is nothing to negotiate, as when git itself fetches what a partial repository lacks.
        head = ("-c", "fetch.negotiationAlgorithm=noop", *_FETCH) if lines else _FETCH
        tail = ("--stdin", "--", self._url) if lines else ("--", self._url, refspec)
        self._git.run(self._folder, *head, *options, *tail, lines=lines, growing=self._packs)

    def find_path(self, commit: str, path: str) -> TreeEntry:
        """Return the tree of a commit, or the folder or file at a path in it; raise `NotFound` if there is none."""
        current = TreeEntry("040000", "tree", self._read_line("rev-parse", "--verify", f"{commit}^{{tree}}"))
        for name in path.split("/") if path else ():
            entries = self.list_tree(current.oid, recursive=False) if current.kind == "tree" else {}
            if name not in entries:
                raise NotFound(f"The repository has no path {path!r}.", hint="Check the path, and the branch.")
            current = entries[name]
        return current

    def _read_line(self, *arguments: str) -> str:
        return self._git.run(self._folder, *arguments).decode().strip()

    def list_tree(self, oid: str, *, recursive: bool = True) -> dict[str, TreeEntry]:
        """Return the entries of a tree by path, with folders; raise `TooLarge` for more than can be searched."""
        options = ("-r", "-t") if recursive else ()
        entries: dict[str, TreeEntry] = {}
        rest = b""
        for data in self._git.stream(self._folder, "ls-tree", "-z", *options, oid, limit=_MAX_LISTING_BYTES):
            *records, rest = (rest + data).split(b"\0")
            for record in records:
                head, _, raw = record.partition(b"\t")
                mode, kind, name = head.decode().split(" ")
                # Names are bytes. One that is not UTF-8 has surrogates here, which no package accepts.
                entries[os.fsdecode(raw)] = TreeEntry(mode, kind, name)
            if len(entries) > MAX_ENTRIES:
                raise TooLarge(
                    f"The repository has more than {MAX_ENTRIES:,} files and folders.",
                    hint="Select a folder of it, such as owner/repo/skills.",
                )
        return entries

    def fetch_blobs(self, oids: Iterable[str]) -> dict[str, int]:
        """Fetch files unless they are there, all in one request, and return the sizes of all objects here by id."""
        unique_oids = set(oids)
        sizes = self._sizes()
        missing = unique_oids.difference(sizes)
        if missing:
            self._fetch("--filter=blob:none", oids=missing)
            sizes = self._sizes()
        return sizes

    def _sizes(self) -> dict[str, int]:
        """Return the sizes of all objects in the cache. It never asks the remote, as a question for one object might."""
        if self.is_empty:
            return {}
        options = ("--batch-all-objects", "--unordered", "--buffer", "--batch-check=%(objectname) %(objectsize)")
        output = self._git.run(self._folder, "cat-file", *options, limit=_MAX_LISTING_BYTES * 4)
        return {oid.decode(): int(size) for oid, _, size in (line.partition(b" ") for line in output.splitlines())}

    def read_blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield files that are in the cache, by id. The caller has checked their sizes."""
        rest = bytearray()
        oid, size = "", -1
        for data in self._git.stream(self._folder, "cat-file", "--batch", "--buffer", lines=sorted(set(oids))):
            rest += data
            while True:
                if size < 0:
                    end = rest.find(b"\n")
                    if end < 0:
                        break
                    oid, _, length = rest[:end].decode().split(" ")
                    size = int(length)
                    del rest[: end + 1]
                # The content is followed by a line break.
                if len(rest) <= size:
                    break
                yield oid, bytes(rest[:size])
                del rest[: size + 1]
                size = -1

    def continues(self, last: str, commit: str) -> bool | None:
        """Return True if `last` is in the history of `commit`; None if the history that was looked at does not reach that far."""
        history: list[str] = []
        for step in (0, *_HISTORY_STEPS):
            if step:
                self._fetch(f"--deepen={step}", "--filter=tree:0", refspec=f"+{commit}:{_TIPS}/{commit}")
            history = self._read_line("rev-list", "--max-count=10000", commit).splitlines()
            if last in history:
                return True
        boundary = self._folder / "shallow"
        is_cut = boundary.exists() and not set(boundary.read_text().split()).isdisjoint(history)
        return None if is_cut else False


def _ref_candidates(ref: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield a ref, and the longer ones that take segments of the path, each with the rest of the path."""
    yield ref, path
    segments = path.split("/") if path and ref else []
    for count in range(1, len(segments) + 1):
        yield "/".join([ref, *segments[:count]]), "/".join(segments[count:])


def _full_names(ref: str) -> list[str]:
    # A branch wins over a tag of the same name, as in `git clone --branch`.
    return [ref] if ref.startswith("refs/") else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
