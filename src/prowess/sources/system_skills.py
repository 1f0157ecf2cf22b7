"""Newer versions of the skills that come with Prowess, from a registry whose key the operator has pinned for this.

The skills of the installed package are the seed and the floor: a refresh replaces one of them only by a newer version of the
same name, signed with the pinned key, and never adds a name. The result is a complete folder next to the installed one. It is
used only if everything in it is either signed or the same as installed now; after an update of Prowess, the installed
skills count until the next refresh.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from prowess.errors import Invalid, Problem, ProwessError, Unavailable
from prowess.net.request import HttpClient
from prowess.skill.json_values import json_object
from prowess.skill.package import Package
from prowess.skill.semver import version_key
from prowess.skill.validate import accept
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState
from prowess.sources.marketplace import fetch_marketplace
from prowess.sources.signature import check_public_key, verify
from prowess.storage.files.atomic_write import write_file, write_folder
from prowess.storage.files.skill_packages import read_folder
from prowess.threads import offload, offload_to_completion

FOLDER = "system-skills"
"""The folder below `PROWESS_HOME`."""
_CURRENT = "current.json"
_SIGNATURES = "signatures.json"
_MAX_FILE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRefresh:
    """The result of a refresh."""

    updated: tuple[str, ...] = ()
    """The skills, with their versions, that are newer than those that come with Prowess: `NAME VERSION`."""
    skipped: tuple[Problem, ...] = ()
    """Why other skills of the registry were not taken, and warnings about the registry."""
    unchanged: bool = False


async def refresh_system_skills(
    home: Path, bundled: Path, *, url: str, key: str, client: HttpClient, now: datetime | None = None
) -> SystemRefresh:
    """Fetch newer versions of the skills that come with Prowess, and use them from now on.

    Raise `Invalid` without a pinned key, and whatever `fetch_marketplace` raises; then nothing has changed.
    """
    if not key:
        raise Invalid(
            "The registry of system skills has no pinned key.",
            hint="Set PROWESS_SYSTEM_REGISTRY_KEY to the key that its operator publishes.",
        )
    folder = home / FOLDER
    installed = await offload(_read_packages, bundled)
    stored = await offload(_read_json, folder / _CURRENT)
    last = _last_state(stored) if stored.get("bundled") == _fingerprint(installed) else None
    fetched = await fetch_marketplace(url, client=client, last=last, key=key, now=now)
    if fetched.unchanged:
        return SystemRefresh(unchanged=True, skipped=fetched.warnings, updated=tuple(stored.get("updated", ())))
    return await offload_to_completion(_apply, folder, installed, fetched, check_public_key(key))


def find_system_skills(home: Path, bundled: Path, key: str) -> Path:
    """Return the folder of system skills to use: the refreshed one if all of it can be proved, otherwise the installed one."""
    folder = home / FOLDER
    stored = _read_json(folder / _CURRENT)
    name = stored.get("set")
    # A name with a slash could lead anywhere.
    if not key or not isinstance(name, str) or not name.isalnum():
        return bundled
    chosen = folder / name
    try:
        installed = _read_packages(bundled)
        is_proved = stored.get("bundled") == _fingerprint(installed) and _is_proved(
            _read_packages(chosen), installed, _read_json(folder / f"{name}.{_SIGNATURES}"), check_public_key(key)
        )
    except ProwessError:
        return bundled
    return chosen if is_proved else bundled


def current_set(home: Path) -> bytes:
    """Return bytes that change with each refresh; b'' if there was none."""
    try:
        return (home / FOLDER / _CURRENT).read_bytes()
    except OSError:
        return b""


def _is_proved(
    packages: dict[str, Package], installed: dict[str, Package], signatures: dict[str, Any], key: str
) -> bool:
    """Return True if there is exactly one package for each installed one, the same or with a valid signature."""
    if packages.keys() != installed.keys():
        return False
    for name, package in packages.items():
        if package.digest != installed[name].digest:
            verify(package.digest, str(signatures.get(name, "")).encode(), [key])
    return True


def _apply(folder: Path, installed: dict[str, Package], fetched: Fetched, key: str) -> SystemRefresh:
    """Write the new set of skills, and make it the current one with the last step."""
    skipped = [*fetched.warnings, *(_problem(one.path, one.error.message) for one in fetched.unreadable)]
    newer: dict[str, FetchedSkill] = {}
    for skill in fetched.skills:
        reason = _find_obstacle(skill, installed, key)
        if reason is None:
            newer[skill.path] = skill
        elif reason:
            skipped.append(_problem(skill.path, reason))
    packages = {name: newer[name].package if name in newer else package for name, package in installed.items()}
    name = hashlib.sha256(json.dumps([fetched.state.revision, _fingerprint(packages)]).encode()).hexdigest()[:32]
    updated = [f"{one.path} {one.revision}" for one in newer.values()]
    old = _read_json(folder / _CURRENT).get("set")
    try:
        # What a process that was killed has left is not used, because nothing points to it.
        if name != old:
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for each, package in packages.items():
            write_folder(Package(name=each, files=package.files), folder / name / each, replace=True)
        signatures = {each: skill.signature.decode() for each, skill in newer.items()}
        write_file(folder / f"{name}.{_SIGNATURES}", json.dumps(signatures).encode())
        current = {"set": name, "bundled": _fingerprint(installed), "updated": updated, "state": asdict(fetched.state)}
        write_file(folder / _CURRENT, json.dumps(current).encode())
    except OSError as error:
        raise Unavailable(f"Cannot write {str(folder)!r}: {error.strerror}.", hint="Check its permissions.") from error
    _remove_others(folder, keep={name, str(old)})
    return SystemRefresh(updated=tuple(updated), skipped=tuple(skipped))


def _find_obstacle(skill: FetchedSkill, installed: dict[str, Package], key: str) -> str | None:
    """Return why a skill of the registry is not taken: '' if it is simply not newer, None if it is taken."""
    floor = installed.get(skill.path)
    if floor is None:
        return "No skill of this name comes with Prowess."
    try:
        verify(skill.package.digest, skill.signature, [key])
        read = accept(skill.package).skill
        before = accept(floor).skill
    except ProwessError as error:
        return error.message
    if read is None or before is None or read.slug != skill.path:
        return "The skill has a different name."
    return None if version_key(read.version) > version_key(before.version) else ""


def _problem(name: str, message: str) -> Problem:
    return Problem(code="system-skill-skipped", severity="warning", message=f"{name}: {message}", field=name)


def _remove_others(folder: Path, *, keep: set[str]) -> None:
    """Delete sets that neither this nor a process that is still running uses."""
    for path in folder.iterdir():
        if path.name[0] != "." and path.name.partition(".")[0] not in {*keep, _CURRENT.partition(".")[0]}:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _read_packages(folder: Path) -> dict[str, Package]:
    # Writers leave a hidden file for their lock.
    names = [path.name for path in folder.iterdir() if path.name[0] != "."] if folder.is_dir() else []
    return {name: read_folder(folder / name) for name in sorted(names)}


def _fingerprint(packages: dict[str, Package]) -> str:
    rows = sorted([name, package.digest] for name, package in packages.items())
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of ours; an empty one if there is none that can be read."""
    try:
        content = path.read_bytes()
        value: object = json.loads(content) if len(content) <= _MAX_FILE else None
    except (OSError, ValueError, RecursionError):
        return {}
    return json_object(value)


def _last_state(stored: dict[str, Any]) -> SourceState | None:
    try:
        return SourceState(**stored.get("state", {}))
    except TypeError:
        return None
