"""Store skills and records in SQLite or PostgreSQL, and skill files on disk."""
