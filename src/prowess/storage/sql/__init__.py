"""The statements of the stores that short commands use, in SQLAlchemy's terms. They are imported late, see `storage.rows`."""
