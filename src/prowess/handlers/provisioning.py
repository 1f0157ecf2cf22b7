"""Packages for code that needs some: installed first, and on the receipt of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from prowess.run.call import Call
from prowess.skill.needs import needs_of

Provision = Callable[[tuple[str, ...]], Path]
"""Has packages installed, where they are not yet, and says in which folder; it may take its time."""


async def packages_for(call: Call, provision: Provision) -> Path | None:
    """The folder of the packages that the skill of a call needs; None where it needs none."""
    needed = needs_of(call.skill).requirements
    if not needed:
        return None
    note = call.notes.receipt.refuse
    try:
        folder = await asyncio.to_thread(provision, needed)
        note = call.notes.receipt.touch
    finally:
        for requirement in needed:
            note("packages", requirement)
    return folder
