"""Git repositories as sources: all files from one commit, read without a work tree.

Links and submodules are never followed: a skill that has one is unreadable. Every fetch pins the commit and the tree. It warns
about a history that does not continue, a tag that was moved, and a repository that has another address than before.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from prowess.errors import Invalid, NotFound, Problem, ProwessError, Refused, RunFailed, TryLater, Unavailable
from prowess.net.addresses import SystemResolver, non_public_reason
from prowess.net.connection import SystemConnector
from prowess.net.request import HttpRequest
from prowess.net.target import find_route, parse_target
from prowess.skill.filenames import is_ignored
from prowess.skill.limits import Limits
from prowess.skill.package import File, Mode, Package, check_size, too_large_error
from prowess.sources.discovery import Discovery, discover, discover_markdown
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState, UnreadableSkill
from prowess.sources.git_program import GitProgram, RepositoryMoved, uses_proxy
from prowess.sources.git_repository import GitRepository, Tip, TreeEntry
from prowess.sources.reference import SourceReference
from prowess.threads import check_cancelled, offload_cancellable

_MANIFESTS = (".claude-plugin/marketplace.json", ".claude-plugin/plugin.json", "skills-lock.json")
_MANIFEST_BYTES = 1 << 20
_MAX_MOVES = 3
_MODES: Mapping[str, Mode] = {"100644": "0644", "100664": "0644", "100755": "0755"}
_SPECIAL_MODES = {"120000": "a symbolic link", "160000": "a submodule"}


async def fetch_git(reference: SourceReference, context: FetchContext, last: SourceState | None = None) -> Fetched:
    """Fetch the skills of a repository at one commit. See `Fetcher`.

    Raise `NotFound` for a missing repository, ref or path, or one without skills; `Refused` for a repository that needs
    credentials, or a transport or address that is not allowed; `TooLarge` and `TryLater` at the limits of the context;
    `Unavailable` without a usable git.
    """
    moved: tuple[Problem, ...] = ()
    url, deadline = reference.url, time.monotonic() + context.seconds
    for _ in range(_MAX_MOVES):
        left = replace(context, seconds=max(deadline - time.monotonic(), 0.1))
        try:
            fetched = await _fetch_from(replace(reference, url=url), left, last)
        except RepositoryMoved:
            new = await _find_new_address(url, left)
            moved, url = (_moved_warning(reference.url, new),), new
        else:
            return replace(fetched, warnings=(*(moved or _address_warnings(url, last)), *fetched.warnings))
    raise TryLater(f"{reference.url} redirects too often.", hint="Open it in a browser, and use the final address.")


async def _fetch_from(reference: SourceReference, context: FetchContext, last: SourceState | None) -> Fetched:
    address, pins, protocol = await _check_address(reference.url, context)
    git = GitProgram(context, reference.url, pins=pins, extra_protocol=protocol)
    folder = context.cache / "git" / _cache_name(reference.url, credentials=context.credentials)
    job = _GitFetch(reference, context, git, GitRepository(git, folder, address), last)
    return await offload_cancellable(job.run, on_cancel=git.cancel)


def _cache_name(url: str, *, credentials: bool) -> str:
    # Apart for fetches without credentials: they must not see objects that someone's credentials have brought.
    return hashlib.sha256(f"{credentials}\0{url}".encode()).hexdigest()[:40]


async def _check_address(url: str, context: FetchContext) -> tuple[str, tuple[str, ...], str]:
    """Return the URL for git, the addresses that it must use, and a protocol to allow in addition.

    A host is looked up once, and git connects to the addresses that were checked. Raise `Refused` for one that is not public.
    ssh is not checked: names there may be aliases in the user's own configuration.
    """
    if not url.startswith("https://"):
        return url, (), ""
    target = parse_target(url)
    route = find_route(target, context.routes)
    if route is not None:
        # A route is the administrator's choice, so it may be private and unencrypted.
        return f"{route.scheme}://{route.shown}{target.path}", (), route.scheme
    if uses_proxy(context):
        return url, (), ""
    resolver = SystemResolver(1)
    try:
        async with asyncio.timeout(context.seconds):
            found = [target.address] if target.address else await resolver.addresses(target.host, target.port)
    except TimeoutError:
        raise TryLater(f"DNS lookup of {target.host} timed out.", hint="Try again, or check the network.") from None
    except RunFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error
    finally:
        resolver.close()
    for address in found:
        why = non_public_reason(address) or ("this machine" if SystemConnector().is_own(address) else "")
        if why:
            raise Refused(
                f"The host {target.shown} has an address that is not public ({why}).",
                hint="An administrator can allow it with `prowess policy set host_routes`.",
            )
    addresses = ",".join(f"[{address}]" if address.version == 6 else str(address) for address in found)
    return url, (f"{target.host}:{target.port}:{addresses}",) if target.address is None else (), ""


async def _find_new_address(url: str, context: FetchContext) -> str:
    """Return where a repository has moved to, by following its redirects with the guarded client."""
    request = HttpRequest(
        url=f"{url}/info/refs?service=git-upload-pack",
        any_host=True,
        routes=context.routes,
        seconds=min(30.0, context.seconds),
    )
    try:
        response = await context.client.send(request)
    except RunFailed as error:
        raise TryLater(f"{url} has moved, but its new address does not answer.", hint=error.message) from error
    address = response.url.partition("/info/refs")[0].rstrip("/")
    if response.status != 200 or address == url:
        raise NotFound(
            f"{url} has moved, and its new address is not public.",
            hint="Open it in a browser, and use the final address.",
        )
    return address


def _moved_warning(old: str, new: str) -> Problem:
    return _warning("repository-moved", f"The repository {old} has moved to {new}.", "Use the new address.")


def _address_warnings(url: str, last: SourceState | None) -> tuple[Problem, ...]:
    # After a move, its old name can be taken by someone else: it no longer redirects then.
    if last is None or not last.url or last.url == url:
        return ()
    message = f"The skills came from {last.url} before, and now come from {url}."
    return (_warning("repository-replaced", message, "Check that the repository belongs to the same people."),)


def _warning(code: str, message: str, hint: str) -> Problem:
    return Problem(code=code, severity="warning", message=message, hint=hint)


@dataclass(frozen=True, slots=True)
class _Place:
    """A skill in a repository: its path there, its name, its object, and its files by their path in the skill."""

    path: str
    name: str
    oid: str
    files: Mapping[str, TreeEntry]


class _GitFetch:
    """One fetch, in a thread."""

    def __init__(
        self,
        reference: SourceReference,
        context: FetchContext,
        git: GitProgram,
        repository: GitRepository,
        last: SourceState | None,
    ) -> None:
        self._reference, self._context, self._last = reference, context, last
        self._git, self._repository = git, repository

    def run(self) -> Fetched:
        """Return the skills, or `unchanged`."""
        reference, last = self._reference, self._last
        if reference.is_pinned and last is not None and last.revision == reference.ref:
            return self._unchanged(reference.ref, last.tree)  # a commit never changes
        with self._repository.opened():
            if reference.is_pinned:
                tip = Tip("", reference.ref, reference.path)
            else:
                tip = self._repository.find_tip(reference.ref, reference.path)
            if last is not None and last.revision == tip.commit:
                return self._unchanged(tip.commit, last.tree)
            was_empty = self._repository.is_empty
            try:
                return self._fetch(tip)
            except TryLater:
                # The remote has just answered, so perhaps the cache is damaged, by a crash or a full disk.
                if was_empty or not self._git.seconds_left:
                    raise
                self._repository.discard()
                return self._fetch(tip)

    def _fetch(self, tip: Tip) -> Fetched:
        tip = replace(tip, commit=self._repository.fetch_trees(tip))
        root = self._repository.find_path(tip.commit, tip.path)
        warnings = self._history_warnings(tip)
        if self._last is not None and self._last.tree == root.oid:
            return replace(self._unchanged(tip.commit, root.oid), warnings=warnings)
        skills, unreadable = self._read(self._find_places(root, tip.path))
        if not skills and not unreadable:
            where = f" in {tip.path!r}" if tip.path else ""
            raise NotFound(
                f"The repository has no skills{where}.", hint="A skill is a folder with a SKILL.md. Check the path."
            )
        state = self._state(tip.commit, root.oid)
        return Fetched(state=state, skills=tuple(skills), unreadable=tuple(unreadable), warnings=warnings)

    def _state(self, commit: str, tree: str) -> SourceState:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return SourceState(url=self._reference.url, revision=commit, tree=tree, checked_at=now)

    def _unchanged(self, commit: str, tree: str) -> Fetched:
        return Fetched(state=self._state(commit, tree), unchanged=True)

    def _history_warnings(self, tip: Tip) -> tuple[Problem, ...]:
        last = self._last
        if last is None or not last.revision or not tip.ref:
            return ()
        if tip.ref.startswith("refs/tags/"):
            message = f"The tag {tip.ref.removeprefix('refs/tags/')!r} was moved from {last.revision} to {tip.commit}."
            return (_warning("tag-moved", message, "Tags should not change: review what is different."),)
        continues = self._repository.continues(last.revision, tip.commit)
        if continues:
            return ()
        certain = "was rewritten" if continues is False else "may have been rewritten"
        message = f"The history {certain}: the last commit {last.revision} is not part of {tip.commit}."
        return (_warning("history-rewritten", message, "Check what is different before you accept it."),)

    def _find_places(self, root: TreeEntry, path: str) -> list[_Place]:
        """Return the skills below a tree, or the one that is a file."""
        if root.kind != "tree":
            name = path.rpartition("/")[2]
            return [_Place(path, name.rpartition(".")[0] or name, root.oid, {name: root})]
        entries = self._repository.list_tree(root.oid)
        files = {name: entry for name, entry in entries.items() if entry.kind != "tree"}
        found = self._discover(files)
        folders = _group_files(files, found.folders)
        # The name of the root is that of its folder, or of the repository.
        outer = path.rpartition("/")[2] or self._reference.source.rpartition("/")[2].removesuffix(".git")
        places = [
            _Place(
                _join(path, folder),
                folder.rpartition("/")[2] or outer,
                entries[folder].oid if folder else root.oid,
                inside,
            )
            for folder, inside in folders.items()
        ]
        for file in found.files:
            name = file.rpartition("/")[2]
            places.append(
                _Place(_join(path, file), name.rpartition(".")[0] or name, files[file].oid, {name: files[file]})
            )
        return places

    def _discover(self, files: Mapping[str, TreeEntry]) -> Discovery:
        if self._context.every_markdown:
            return discover_markdown(files)
        there = {path: files[path].oid for path in _MANIFESTS if path in files and files[path].mode in _MODES}
        sizes = self._repository.fetch_blobs(there.values()) if there else {}
        small = [oid for oid in there.values() if sizes.get(oid, _MANIFEST_BYTES) < _MANIFEST_BYTES]
        contents = dict(self._repository.read_blobs(small)) if small else {}
        return discover(files, lambda path: contents.get(there.get(path, "")))

    def _read(self, places: list[_Place]) -> tuple[list[FetchedSkill], list[UnreadableSkill]]:
        """Fetch and read the files of all skills. A skill that breaks a rule does not affect the others."""
        limits = self._context.limits
        unreadable: list[UnreadableSkill] = []
        good = _select(places, lambda place: _check_entries(place, limits), unreadable)
        sizes = self._repository.fetch_blobs(entry.oid for place in good for entry in place.files.values())
        good = _select(good, lambda place: _check_sizes(place, sizes, limits), unreadable)
        oids = {entry.oid for place in good for entry in place.files.values()}
        if sum(sizes[oid] for oid in oids) > self._context.max_bytes:
            raise self._git.too_large()
        contents = dict(self._repository.read_blobs(oids))
        skills: list[FetchedSkill] = []

        def read(place: _Place) -> None:
            package = _read_package(place, contents, limits)
            skills.append(FetchedSkill(package=package, path=place.path, revision=place.oid))

        _select(good, read, unreadable)
        return skills, unreadable


def _join(path: str, inside: str) -> str:
    return f"{path}/{inside}" if path and inside else path or inside


def _group_files(files: Mapping[str, TreeEntry], folders: Iterable[str]) -> dict[str, dict[str, TreeEntry]]:
    """Return the files of each folder by their path in it. A file of a skill inside a skill belongs to both."""
    groups: dict[str, dict[str, TreeEntry]] = {folder: {} for folder in folders}
    for path, entry in files.items():
        parts = path.split("/")
        if any(map(is_ignored, parts)):
            continue
        for count in range(len(parts)):
            group = groups.get("/".join(parts[:count]))
            if group is not None:
                group["/".join(parts[count:])] = entry
    return groups


def _select(
    places: Iterable[_Place], check: Callable[[_Place], None], unreadable: list[UnreadableSkill]
) -> list[_Place]:
    """Return the skills that pass a check; the others are added to `unreadable`."""
    good: list[_Place] = []
    for place in places:
        check_cancelled()
        try:
            check(place)
        except ProwessError as error:
            unreadable.append(UnreadableSkill(path=place.path, error=error))
        else:
            good.append(place)
    return good


def _check_entries(place: _Place, limits: Limits) -> None:
    """Raise `Invalid` for a skill with links, submodules or too many files, before any of its files is fetched."""
    if len(place.files) > limits.files:
        raise too_large_error("files in one skill", limits.files, f"{len(place.files):,}", "max_files")
    for path, entry in place.files.items():
        if entry.mode not in _MODES:
            raise Invalid(
                f"{path!r} is {_SPECIAL_MODES.get(entry.mode, 'not a regular file')}, which is not followed.",
                hint="Replace it with the file itself.",
            )


def _check_sizes(place: _Place, sizes: Mapping[str, int], limits: Limits) -> None:
    """Raise `TooLarge` for a skill over the limits, or `Invalid` for one whose files did not all arrive."""
    total = 0
    for path, entry in place.files.items():
        size = sizes.get(entry.oid)
        if size is None:
            raise Invalid(f"The server did not send {path!r}.", hint="Try again later.")
        check_size(path, size, limits)
        total += size
    if total > limits.skill_bytes:
        raise too_large_error("bytes in one skill", limits.skill_bytes, f"{total:,}", "max_skill_bytes")


def _read_package(place: _Place, contents: Mapping[str, bytes], limits: Limits) -> Package:
    files = [
        File(path=path, content=contents[entry.oid], mode=_MODES[entry.mode]) for path, entry in place.files.items()
    ]
    return Package.of(place.name, files, limits)
