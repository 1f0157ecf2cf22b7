"""Secrets that are generated once and kept in a file only the owner can read, or derived from one that machines share."""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from prowess.errors import Invalid, Refused, Unavailable

TOKEN_FILE = "token"  # noqa: S105  the name of a file
SERVER_TOKEN_FILE = "server-token"  # noqa: S105  the name of a file
STATE_KEY_FILE = "mcp-state.key"
_MAX_TOKEN_BYTES = 4_096


def read_token_file(path: Path) -> str:
    """Return the token in a file that a person names, or raise `Invalid`."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise Invalid(
            f"The token file {str(path)!r} cannot be read: {error.strerror}.", hint="Give the path of a readable file."
        ) from error


def read_secret(path: Path) -> str | None:
    """Return the secret in a file, or None if there is no file. Raise `Refused` if other users can read it."""
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(
            f"The secret file {str(path)!r} cannot be read: {error.strerror}.",
            hint="It must be a regular file that you own.",
        ) from error
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise Refused(f"{str(path)!r} is not a regular file.", hint="Delete it, and Prowess creates a new secret.")
        # A secret that others could read may be known to them already, so changing the mode would not make it safe.
        if mode & 0o077:
            raise Refused(
                f"Other users can read the secret file {str(path)!r}.",
                hint=f"Run `chmod 600 {path}`, or delete it, and Prowess creates a new one.",
            )
        found = file.read().strip()
    if len(found) < 32:
        raise Refused(
            f"{str(path)!r} does not contain a valid secret.", hint="Delete it, and Prowess creates a new one."
        )
    return found


def load_or_create_secret(path: Path, make: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> str:
    """Return the secret in a file, creating it with `make` if needed. Two processes that create it at once get the same one.

    A link to a complete temporary file is atomic: the second process finds the file of the first.
    """
    found = read_secret(path)
    if found is not None:
        return found
    try:
        temporary = _write_temporary(path, make())
        try:
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink()
    except OSError as error:
        raise _cannot_write(path, error) from error
    # Read again: if another process was first, its secret counts, not the one made here.
    secret = read_secret(path)
    if secret is None:
        raise Unavailable(f"{str(path)!r} was removed while it was being created.", hint="Try again.")
    return secret


def find_secret(path: Path, secret_key: str = "") -> str:
    """Return the secret for one purpose: derived from a shared key if there is one, otherwise that of the file.

    The name of the file is the purpose: each one has its own secret, from which the key cannot be found.
    """
    if secret_key:
        return hmac.digest(secret_key.encode(), f"prowess:{path.name}".encode(), "sha256").hex()
    return load_or_create_secret(path)


def write_secret(path: Path, secret: str) -> None:
    """Store a secret, replacing an older one, in a file that only the owner can read."""
    try:
        _write_temporary(path, secret).replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _write_temporary(path: Path, secret: str) -> Path:
    """Write a secret to a new file in the folder of `path`, and return that file."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secret}\n")
    except OSError:
        temporary.unlink()
        raise
    return temporary


def _cannot_write(path: Path, error: OSError) -> Unavailable:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "Free some disk space and try again." if is_full else "Check the permissions of PROWESS_HOME."
    return Unavailable(f"Cannot write {str(path)!r}: {error.strerror}.", hint=hint)
