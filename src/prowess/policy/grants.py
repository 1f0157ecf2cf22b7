"""What a run is given of what its skill asks for: the values, folders and programs that whoever decides has allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prowess.sandbox.roots import Root


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What one run may reach. What is not here is refused, and `denied` says why and what to do, by name."""

    hosts: tuple[str, ...] = ()
    """Those the skill declares, which the gate let through with it."""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where an administrator has requests for a host sent instead; such a place may be private."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The values of the names that the skill declares and an administrator allowed it."""
    roots: tuple[Root, ...] = ()
    binaries: tuple[str, ...] = ()
    """The programs that the skill declares and an administrator allows."""
    denied: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a name that is declared is not given, such as an environment name that nobody allowed."""
