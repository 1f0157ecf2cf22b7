"""A package: the files of one skill, exactly as they are, and the digest that identifies them.

A file is found only by its exact path in the package. Paths are never joined, resolved or normalised for a lookup, so that
no name can lead outside.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from json.encoder import encode_basestring_ascii
from typing import ClassVar, Literal

from prowess.errors import Invalid, TooLarge
from prowess.patterns import lazy_pattern
from prowess.skill.limits import DEFAULT_LIMITS, UNLIMITED, Limits

Mode = Literal["0644", "0755"]

_PLAIN_PART = r"[A-Za-z0-9_-](?:[A-Za-z0-9_.-]{0,200}[A-Za-z0-9_-])?"
_PLAIN_PATH = lazy_pattern(rf"{_PLAIN_PART}(?:/{_PLAIN_PART})*")
"""Paths in which only the depth can be wrong; almost all paths match."""


# With any extension: Windows opens the device for `aux.txt` as well.
_DEVICE_NAMES = r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])"
_DEVICE = lazy_pattern(rf"{_DEVICE_NAMES}[ ]*(?:[.:].*)?", re.IGNORECASE)
_MAY_BE_DEVICE = lazy_pattern(rf"(?:\A|/){_DEVICE_NAMES}(?:[ .:/]|\Z)", re.IGNORECASE)
# `.git` for a file system that ignores case, and its short name on Windows.
_REPOSITORY = lazy_pattern(r"(?:\A|/)(?:\.git|git~1)(?:/|\Z)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One line of a manifest: path, mode, size and hash of a file."""

    path: str
    mode: Mode
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class File:
    """One file of a package."""

    path: str
    content: bytes
    mode: Mode = "0644"

    @cached_property
    def entry(self) -> FileEntry:
        """The file's line in the manifest."""
        return FileEntry(
            path=self.path, mode=self.mode, size=len(self.content), sha256=hashlib.sha256(self.content).hexdigest()
        )


@dataclass(frozen=True, kw_only=True)
class Package:
    """The files of one skill, sorted by path. `name` is the name of its folder, file or archive."""

    name: str
    files: tuple[File, ...]
    # The limits that the files were checked against, set by `of`; no field, so a copy with other files does not inherit it.
    _checked: ClassVar[Limits | None] = None

    @classmethod
    def of(cls, name: str, files: Iterable[File], limits: Limits = DEFAULT_LIMITS) -> Package:
        """Check paths, sizes and counts, and return the package. `Invalid` names the invalid entry."""
        ordered = tuple(sorted(files, key=lambda file: file.path))
        check_files(ordered, limits)
        package = cls(name=name, files=ordered)
        object.__setattr__(package, "_checked", limits)
        return package

    def check(self, limits: Limits) -> None:
        """Raise `Invalid` if the files are not within the limits. What `of` has checked against them is not checked again."""
        if self._checked is not limits:
            check_files(self.files, limits)

    @classmethod
    def written(cls, name: str, files: Iterable[File]) -> Package:
        """Make a package from files that were accepted before and have changed since. Paths are checked; sizes are checked when it is stored."""
        return cls.of(name, files, UNLIMITED)

    @classmethod
    def of_texts(cls, name: str, texts: Mapping[str, str | bytes], limits: Limits = DEFAULT_LIMITS) -> Package:
        """Make a package from a mapping of path to content."""
        contents = {path: text.encode() if isinstance(text, str) else text for path, text in texts.items()}
        return cls.of(name, [File(path=path, content=content) for path, content in contents.items()], limits)

    @cached_property
    def _by_path(self) -> dict[str, File]:
        return {file.path: file for file in self.files}

    @cached_property
    def manifest(self) -> tuple[FileEntry, ...]:
        """One entry for each file, sorted by path; the digest is computed from it."""
        return tuple(file.entry for file in self.files)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 that identifies exactly these files."""
        return compute_digest(self.manifest)

    @property
    def paths(self) -> tuple[str, ...]:
        """The exact paths by which files can be read."""
        return tuple(file.path for file in self.files)

    def get(self, path: str) -> File | None:
        """Return the file at exactly this path, or None."""
        return self._by_path.get(path)

    def with_files(self, files: Iterable[File]) -> Package:
        """Return the package with these files added or replaced."""
        merged = {**self._by_path, **{file.path: file for file in files}}
        return Package.written(self.name, merged.values())

    def without(self, paths: Iterable[str]) -> Package:
        """Return the package without these files."""
        removed = set(paths)
        return Package.written(self.name, [file for file in self.files if file.path not in removed])


def compute_digest(manifest: Iterable[FileEntry]) -> str:
    """Return the SHA-256 over the canonical JSON of the sorted list of [path, mode, size, file SHA-256].

    JSON keeps every boundary, so that no two different manifests have the same text.
    """
    # ASCII-only JSON: the digest must not depend on how a JSON library writes other characters. Only a path can have some;
    # an encoder for the whole list would take three times as long.
    rows = sorted((entry.path, entry.mode, entry.size, entry.sha256) for entry in manifest)
    lines = (f'[{encode_basestring_ascii(path)},"{mode}",{size},"{sha256}"]' for path, mode, size, sha256 in rows)
    return hashlib.sha256(f"[{','.join(lines)}]".encode("ascii")).hexdigest()


def check_files(files: Iterable[File], limits: Limits) -> None:
    """Raise `Invalid` for duplicate or conflicting paths, paths that lead outside, and anything over a limit."""
    seen: dict[str, str] = {}
    total = 0
    for count, file in enumerate(files, start=1):
        check_path(file.path, limits)
        _check_repository(file.path)
        check_clash(file.path, seen)
        check_size(file.path, len(file.content), limits)
        total += len(file.content)
        if count > limits.files:
            raise too_large_error("files in one skill", limits.files, f"more, up to {file.path!r}", "max_files")
        if total > limits.skill_bytes:
            raise too_large_error(
                "bytes in one skill", limits.skill_bytes, f"{total:,} with {file.path!r}", "max_skill_bytes"
            )


def check_path(path: str, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise `Invalid` for a path that is not a plain relative path inside the package."""
    if _PLAIN_PATH.fullmatch(path) and path.count("/") < limits.depth and not _MAY_BE_DEVICE.search(path):
        return
    reason = _find_path_fault(path, limits)
    if reason:
        raise Invalid(
            f"The path {path[:200]!r} {reason}.",
            hint="Use plain relative paths inside the skill's folder, such as 'references/guide.md'.",
        )


def _check_repository(path: str) -> None:
    """Raise `Invalid` for a file that makes a folder a git repository where the skill is written out.

    Its configuration can name programs, which git starts for a mere `git status`. Readers leave out `.git` as such; this is
    about other spellings, and files that no reader has seen.
    """
    # macOS ignores invisible characters in names.
    plain = path if path.isascii() else "".join(char for char in path if unicodedata.category(char) != "Cf")
    if _REPOSITORY.search(plain):
        raise Invalid(
            f"The path {path[:200]!r} is part of a git repository on some file systems.", hint="Leave out this file."
        )


def _find_path_fault(path: str, limits: Limits) -> str:
    segments = path.split("/")
    if not path or "" in segments:
        return "has an empty segment" if path and not path.startswith("/") else "is not a relative path"
    if any(segment in (".", "..") for segment in segments):
        return "leads outside the skill's folder"
    # On Windows a backslash separates folders, and `C:x` is a path on another drive.
    if "\\" in path or (len(path) > 1 and path[1] == ":"):
        return "is not portable"
    # Control characters could rewrite a terminal that shows the name, and line separators could make two lines of it; lone
    # surrogates cannot be stored as UTF-8.
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path):
        return "contains control characters"
    if any(_DEVICE.fullmatch(segment) for segment in segments):
        return "contains a reserved Windows device name"
    # Windows drops trailing dots and spaces, so two such names would be one file there.
    if any(segment != segment.strip(" ") or segment.endswith(".") for segment in segments):
        return "has a segment that starts or ends with a space, or ends with a dot"
    if len(segments) > limits.depth:
        return f"is nested deeper than {limits.depth} levels"
    # The limit of ext4 and many other file systems for one name.
    if any(len(segment.encode()) > 255 for segment in segments):
        return "has a segment longer than 255 bytes"
    return ""


def check_clash(path: str, seen: dict[str, str]) -> None:
    """Raise `Invalid` if a path exists already, or if some file system could not tell it apart from another.

    Those are paths that differ only in case or Unicode normalisation, and a file and a folder with the same name.
    """
    # Files are noted under their folded path, folders with a slash after it: a file `a` and a folder `a/` then meet here.
    key = fold_path(path)
    other = seen.get(key) or seen.get(key + "/")
    if other:
        raise _clash_error(path, path, other)
    seen[key] = path
    folder = path
    while "/" in folder:
        folder, key = folder.rpartition("/")[0], key.rpartition("/")[0]
        other = seen.get(key) or seen.setdefault(key + "/", folder + "/")
        if other != folder + "/":
            raise _clash_error(path, folder + "/", other)


def fold_path(path: str) -> str:
    """Return a key that is the same for paths that some file system takes for the same."""
    # macOS and Windows ignore case by default, and some file systems treat composed and decomposed accents alike.
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()


def _clash_error(path: str, part: str, other: str) -> Invalid:
    """Return the error for an entry whose path, or one of whose folders, clashes with another entry."""
    if path == other:
        return Invalid(f"The path {path!r} appears twice.", hint="Remove one of the two files.")
    if part.endswith("/") != other.endswith("/"):
        why = "one is a file and the other a folder"
    else:
        why = "they differ only in case or accents"
    return Invalid(f"The path {path!r} conflicts with {other!r}: {why}.", hint="Rename one of them.")


def check_size(path: str, size: int, limits: Limits) -> None:
    """Raise `Invalid` for a file over the size limit."""
    if size > limits.file_bytes:
        raise too_large_error(f"bytes in one file ({path!r})", limits.file_bytes, f"{size:,}", "max_file_bytes")


def too_large_error(what: str, limit: int, actual: str, setting: str) -> TooLarge:
    """Return the error for something over a limit: what, the limit, the actual amount, and the setting to raise."""
    return TooLarge(
        f"Too many {what}: the limit is {limit:,}, this has {actual}.",
        hint=f"Make it smaller, or raise the setting PROWESS_{setting.upper()}.",
    )
