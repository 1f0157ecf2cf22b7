"""What alembic runs: the migrations, on the connection and in the transaction that `storage.migrate` hands over."""

from __future__ import annotations

from alembic import context

from prowess.storage import policy_tables, run_tables, sessions, tables

# Each of them adds its tables; what is not imported would seem to be gone.
[metadata] = {module.metadata for module in (tables, sessions, policy_tables, run_tables)}

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
