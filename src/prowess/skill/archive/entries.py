"""Collect the entries of an archive: check every name, and count the bytes as they are unpacked."""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Callable
from dataclasses import replace

from prowess.errors import Invalid
from prowess.skill.filenames import is_ignored
from prowess.skill.limits import Limits
from prowess.skill.package import File, Mode, check_clash, check_path, fold_path, too_large_error
from prowess.skill.text.hidden import find_hidden

# zlib's codes: 15 is the largest window, +16 expects a gzip header, and a negative number means deflate without any
# header, as in a zip.
GZIP_WINDOW = 31
RAW_WINDOW = -15

_FEED_BYTES = 16 * 1024


class InflateStream:
    """One compressed stream at the start of `data`; `position` is where reading stopped."""

    def __init__(self, data: memoryview, window: int) -> None:
        self.position = 0
        self._data = data
        self._stream = zlib.decompressobj(window)

    def read(self, most: int) -> bytes:
        """Return the next piece of at most `most` bytes; b'' at the end. Raise `EOFError` if the stream is cut short."""
        while not self._stream.eof:
            # Small feeds: zlib hands back what it has not used yet as a copy, each time.
            feed = self._data[self.position : self.position + _FEED_BYTES]
            # `most` bounds the output of one call: deflate can expand 1,000 times, and the caller checks its limits
            # between calls.
            piece = self._stream.decompress(feed, most)
            self.position += len(feed) - len(self._stream.unconsumed_tail) - len(self._stream.unused_data)
            if piece:
                return piece
            if not feed and not self._stream.eof:
                raise EOFError("it ends early")
        return b""


CHUNK_BYTES = 64 * 1024

# Also where right-to-left writing may have them in a text: in a name they show an ending that it does not have.
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

ReadBytes = Callable[[int], bytes]


class EntryCollector:
    """Collects the entries of one archive in order, with running totals; the first bad entry ends it.

    Declared sizes are ignored: `add` reads in chunks and stops at the limit.
    """

    def __init__(self, limits: Limits) -> None:
        self.files: list[File] = []
        self._limits = limits
        # An archive may wrap the skill in folders of its own; the skill itself is held to the limit afterwards.
        self._wrapped = replace(limits, depth=limits.depth * 2)
        self._seen: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._total = 0

    @property
    def most_entries(self) -> int:
        """The maximum number of entries in an archive: its files, their folders, and ignored entries."""
        # Entries cost time even if they are skipped, so they are limited too, but generously: an archive made on a Mac
        # has one `__MACOSX` entry per file, and others list every folder.
        return self._limits.files * 8

    def too_many(self) -> Invalid:
        """Return the error for an archive with too many entries."""
        return too_large_error("entries in one archive", self.most_entries, "more", "max_files")

    def wants(self, path: str) -> bool:
        """Return True if the entry is part of a skill; raise `Invalid` for a path that leads outside, even if it would be ignored."""
        # Checked before the entry may be ignored: `__MACOSX/../../x` must be refused by name, not skipped.
        check_path(path, self._wrapped)
        # In a folder such a name is a problem of the skill. From an archive, nobody has seen any name yet.
        if not path.isascii() and (find_hidden(path) or _DIRECTION_MARKS.search(path)):
            raise entry_error(path, "has hidden characters or direction marks in its name", "Rename it.")
        # `tar` on a Mac adds a `._NAME` with the attributes of each file, which is never text.
        return not any(is_ignored(segment) or segment.startswith("._") for segment in path.split("/"))

    def folder(self, path: str) -> None:
        """Record a folder entry, so that no file takes its place."""
        key = fold_path(path)
        if key in self._seen:
            raise self._clash(self._seen[key])
        self._folders[key] = path

    def add(self, path: str, mode: Mode, read: ReadBytes) -> bytes:
        """Read one file piece by piece, and return its content."""
        if len(self.files) >= self._limits.files:
            raise too_large_error("files in one archive", self._limits.files, f"more, from {path!r} on", "max_files")
        if fold_path(path) in self._folders:
            raise self._clash(path)
        check_clash(path, self._seen)
        # A tar need not list folders. Those that a path implies are noted too, so that a later file cannot take the
        # place of one.
        self._claim_parents(path)
        content = self._content(path, read)
        self.files.append(File(path=path, content=content, mode=mode))
        return content

    def _claim_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        while parent and fold_path(parent) not in self._folders:
            if fold_path(parent) in self._seen:
                raise self._clash(parent)
            self._folders[fold_path(parent)] = parent
            parent = parent.rpartition("/")[0]

    def _content(self, path: str, read: ReadBytes) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := read(CHUNK_BYTES):
            size += len(piece)
            self._total += len(piece)
            # Checked while reading: the size that the archive declares may be a lie.
            if size > self._limits.file_bytes:
                raise too_large_error(
                    f"bytes in one file ({path!r})", self._limits.file_bytes, "more", "max_file_bytes"
                )
            if self._total > self._limits.skill_bytes:
                raise too_large_error(
                    "bytes in one archive, unpacked", self._limits.skill_bytes, f"more, in {path!r}", "max_skill_bytes"
                )
            pieces.append(piece)
        return b"".join(pieces)

    @staticmethod
    def _clash(path: str) -> Invalid:
        return Invalid(f"The entry {path!r} is both a file and a folder.", hint="Rename one of them.")


def file_mode(bits: int) -> Mode:
    """Return the mode to store for a file: executable if anyone may execute it."""
    return "0755" if bits & 0o111 else "0644"


def entry_error(name: str, what: str, hint: str = "") -> Invalid:
    """Return the error for an entry that is not allowed."""
    return Invalid(
        f"The entry {name[:200]!r} {what}.", hint=hint or "Pack the skill again with plain files and folders only."
    )


def special_file_error(name: str, bits: int) -> Invalid:
    """Return the error for an entry that is neither a file nor a folder, by its type bits."""
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(bits), "not a regular file")
    return entry_error(name, f"is {kind}", "Replace it with the actual file; only regular files are supported.")
