"""The forms a skill comes in: recognised by content, read and written without loss."""

from __future__ import annotations

from prowess.skill.forms.codes import CODES
from prowess.skill.forms.convert import FORMS, write_package
from prowess.skill.forms.form import Form, Reading, Writing
from prowess.skill.forms.recognise import read_package

__all__ = ["CODES", "FORMS", "Form", "Reading", "Writing", "read_package", "write_package"]
