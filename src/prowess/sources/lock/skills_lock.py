"""The lock files of the skills CLI: `skills-lock.json` of a project, and `.skill-lock.json` of a user.

Both are read as the CLI reads them and written byte for byte as it writes them. Entries and keys that Prowess does not know
are kept. Nothing in these files is trusted: a repository can bring them along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from prowess.errors import ProwessError
from prowess.skill.json_values import json_object
from prowess.sources.lock.folder_hash import compute_hash, git_tree, has_certain_order, read_hashed_files
from prowess.sources.lock.lock_file import format_document, order_keys, read_document, sort_keys
from prowess.sources.lock.prowess_lock import Pin
from prowess.sources.reference import GIT_KINDS
from prowess.storage.files.skill_packages import read_folder

PROJECT_LOCK = "skills-lock.json"
USER_LOCK = ".skill-lock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource:
    """Where a skill was installed from, as the skills CLI or `gh skill` records it."""

    source: str
    source_type: str
    hash: str
    """The hash of the source folder (`computedHash`), or the git tree of it (`skillFolderHash`)."""
    source_url: str = ""
    ref: str = ""
    skill_path: str = ""
    """The path of the SKILL.md in the source; '' if it is unknown."""
    rewritten_by: str = ""
    """The tool that changed its SKILL.md when it installed it: `gh skill`. The skills CLI changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockForm:
    """The differences between the two files."""

    version: int
    hash_key: str
    is_sorted: bool
    """True if skills are sorted, the file ends with a newline, and only git sources have a `sourceUrl`."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


PROJECT = LockForm(version=1, hash_key="computedHash", is_sorted=True)
USER = LockForm(version=3, hash_key="skillFolderHash", is_sorted=False, extra={"dismissed": {}})

_KEYS = {
    "source": "source",
    "source_type": "sourceType",
    "source_url": "sourceUrl",
    "ref": "ref",
    "skill_path": "skillPath",
}
_SORTED = ("source", "sourceUrl", "ref", "sourceType", "skillPath")
"""The order of these keys in a project's lock. A user's has the one above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsLock:
    """A lock file of the skills CLI. A change is a new value."""

    form: LockForm
    document: Mapping[str, Any]
    """The JSON, with everything that is not known here."""

    @classmethod
    def empty(cls, form: LockForm) -> SkillsLock:
        """Return the lock of nothing."""
        return cls(form=form, document={"version": form.version, "skills": {}, **form.extra})

    @classmethod
    def read(cls, path: Path, form: LockForm) -> SkillsLock:
        """Read a lock file. One that does not exist, is older than its form or has no skills counts as empty, as in the CLI.

        Raise `Invalid` if it cannot be read.
        """
        document = read_document(path)
        if document is None:
            return cls.empty(form)
        version = document.get("version")
        is_current = isinstance(version, int | float) and not isinstance(version, bool) and version >= form.version
        if not is_current or not isinstance(document.get("skills"), dict):
            return cls.empty(form)
        return cls(form=form, document=document)

    @property
    def skills(self) -> dict[str, LockedSource]:
        """The installed skills by name. Entries with missing or wrong fields are left out here, and kept in the file."""
        found = {name: _read_entry(entry, self.form) for name, entry in self._entries.items()}
        return {name: entry for name, entry in found.items() if entry is not None}

    @property
    def is_empty(self) -> bool:
        """True if the file says nothing: no skills, and no keys that Prowess does not know."""
        return not self._entries and not any(
            value for key, value in self.document.items() if key not in ("version", "skills")
        )

    @property
    def _entries(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.document["skills"])

    def with_skill(self, name: str, locked: LockedSource, *, at: str = "") -> SkillsLock:
        """Return the lock with a skill added or replaced. `at` is the time of the change, for a user's lock."""
        document = dict(json_object(self._entries.get(name)))
        entry = _make_entry(locked, self.form, at=at, installed_at=str(document.get("installedAt") or at))
        known = {*_KEYS.values(), self.form.hash_key, "installedAt", "updatedAt"}
        entry |= {key: value for key, value in document.items() if key not in known}
        return self._changed({**self._entries, name: entry})

    def without(self, name: str) -> SkillsLock:
        """Return the lock without a skill."""
        return self._changed({key: value for key, value in self._entries.items() if key != name})

    def _changed(self, entries: Mapping[str, Any]) -> SkillsLock:
        return replace(self, document={**self.document, "skills": entries})

    def text(self) -> str:
        """Return the file's content."""
        entries = sort_keys(self._entries) if self.form.is_sorted else self._entries
        head = {"version": self.document["version"], "skills": order_keys(entries)}
        rest = {key: value for key, value in self.document.items() if key not in head}
        return format_document({**head, **rest}) + ("\n" if self.form.is_sorted else "")


def _read_entry(entry: object, form: LockForm) -> LockedSource | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, Any]", entry)
    values = {name: fields.get(key) for name, key in {**_KEYS, "hash": form.hash_key}.items()}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    # Absent and null are both "not known"; every other type is an error in the file.
    if any(value is not None and name not in texts for name, value in values.items()) or "source" not in texts:
        return None
    return LockedSource(**{"source_type": "", "hash": "", **texts})


def _make_entry(locked: LockedSource, form: LockForm, *, at: str, installed_at: str) -> dict[str, Any]:
    """Return an entry with its keys in the order in which the CLI writes them; it leaves out what it does not know."""
    fields: dict[str, str] = {key: getattr(locked, name) for name, key in _KEYS.items()}
    if form.is_sorted:
        filled = {key: fields[key] for key in _SORTED if fields[key] or key in ("source", "sourceType")}
        return {**filled, form.hash_key: locked.hash}
    filled = {key: value for key, value in fields.items() if value or key in ("source", "sourceType", "sourceUrl")}
    return {**filled, form.hash_key: locked.hash, "installedAt": installed_at, "updatedAt": at}


def javascript_time() -> str:
    """Return the time as JavaScript's `toISOString` does: in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def locked_source(pin: Pin, computed: str, *, user: bool = False) -> LockedSource:
    """Return what the skills CLI records for a pinned source, in a project's lock or in a user's.

    `computed` is the `computedHash` of the source. A user's lock has the git tree of a skill from GitHub instead, and nothing
    for a well-known site.
    """
    tree = {"github": pin.tree or computed, "well-known": ""}.get(pin.type, computed)
    path = f"{pin.path}/SKILL.md" if pin.path else "SKILL.md"
    return LockedSource(
        source=pin.source,
        source_type=pin.type,
        hash=tree if user else computed,
        source_url=pin.url if user or pin.type in ("git", "gitlab") else "",
        ref=pin.ref,
        skill_path=path if pin.type in GIT_KINDS else "",
    )


def source_text(locked: LockedSource) -> str:
    """Return the source string of a skill that the skills CLI installed, for `parse_source`."""
    if locked.source_type == "well-known":
        return locked.source_url or f"https://{locked.source.removeprefix('wellknown/')}"
    text = locked.source if locked.source_type in ("github", "local") else locked.source_url or locked.source
    return f"{text}#{locked.ref}" if locked.ref else text


def matches_locked(locked: LockedSource, folder: Path) -> bool | None:
    """Return True if a folder has the files that the skills CLI recorded, and None if that cannot be determined.

    Its order of names outside ASCII depends on the machine. It also hashes `metadata.json`, but does not install it.
    """
    if locked.rewritten_by:
        return None
    try:
        contents = read_hashed_files(folder)
        package = read_folder(folder)
    except (ProwessError, OSError):
        return False
    if locked.hash in (compute_hash(contents), git_tree(package.files)):
        return True
    return False if locked.hash and has_certain_order(contents) else None
