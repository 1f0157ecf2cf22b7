"""The forms a skill comes in: recognised by content, read and written without loss."""

from __future__ import annotations

from prowess.skill.forms.codes import CODES
from prowess.skill.forms.convert import write_package
from prowess.skill.forms.form import Reading, Writing
from prowess.skill.forms.recognise import read_package

__all__ = ["CODES", "Reading", "Writing", "read_package", "write_package"]
