"""The forms a skill comes in: recognised by content, read and written without loss."""

from __future__ import annotations

from prowess.skill.forms.conversion import read_package, write_package
from prowess.skill.forms.form import CODES, Reading, Writing

__all__ = ["CODES", "Reading", "Writing", "read_package", "write_package"]
