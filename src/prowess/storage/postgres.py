"""Open PostgreSQL: the pool of connections, and their time limits."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from prowess.errors import Invalid, Unavailable
from prowess.storage.driver_errors import URL_HINT
from prowess.storage.sqlite import WRITE_SECONDS

# A server that is gone answers nothing at all. Without these limits, a thread would wait for minutes, and soon all would.
_CONNECTION: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_POOL_SECONDS = 30


def postgres_engines(url: sa.URL, **options: Any) -> tuple[sa.Engine, sa.Engine]:
    """Return an engine for reading and one for writing, which share their connections.

    What the URL says about a connection wins over our time limits. Raise `Unavailable` if the driver is not installed.
    """
    try:
        writer = sa.create_engine(
            url,
            # The ping replaces connections that the server has dropped, for instance in a restart, before a query fails
            # on them.
            pool_pre_ping=True,
            pool_size=8,
            max_overflow=24,
            pool_timeout=_POOL_SECONDS,
            connect_args={name: value for name, value in _CONNECTION.items() if name not in url.query},
            **options,
        )
    except ModuleNotFoundError as error:
        raise Unavailable(
            "PostgreSQL needs the psycopg driver, which is not installed.", hint="pip install 'prowess[postgres]'"
        ) from error
    event.listen(writer, "connect", _limit_statements)
    # Two selects in one read must see one state; the default, READ COMMITTED, does not guarantee that.
    return writer.execution_options(isolation_level="REPEATABLE READ"), writer


def _limit_statements(connection: Any, _record: object) -> None:
    connection.execute(f"SET statement_timeout = {WRITE_SECONDS * 1000}")
    connection.commit()


def parse_url(url: str) -> sa.URL:
    """Return the URL of a server with the driver that we use. Raise `Invalid` if it is not one of PostgreSQL."""
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise Invalid("The database URL is not valid.", hint=URL_HINT) from error
    # Hosting services print `postgres://`, which SQLAlchemy does not accept.
    if parsed.drivername in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "postgresql+psycopg":
        return parsed
    raise Invalid(f"Databases of the type {parsed.drivername[:40]!r} are not supported.", hint=URL_HINT)


def mask_password(url: sa.URL) -> str:
    """Return the URL to show to people, without its password."""
    plain = url.set(drivername=url.get_backend_name()).difference_update_query(("password", "sslpassword"))
    return plain.render_as_string(hide_password=True)
