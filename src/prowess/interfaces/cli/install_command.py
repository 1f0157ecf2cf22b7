"""The command that adds an extra to Prowess, by the tool that installed it.

Hints name `pip install 'prowess[EXTRA]'`. Where uv installed Prowess as a tool, pip would install another package of this
name, or nothing that this program sees.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from prowess.patterns import lazy_pattern

_PIP_COMMAND = lazy_pattern(r"pip install '?prowess\[([a-z0-9,_-]+)\]'?")


def adapt_install_commands(text: str) -> str:
    """Return the text with each command that installs an extra replaced by one for the environment of this program."""
    requirement = _read_uv_requirement() if "pip install" in text else None
    if requirement is None:
        return text
    return _PIP_COMMAND.sub(lambda found: _uv_command(requirement, found[1].split(",")), text)


def _uv_command(requirement: dict[str, Any], added: list[str]) -> str:
    extras = ",".join(sorted({*requirement.get("extras", ()), *added}))
    place = next((requirement[name] for name in ("directory", "editable", "path") if requirement.get(name)), "")
    address = f"git+{requirement['git']}" if requirement.get("git") else requirement.get("url", "")
    named = f"{place}[{extras}]" if place else f"prowess[{extras}]" + (f" @ {address}" if address else "")
    return f"uv tool install {shlex.quote(named)}"


def _read_uv_requirement() -> dict[str, Any] | None:
    """Return how uv was asked to install Prowess as a tool; None if it did not."""
    import tomllib

    try:
        receipt = tomllib.loads((Path(sys.prefix) / "uv-receipt.toml").read_text("utf-8"))
        return next(one for one in receipt["tool"]["requirements"] if one["name"] == "prowess")
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return None
