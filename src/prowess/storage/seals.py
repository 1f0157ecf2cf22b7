"""Seals: keyed checksums that show whether this installation wrote a row, and whether it is unchanged.

Anyone with write access to a database can change its rows, but cannot make a seal without the key, which is in the home
folder. A row whose seal does not match is not an error: its content is derived again from the bytes of the skill.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

import sqlalchemy as sa

from prowess.errors import ProwessError
from prowess.storage.secret_file import load_or_create_secret

KEY_FILE = "database.key"
"""The name of the key's file in the home folder."""

SealState = Literal["valid", "missing", "wrong", "foreign"]
"""`wrong`: made with our key, but not for these values. `foreign`: made with the key of another installation."""

_ID_LENGTH = 12


class Seals:
    """Makes and checks seals with one key, which is read when the first seal is needed.

    A seal is the key's id and one checksum per group of values, separated by colons.
    """

    def __init__(self, load: Callable[[], str]) -> None:
        self._load = load

    @classmethod
    def of_home(cls, home: Path) -> Seals:
        """Return the seals of the installation that has this home folder."""
        return cls(lambda: load_or_create_secret(home / KEY_FILE))

    def make(self, *groups: object) -> str:
        """Return the seal of these groups of values: text, numbers, None, and tuples of them."""
        return ":".join([self._id, *(self._checksum(group) for group in groups)])

    def check(self, seal: str, place: int, group: object) -> SealState:
        """Return whether the seal matches a group of values, which `make` got at this place (the first is 0)."""
        if not seal:
            return "missing"
        if not seal.isascii():
            return "wrong"  # ours never are, and they could not be compared in constant time
        parts = seal.split(":")
        if parts[0] != self._id:
            return "foreign"
        fits = place + 1 < len(parts) and hmac.compare_digest(parts[place + 1], self._checksum(group))
        return "valid" if fits else "wrong"

    def require_key(self) -> None:
        """Raise `Unavailable` or `Refused` if the key can be neither read nor created."""
        self._load()

    def _checksum(self, group: object) -> str:
        # `repr` keeps every boundary between values, and costs a third of writing JSON.
        return hmac.digest(self._key, repr(group).encode("utf-8", "surrogatepass"), "sha256").hex()

    @cached_property
    def _key(self) -> bytes:
        try:
            return self._load().encode()
        except ProwessError:
            # A home that cannot be written to, as in a container: everything works, but each process reads the skills
            # again that others have sealed.
            return secrets.token_bytes(32)

    @cached_property
    def _id(self) -> str:
        return hashlib.sha256(b"key id\0" + self._key).hexdigest()[:_ID_LENGTH]


PROCESS_SEALS = Seals(lambda: _process_key)
"""Seals that only this process can check, for a database that was opened without a home folder."""

_process_key = secrets.token_urlsafe(32)


def seals_of(connection: sa.Connection) -> Seals:
    """Return the seals that a connection's database was opened with."""
    return cast("Seals", connection.get_execution_options().get("seals", PROCESS_SEALS))
