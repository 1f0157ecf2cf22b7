"""Seals: keyed checksums that show whether this installation wrote a row, and whether it is unchanged.

Anyone with write access to a database can change its rows, but cannot make a seal without the key, which is in the home
folder, or derived from the one that several servers share. A row whose seal does not match is not an error: its content is derived again from the bytes of the skill.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from prowess.errors import ProwessError
from prowess.storage.secret_file import find_secret, read_secret

if TYPE_CHECKING:
    import sqlalchemy as sa

KEY_FILE = "database.key"
"""The name of the key's file in the home folder."""

SealState = Literal["valid", "missing", "wrong", "foreign"]
"""`wrong`: made with our key, but not for these values. `foreign`: made with the key of another installation."""

_ID_LENGTH = 12


class Seals:
    """Makes and checks seals with one key, which is read when the first seal is needed.

    A seal is the key's id and one checksum per group of values, separated by colons.
    """

    def __init__(
        self, load: Callable[[], str], *, older: Callable[[], str | None] = lambda: None, shared: bool = False
    ) -> None:
        self._load = load
        self._load_older = older
        self.shared = shared
        """True if all servers of a database have the key, so that rows with the seal of another key are sealed again."""

    @classmethod
    def of_home(cls, home: Path, secret_key: str = "") -> Seals:
        """Return the seals of the installation that has this home folder, or of all that share a secret key.

        What the installation sealed before it got the key stays valid here.
        """
        path = home / KEY_FILE
        return cls(
            lambda: find_secret(path, secret_key),
            older=lambda: _read_or_none(path) if secret_key else None,
            shared=bool(secret_key),
        )

    def make(self, *groups: object) -> str:
        """Return the seal of these groups of values: text, numbers, None, and tuples of them."""
        return ":".join([_key_id(self._key), *(_checksum(self._key, group) for group in groups)])

    def check(self, seal: str, index: int, group: object) -> SealState:
        """Return whether the seal matches a group of values, which `make` got at this place (the first is 0)."""
        if not seal:
            return "missing"
        if not seal.isascii():
            return "wrong"  # ours never are, and they could not be compared in constant time
        parts = seal.split(":")
        key = self._keys.get(parts[0])
        if key is None:
            return "foreign"
        fits = index + 1 < len(parts) and hmac.compare_digest(parts[index + 1], _checksum(key, group))
        return "valid" if fits else "wrong"

    def require_key(self) -> None:
        """Raise `Unavailable` or `Refused` if the key can be neither read nor created."""
        self._load()

    @cached_property
    def _key(self) -> bytes:
        try:
            return self._load().encode()
        except ProwessError:
            # A home that cannot be written to, as in a container: everything works, but each process reads the skills
            # again that others have sealed.
            return secrets.token_bytes(32)

    @cached_property
    def _keys(self) -> dict[str, bytes]:
        """The keys whose seals are valid, by their ids."""
        older = self._load_older()
        return {_key_id(key): key for key in (self._key, *([older.encode()] if older else []))}


def _checksum(key: bytes, group: object) -> str:
    # `repr` keeps every boundary between values, and costs a third of writing JSON.
    return hmac.digest(key, repr(group).encode("utf-8", "surrogatepass"), "sha256").hex()


@lru_cache(maxsize=16)
def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"key id\0" + key).hexdigest()[:_ID_LENGTH]


def _read_or_none(path: Path) -> str | None:
    try:
        return read_secret(path)
    except ProwessError:
        return None


PROCESS_SEALS = Seals(lambda: _process_key)
"""Seals that only this process can check, for a database that was opened without a home folder."""

_process_key = secrets.token_urlsafe(32)


def seals_of(connection: sa.Connection) -> Seals:
    """Return the seals that a connection's database was opened with."""
    return cast("Seals", connection.get_execution_options().get("seals", PROCESS_SEALS))
