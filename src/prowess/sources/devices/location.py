"""Where devices exchange bundles. Each kind of location is one file in this folder and one row of the table below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prowess.errors import Conflict, Invalid
from prowess.sources.fetch_context import FetchContext

PUSHED_MEANWHILE = "Run `prowess sync pull`, then push again."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file at a location, and the tag that tells whether it is still the same."""

    data: bytes = field(repr=False)
    tag: str


class Location(Protocol):
    """A place that stores files by name. Names have at most one slash. All methods block.

    Raise `TryLater` or `Unavailable` if it cannot be reached, and `Refused` without access.
    """

    shown: str
    """The address, without credentials."""

    def read(self, name: str, max_bytes: int) -> StoredFile | None:
        """Return a file, or None if there is none; raise `TooLarge` if it has more bytes."""
        ...

    def add(self, name: str, data: bytes) -> None:
        """Store a file under a name that always means the same bytes. It may be stored only with the next `replace`."""
        ...

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """Store a file, replacing the one with this tag, or of none (''). Raise `Conflict` if there is another one now."""
        ...


def changed_meanwhile(shown: str) -> Conflict:
    """Return the error for a bundle that another device has replaced."""
    return Conflict(f"Another device has just pushed to {shown}.", hint=PUSHED_MEANWHILE)


def open_location(address: str, context: FetchContext) -> Location:
    """Return the location at an address: `s3://bucket/prefix`, a git address, or a folder."""
    text = address.strip()
    if not text or any(not char.isprintable() for char in text):
        raise Invalid(
            "The sync location is empty or contains control characters.",
            hint="Use a folder, a git address such as git@host:me/skills.git, or s3://BUCKET/PREFIX.",
        )
    opener = next((opener for prefix, opener in _OPENERS.items() if text.startswith(prefix)), _open_other)
    return opener(text, context)


def _open_bucket(address: str, context: FetchContext) -> Location:
    from prowess.sources.devices.bucket import BucketLocation

    return BucketLocation(address, context)


def _open_branch(address: str, context: FetchContext) -> Location:
    from prowess.sources.devices.git_branch import GitBranchLocation

    return GitBranchLocation(address, context)


def _open_other(address: str, _: FetchContext) -> Location:
    from prowess.sources.devices.folder import FolderLocation

    if "://" in address:
        raise Invalid(
            f"Unknown kind of sync location {address.partition('://')[0][:20]!r}.",
            hint="Use a folder, a git address such as git@host:me/skills.git, or s3://BUCKET/PREFIX.",
        )
    return FolderLocation(Path(address))


_OPENERS: dict[str, Callable[[str, FetchContext], Location]] = {
    "s3://": _open_bucket,
    **dict.fromkeys(("git@", "ssh://", "https://", "file://", "github:", "gitlab:"), _open_branch),
}
"""The kinds of locations, by how their addresses start; any other address is a folder."""
