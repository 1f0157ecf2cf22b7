"""How the receipt of a run is shown: what it asks for, what it touched, and what it was refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from prowess.interfaces.cli.printing import one_line

_SHOWN = 400


def asked_for(receipt: Mapping[str, Any]) -> str:
    """What the skill declares, in one line; '' where it asks for nothing."""
    declared: Mapping[str, object] = receipt.get("declared", {})
    asked = [f"{name} {_listed(value)}" for name, value in declared.items()]
    return one_line(f"It asks for {'; '.join(asked)}.", _SHOWN) if asked else ""


def touched_by(receipt: Mapping[str, Any]) -> list[str]:
    """What was touched, and what was refused: a line each, where there is any."""
    lines: list[str] = []
    for what in ("touched", "refused"):
        sorts: Mapping[str, Mapping[str, int]] = receipt.get(what, {})
        told = [f"{sort} {', '.join(_counted(*one) for one in names.items())}" for sort, names in sorts.items()]
        if told:
            lines.append(one_line(f"{what}: {'; '.join(told)}", _SHOWN))
    return lines


def _listed(value: object) -> str:
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def _counted(name: str, times: int) -> str:
    return f"{name} ({times} times)" if times > 1 else name
