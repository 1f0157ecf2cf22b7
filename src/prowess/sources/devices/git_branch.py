"""A branch of a git repository as a sync location. Every push is a commit, so that the history keeps all earlier states."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prowess.errors import Invalid, ProwessError, TooLarge, Unavailable
from prowess.sources.devices.location import StoredFile, changed_meanwhile
from prowess.sources.fetch_context import FetchContext
from prowess.sources.git_program import GitProgram, ObjectNotAllowed, RepositoryMoved
from prowess.sources.git_repository import GitRepository
from prowess.sources.reference import parse_source

BRANCH = "prowess-sync"
_IDENTITY = ("-c", "user.name=Prowess", "-c", "user.email=prowess@localhost", "-c", "commit.gpgSign=false")
_SEEN = "refs/prowess/seen"


@dataclass(frozen=True, slots=True)
class _Blob:
    """A file of the branch."""

    oid: str
    size: int


class GitBranchLocation:
    """Keeps files in one branch, `prowess-sync` unless the address ends with `#BRANCH`.

    git uses the person's own credentials. A push replaces only the commit that this device has seen (`--force-with-lease`).
    """

    def __init__(self, address: str, context: FetchContext) -> None:
        reference = parse_source(address)
        if not reference.is_git or reference.path or reference.skill:
            raise Invalid(
                f"{address[:200]!r} is not the address of a git repository.",
                hint="Use git@host:me/skills.git, https://host/me/skills.git or file:///folder/skills.git.",
            )
        self._url = reference.url
        self._branch = f"refs/heads/{reference.ref or BRANCH}"
        self.shown = f"{reference.url}#{reference.ref or BRANCH}"
        # The person's own repository may be on this machine or in the local network.
        self._git = GitProgram(
            context, reference.url, extra_protocol="file" if reference.url.startswith("file:") else ""
        )
        self._folder = context.cache / "devices" / hashlib.sha256(self.shown.encode()).hexdigest()[:40]
        self._repository = GitRepository(self._git, self._folder, reference.url)
        self._added: dict[str, bytes] = {}
        self._commit: str | None = None
        self._files: dict[str, _Blob] = {}

    def read(self, name: str, max_bytes: int) -> StoredFile | None:
        """Return a file of the branch, or None. The branch is fetched once."""
        with self._opened():
            self._fetch()
            found = self._files.get(name)
            if found is None:
                return None
            if found.size > max_bytes:
                raise TooLarge(f"{name} in {self.shown} exceeds the limit of {max_bytes:,} bytes.", hint="Remove it.")
            return StoredFile(data=self._git.run(self._folder, "cat-file", "blob", found.oid), tag=found.oid)

    def add(self, name: str, data: bytes) -> None:
        """Keep a file for the next commit."""
        self._added[name] = data

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """Commit a file together with those that were added, and push."""
        with self._opened():
            self._fetch()
            found = self._files.get(name)
            if (found.oid if found else "") != tag:
                raise changed_meanwhile(self.shown)
            added = self._store_blobs({**self._added, name: data})
            commit = self._make_commit(added, f"Sync {name.partition('/')[2].removesuffix('.json')}")
            self._push(commit)
            self._commit, self._files = commit, self._files | added
            self._added.clear()

    @contextmanager
    def _opened(self) -> Generator[None]:
        try:
            with self._repository.opened():
                yield
        except (RepositoryMoved, ObjectNotAllowed):
            raise Unavailable(
                f"{self._url} redirects to another address.", hint="Open it in a browser, and use the final address."
            ) from None

    def _run(self, *arguments: str, lines: list[str] | None = None) -> str:
        return self._git.run(self._folder, *arguments, lines=lines or []).decode().strip()

    def _remote_commit(self) -> str:
        """Return the commit of the branch at the remote; '' if there is no branch yet."""
        return self._run("ls-remote", "--", self._url, self._branch).partition("\t")[0]

    def _fetch(self) -> None:
        if self._commit is not None:
            return
        commit = self._remote_commit()
        if commit:
            options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", "--no-recurse-submodules")
            self._run("fetch", *options, "--", self._url, f"+{self._branch}:{_SEEN}")
            # The branch may have moved in between: what was fetched is what counts.
            commit = self._run("rev-parse", "--verify", _SEEN)
            listing = self._git.run(self._folder, "ls-tree", "-r", "-l", "-z", commit)
            self._files = dict(_parse_listing(listing))
        self._commit = commit

    def _store_blobs(self, contents: Mapping[str, bytes]) -> dict[str, _Blob]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            paths: list[str] = []
            for number, data in enumerate(contents.values()):
                path = Path(folder, str(number))
                path.write_bytes(data)
                paths.append(str(path))
            oids = self._run("hash-object", "-w", "--no-filters", "--stdin-paths", lines=paths).split()
        return {name: _Blob(oid, len(data)) for (name, data), oid in zip(contents.items(), oids, strict=True)}

    def _make_commit(self, added: Mapping[str, _Blob], message: str) -> str:
        """Return a new commit with these files, whose names have one slash. Everything else on the branch stays."""
        folders: dict[str, list[tuple[str, _Blob]]] = {}
        for name, blob in added.items():
            folder, _, last = name.partition("/")
            folders.setdefault(folder, []).append((last, blob))
        top = self._list_tree(self._commit or "")
        for folder, files in folders.items():
            mode, _, oid = [*top.get(folder, "").split()[:3], "", "", ""][:3]
            rows = self._list_tree(oid if mode == "040000" else "")
            rows |= {last: f"100644 blob {blob.oid}\t{last}" for last, blob in files}
            top[folder] = f"040000 tree {self._run('mktree', lines=list(rows.values()))}\t{folder}"
        tree = self._run("mktree", lines=list(top.values()))
        parent = ("-p", self._commit) if self._commit else ()
        return self._run(*_IDENTITY, "commit-tree", tree, *parent, "-m", message)

    def _list_tree(self, tree: str) -> dict[str, str]:
        """Return the rows of a folder by name, as `mktree` reads them; unusual names are quoted in both."""
        rows = self._run("-c", "core.quotePath=true", "ls-tree", tree).splitlines() if tree else []
        return {row.partition("\t")[2]: row for row in rows}

    def _push(self, commit: str) -> None:
        lease = f"--force-with-lease={self._branch}:{self._commit}"
        try:
            self._run("push", "--quiet", lease, "--", self._url, f"{commit}:{self._branch}")
        except ProwessError:
            if self._remote_commit() != self._commit:
                raise changed_meanwhile(self.shown) from None
            raise


def _parse_listing(listing: bytes) -> Generator[tuple[str, _Blob]]:
    """Yield the plain files of `ls-tree -r -l -z`; a branch that something else has written to may have others."""
    for row in listing.decode(errors="replace").split("\0"):
        head, _, name = row.partition("\t")
        mode, kind, oid, size = [*head.split(), "", "", "", ""][:4]
        if kind == "blob" and mode == "100644" and name.count("/") <= 1 and size.isdigit():
            yield name, _Blob(oid, int(size))
