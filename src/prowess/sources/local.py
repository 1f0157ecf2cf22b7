"""A folder, a file or an archive on this machine as a source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from prowess.errors import NotFound, ProwessError
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.sources.discovery import SKIPPED_FOLDERS, Discovery, discover, discover_markdown
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState, UnreadableSkill
from prowess.sources.reference import SourceReference
from prowess.storage.files.safe_read import read_regular_file
from prowess.storage.files.skill_packages import read_folder, read_path
from prowess.storage.files.skill_paths import check_exists, no_skill, read_error
from prowess.threads import check_cancelled, offload_cancellable

MAX_ENTRIES = 200_000
_MAX_DEPTH = 12
_MANIFEST_BYTES = 1 << 20


async def fetch_local(reference: SourceReference, context: FetchContext, last: SourceState | None = None) -> Fetched:
    """Read the skills of a folder, a file or an archive. Its state is the digest of everything that was read."""
    return await offload_cancellable(lambda: _fetch(Path(reference.url), context, last))


def _fetch(path: Path, context: FetchContext, last: SourceState | None) -> Fetched:
    check_exists(path, "Pass the path of a folder, a file or an archive.")
    if path.is_dir():
        skills, unreadable = _read_folder(path, context)
    else:
        packages = read_path(path, context.limits)
        named = packages if len(packages) > 1 else []
        skills = [FetchedSkill(package=each, path=each.name if named else "") for each in packages]
        unreadable = []
    state = SourceState(url=str(path), revision=_digest(skills, unreadable))
    if last is not None and last.revision == state.revision:
        return Fetched(state=state, unchanged=True)
    if not skills and not unreadable:
        raise no_skill(path, "A skill is a folder with a SKILL.md, or a .skill or .zip file.")
    return Fetched(state=state, skills=tuple(skills), unreadable=tuple(unreadable))


def _read_folder(root: Path, context: FetchContext) -> tuple[list[FetchedSkill], list[UnreadableSkill]]:
    paths = list(_list_files(root))
    found = _discover(root, paths, context)
    skills: list[FetchedSkill] = []
    unreadable: list[UnreadableSkill] = []
    for place in (*found.folders, *found.files):
        check_cancelled()
        try:
            skills.append(FetchedSkill(package=_read_place(root, place, context.limits), path=place))
        except ProwessError as error:
            unreadable.append(UnreadableSkill(path=place, error=error))
    return skills, unreadable


def _read_place(root: Path, place: str, limits: Limits) -> Package:
    path = root / place
    # The root itself may be a link, since a person named it.
    return read_folder(path, limits) if place and path.is_dir() else read_path(path, limits)[0]


def _discover(root: Path, paths: list[str], context: FetchContext) -> Discovery:
    if context.every_markdown:
        return discover_markdown(paths)
    known = set(paths)

    def read(path: str) -> bytes | None:
        return read_regular_file(str(root / path), _MANIFEST_BYTES) if path in known else None

    return discover(paths, read)


def _list_files(root: Path) -> Iterator[str]:
    """Yield the paths of regular files below a folder. Links are not followed."""
    left = MAX_ENTRIES
    folders = [("", 0)]
    while folders:
        inside, depth = folders.pop()
        try:
            with os.scandir(root / inside) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            if not inside:
                raise read_error(root, error) from error
            continue
        left -= len(entries)
        if left < 0:
            raise NotFound(
                f"{str(root)!r} has more than {MAX_ENTRIES:,} files and folders.",
                hint="Use the folder that contains the skills.",
            )
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth < _MAX_DEPTH and entry.name not in SKIPPED_FOLDERS:
                    folders.append((path, depth + 1))
            elif entry.is_file(follow_symlinks=False):
                yield path


def _digest(skills: list[FetchedSkill], unreadable: list[UnreadableSkill]) -> str:
    lines = [f"{skill.path}\0{skill.package.digest}" for skill in skills]
    lines += [f"{each.path}\0{each.error.message}" for each in unreadable]
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()
