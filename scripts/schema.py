"""Write src/prowess/storage/new_database.sql, which creates the tables of a new SQLite database without alembic.

Run it after adding a migration: `python scripts/schema.py`.
"""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.database import HEAD_REVISION, NEW_DATABASE, run_alembic


def make_schema() -> str:
    """Return the statements that give the tables of all migrations, as SQLite stores them."""
    with sa.create_engine("sqlite://").begin() as connection:
        run_alembic(connection)
        # SQLite makes tables and indexes without text, and those of its own, by itself.
        made = sa.text(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        )
        statements = [*connection.execute(made).scalars()]
    head = f"-- Revision {HEAD_REVISION}. Written by scripts/schema.py from the migrations. Do not edit.\n"
    return head + "".join(f"{statement};\n" for statement in statements)


if __name__ == "__main__":
    NEW_DATABASE.write_text(make_schema())
    print(f"Wrote {NEW_DATABASE}.")
