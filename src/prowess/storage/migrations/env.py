"""Run the migrations for alembic, on the connection and in the transaction that `database.run_alembic` passes."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from alembic import context

from prowess.storage import sql, tables
from prowess.storage.sqlite_driver import real_connection

# Each module registers its tables when it is imported; alembic would take a table that is missing here for deleted.
for module in iter_modules(sql.__path__):
    import_module(f"{sql.__name__}.{module.name}")
for name in ("compositions", "connectors", "conversations", "evals", "jobs", "people", "proposals"):
    import_module(f"prowess.storage.{name}")

context.configure(
    connection=real_connection(context.config.attributes["connection"]),
    target_metadata=tables.metadata,
    render_as_batch=True,  # SQLite can change few things in place: the table is copied instead
    transaction_per_migration=False,  # one transaction, so that a migration that fails leaves nothing behind
)
with context.begin_transaction():
    context.run_migrations()
