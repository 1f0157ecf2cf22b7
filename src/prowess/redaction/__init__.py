"""Secrets removed from what is written down: known values first, then what is named a secret, then what looks like one."""

from prowess.redaction.redactor import Redactor, find_secrets

__all__ = ["Redactor", "find_secrets"]
