"""Profiles: the rules that clients and standards apply to a skill, one file each, one row in the table.

The names below are imported when they are first used, like those of `prowess.skill.forms`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.skill.profiles.profile import PROFILE_NAMES, Profile, ProfileName
    from prowess.skill.profiles.table import PROFILES

__all__ = ["PROFILES", "PROFILE_NAMES", "Profile", "ProfileName"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "table" if name == "PROFILES" else "profile"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
