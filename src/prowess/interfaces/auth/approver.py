"""The approver token, which answers approval requests without a terminal, such as in a script of the operator.

A person creates it at a terminal and sees it once. Only its hash is stored, so reading the home folder does not reveal it.
It is never the token of an agent.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from prowess.errors import Refused, Unavailable
from prowess.storage.secret_file import read_secret, write_secret

APPROVER_FILE = "approver"


def make_approver_token(home: Path) -> str:
    """Return a new token and store its hash. An older token becomes invalid."""
    token = secrets.token_urlsafe(32)
    write_secret(home / APPROVER_FILE, _hash(token))
    return token


def remove_approver_token(home: Path) -> bool:
    """Delete the token. Return False if there was none."""
    path = home / APPROVER_FILE
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Unavailable(f"{str(path)!r} cannot be removed: {error.strerror}.", hint="Remove it by hand.") from error
    return True


def check_approver_token(home: Path, token: str) -> None:
    """Raise `Refused` if this is not the approver token."""
    stored = read_secret(home / APPROVER_FILE)
    # The token has 256 random bits, so one fast hash is enough: it cannot be guessed.
    if stored is None or not hmac.compare_digest(_hash(token), stored):
        raise Refused("Invalid approver token.", hint="Create a new one at a terminal: prowess approvals token")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
