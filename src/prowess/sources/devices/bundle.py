"""The bundle of skills that devices of one owner exchange, and how two devices are compared.

A location has one bundle for each channel: the account, and each workspace by its name. The bundle lists skills by slug and
digest; the files of a skill are in an archive that is named after the digest, so that equal skills are stored once and
nothing is ever overwritten. Only the bundle itself changes. It carries a checksum made with the owner's key: another person
who can write to the location can neither change it nor replace it by an older one unnoticed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from prowess.errors import Invalid, Refused
from prowess.skill.limits import MIB
from prowess.skill.slug import is_slug

VERSION = 1
MAX_BUNDLE_BYTES = 16 * MIB

_PURPOSE = b"prowess: bundle of skills, version 1\0"
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHANNEL = re.compile(r"account|workspace-[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)
_ID_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledSkill:
    """One skill of a bundle: its exact files, and whether a person has accepted them on the device that pushed it."""

    digest: str
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of one push at a location."""

    channel: str
    generation: int
    """Grows by one with every push, so that an older bundle is noticed."""
    skills: Mapping[str, BundledSkill]
    device: str
    """The name of the device that pushed it."""
    pushed_at: str

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each skill, by slug."""
        return {slug: skill.digest for slug, skill in self.skills.items()}


Side = Literal["here", "there", "both"]
"""Where a skill changed since the last sync; `both` is a conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A skill that is not the same here and there; each digest is '' where there is no such skill."""

    slug: str
    side: Side
    before: str
    """After the last sync."""
    here: str
    there: str


def compare(before: Mapping[str, str], here: Mapping[str, str], there: Mapping[str, str]) -> list[Difference]:
    """Return the skills that differ between two devices, by slug, given their digests after the last sync."""
    differences: list[Difference] = []
    for slug in sorted({*before, *here, *there}):
        old, mine, theirs = (digests.get(slug, "") for digests in (before, here, there))
        if mine == theirs:
            continue
        side: Side = "there" if mine == old else "here" if theirs == old else "both"
        differences.append(Difference(slug=slug, side=side, before=old, here=mine, there=theirs))
    return differences


def bundle_name(channel: str) -> str:
    """Return the name of the bundle of a channel at a location."""
    return f"bundles/{channel}.json"


def package_name(digest: str) -> str:
    """Return the name of the archive with the files of a skill."""
    return f"packages/{digest}.zip"


def repair_hint(channel: str) -> str:
    """Return how a channel is repaired: without its bundle, a push stores all files again."""
    return f"Remove {bundle_name(channel)} there, then push from the device that has your skills."


def workspace_channel(name: str) -> str:
    """Return the channel of a workspace with this name; raise `Invalid` for a name that no location can store."""
    channel = f"workspace-{name.strip().lower().replace(' ', '-')}"
    if not _CHANNEL.fullmatch(channel):
        raise Invalid(
            f"{name[:80]!r} cannot be the name of a workspace at a sync location.",
            hint="Use --name with letters, digits, dots, hyphens and underscores.",
        )
    return channel


def key_id(key: str) -> str:
    """Return a short name for a key, which does not reveal it."""
    return hashlib.sha256(b"key id\0" + key.encode()).hexdigest()[:_ID_CHARS]


def write_bundle(bundle: Bundle, key: str) -> bytes:
    """Return the bundle as a file, with its checksum."""
    skills = {slug: [skill.digest, skill.accepted] for slug, skill in sorted(bundle.skills.items())}
    content = {
        "channel": bundle.channel,
        "device": bundle.device,
        "generation": bundle.generation,
        "pushed_at": bundle.pushed_at,
        "skills": skills,
    }
    sealed = {"version": VERSION, "key": key_id(key), "checksum": _checksum(key, content), "bundle": content}
    return json.dumps(sealed, indent=1, sort_keys=True).encode() + b"\n"


def read_bundle(data: bytes, channel: str, key: str) -> Bundle:
    """Return the bundle of a channel from a file.

    Raise `Refused` if it was made with another key, changed, or belongs to another channel, and `Invalid` if it cannot be read.
    """
    try:
        sealed = _object(json.loads(data))
        version, content = sealed.get("version"), _object(sealed.get("bundle"))
        # Both may fail with what JSON can express: lone surrogates, and deep nesting.
        stated, actual = str(sealed.get("checksum")).encode(), _checksum(key, content).encode()
    except (ValueError, RecursionError):
        raise _unreadable(channel) from None
    if version != VERSION:
        raise Invalid(
            f"This version of Prowess reads only bundles of version {VERSION}, and this bundle has another one.",
            hint="Update Prowess on this device.",
        )
    if sealed.get("key") != key_id(key):
        raise Refused(
            "The bundle at this location was pushed with another key, so it belongs to another owner.",
            hint="Run `prowess sync key` on the device that pushed it, and `prowess sync key --set` here.",
        )
    # The checksum comes first: nothing that an outsider wrote is parsed any further.
    if not hmac.compare_digest(stated, actual):
        raise Refused(
            "The bundle at this location was changed by someone who does not have your key.",
            hint=f"Nothing was changed here. Check who can write there. To repair it: {repair_hint(channel)}",
        )
    bundle = _parse(content, channel)
    if bundle.channel != channel:
        raise Refused(
            f"The bundle at this location is for {bundle.channel!r}, not for {channel!r}.",
            hint=f"Nothing was changed here. Someone has renamed it. To repair it: {repair_hint(channel)}",
        )
    return bundle


def _parse(content: Mapping[str, Any], channel: str) -> Bundle:
    try:
        skills = {
            _slug(slug): BundledSkill(digest=_digest(row[0]), accepted=row[1] is True)
            for slug, row in _object(content["skills"]).items()
        }
        return Bundle(
            channel=str(content["channel"]),
            generation=int(content["generation"]),
            skills=skills,
            device=str(content["device"]),
            pushed_at=str(content["pushed_at"]),
        )
    except (KeyError, IndexError, TypeError, ValueError):
        raise _unreadable(channel) from None


def _slug(value: str) -> str:
    if not is_slug(value):
        raise ValueError("slug")
    return value


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError("digest")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  (one kind of error for every malformed file)
    return cast("dict[str, Any]", value)


def _unreadable(channel: str) -> Invalid:
    return Invalid("The bundle at this location cannot be read.", hint=repair_hint(channel))


def _checksum(key: str, content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hmac.digest(key.encode(), _PURPOSE + text.encode(), "sha256").hex()
