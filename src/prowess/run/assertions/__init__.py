"""Checks on outputs: one file for each type of assertion."""
