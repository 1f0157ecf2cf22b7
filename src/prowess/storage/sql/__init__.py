"""The statements of the stores that short commands use, in SQLAlchemy's terms. They are imported late, see `storage.rows`."""

# A statement that is built while another thread imports this, as jobs do when a server starts, would fail.
import sqlalchemy.orm  # noqa: F401  # pyright: ignore[reportUnusedImport]
