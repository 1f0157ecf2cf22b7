"""The forms of a skill: recognised by content, read and written without loss.

The names below are imported when they are first used. All readers together take as long to import as the rest of a small
command, and a listing needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.skill.forms.conversion import read_package, write_package
    from prowess.skill.forms.form import CODES, Reading, Writing

__all__ = ["CODES", "Reading", "Writing", "read_package", "write_package"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "conversion" if name.endswith("_package") else "form"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
