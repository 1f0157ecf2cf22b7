"""How what happened reaches those who follow it, in this process and in others, on SQLite and PostgreSQL."""
