"""Folders that a skill may read or write, what in them stays hidden, and the names that it may never write.

A skill that could write another skill, instructions for coding agents such as `AGENTS.md`, or into a hidden folder such as
`.git`, would have its text followed or its programs run by the next person or tool that works there, without an approval.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from prowess.errors import Invalid, NotFound, ProwessError, Refused, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.sandbox import safe_files
from prowess.skill.filenames import is_marker
from prowess.skill.json_values import is_encodable
from prowess.skill.limits import MIB

SKILLS_FOLDER = "skills"
"""The name of folders in which skills are looked for."""

AGENT_FILES = frozenset(
    f"{name}.md"
    for name in ("agent", "agents", "agents.override", "claude", "claude.local", "crush", "gemini", "qwen", "warp")
)
"""Files in any folder that coding agents follow when they work in it, in lower case."""


def write_refusal(folder: Sequence[str], names: Sequence[str]) -> str:
    """Return why a path in a folder may not be written; '' if it may. Both are given as names."""
    if is_hidden(names):
        return "tools may run files with hidden names"
    # In lower case, since some file systems ignore case.
    if SKILLS_FOLDER in (name.lower() for name in (*folder, *names)) or is_marker(names[-1]):
        return "it would become part of a skill"
    if names[-1].lower() in AGENT_FILES:
        return "coding agents would follow it"
    return ""


def is_hidden(names: Sequence[str]) -> bool:
    """Return True if one of the names starts with a dot."""
    return any(name.startswith(".") for name in names)


_CREDENTIALS = """
.ssh .aws .azure .gnupg .kube .docker .git .netrc _netrc .password-store .mozilla keychains appdata
id_rsa id_dsa id_ecdsa id_ed25519 logins.json key4.db cookies.sqlite credentials.db wallet.dat
"""
CREDENTIAL_NAMES = frozenset({*_CREDENTIALS.split(), "login data"})
"""Files and folders that hold keys, passwords and cookies, in lower case."""
CREDENTIAL_PAIRS = frozenset(
    {(".config", name) for name in ("gh", "gcloud", "google-chrome", "chromium", "op")}
    # `Library` of macOS; other folders of that name are usually source code.
    | {("library", name) for name in ("application support", "cookies", "containers", "group containers", "safari")}
    | {("library", name) for name in ("accounts", "mail", "messages", "mobile documents")}
)
"""The same, by the name of a folder and the name in it."""
_CREDENTIAL_SUFFIXES = (".kdbx", ".keychain", ".keychain-db")


def is_credential_store(names: Sequence[str], *, above: str = "") -> bool:
    """Return True if the names lead to a place where credentials are kept, or into one. `above` is the folder they are in."""
    # In lower case, since some file systems ignore case.
    lower = [name.lower() for name in names]
    return any(
        name in CREDENTIAL_NAMES or name.endswith(_CREDENTIAL_SUFFIXES) for name in lower
    ) or not CREDENTIAL_PAIRS.isdisjoint(zip((above.lower(), *lower), lower, strict=False))


def is_private(names: Sequence[str], *, above: str = "") -> bool:
    """Return True if no skill is given what these names lead to unless an administrator names it."""
    return is_hidden(names) or is_credential_store(names, above=above)


MAX_READ_BYTES = 4 * MIB
MAX_WRITE_BYTES = 4 * MIB
MAX_PATH_NAMES, MAX_PATH_CHARS = 32, 1_024
"""How many names a path may have, and how many characters."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder, with its path and the name that the skill uses for it.

    The path is absolute and has no links: a link that replaces a folder later is not followed.
    """

    name: str
    path: Path
    writable: bool = False
    whole: bool = False
    """True if a program is given everything in it. Otherwise what is hidden in it is masked; see `find_private`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the way to it, as the skill and as the file system know them."""
        return (*(self.path.parts if self.name.startswith("/") else _split_names(self.name)), self.path.name)


MAX_SCANNED, MAX_MASKED = 500_000, 2_000
"""The most entries of a folder that a program is given, and the most of them that are masked."""


def find_private(root: Root) -> list[str]:
    """Return what is hidden in a folder that a program is given: the files and folders that have to be masked. Blocking.

    Raise `Refused` if there are too many to look at or to mask.
    """
    found: list[str] = []
    waiting, seen = [str(root.path)], 0
    while waiting:
        folder = waiting.pop()
        above = folder.rpartition("/")[2]
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            # A program that may write to it could change its permissions, so it is masked as a whole.
            found.append(folder)
            continue
        for entry in entries:
            seen += 1
            # A link shows only where it leads; what it leads to is masked or out of reach itself.
            if entry.is_symlink():
                continue
            if is_private((entry.name,), above=above):
                found.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
        if seen > MAX_SCANNED or len(found) > MAX_MASKED:
            raise Refused(
                f"The folder {root.name!r} has more than {MAX_SCANNED:,} entries or more than {MAX_MASKED:,} hidden ones, "
                "so programs may not access it.",
                hint="List a smaller folder under `roots` in the manifest.",
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """The place of a file: a root, and the names below it. `path` is the text that the skill wrote."""

    path: str
    root: Root
    names: tuple[str, ...]

    def read(self, *, most: int = MAX_READ_BYTES) -> bytes:
        """Return the content of the file."""
        return self._there(lambda parent: safe_files.read_file(parent, self.names[-1], most=most), most=most)

    def write(self, content: bytes, *, most: int = MAX_WRITE_BYTES) -> None:
        """Write the file atomically; missing folders are created."""
        if len(content) > most:
            raise Invalid(f"{self.path!r} would have {len(content):,} bytes, more than the limit of {most:,}.")
        self._there(lambda parent: safe_files.write_file(parent, self.names[-1], content), most=most, make=True)

    def holds_something(self) -> bool:
        """Return True if something exists there."""
        try:
            self._there(lambda parent: os.stat(self.names[-1], dir_fd=parent, follow_symlinks=False), most=0)
        except NotFound:
            return False
        return True

    def _there(self, work: Callable[[int], _T], *, most: int, make: bool = False) -> _T:
        try:
            with (
                safe_files.open_root(str(self.root.path)) as opened,
                safe_files.open_folder(opened, self.names[:-1], make=make) as parent,
            ):
                return work(parent)
        except OSError as error:
            _raise_for(error, self.path, most)


class SkillFolders:
    """The folders of one run. A path starts with the name of one of them, or is below the path of one.

    The longest match counts. Relative paths that match no root belong to the run's own folder. Next to a root for the whole
    workspace, the own folder takes what is written, and what exists there.

    Raise `Refused` for a path that leaves its folder, by `..`, by a link, or as it is written, for anything but a regular
    file, for hidden names below a root, and for writing what would be read as a skill or run by others. Raise `NotFound` if
    there is nothing, and `Invalid` for malformed paths and for content that is too large.
    """

    def __init__(self, roots: Sequence[Root], *, own: Path) -> None:
        self._roots = (Root(name="", path=own, writable=True), *roots)

    def to_read(self, path: str) -> FileLocation:
        """Return where a path leads, for reading."""
        places = self._places(path)
        found = next((place for place in places[:-1] if place.holds_something()), places[-1])
        # The root without a name is the run's own temporary folder, which is removed after the run.
        if found.root.name and is_private(found.names, above=found.root.path.name):
            raise Refused(
                f"{path!r} is hidden or a credential store, which `roots` do not include.",
                hint="An administrator can allow its folder: "
                f"`prowess policy set skill_roots '[\"{found.root.path.joinpath(*found.names[:-1])}\"]'`.",
            )
        return found

    def to_write(self, path: str) -> FileLocation:
        """Return where a path leads, for writing."""
        places = self._places(path)
        root = places[-1].root
        writable = next((place for place in places if place.root.writable), None)
        if writable is None:
            raise Refused(
                f"{path!r} is read-only.", hint=f'To write there, add `roots: ["rw:{root.name}"]` to the manifest.'
            )
        why = write_refusal(writable.root.names, writable.names) if writable.root.name else ""
        if why:
            raise Refused(f"{path!r} may not be written: {why}.", hint="Use another file name.")
        return writable

    def _places(self, path: str) -> list[FileLocation]:
        """Return where a path may lead: one place, or two, of which the first is in the run's own folder."""
        segments = split_path(path)
        whole = path.startswith("/")
        fitting = [
            (len(start), root)
            for root in self._roots
            for start in _prefixes(root, whole=whole)
            if segments[: len(start)] == start
        ]
        if not fitting:
            raise Refused(
                f"{path!r} is outside the folders that this skill may access.",
                hint=(
                    f'Use a relative path, or add `roots: ["{_parent_folder(path)}"]` to the manifest (with `rw:` in front to '
                    "write). A folder outside the workspace must also be in the setting `skill_roots`."
                ),
            )
        longest = max(length for length, _ in fitting)
        if longest == len(segments):
            raise Refused(f"{path!r} is a folder, not a file.", hint="Pass the path of a file in it.")
        names = tuple(segments[longest:])
        return [FileLocation(path=path, root=root, names=names) for length, root in fitting if length == longest]


def split_path(path: str) -> list[str]:
    """Return the names of a path; raise `Refused` if it goes up, and `Invalid` if it is malformed."""
    if "\0" in path or len(path) > MAX_PATH_CHARS or not is_encodable(path):
        raise Invalid(f"Invalid path {path[:80]!r}.", hint=f"Use at most {MAX_PATH_CHARS:,} characters, without NUL.")
    names = _split_names(path)
    if ".." in names:
        raise Refused(f"The path {path!r} contains `..`, which is not allowed.", hint="Use a path without `..`.")
    if not names or path.endswith(("/", "/.")):
        raise Invalid(f"{path!r} is not the path of a file.", hint="Pass the path of a file.")
    if len(names) > MAX_PATH_NAMES:
        raise Invalid(f"The path {path[:80]!r} has more than {MAX_PATH_NAMES} parts.")
    return names


def is_below(path: str, folder: str) -> bool:
    """Return True if a path starts with the name of a folder."""
    start = _split_names(folder)
    return path.startswith("/") == folder.startswith("/") and bool(start) and split_path(path)[: len(start)] == start


def _split_names(text: str) -> list[str]:
    return [name for name in text.split("/") if name not in ("", ".")]


def _prefixes(root: Root, *, whole: bool) -> list[list[str]]:
    """Return the names with which paths into a root start."""
    named = root.name if root.name.startswith("/") == whole else None
    texts = [text for text in (named, str(root.path) if whole and root.name else None) if text is not None]
    return [_split_names(text) for text in texts]


def _parent_folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _raise_for(error: OSError, path: str, most: int) -> NoReturn:
    """Raise the `ProwessError` for an error of the system."""
    code = error.errno or 0
    errors: dict[int, ProwessError] = {
        errno.ENOENT: NotFound(f"File {path!r} not found."),
        errno.ENOTDIR: NotFound(f"File {path!r} not found: a part of the path is not a folder."),
        # What `O_NOFOLLOW` reports for a link.
        errno.ELOOP: Refused(f"{path!r} contains a symbolic link.", hint="Pass the path of the file itself."),
        errno.EISDIR: Refused(f"{path!r} is a folder, not a file.", hint="Pass the path of a file in it."),
        errno.ENODEV: Refused(f"{path!r} is not a regular file."),
        # What opening a socket, or a pipe without a reader, reports.
        errno.ENXIO: Refused(f"{path!r} is not a regular file."),
        errno.EFBIG: Invalid(f"{path!r} is larger than the limit of {most:,} bytes."),
        errno.ENAMETOOLONG: Invalid(f"The file name in {path[:80]!r} is too long."),
        errno.EINVAL: Invalid(f"Invalid file name in {path[:80]!r}."),
        errno.EILSEQ: Invalid(f"Invalid file name in {path[:80]!r}."),
        errno.EACCES: Refused(f"Permission denied: {path!r}.", hint="Check the permissions of the file."),
        errno.EPERM: Refused(f"Permission denied: {path!r}.", hint="Check the permissions of the file."),
    }
    raise errors.get(code, Unavailable(f"{path!r} cannot be accessed: {error.strerror}.")) from None
