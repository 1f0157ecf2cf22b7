"""Secrets removed from what is written down: known values first, then what is named a secret, then what looks like one."""

from prowess.redaction.environment import secrets_in
from prowess.redaction.redactor import Redactor

__all__ = ["Redactor", "secrets_in"]
