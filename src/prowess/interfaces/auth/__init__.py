"""Authenticate callers, and check hosts and origins."""
