"""Fetch the skills that a site publishes under `/.well-known/`, by the discovery protocol v0.2.0 or v0.1.0.

The index of v0.2.0 has the digest of every skill, so it pins all of them. The index of v0.1.0 only lists files: these are
downloaded every time, and the index once more at the end, to notice a site that changed in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast
from urllib.parse import quote, urljoin, urlsplit

from prowess.errors import DuplicateSkill, Invalid, NotFound, Problem, ProwessError, Refused, TooLarge, TryLater
from prowess.net.request import HttpClient
from prowess.skill.archive import read_archive_files
from prowess.skill.filenames import MAX_DESCRIPTION_CHARS, SKILL_MD, is_skill_md
from prowess.skill.json_values import json_object
from prowess.skill.limits import MIB, Limits
from prowess.skill.package import File, Package, check_path, too_large_error
from prowess.sources.download import MAX_SECONDS, Download, RoutedClient, download, shown_url
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState, UnreadableSkill
from prowess.sources.reference import SourceReference
from prowess.sources.url import content_revision, moved_warning, text_file
from prowess.storage.clock import now
from prowess.threads import offload, offload_if_large

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
MAX_INDEX_BYTES = 4 * MIB
MAX_SKILLS = 5_000
MAX_BYTES = 64 * MIB
"""Of all files of a site together."""
AT_ONCE = 6
"""How many files are downloaded at a time."""

_FOLDERS = (".well-known/agent-skills", ".well-known/skills")
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_JSON_TYPES = ("application/json", "application/*", "text/json")
_TEXT_TYPES = ("text/markdown", "text/*")
_ARCHIVE_TYPES = ("application/gzip", "application/zip", "application/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A skill of an index: of v0.2.0 with a digest and one file, of v0.1.0 with several files."""

    name: str
    type: Literal["skill-md", "archive", "files"]
    urls: tuple[str, ...]
    digest: str = ""
    files: tuple[str, ...] = ()
    """The paths of the files, in the order of their URLs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """The usable entries of an index, and the others."""

    pinned: bool
    """True if the index has the digest of every skill."""
    entries: tuple[_Entry, ...]
    unreadable: tuple[UnreadableSkill, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _ByteBudget:
    """The bytes that a whole site may still send, and have when unpacked."""

    limit: int
    spent: int = 0

    def spend(self, count: int) -> None:
        self.spent += count
        if self.spent > self.limit:
            raise TooLarge(
                f"The skills of the site exceed the limit of {self.limit:,} bytes together.",
                hint="Add single skills by their URLs.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One fetch of a site: what its downloads share."""

    client: HttpClient
    seconds: float
    limits: Limits
    budget: _ByteBudget
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def get(self, url: str, *, max_bytes: int, accept: Sequence[str], etag: str = "") -> Download:
        async with self.turns:
            self.budget.spend(0)
            most = min(max_bytes, self.budget.limit - self.budget.spent + 1)
            file = await download(self.client, url, etag=etag, max_bytes=most, seconds=self.seconds, accept=accept)
        self.budget.spend(len(file.body))
        return file


async def fetch_well_known(
    reference: SourceReference, context: FetchContext, last: SourceState | None = None
) -> Fetched:
    """Return the skills that a site lists, or the one that the reference names; `unchanged` if the index has not changed.

    A skill that cannot be downloaded, or has another digest than the index says, is `unreadable`. The result is never
    `complete`: an index is not signed and has no count, so a short one may be half of one. Raise `NotFound` if the site has no
    index, `TryLater` if not everything arrives in time, and `Invalid` if the index cannot be used.
    """
    site = _Site(
        client=RoutedClient(context.client, context.routes),
        seconds=min(context.seconds, MAX_SECONDS),
        limits=context.limits,
        budget=_ByteBudget(min(MAX_BYTES, context.max_bytes)),
    )
    try:
        async with asyncio.timeout(site.seconds):
            return await _fetch(site, reference, last)
    except TimeoutError:
        raise TryLater(
            f"{shown_url(reference.url)} did not send all skills within {site.seconds:g} seconds.",
            hint="Try again later.",
        ) from None


async def _fetch(site: _Site, reference: SourceReference, last: SourceState | None) -> Fetched:
    address, file = await _find_index(site, reference.url, last)
    if file.unchanged and last:
        return Fetched(state=replace(last, etag=file.etag, checked_at=now()), complete=False, unchanged=True)
    index = await offload_if_large(len(file.body), _parse_index, file, address)
    entries = [entry for entry in index.entries if reference.skill in ("", entry.name)]
    if not entries and index.entries:
        raise NotFound(
            f"{shown_url(address)} does not list {reference.skill!r}.",
            hint=f"It lists {', '.join(entry.name for entry in index.entries[:20])}.",
        )
    read = await _read_entries(site, entries)
    skills = tuple(result for result in read if isinstance(result, FetchedSkill))
    unreadable = (*index.unreadable, *(result for result in read if isinstance(result, UnreadableSkill)))
    if not index.pinned:
        await _check_unchanged(site, address, file)
    # A state with an ETag or a revision lets the next fetch stop early. One with missing skills must not: they would stay
    # missing until the index changes.
    state = SourceState(url=address, checked_at=now())
    if not unreadable:
        revision = content_revision(file.body) if index.pinned else _files_revision(skills)
        state = replace(state, revision=revision, etag=file.etag if index.pinned else "")
    warnings = (*moved_warning(last, state), *index.warnings)
    if last and state.revision and state.revision == last.revision:
        return Fetched(state=state, warnings=warnings, complete=False, unchanged=True)
    return Fetched(state=state, skills=skills, unreadable=unreadable, warnings=warnings, complete=False)


def index_urls(url: str) -> list[str]:
    """Return where the index of a site may be, in the order in which to look."""
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if path.endswith("/index.json") and "/.well-known/" in path:
        return [f"{origin}{path}"]
    bases = dict.fromkeys((f"{origin}{path}", origin))
    return [f"{base}/{folder}/index.json" for folder in _FOLDERS for base in bases]


async def _find_index(site: _Site, url: str, last: SourceState | None) -> tuple[str, Download]:
    """Return the index and its address: the address of the last time, or the first candidate that has one."""
    candidates = index_urls(url)
    known = last.url if last and last.url in candidates else ""
    problem: ProwessError | None = None
    for address in [known] if known else candidates:
        try:
            return address, await site.get(
                address, max_bytes=MAX_INDEX_BYTES, accept=_JSON_TYPES, etag=last.etag if last and known else ""
            )
        except NotFound as error:
            # A site that had an index and lost it is an error, not a reason to trust another address.
            if known:
                raise
            problem = problem or error
        except (Invalid, Refused) as error:
            # A page instead of a missing file, or 403 as object stores answer for one.
            problem = error
            if known:
                raise
    if problem is None or isinstance(problem, NotFound):
        raise NotFound(
            f"{urlsplit(url).netloc} publishes no skills: there is no index at {' or '.join(map(shown_url, candidates))}.",
            hint="Use the URL of a SKILL.md, an archive or a git repository.",
        )
    raise problem


async def _check_unchanged(site: _Site, address: str, file: Download) -> None:
    again = await site.get(address, max_bytes=MAX_INDEX_BYTES, accept=_JSON_TYPES)
    if again.body != file.body:
        raise TryLater(f"{shown_url(address)} changed while its skills were downloaded.", hint="Try again.")


def _parse_index(file: Download, address: str) -> _Index:
    try:
        value: object = json.loads(file.body)
    except (ValueError, RecursionError):
        raise _index_error(address, "is not valid JSON, or nested too deeply") from None
    data = json_object(value)
    listed = data.get("skills")
    if not isinstance(listed, list):
        raise _index_error(address, "has no list of skills")
    rows = cast("list[Any]", listed)
    # Half-written files and broken generators look like this; a site that stops publishing removes its index.
    if not rows:
        raise _index_error(address, "lists no skills")
    if len(rows) > MAX_SKILLS:
        raise too_large_error("skills in one index", MAX_SKILLS, f"{len(rows):,}", "max_files")
    if "$schema" not in data:
        return _parse_v1(rows, address)
    if data["$schema"] != SCHEMA:
        raise _index_error(address, f"has the unknown schema {str(data['$schema'])[:120]!r}")
    return _parse_v2(rows, file.url)


def _index_error(address: str, what: str) -> Invalid:
    return Invalid(f"The index {shown_url(address)} {what}.", hint=f"Supported are v0.1.0 and v0.2.0 ({SCHEMA}).")


def _parse_v2(rows: list[Any], base: str) -> _Index:
    entries: dict[str, _Entry] = {}
    unreadable: list[UnreadableSkill] = []
    warnings: list[Problem] = []
    for number, row in enumerate(rows):
        try:
            entry = _parse_v2_entry(row, base)
        except Invalid as error:
            unreadable.append(UnreadableSkill(path=_shown_name(row, number), error=error))
            continue
        if entry is None:
            warnings.append(_unknown_type(_shown_name(row, number), row["type"]))
        elif entry.name in entries:
            unreadable.append(UnreadableSkill(path=entry.name, error=_listed_twice(entry.name)))
        else:
            entries[entry.name] = entry
    return _Index(pinned=True, entries=tuple(entries.values()), unreadable=tuple(unreadable), warnings=tuple(warnings))


def _parse_v2_entry(row: Any, base: str) -> _Entry | None:
    """Return the entry of a row; None if it has a type that a later version may define."""
    fields = _row_fields(row)
    kind, digest, link = fields.get("type"), fields.get("digest"), fields.get("url")
    if not isinstance(kind, str):
        raise Invalid("The entry has no type.", hint="Use `skill-md` or `archive`.")
    if kind not in ("skill-md", "archive"):
        return None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Invalid("The entry has no valid digest.", hint="Use `sha256:` and 64 lowercase hex digits.")
    if not isinstance(link, str) or not link:
        raise Invalid("The entry has no URL.", hint="Add `url`.")
    try:
        url = urljoin(base, link)
    except ValueError:
        raise Invalid("The entry has an invalid URL.", hint="Correct `url`.") from None
    return _Entry(name=fields["name"], type="skill-md" if kind == "skill-md" else "archive", urls=(url,), digest=digest)


def _parse_v1(rows: list[Any], address: str) -> _Index:
    """Return the index of version 0.1.0. One invalid entry makes all of it invalid, as in the skills CLI."""
    base = address.removesuffix("index.json")
    entries: dict[str, _Entry] = {}
    for number, row in enumerate(rows):
        try:
            entry = _parse_v1_entry(row, base)
        except Invalid as error:
            raise _index_error(address, f"has an invalid entry, {_shown_name(row, number)}: {error.message}") from None
        if entry.name in entries:
            raise _index_error(address, f"has an invalid entry: {_listed_twice(entry.name).message}")
        entries[entry.name] = entry
    return _Index(pinned=False, entries=tuple(entries.values()))


def _parse_v1_entry(row: Any, base: str) -> _Entry:
    fields = _row_fields(row)
    listed = fields.get("files")
    files = [path for path in cast("list[Any]", listed) if isinstance(path, str)] if isinstance(listed, list) else []
    if not files or len(files) != len(cast("list[Any]", listed)):
        raise Invalid("The entry has no valid list of files.")
    for path in files:
        check_path(path)
    if not any(is_skill_md(path) for path in files):
        raise Invalid("The entry lists no SKILL.md.")
    urls = tuple(f"{base}{fields['name']}/{quote(path)}" for path in files)
    return _Entry(name=fields["name"], type="files", urls=urls, files=tuple(files))


def _row_fields(row: Any) -> dict[str, Any]:
    """Return the fields of an entry of either version, with a valid name and description."""
    fields = json_object(row)
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid("The entry has no valid name.", hint="Use 1 to 64 lowercase letters, digits and single hyphens.")
    if not isinstance(description, str) or not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        raise Invalid("The entry has no valid description.", hint=f"Use 1 to {MAX_DESCRIPTION_CHARS} characters.")
    return fields


def _shown_name(row: Any, number: int) -> str:
    name = json_object(row).get("name")
    return name if isinstance(name, str) and _NAME.fullmatch(name) else f"skills[{number}]"


def _listed_twice(name: str) -> DuplicateSkill:
    return DuplicateSkill(f"The index lists {name!r} twice.", hint="Ask the site to remove one of the entries.")


def _unknown_type(name: str, kind: str) -> Problem:
    return Problem(
        code="unknown-skill-type",
        severity="warning",
        message=f"{name} has the unknown type {kind[:80]!r} and was skipped.",
        hint="Known types are skill-md and archive.",
        field=name,
    )


async def _read_entries(site: _Site, entries: Sequence[_Entry]) -> list[FetchedSkill | UnreadableSkill]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_read_entry(site, entry)) for entry in entries]
    return [task.result() for task in tasks]


async def _read_entry(site: _Site, entry: _Entry) -> FetchedSkill | UnreadableSkill:
    try:
        package = await _download_package(site, entry)
    except ProwessError as error:
        return UnreadableSkill(path=entry.name, error=error)
    return FetchedSkill(package=package, path=entry.name, revision=entry.digest or package.digest)


async def _download_package(site: _Site, entry: _Entry) -> Package:
    limits = site.limits
    if entry.type == "files":
        if len(entry.files) > limits.files:
            raise too_large_error("files in one skill", limits.files, f"{len(entry.files):,}", "max_files")
        files = [await _download_file(site, path, url) for path, url in zip(entry.files, entry.urls, strict=True)]
        return Package.of(entry.name, files, limits)
    most, accept = (
        (limits.skill_md_bytes, _TEXT_TYPES) if entry.type == "skill-md" else (limits.archive_bytes, _ARCHIVE_TYPES)
    )
    file = await site.get(entry.urls[0], max_bytes=most, accept=accept)
    if content_revision(file.body) != entry.digest:
        raise Invalid(
            f"{shown_url(file.url)} does not have the digest that the index lists.",
            hint="Try again later: the site may be in the middle of an update. Otherwise, someone has changed the file.",
        )
    if entry.type == "skill-md":
        return Package.of(entry.name, [text_file(SKILL_MD, file.body)], limits)
    files = await offload(read_archive_files, file.body, "archive", limits)
    site.budget.spend(sum(len(one.content) for one in files))
    if not any(is_skill_md(one.path) for one in files):
        raise Invalid("The archive has no SKILL.md at its root.", hint="Pack the files without a folder around them.")
    return Package.of(entry.name, files, limits)


async def _download_file(site: _Site, path: str, url: str) -> File:
    """Return one file of a skill, which may be of any type; only SKILL.md must be text."""
    if is_skill_md(path):
        return text_file(path, (await site.get(url, max_bytes=site.limits.skill_md_bytes, accept=_TEXT_TYPES)).body)
    file = await site.get(url, max_bytes=site.limits.file_bytes, accept=("text/html", "*/*"))
    return File(path=path, content=file.body)


def _files_revision(skills: Sequence[FetchedSkill]) -> str:
    rows = sorted((skill.path, skill.package.digest) for skill in skills)
    return f"sha256:{hashlib.sha256(json.dumps(rows).encode()).hexdigest()}"
