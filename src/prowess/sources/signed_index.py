"""The signed index of a registry: every version of every package with its digest, in one document with one signature.

The document is a DSSE envelope (`payload`, `payloadType`, `signatures`), so that exactly the signed bytes are parsed. Its
fields stop what a registry, or someone between it and the client, could do with packages that were once published:

| attack | field |
|---|---|
| other bytes under a published version | the digests of each version |
| an old state, to bring back a flaw (rollback) | `sequence`, which only grows |
| no new state at all (freeze) | `expires_at` |
| versions of several states (mix-and-match) | one signature over all of them |
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from prowess.errors import Invalid, Refused
from prowess.skill.semver import is_prerelease, version_key
from prowess.sources.signature import public_key, sign_bytes, verify_bytes

PAYLOAD_TYPE = "application/vnd.prowess.registry-index+json"
SCHEMA = "prowess-registry/1"
LIFETIME = timedelta(days=7)
"""How long an index proves that it is the newest one. The registry signs a new one after half of it."""
MAX_INDEX_BYTES = 64 << 20
_MAX_SIGNATURES = 8
# Clocks differ; an index of the near future is not an attack.
_CLOCK_SKEW = timedelta(minutes=5)

_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# The pattern of a slug, whose dots separate a namespace; the reader of a package checks it again.
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$", max_length=200)]
# A version is part of a path, so it must not have characters that mean something there.
_Version = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]*$", max_length=100)]
_Text = Annotated[str, StringConstraints(max_length=4096)]


class _Document(BaseModel):
    # Unknown fields are ignored: a newer registry may add some.
    model_config = ConfigDict(frozen=True, extra="ignore")


class IndexEntry(_Document):
    """One version of a package."""

    name: _Name
    version: _Version
    digest: _Sha256
    """The digest of the package: its paths, modes and bytes."""
    archive: _Sha256
    """The SHA-256 of the archive as it is downloaded."""
    size: int = Field(ge=0)
    description: _Text = ""
    tags: tuple[Annotated[str, StringConstraints(max_length=200)], ...] = Field(default=(), max_length=200)
    publisher: Annotated[str, StringConstraints(max_length=200)] = ""
    published_at: Annotated[str, StringConstraints(max_length=40)] = ""
    yanked: bool = False
    """True if the version should not be installed any more. Its bytes stay, for those who have pinned it."""
    signature: Annotated[str, StringConstraints(max_length=16 << 10)] = ""
    """The signature over the digest, as `prowess.sources.signature` reads it."""


class RegistryIndex(_Document):
    """Every version that a registry has, at one moment."""

    schema_: Literal["prowess-registry/1"] = Field(default=SCHEMA, alias="schema")
    registry: Annotated[str, StringConstraints(max_length=200)] = ""
    """The id of the registry, which is part of the id of each of its skills."""
    sequence: int = Field(ge=1)
    generated_at: datetime
    expires_at: datetime
    versions: tuple[IndexEntry, ...] = ()

    def latest(self) -> tuple[IndexEntry, ...]:
        """Return the newest version of each package, as `latest_entries` does."""
        return latest_entries(self.versions)

    def find(self, name: str, version: str = "") -> IndexEntry | None:
        """Return one version of a package, the newest one by default; None if there is none."""
        if not version:
            return next((entry for entry in self.latest() if entry.name == name), None)
        return next((entry for entry in self.versions if (entry.name, entry.version) == (name, version)), None)


def latest_entries(versions: Iterable[IndexEntry]) -> tuple[IndexEntry, ...]:
    """Return the newest version of each package that was not yanked, sorted by name: releases before pre-releases."""
    newest: dict[str, IndexEntry] = {}
    for entry in versions:
        if not entry.yanked and (entry.name not in newest or _rank(entry) > _rank(newest[entry.name])):
            newest[entry.name] = entry
    return tuple(newest[name] for name in sorted(newest))


def _rank(entry: IndexEntry) -> tuple[bool, Any]:
    return (not is_prerelease(entry.version), version_key(entry.version))


def make_index(
    entries: Iterable[IndexEntry], *, registry: str, sequence: int, at: datetime, lifetime: timedelta = LIFETIME
) -> RegistryIndex:
    """Return the index of these versions, valid from now on."""
    return RegistryIndex(
        registry=registry, sequence=sequence, generated_at=at, expires_at=at + lifetime, versions=tuple(entries)
    )


def sign_index(index: RegistryIndex, private_key: str, entries: Iterable[str] = ()) -> bytes:
    """Return an index as a signed envelope. `entries` are versions as JSON, instead of those of the index."""
    written = list(entries)
    head = index.model_dump_json(by_alias=True, exclude={"versions"} if written else None)
    # A registry with thousands of versions signs an index at each publication. Reading and writing every entry again would
    # take most of the time.
    payload = (f'{head[:-1]},"versions":[{",".join(written)}]}}' if written else head).encode()
    signed = sign_bytes(_encode_for_signing(payload), private_key)
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": public_key(private_key), "sig": signed}],
    }
    return json.dumps(envelope, separators=(",", ":")).encode()


def open_index(envelope: bytes, key: str = "") -> tuple[RegistryIndex, str]:
    """Return the index in a signed envelope, and the public key that signed it.

    With `key`, only a signature of this key counts; without one, the first valid signature names the key to remember. Raise
    `Refused` if no signature counts, and `Invalid` if the document is malformed. The age is not checked here.
    """
    payload, signatures = _parse_envelope(envelope)
    signed = _encode_for_signing(payload)
    offered = [str(signature.get("keyid", "")) for signature in signatures]
    for signature in signatures:
        offered_key = str(signature.get("keyid", ""))
        if (not key or offered_key == key) and _is_valid(signed, str(signature.get("sig", "")), offered_key):
            return _parse_payload(payload), offered_key
    if key and key not in offered:
        raise Refused(
            "The registry's index is signed with another key than before.",
            hint="Ask the operator of the registry for its public key. If it really changed, remove the source and add it again.",
        )
    raise Refused(
        "The signature of the registry's index is not valid.",
        hint="The index was changed after signing. Nothing in it was used. Try again, and inform the registry's operator.",
    )


def check_age(index: RegistryIndex, *, now: datetime | None = None) -> None:
    """Raise `Refused` if an index has expired, or is from the future."""
    moment = now or datetime.now(UTC)
    if moment > index.expires_at + _CLOCK_SKEW:
        raise Refused(
            f"The registry's index expired on {index.expires_at:%Y-%m-%d %H:%M} UTC.",
            hint="Newer versions may be held back. Check the clock of this machine, then ask the registry's operator.",
        )
    if index.generated_at > moment + _CLOCK_SKEW:
        raise Refused(
            f"The registry's index is from the future ({index.generated_at:%Y-%m-%d %H:%M} UTC).",
            hint="Check the clock of this machine.",
        )


def check_duplicates(entries: Collection[IndexEntry]) -> None:
    """Raise `Invalid` if an index has a version twice: clients could then see different packages under one version."""
    if len({(entry.name, entry.version) for entry in entries}) != len(entries):
        raise Invalid("The registry's index lists a version twice.", hint="Report this to the registry's operator.")


def _encode_for_signing(payload: bytes) -> bytes:
    """Return what is signed: type and payload, each with its length, so that no other pair gives the same bytes (DSSE)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _is_valid(signed: bytes, signature: str, key: str) -> bool:
    try:
        return verify_bytes(signed, signature, key)
    except Invalid:
        return False


def _parse_envelope(envelope: bytes) -> tuple[bytes, list[dict[str, Any]]]:
    try:
        document: object = json.loads(envelope)
        if not isinstance(document, dict):
            raise _malformed()
        fields = cast("dict[str, Any]", document)
        signatures: object = fields.get("signatures")
        payload = base64.b64decode(str(fields.get("payload", "")), validate=True)
    except (ValueError, RecursionError, binascii.Error) as error:
        raise _malformed() from error
    if fields.get("payloadType") != PAYLOAD_TYPE or not isinstance(signatures, list):
        raise _malformed()
    listed = cast("list[object]", signatures)[:_MAX_SIGNATURES]
    return payload, [cast("dict[str, Any]", row) for row in listed if isinstance(row, dict)]


def _parse_payload(payload: bytes) -> RegistryIndex:
    try:
        index = RegistryIndex.model_validate_json(payload)
    except ValidationError as error:
        raise _malformed() from error
    if index.generated_at.tzinfo is None or index.expires_at.tzinfo is None:
        raise _malformed()
    check_duplicates(index.versions)
    return index


def _malformed() -> Invalid:
    return Invalid("The registry's index is malformed.", hint="Check the URL: it must be a Prowess registry.")
