"""Translate the exceptions of SQLAlchemy and the database drivers into Prowess errors with a hint."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager

from prowess.errors import Conflict, Invalid, ProwessError, Unavailable

PLAIN_TEXT_HINT = "Remove NUL characters, invalid characters, infinity and NaN."

_TOO_SLOW = (
    "did not respond in time, so the statement was cancelled",
    "Try again, or check the database with `prowess doctor`.",
)

_SQLITE_ERRORS: dict[str, tuple[str, str]] = {
    "SQLITE_INTERRUPT": _TOO_SLOW,
    "SQLITE_NOTADB": (
        "is not a database file",
        "Restore it from a backup, or move it away to start with an empty one.",
    ),
    "SQLITE_CORRUPT": (
        "is damaged",
        ("Restore it from a backup, or move it away and import the skills again with `prowess import`."),
    ),
    "SQLITE_FULL": (
        "could not be written: the disk is full",
        "Free some disk space and try again. Nothing was changed.",
    ),
    "SQLITE_READONLY": ("is read-only", "Make the file and its folder writable."),
    "SQLITE_CANTOPEN": ("cannot be opened", "Check that its folder exists and is writable."),
    "SQLITE_PERM": ("cannot be opened: permission denied", "Check that you own the file."),
    "SQLITE_BUSY": ("is locked by another program", "Wait until the other program has finished, then try again."),
    "SQLITE_LOCKED": ("is locked by another program", "Wait until the other program has finished, then try again."),
    "SQLITE_IOERR": ("could not be read or written", "Check the disk and its free space."),
    "SQLITE_TOOBIG": ("cannot store a value of this size", "Make the skill smaller."),
}

# By SQLSTATE, or by its first two characters, which are the class of the error.
_POSTGRES_ERRORS: dict[str, tuple[str, str]] = {
    "28": ("rejected the user or password", "Check the user and password in the database URL."),
    "3D": ("does not exist", "Create the database, or check its name in the database URL."),
    "42501": ("denied permission", "Grant the user access to the database's tables."),
    "53100": ("could not be written: the disk is full", "Free some disk space and try again. Nothing was changed."),
    "53300": ("has no free connections", "Try again, or raise max_connections."),
    "25006": ("is read-only", "Use the primary server."),
    "40": ("had a conflict with another transaction", "Try again. Nothing was changed."),
    "57014": _TOO_SLOW,
    "57": ("is shutting down or cancelled the query", "Try again. Nothing was changed."),
    "22": ("cannot store this text", PLAIN_TEXT_HINT),
}


def translate_error(
    error: BaseException, location: str, driver: type[Exception] | tuple[()] = ()
) -> ProwessError | None:
    """Return the ProwessError for an error of SQLAlchemy or of the driver (a `driver`); None for any other error.

    It has the location. So has from now on an error of ours that names it.
    """
    if isinstance(error, ProwessError):
        error.location = location if location in error.message else error.location
        return None
    translated = _translate(error, location, driver)
    if translated is not None:
        translated.location = location
    return translated


def _translate(error: BaseException, location: str, driver: type[Exception] | tuple[()]) -> ProwessError | None:
    # Before SQLAlchemy is imported, it cannot have raised anything.
    if "sqlalchemy.exc" in sys.modules and (found := _translate_sqlalchemy_error(error, location)):
        return found
    if isinstance(error, driver):
        return _translate_driver_error(error, location)
    # Rows are decoded before a transaction ends.
    if isinstance(error, json.JSONDecodeError):
        return Unavailable(
            f"The database {location} has a row that another program changed: its JSON is not valid.",
            hint="Run `prowess doctor` to list the values that are wrong.",
        )
    # sqlite3 encodes text before it calls SQLite, and does not turn a failure into an error of its own.
    if isinstance(error, UnicodeError):
        return Invalid(
            "The text contains characters that cannot be stored.",
            hint="Remove invalid characters (unpaired surrogates).",
        )
    return None


@contextmanager
def reading(row: str) -> Generator[None]:
    """Raise `Unavailable`, which names a row, if that has values that Prowess does not store: another program wrote them."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise Unavailable(
            f"{row} in the database was changed by another program and cannot be read.",
            hint="Correct it, or restore the database from a backup with `prowess restore`.",
        ) from error


WRONG_VALUE_HINT = "Run `prowess doctor` to list the values that are wrong."


def wrong_value() -> Unavailable:
    """Return the error for a row with a value of a type that Prowess does not store in its column."""
    return Unavailable(
        "A row in the database was changed by another program and cannot be read: a value has the wrong type.",
        hint=WRONG_VALUE_HINT,
    )


def _translate_sqlalchemy_error(error: BaseException, location: str) -> ProwessError | None:
    from sqlalchemy import exc

    if not isinstance(error, exc.SQLAlchemyError):
        return None
    if isinstance(error, exc.NoSuchModuleError | exc.ArgumentError):
        return Invalid(f"{location} is not a supported database URL.", hint=URL_HINT)
    if isinstance(error, exc.IntegrityError):
        return _conflict(location)
    if isinstance(error, exc.TimeoutError):
        return Unavailable(f"Too many concurrent users of the database {location}.", hint="Try again in a moment.")
    if isinstance(error, exc.DBAPIError):
        return _translate_driver_error(error.orig, location)
    # Our own JSON encoder raised it while SQLAlchemy bound the parameters.
    if isinstance(error, exc.StatementError) and isinstance(error.orig, ProwessError):
        return error.orig
    return Unavailable(f"The database {location} failed: {_first_line(error)}", hint="Try again.")


URL_HINT = "Use sqlite:///path/to/agents.db or postgresql://user@host/database."


def _translate_driver_error(cause: BaseException | None, location: str) -> ProwessError:
    name = str(getattr(cause, "sqlite_errorname", "") or "")
    state = str(getattr(cause, "sqlstate", "") or "")
    # A raw cursor's unique violation; SQLAlchemy's own cursors wrap it.
    if state.startswith("23") or name.startswith(("SQLITE_CONSTRAINT", "SQLITE_MISMATCH")):
        return _conflict(location)
    # sqlite3 gives extended names, such as SQLITE_BUSY_SNAPSHOT, which start with the name of the primary code.
    for code, (what, hint) in _SQLITE_ERRORS.items():
        if name.startswith(code):
            return Unavailable(f"The database {location} {what}.", hint=hint)
    for code, (what, hint) in _POSTGRES_ERRORS.items():
        if state.startswith(code):
            family = {"22": Invalid, "40": Conflict}.get(code, Unavailable)
            return family(f"The database {location} {what}.", hint=hint)
    # psycopg rejects NUL characters by itself, without a SQLSTATE. Compared by name, because it may not be installed.
    if type(cause).__name__ == "DataError":
        what, hint = _POSTGRES_ERRORS["22"]
        return Invalid(f"The database {location} {what}.", hint=hint)
    # A connection that could not be made has no code of either kind.
    if not name and not state:
        return Unavailable(
            f"Cannot connect to the database server at {location}: {_first_line(cause).rstrip('.')}.",
            hint="Check that the server is running and that the database URL is right.",
        )
    return Unavailable(
        f"The database {location} failed: {_first_line(cause)} ({name or state}).",
        hint="Run `prowess doctor` to check whether another program changed the tables.",
    )


def _conflict(location: str) -> Conflict:
    return Conflict(
        f"Another process wrote the same data to {location} first.", hint="Reload the data and repeat your change."
    )


def is_missing_table(error: Exception) -> bool:
    """Return True for the driver's error for a query whose table does not exist."""
    # SQLite has no code of its own for this, so its message decides.
    return getattr(error, "sqlstate", None) == "42P01" or str(error).startswith("no such table")


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0][:300]
