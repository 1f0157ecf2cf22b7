"""Remove secrets from what is stored or printed: known values, values named as secrets, and values that look like one."""

from prowess.redaction.redactor import Redactor, find_secrets

__all__ = ["Redactor", "find_secrets"]
