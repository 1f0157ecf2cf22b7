"""Permanently remove the rights of a process that untrusted code does not need. Standard library only.

This runs in processes that have loaded nothing else of this package, and imports nothing of it.
"""
