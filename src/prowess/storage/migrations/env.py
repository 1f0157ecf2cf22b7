"""Run the migrations for alembic, on the connection and in the transaction that `database.run_alembic` passes."""

from __future__ import annotations

from alembic import context

from prowess.storage import (
    compositions,
    connectors,
    conversations,
    evals,
    jobs,
    people_tables,
    policy_tables,
    proposals,
    run_tables,
    session_tables,
    source_tables,
    tables,
)
from prowess.storage.sqlite_driver import real_connection

# Each module registers its tables when it is imported; alembic would take a table that is missing here for deleted.
modules = (
    tables,
    session_tables,
    compositions,
    connectors,
    conversations,
    evals,
    jobs,
    people_tables,
    policy_tables,
    proposals,
    run_tables,
    source_tables,
)
[metadata] = {module.metadata for module in modules}

context.configure(
    connection=real_connection(context.config.attributes["connection"]),
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can change few things in place: the table is copied instead
    transaction_per_migration=False,  # one transaction, so that a migration that fails leaves nothing behind
)
with context.begin_transaction():
    context.run_migrations()
