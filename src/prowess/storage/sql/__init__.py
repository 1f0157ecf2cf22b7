"""The tables and statements of the stores that short commands use, in SQLAlchemy's terms.

Each module is named like the one in `storage` whose tables it has, and is imported late, see `storage.rows`.
"""
