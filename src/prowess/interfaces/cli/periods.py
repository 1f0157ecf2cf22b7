"""Lengths of time, as people type them."""

from __future__ import annotations

import re
from typing import Any

import click

_PERIOD = re.compile(r"([0-9]{1,6})([dhw])", re.ASCII)
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_LONGEST_DAYS = 36_500


class Period(click.ParamType[float]):
    """A length of time such as 30d, 12h or 2w, in days."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The days that it is."""
        if isinstance(value, float):
            return value
        found = _PERIOD.fullmatch(str(value).strip().lower())
        days = int(found[1]) * _DAYS[found[2]] if found else 0.0
        if not 0 < days <= _LONGEST_DAYS:
            self.fail(
                f"{str(value)[:40]!r} is no period; give days, hours or weeks, such as 30d, 12h or 2w.", param, ctx
            )
        return days
