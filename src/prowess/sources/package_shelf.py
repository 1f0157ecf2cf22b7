"""The packages that a registry server publishes, in one SQLite file.

A version never changes: its bytes can be yanked, which hides it from new installs, but not replaced or removed. Each change
writes the package and the new signed index in one transaction, so that a crash leaves either both or neither.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.skill.archive import read_archive, write_archive
from prowess.skill.limits import DEFAULT_LIMITS, MIB, Limits
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.sources import publisher_tokens
from prowess.sources.publisher_tokens import PublisherToken, TokenScope
from prowess.sources.signature import generate_private_key, kind_of, public_key, sign, verify
from prowess.sources.signed_index import LIFETIME, IndexEntry, make_index, sign_index
from prowess.storage.secret_file import load_or_create_secret

KEY_FILE = "registry.key"
DATABASE_FILE = "registry.db"

_FORMAT = 1
_BUSY_SECONDS = 10
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}", re.ASCII)
_SCHEMA = """
CREATE TABLE registry (
  id TEXT NOT NULL, sequence INTEGER NOT NULL, envelope BLOB NOT NULL, etag TEXT NOT NULL, generated_at TEXT NOT NULL
);
CREATE TABLE packages (name TEXT PRIMARY KEY, publisher TEXT NOT NULL);
CREATE TABLE versions (
  name TEXT NOT NULL REFERENCES packages(name), version TEXT NOT NULL, entry TEXT NOT NULL, size INTEGER NOT NULL,
  archive BLOB NOT NULL, PRIMARY KEY (name, version)
);
CREATE TABLE downloads (name TEXT NOT NULL, day TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (name, day));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """How much publishers may store."""

    packages: int = 1_000
    """The number of packages of one publisher."""
    versions: int = 500
    """The number of versions of one package."""
    package_bytes: int = DEFAULT_LIMITS.archive_bytes
    total_bytes: int = 10 * 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of publishing a version."""

    entry: IndexEntry
    created: bool
    """False if exactly this version was there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIndex:
    """The current signed index."""

    envelope: bytes
    etag: str
    sequence: int


class PackageShelf:
    """A folder with the packages of a registry and the key that signs its index. Safe for many threads and processes."""

    def __init__(
        self,
        folder: Path,
        *,
        quotas: Quotas = Quotas(),  # noqa: B008  (frozen)
        limits: Limits = DEFAULT_LIMITS,
        lifetime: timedelta = LIFETIME,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Open a folder, and create key, database and a first, empty index if they are missing."""
        self._quotas = quotas
        self._limits = limits
        self._lifetime = lifetime
        self._clock = clock
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"Cannot create {str(folder)!r}: {error.strerror}.", hint="Choose another folder."
            ) from error
        self._private_key = load_or_create_secret(folder / KEY_FILE, generate_private_key)
        self._database = folder / DATABASE_FILE
        self.key = public_key(self._private_key)
        """The public key that clients pin."""
        self._prepare()

    def publish(self, archive: bytes, publisher: str, signature: bytes = b"") -> Published:
        """Store a version, whose name and number are those in the package, and sign a new index.

        Publishing the same files again changes nothing. Raise `Conflict` if the version exists with other files, `Refused` if
        another publisher has the name or a quota is exceeded, and `Invalid` if the package or its signature is not valid.
        """
        if len(archive) > self._quotas.package_bytes:
            raise _over_quota(f"The archive has {len(archive):,} bytes", f"{self._quotas.package_bytes:,}")
        entry, stored = self._read(archive, publisher, signature)
        with self._write() as database:
            row = database.execute(
                "SELECT entry FROM versions WHERE name = ? AND version = ?", (entry.name, entry.version)
            ).fetchone()
            self._check_owner(database, entry.name, publisher)
            if row is not None:
                return _same_version(IndexEntry.model_validate_json(row[0]), entry)
            self._check_quotas(database, entry)
            database.execute(
                "INSERT INTO packages VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (entry.name, publisher)
            )
            values = (entry.name, entry.version, entry.model_dump_json(), entry.size, stored)
            database.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?)", values)
            self._sign(database)
        return Published(entry=entry, created=True)

    def yank(self, name: str, version: str, publisher: str, *, undo: bool = False) -> IndexEntry:
        """Mark a version as one that should not be installed any more. Its bytes stay."""
        with self._write() as database:
            row = database.execute(
                "SELECT entry FROM versions WHERE name = ? AND version = ?", (name, version)
            ).fetchone()
            if row is None:
                raise _unknown(name, version)
            self._check_owner(database, name, publisher)
            entry = IndexEntry.model_validate_json(row[0]).model_copy(update={"yanked": not undo})
            database.execute(
                "UPDATE versions SET entry = ? WHERE name = ? AND version = ?", (entry.model_dump_json(), name, version)
            )
            self._sign(database)
        return entry

    def index(self) -> StoredIndex:
        """Return the signed index, newly signed if half of its lifetime is over."""
        found = self._read_index()
        if self._clock() - found[1] <= self._lifetime / 2:
            return found[0]
        with self._write() as database:
            self._sign(database)
        return self._read_index()[0]

    def etag(self) -> str:
        """Return the ETag of the current index, without reading the index."""
        with self._connect() as database:
            return str(database.execute("SELECT etag FROM registry").fetchone()[0])

    def entries(self) -> tuple[IndexEntry, ...]:
        """Return all versions of all packages, sorted."""
        with self._connect() as database:
            rows = database.execute("SELECT entry FROM versions ORDER BY name, version")
            return tuple(IndexEntry.model_validate(json.loads(row[0])) for row in rows)

    def archive(self, name: str, version: str) -> tuple[IndexEntry, bytes]:
        """Return a version and its archive. Raise `NotFound` if it does not exist."""
        with self._connect() as database:
            row = database.execute(
                "SELECT entry, archive FROM versions WHERE name = ? AND version = ?", (name, version)
            ).fetchone()
        if row is None:
            raise _unknown(name, version)
        return IndexEntry.model_validate_json(row[0]), bytes(row[1])

    def add_downloads(self, counts: Mapping[str, int]) -> None:
        """Count downloads of today."""
        day = f"{self._clock():%Y-%m-%d}"
        rows = [(name, day, count) for name, count in counts.items()]
        with self._write() as database:
            database.executemany(
                "INSERT INTO downloads VALUES (?, ?, ?) ON CONFLICT (name, day) DO UPDATE SET count = count + excluded.count",
                rows,
            )

    def downloads(self) -> dict[str, int]:
        """Return how often each package was downloaded in the last seven days."""
        first = f"{self._clock() - timedelta(days=7):%Y-%m-%d}"
        with self._connect() as database:
            rows = database.execute("SELECT name, SUM(count) FROM downloads WHERE day > ? GROUP BY name", (first,))
            return {str(name): int(count) for name, count in rows}

    def create_token(self, publisher: str, scope: TokenScope = "publish") -> tuple[PublisherToken, str]:
        """Create a token for a publisher, and return it with its secret, which is not stored."""
        with self._write() as database:
            return publisher_tokens.create_token(database, publisher, scope, at=_format(self._clock()))

    def tokens(self) -> list[PublisherToken]:
        """Return all tokens, the oldest first."""
        with self._connect() as database:
            return publisher_tokens.list_tokens(database)

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token for good. Raise `NotFound` if no active one has this id."""
        with self._write() as database:
            publisher_tokens.revoke_token(database, token_id, at=_format(self._clock()))

    def find_token(self, secret: str) -> PublisherToken | None:
        """Return the active token with this secret, or None."""
        with self._connect() as database:
            return publisher_tokens.find_token(database, secret)

    def _read(self, archive: bytes, publisher: str, signature: bytes) -> tuple[IndexEntry, bytes]:
        """Return the entry of an archive and the archive to store: the same files, packed in our own way."""
        packages = read_archive(archive, "package", self._limits)
        if len(packages) != 1:
            raise Invalid(f"The archive has {len(packages)} skills.", hint="Publish them one by one.")
        skill = accept(packages[0], self._limits).skill
        if skill is None or _VERSION.fullmatch(skill.version) is None:
            raise Invalid(
                "The skill has no version that can be published.",
                hint="Write one into it, for example `version: 1.0.0`.",
            )
        package = Package.of(skill.slug, packages[0].files, self._limits)
        if signature:
            self._check_signature(package.digest, signature)
        # Packed again: readers of the archive see no comments, dates or links of the machine that it was made on.
        stored = write_archive(package, "zip", folder=False)
        entry = IndexEntry(
            name=skill.slug,
            version=skill.version,
            digest=package.digest,
            archive=hashlib.sha256(stored).hexdigest(),
            size=len(stored),
            description=skill.description[:1024],
            tags=tuple(tag[:200] for tag in skill.tags[:200]),
            publisher=publisher,
            published_at=_format(self._clock()),
            signature=(signature or sign(package.digest, self._private_key)).decode(),
        )
        return entry, stored

    @staticmethod
    def _check_signature(digest: str, signature: bytes) -> None:
        # A Sigstore bundle is checked by clients: whose identity counts is their decision.
        if kind_of(signature) == "ed25519":
            verify(digest, signature)
        elif len(signature) > 16 << 10:
            raise Invalid("The Sigstore bundle is too large.", hint="Use a bundle with at most 16 KiB.")

    @staticmethod
    def _check_owner(database: sqlite3.Connection, name: str, publisher: str) -> None:
        row = database.execute("SELECT publisher FROM packages WHERE name = ?", (name,)).fetchone()
        if row is not None and row[0] != publisher:
            raise Refused(f"The name {name!r} belongs to another publisher.", hint="Publish under another name.")

    def _check_quotas(self, database: sqlite3.Connection, entry: IndexEntry) -> None:
        quotas = self._quotas
        (packages,) = database.execute(
            "SELECT COUNT(*) FROM packages WHERE publisher = ? AND name != ?", (entry.publisher, entry.name)
        ).fetchone()
        if packages >= quotas.packages:
            raise _over_quota(f"{entry.publisher} has {packages:,} packages", f"{quotas.packages:,}")
        (versions,) = database.execute("SELECT COUNT(*) FROM versions WHERE name = ?", (entry.name,)).fetchone()
        if versions >= quotas.versions:
            raise _over_quota(f"{entry.name} has {versions:,} versions", f"{quotas.versions:,}")
        (total,) = database.execute("SELECT COALESCE(SUM(size), 0) FROM versions").fetchone()
        if total + entry.size > quotas.total_bytes:
            raise _over_quota(f"The registry would have {total + entry.size:,} bytes", f"{quotas.total_bytes:,}")

    def _sign(self, database: sqlite3.Connection) -> None:
        """Write the next index, in the transaction of the change that it describes."""
        identity, sequence = database.execute("SELECT id, sequence FROM registry").fetchone()
        at = self._clock()
        index = make_index((), registry=identity, sequence=sequence + 1, at=at, lifetime=self._lifetime)
        rows = database.execute("SELECT entry FROM versions ORDER BY name, version")
        envelope = sign_index(index, self._private_key, [row[0] for row in rows])
        values = (index.sequence, envelope, _etag(envelope), _format(at))
        database.execute("UPDATE registry SET sequence = ?, envelope = ?, etag = ?, generated_at = ?", values)

    def _read_index(self) -> tuple[StoredIndex, datetime]:
        with self._connect() as database:
            row = database.execute("SELECT envelope, etag, sequence, generated_at FROM registry").fetchone()
        return StoredIndex(envelope=bytes(row[0]), etag=row[1], sequence=row[2]), datetime.fromisoformat(row[3])

    def _prepare(self) -> None:
        with self._write() as database:
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if found == _FORMAT:
                (envelope,) = database.execute("SELECT envelope FROM registry").fetchone()
                # The operator replaced the key: the index must be signed with the new one.
                if self.key.encode() not in envelope:
                    self._sign(database)
                return
            if found:
                raise Unavailable(
                    f"{str(self._database)!r} was created by another version of Prowess.",
                    hint="Use that version, or update.",
                )
            # Statement by statement: `executescript` would commit the transaction.
            for statement in (*_SCHEMA.strip().rstrip(";").split(";\n"), publisher_tokens.SCHEMA):
                database.execute(statement)
            database.execute("INSERT INTO registry VALUES (?, 0, x'', '', '')", (secrets.token_hex(8),))
            self._sign(database)
            database.execute(f"PRAGMA user_version = {_FORMAT}")

    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection]:
        # A connection for each operation: it takes a fraction of a millisecond, and nothing is shared between threads.
        try:
            database = sqlite3.connect(self._database, timeout=_BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            yield database
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        finally:
            database.close()

    @contextmanager
    def _write(self) -> Generator[sqlite3.Connection]:
        with self._connect() as database:
            database.execute("BEGIN IMMEDIATE")
            # An exception leaves the block without a commit, and closing the connection rolls back.
            yield database
            database.execute("COMMIT")

    def _unavailable(self, error: sqlite3.Error) -> Unavailable:
        return Unavailable(f"The database {str(self._database)!r} cannot be used: {error}.", hint="Try again.")


def _same_version(there: IndexEntry, new: IndexEntry) -> Published:
    if there.digest != new.digest:
        raise Conflict(
            f"{new.name} {new.version} was published with different files, and a published version cannot change.",
            hint="Raise the version in the skill, and publish again.",
        )
    return Published(entry=there, created=False)


def _over_quota(what: str, limit: str) -> Refused:
    return Refused(f"{what}; the registry allows {limit}.", hint="Ask the registry's operator to raise the limit.")


def _unknown(name: str, version: str) -> NotFound:
    return NotFound(f"The registry has no {name[:200]!r} {version[:100]!r}.", hint="Check the name and the version.")


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _format(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
