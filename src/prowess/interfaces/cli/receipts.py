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
    """What was touched, and what was refused: a line each, where there is any.

    A result has the times by name, a trace has a list of both; whatever else stands there is not shown.
    """
    lines: list[str] = []
    for what in ("touched", "refused"):
        told = [f"{sort} {', '.join(_counted(*one) for one in _times(names))}" for sort, names in _items(receipt, what)]
        if told:
            lines.append(one_line(f"{what}: {'; '.join(told)}", _SHOWN))
    return lines


def _items(receipt: Mapping[str, Any], what: str) -> list[tuple[str, object]]:
    sorts: object = receipt.get(what)
    return list(cast("Mapping[str, object]", sorts).items()) if isinstance(sorts, Mapping) else []


def _times(names: object) -> list[tuple[str, object]]:
    if isinstance(names, Mapping):
        return list(cast("Mapping[str, object]", names).items())
    rows = cast("list[object]", names) if isinstance(names, list) else []
    found = [cast("Mapping[str, object]", row) for row in rows if isinstance(row, Mapping)]
    return [(str(row.get("name", "")), row.get("times")) for row in found]


def _listed(value: object) -> str:
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def _counted(name: str, times: object) -> str:
    """The name, and how often where that is more than once; it is not known where it was taken for a secret."""
    return f"{name} ({times} times)" if isinstance(times, int) and times > 1 else name
