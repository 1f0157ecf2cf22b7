"""Registries of skills: one file per registry, and one row each in `table.py`."""
