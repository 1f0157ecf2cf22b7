"""Compare versions by the rules of semantic versioning, with a defined order for all other strings too."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEMVER = re.compile(
    r"(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_SHORT = re.compile(r"[vV]?([0-9]{1,18})(?:\.([0-9]{1,18}))?(?:\.([0-9]{1,18}))?(?:-([0-9A-Za-z.-]+))?")
_MAX_DIGITS = 18
"""A longer number in a pre-release is compared as text."""

VersionKey = tuple[int, tuple[int, ...], int, tuple[tuple[int, int, str], ...], str]


def is_semver(version: str) -> bool:
    """Return True for a valid semantic version: `1.2.0`, `1.2.0-rc.1`, `1.2.0+build`."""
    return len(version) <= 200 and _SEMVER.fullmatch(version) is not None and not _has_odd_number(version)


def is_prerelease(version: str) -> bool:
    """Return True if the version is a pre-release."""
    found = _split_version(version)
    return found is not None and bool(found[3])


def version_key(version: str) -> VersionKey:
    """Return the sort key of a version: a pre-release comes before its release, and build metadata is ignored.

    Short versions are padded with zeros (`1.2`, `v3`). A string that is not a version comes before all versions, in alphabetical
    order, and an empty string before that.
    """
    found = _split_version(version)
    if found is None:
        return (1 if version else 0, (), 0, (), version)
    major, minor, patch, before = found
    return (2, (int(major), int(minor or 0), int(patch or 0)), 0 if before else 1, _prerelease_key(before), "")


def latest_version(versions: Iterable[str]) -> str | None:
    """Return the latest release, or the latest pre-release if there is no release; None if there are no versions."""
    known = list(versions)
    releases = [version for version in known if not is_prerelease(version)]
    return max(releases or known, key=version_key, default=None)


def _split_version(version: str) -> tuple[str, str | None, str | None, str | None] | None:
    plain = version.partition("+")[0]
    found = _SHORT.fullmatch(plain) if len(version) <= 200 else None
    return (found[1], found[2], found[3], found[4]) if found else None


def _prerelease_key(before: str | None) -> tuple[tuple[int, int, str], ...]:
    """Return the parts of a pre-release: numbers by value and before words, words alphabetically."""
    return tuple(
        (0, int(part), "") if part.isdecimal() and len(part) <= _MAX_DIGITS else (1, 0, part)
        for part in (before or "").split(".")
        if before
    )


def _has_odd_number(version: str) -> bool:
    """Return True if a number of the pre-release starts with a zero, which the standard forbids."""
    before = version.partition("+")[0].partition("-")[2]
    return any(part.isdecimal() and len(part) > 1 and part[0] == "0" for part in before.split("."))
