"""`prowess.lock`: for each installed skill, the commit and the files it has, where it was placed, and who accepted it.

It lies next to the lock file of the skills CLI, which has no room for this. It can be committed, so anyone may have written
it: no path in it is ever followed (places follow from the name of a skill and the ids of its agents), and what it says about
acceptance informs people. Only the records decide what is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from prowess.errors import Invalid, Problem
from prowess.skill.json_values import json_list, json_object
from prowess.skill.package import FileEntry, Mode, check_path, compute_digest
from prowess.sources.lock.lock_file import format_document, read_document, sort_keys

OWN_LOCK = "prowess.lock"
VERSION = 1
_MAX_FILES = 10_000
_NOT_SAFE = re.compile(r"[^a-z0-9._]+")

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=4_000)]
InstallMode = Literal["symlink", "copy"]


def folder_name(name: str) -> str:
    """Return the name of the folder that the skills CLI gives a skill: one plain segment, whatever the name is."""
    return _NOT_SAFE.sub("-", name.lower()).strip(".-")[:255] or "unnamed-skill"


class _Row(BaseModel):
    """A part of the file. Keys of later versions are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class Pin(_Row):
    """Which state of which source a skill is from."""

    source: Text
    """The short name of the source, as the skills CLI records it."""
    type: Text
    reference: Text = ""
    """The source as text, without a skill: `update` fetches it."""
    url: Text = ""
    ref: Text = ""
    path: Text = ""
    """The folder of the skill in the source."""
    commit: Text = ""
    tree: Text = ""
    """The git tree of the skill's folder."""
    revision: Text = ""
    """The state of a source that has no commits: the digest or version of what was fetched."""
    etag: Text = ""
    sequence: int = 0

    @property
    def state(self) -> str:
        """The commit, or what stands for it."""
        return self.commit or self.revision


class LockedFile(_Row):
    """One file of an installed skill."""

    sha256: Sha256
    size: Annotated[int, Field(ge=0)]
    mode: Mode


class Signature(_Row):
    """The signature that a skill came with. `identity` is who had signed it when it was installed."""

    text: Annotated[str, StringConstraints(max_length=100_000)]
    kind: Text = ""
    identity: Text = ""


class Approval(_Row):
    """The person who accepted exactly these files, for people to read."""

    by: Text
    at: Text
    channel: Text = ""


class InstalledSkill(_Row):
    """One installed skill."""

    pin: Pin
    digest: Sha256
    """The digest of the files as they were placed."""
    source_digest: Sha256
    """The digest of the files of the source, which has files that are not placed, such as `metadata.json`."""
    computed_hash: Text = ""
    """The hash that the skills CLI records for the same source."""
    files: Annotated[dict[str, LockedFile], Field(max_length=_MAX_FILES)]
    left_out: Annotated[dict[str, LockedFile], Field(max_length=_MAX_FILES)] = {}
    """The files of the source that are not placed. A signature covers them, too."""
    mode: InstallMode
    agents: tuple[Text, ...] = ()
    copied: tuple[Text, ...] = ()
    """The agents that have a copy because a link could not be made."""
    approval: Approval | None = None
    signature: Signature | None = None
    installed_at: Text = ""
    updated_at: Text = ""
    pending: Literal["", "install", "remove"] = ""
    """The change of its files that is under way; after a crash, the next change finishes or undoes it."""
    previous: dict[str, Any] | None = None
    """The entry before an installation that is pending."""

    @property
    def manifest(self) -> tuple[FileEntry, ...]:
        """The files as a manifest, sorted by path."""
        return _to_manifest(self.files)

    @property
    def source_manifest(self) -> tuple[FileEntry, ...]:
        """The files as a manifest, with those that are not placed."""
        return (*self.manifest, *_to_manifest(self.left_out))


def _to_manifest(files: Mapping[str, LockedFile]) -> tuple[FileEntry, ...]:
    return tuple(
        FileEntry(path=path, mode=file.mode, size=file.size, sha256=file.sha256) for path, file in sorted(files.items())
    )


def lock_files(manifest: Iterable[FileEntry]) -> dict[str, LockedFile]:
    """Return the rows of a manifest."""
    return {entry.path: LockedFile(sha256=entry.sha256, size=entry.size, mode=entry.mode) for entry in manifest}


class ProwessLock(BaseModel):
    """The whole file. A change is a new value."""

    model_config = ConfigDict(frozen=True)

    skills: Mapping[str, InstalledSkill] = {}
    created: tuple[str, ...] = ()
    """Folders and files that Prowess made, relative to the project or home folder. They are removed when they are empty."""
    unreadable: Mapping[str, Any] = {}
    """Entries that do not have the right form. They are kept in the file and reported."""
    problems: tuple[Problem, ...] = ()
    other: Mapping[str, Any] = {}

    @classmethod
    def read(cls, path: Path) -> ProwessLock:
        """Read the file; one that does not exist is empty. Raise `Invalid` if it cannot be read or is of a later version."""
        document = read_document(path)
        if document is None:
            return cls()
        if document.get("version") != VERSION:
            raise Invalid(
                f"The lock file {str(path)!r} has the version {str(document.get('version'))[:20]!r}; this Prowess reads {VERSION}.",
                hint="Upgrade Prowess, or move the file away and add the skills again.",
            )
        entries = document.get("skills")
        skills: dict[str, InstalledSkill] = {}
        unreadable: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, entry in json_object(entries).items():
            try:
                skills[name] = _read_skill(entry)
            except (ValidationError, Invalid) as error:
                unreadable[name] = entry
                problems.append(_describe(name, error))
        created = document.get("created")
        return cls(
            skills=skills,
            created=tuple(_plain_paths(created)),
            unreadable=unreadable,
            problems=tuple(problems),
            other={key: value for key, value in document.items() if key not in ("version", "skills", "created")},
        )

    @property
    def is_empty(self) -> bool:
        """True if the file says nothing."""
        return not self.skills and not self.unreadable and not self.other

    def with_skill(self, name: str, skill: InstalledSkill) -> ProwessLock:
        """Return the lock with a skill added or replaced."""
        return self.with_skills({name: skill})

    def with_skills(self, skills: Mapping[str, InstalledSkill]) -> ProwessLock:
        """Return the lock with skills added or replaced."""
        return self.model_copy(update={"skills": {**self.skills, **skills}})

    def without(self, name: str) -> ProwessLock:
        """Return the lock without a skill."""
        rest = {key: skill for key, skill in self.skills.items() if key != name}
        return self.model_copy(
            update={"skills": rest, "unreadable": {k: v for k, v in self.unreadable.items() if k != name}}
        )

    def with_created(self, paths: Iterable[str]) -> ProwessLock:
        """Return the lock with more paths that Prowess made."""
        return self.model_copy(update={"created": tuple(sorted({*self.created, *paths}))})

    def text(self) -> str:
        """Return the file's content."""
        skills = {name: skill.model_dump(mode="json", exclude_defaults=True) for name, skill in self.skills.items()}
        document: dict[str, Any] = {"version": VERSION, "skills": sort_keys({**self.unreadable, **skills})}
        document |= {"created": list(self.created)} if self.created else {}
        return format_document({**document, **self.other}) + "\n"


def _read_skill(entry: object) -> InstalledSkill:
    skill = InstalledSkill.model_validate(entry, strict=False)
    for path in skill.files:
        check_path(path)
    if compute_digest(skill.manifest) != skill.digest:
        raise Invalid("The digest does not match the files.", hint="Add the skill again.")
    return skill


def _plain_paths(paths: object) -> list[str]:
    """Return the relative paths that stay inside; anything else in this list is ignored."""
    found: list[str] = []
    for path in json_list(paths)[:_MAX_FILES]:
        try:
            if isinstance(path, str):
                check_path(path)
                found.append(path)
        except Invalid:
            continue
    return found


def _describe(name: str, error: ValidationError | Invalid) -> Problem:
    if isinstance(error, Invalid):
        reason = error.message
    else:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return Problem(
        code="lock-entry",
        severity="error",
        message=f"The entry {name[:80]!r} of prowess.lock is not valid: {reason[:300]}",
        hint="Add the skill again, or restore the file.",
    )
