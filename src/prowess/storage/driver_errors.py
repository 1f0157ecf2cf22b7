"""Translate the exceptions of SQLAlchemy and the database drivers into Prowess errors with a hint."""

from __future__ import annotations

from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import exc

from prowess.errors import Conflict, Invalid, ProwessError, Unavailable

PLAIN_TEXT_HINT = "Remove NUL characters, broken characters and numbers that are not finite from the skill."

_TOO_SLOW = ("did not answer in time, so the statement was stopped", "Try again; `prowess doctor` checks the database.")

_SQLITE_ERRORS: dict[str, tuple[str, str]] = {
    "SQLITE_INTERRUPT": _TOO_SLOW,
    "SQLITE_NOTADB": ("is not a database", "Name another file, or move this one away."),
    "SQLITE_CORRUPT": ("is damaged", "Restore it from a backup, or move it away and import the skills again."),
    "SQLITE_FULL": ("cannot grow: the disk is full", "Make room and try again; nothing was changed."),
    "SQLITE_READONLY": ("is read-only", "Make the file and its folder writable."),
    "SQLITE_CANTOPEN": ("cannot be opened", "See that its folder exists and may be written to."),
    "SQLITE_PERM": ("may not be opened", "See that you own the file."),
    "SQLITE_BUSY": ("is locked by another program", "Let the other one finish, then try again."),
    "SQLITE_LOCKED": ("is locked by another program", "Let the other one finish, then try again."),
    "SQLITE_IOERR": ("could not be read or written", "See that the disk is healthy and has room."),
    "SQLITE_TOOBIG": ("cannot hold a value that large", "Make the skill smaller."),
}

# By SQLSTATE, or by its first two characters, which are the class of the error.
_POSTGRES_ERRORS: dict[str, tuple[str, str]] = {
    "28": ("refuses this user or password", "Check the user and password in the database URL."),
    "3D": ("does not exist", "Create the database, or check its name in the database URL."),
    "42501": ("does not grant this", "Grant the user rights on the database's tables."),
    "53100": ("cannot grow: the disk is full", "Make room and try again; nothing was changed."),
    "53300": ("has no connection left", "Try again, or raise max_connections."),
    "25006": ("is read-only", "Use the primary server."),
    "40": ("was busy with the same rows", "Try again; nothing was changed."),
    "57014": _TOO_SLOW,
    "57": ("is shutting down or cancelled the query", "Try again; nothing was changed."),
    "22": ("cannot hold this text", PLAIN_TEXT_HINT),
}


def translate_error(
    error: BaseException, location: str, driver: type[Exception] | tuple[()] = ()
) -> ProwessError | None:
    """Return the ProwessError for an error of SQLAlchemy or of the driver (a `driver`); None for any other error."""
    if isinstance(error, exc.SQLAlchemyError):
        return _translate_sqlalchemy_error(error, location)
    if isinstance(error, driver):
        return _translate_driver_error(error, location)
    # sqlite3 encodes text before it calls SQLite, and does not turn a failure into an error of its own.
    if isinstance(error, UnicodeError):
        return Invalid(
            "The text has characters that cannot be stored.", hint="Remove the broken characters (lone surrogates)."
        )
    return None


def _translate_sqlalchemy_error(error: exc.SQLAlchemyError, location: str) -> ProwessError:
    if isinstance(error, exc.NoSuchModuleError | exc.ArgumentError):
        return Invalid(f"{location} is not a database URL that Prowess knows.", hint=URL_HINT)
    if isinstance(error, exc.IntegrityError):
        return _conflict(location)
    if isinstance(error, exc.TimeoutError):
        return Unavailable(f"Too many at once use the database {location}.", hint="Try again in a moment.")
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
    if state.startswith("23"):  # a raw cursor's unique violation; SQLAlchemy's own cursors wrap it
        return _conflict(location)
    # sqlite3 gives extended names, such as SQLITE_BUSY_SNAPSHOT, which begin with the name of the primary code.
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
            f"The database server at {location} cannot be reached: {_first_line(cause)}",
            hint="See that it runs and that the database URL is right.",
        )
    return Unavailable(
        f"The database {location} failed: {_first_line(cause)} ({name or state}).",
        hint="See whether another program changed its tables; `prowess doctor` looks at them.",
    )


def _conflict(location: str) -> Conflict:
    return Conflict(f"Somebody else wrote the same to {location} first.", hint="Read it again and repeat.")


def is_missing_table(error: exc.DBAPIError) -> bool:
    """Return True if the query failed because its table does not exist."""
    cause = cast("Any", error.orig)
    # SQLite has no code of its own for this, so its message decides.
    return getattr(cause, "sqlstate", None) == "42P01" or str(cause).startswith("no such table")


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0][:300]


def mask_password(url: sa.URL) -> str:
    """Return the URL for people: the path of a SQLite file, or a server without its password."""
    if url.get_backend_name() == "sqlite" and url.database:
        return url.database
    plain = url.set(drivername=url.get_backend_name()).difference_update_query(("password", "sslpassword"))
    return plain.render_as_string(hide_password=True)
