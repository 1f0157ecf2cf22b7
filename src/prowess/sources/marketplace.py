"""Fetch all skills of a marketplace, which is a Prowess registry: only if its index changed, and only what the index proves.

The index is signed with one key, which is pinned: given by a person, or remembered from the first fetch. Nothing is
returned from an index that is older than the last one, has expired, or is signed with another key, and every package must
have the digest that this one index states.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from prowess.errors import Invalid, Problem, ProwessError, Refused, TooLarge, TryLater
from prowess.net.request import HttpClient
from prowess.skill.archive import read_archive
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package
from prowess.sources.download import MAX_SECONDS, download
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState, UnreadableSkill
from prowess.sources.signature import check_public_key, kind_of, verify
from prowess.sources.signed_index import LIFETIME, MAX_INDEX_BYTES, IndexEntry, RegistryIndex, check_age, open_index
from prowess.threads import offload

INDEX_PATH = "/api/v1/index"
MAX_TOTAL_BYTES = 1 << 30
"""The archives of all skills together: they are in memory until they are stored."""
_CONCURRENT = 8

FindKnown = Callable[[str, str], Package | None]
"""Returns the package with this name and digest if it is stored here already, so that it is not downloaded again."""


async def fetch_marketplace(
    base_url: str,
    *,
    client: HttpClient,
    last: SourceState | None = None,
    key: str = "",
    token: str = "",
    known: FindKnown | None = None,
    limits: Limits = DEFAULT_LIMITS,
    seconds: float = MAX_SECONDS,
    now: datetime | None = None,
) -> Fetched:
    """Return the newest version of every skill of a registry, or an `unchanged` result.

    `key` is the public key that must have signed the index, by default the one of `last`; without either, the key of this
    index is remembered. `token` is sent to a private registry. `seconds` is the deadline of each request; after one that
    misses it, no other one starts.

    Raise `Refused` for another key, an invalid signature, an older or expired index, and a package that is not the one of the
    index; then nothing may be changed. A skill that could not be downloaded or read is `unreadable`, and if it may come back
    by itself, the next fetch tries again. A warning says when the last proof of freshness has expired.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    base = base_url.rstrip("/")
    pinned = check_public_key(key) if key else (last.key if last else "")
    # An ETag may only save the download of an index whose age is known and whose key still counts.
    trusted = last if last and last.etag and last.checked_at and last.key == pinned else None
    found = await download(
        client,
        base + INDEX_PATH,
        etag=trusted.etag if trusted else "",
        max_bytes=MAX_INDEX_BYTES,
        seconds=seconds,
        accept=("application/json",),
        headers=headers,
    )
    if found.unchanged and trusted:
        return _unchanged(trusted, now)
    index, signer = await offload(open_index, found.body, pinned)
    # Of the signed content alone. Anyone can change what is around it, and the next index would then look like a second one.
    revision = hashlib.sha256(index.model_dump_json().encode()).hexdigest()
    if last:
        _check_order(index, revision, last)
    check_age(index, now=now)
    if trusted and trusted.revision == revision:
        return _unchanged(trusted, now)
    downloads = _Downloads(client, base, headers, limits, known, seconds)
    skills, unreadable, is_final = await downloads.fetch_all(index)
    state = SourceState(
        url=base,
        revision=revision,
        # Without an ETag, the next fetch does not take the skills that are missing now for unchanged.
        etag=found.etag if is_final else "",
        sequence=index.sequence,
        checked_at=index.generated_at.astimezone(UTC).isoformat(),
        key=signer,
    )
    warnings = () if pinned else (_new_key(signer),)
    return Fetched(
        state=state, skills=tuple(skills), unreadable=tuple(unreadable), warnings=warnings, complete=not unreadable
    )


def _unchanged(last: SourceState, now: datetime | None) -> Fetched:
    """Return the result for an index that the registry has not changed, with a warning if its proof has expired."""
    expires_at = datetime.fromisoformat(last.checked_at) + LIFETIME
    if (now or datetime.now(UTC)) <= expires_at:
        return Fetched(state=last, unchanged=True)
    expired = Problem(
        code="index-expired",
        severity="warning",
        message=f"The registry has not published a new index since the last one expired on {expires_at:%Y-%m-%d}.",
        hint="Newer versions may be held back. Ask the operator of the registry, and check the network connection.",
    )
    # Without the ETag, the next fetch asks for the whole index and refuses it if it is still the old one.
    return Fetched(state=replace(last, etag=""), unchanged=True, warnings=(expired,))


def _check_order(index: RegistryIndex, revision: str, last: SourceState) -> None:
    if index.sequence < last.sequence:
        raise Refused(
            f"The registry went back from index {last.sequence} to {index.sequence}.",
            hint="Someone may be replaying an old state. Nothing was changed. Ask the operator of the registry.",
        )
    if index.sequence == last.sequence and last.revision and revision != last.revision:
        raise Refused(
            f"The registry has two different indexes with the number {index.sequence}.",
            hint="It may be showing different packages to different users. Nothing was changed. Ask its operator.",
        )


def _new_key(key: str) -> Problem:
    return Problem(
        code="new-registry-key",
        severity="info",
        message=f"The registry's key is remembered from now on: {key}",
        hint="Compare it with the key that the registry's operator publishes.",
    )


class _Downloads:
    """Downloads the packages of one index, some at a time."""

    def __init__(
        self,
        client: HttpClient,
        base: str,
        headers: dict[str, str],
        limits: Limits,
        known: FindKnown | None,
        seconds: float,
    ) -> None:
        self._seconds = seconds
        self._client = client
        self._base = base
        self._headers = headers
        self._limits = limits
        self._known = known
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._is_down = False

    async def fetch_all(self, index: RegistryIndex) -> tuple[list[FetchedSkill], list[UnreadableSkill], bool]:
        """Return the skills, those that could not be read, and False if a new attempt could read more."""
        entries = index.latest()
        total = sum(entry.size for entry in entries)
        if total > MAX_TOTAL_BYTES:
            raise TooLarge(
                f"The skills of the registry have {total:,} bytes, more than the limit of {MAX_TOTAL_BYTES:,}.",
                hint="Install single skills instead of syncing the whole registry.",
            )
        stored = await offload(self._find_stored, entries)
        tasks = (self._fetch(entry, index.registry) for entry in entries if entry.name not in stored)
        # All are awaited, so that no download continues after an error.
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        skills = [_make_skill(entry, stored[entry.name], index.registry) for entry in entries if entry.name in stored]
        skills += [result for result in results if isinstance(result, FetchedSkill)]
        unreadable = [result for result in results if isinstance(result, UnreadableSkill)]
        return skills, unreadable, all(isinstance(skill.error, Invalid) for skill in unreadable)

    def _find_stored(self, entries: Sequence[IndexEntry]) -> dict[str, Package]:
        """Return the packages that need not be downloaded, by name."""
        if self._known is None:
            return {}
        found = {entry.name: self._known(entry.name, entry.digest) for entry in entries}
        digests = {entry.name: entry.digest for entry in entries}
        return {name: package for name, package in found.items() if package and package.digest == digests[name]}

    async def _fetch(self, entry: IndexEntry, registry: str) -> FetchedSkill | UnreadableSkill:
        try:
            return make_skill(entry, await self._download(entry), registry)
        except Refused:
            # Not one bad skill among good ones: these are not the bytes that the registry signed, or it shuts us out.
            self._is_down = True
            raise
        except ProwessError as error:
            return UnreadableSkill(path=entry.name, error=error)

    async def _download(self, entry: IndexEntry) -> Package:
        async with self._slots:
            if self._is_down:
                raise TryLater("The registry stopped answering during the sync.", hint="Sync again later.")
            url = self._base + archive_path(entry)
            try:
                found = await download(
                    self._client,
                    url,
                    max_bytes=self._limits.archive_bytes,
                    seconds=self._seconds,
                    headers=self._headers,
                )
            except TryLater:
                # The others would wait for their own deadlines, one after the other.
                self._is_down = True
                raise
            return await offload(open_archive, found.body, entry, self._limits)


def open_archive(content: bytes, entry: IndexEntry, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Return the package in a downloaded archive. Raise `Refused` if it is not exactly the one that the index states."""
    if hashlib.sha256(content).hexdigest() != entry.archive:
        raise Refused(
            f"{entry.name} {entry.version} differs from the archive in the registry's index.",
            hint="It was changed in the registry or during the download. Nothing was changed here.",
        )
    packages = read_archive(content, f"{entry.name}.zip", limits)
    package = Package.of(entry.name, packages[0].files, limits)
    if len(packages) != 1 or package.digest != entry.digest:
        raise Refused(
            f"The files of {entry.name} {entry.version} differ from those in the registry's index.",
            hint="Nothing was changed. Report this to the operator of the registry.",
        )
    return package


def make_skill(entry: IndexEntry, package: Package, registry: str) -> FetchedSkill:
    """Return a package as a skill of a registry. Raise `Refused` if its ed25519 signature does not match the package."""
    signature = entry.signature.encode()
    # By whom it is signed is for the reader of `signature` to decide; here it must only belong to these files.
    if signature and kind_of(signature) == "ed25519":
        verify(package.digest, signature)
    return _make_skill(entry, package, registry)


def _make_skill(entry: IndexEntry, package: Package, registry: str) -> FetchedSkill:
    return FetchedSkill(
        package=package,
        path=entry.name,
        revision=entry.version,
        signature=entry.signature.encode(),
        marketplace_id=f"{registry}/{entry.name}",
        etag=f'"{entry.archive}"',
    )


def archive_path(entry: IndexEntry) -> str:
    """Return where a registry has the archive of a version."""
    return f"/api/v1/skills/{quote(entry.name, safe='')}/{quote(entry.version, safe='')}/archive"
