"""Checks on what an artifact gave: one file for each type of assertion."""
