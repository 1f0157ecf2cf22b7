"""Whether a host may be asked at all, before anything is looked up."""

from __future__ import annotations

from collections.abc import Mapping

from prowess.errors import Refused
from prowess.outbound.target import Target, is_listed, route_for


def allowed_route(target: Target, shown: str, hosts: tuple[str, ...], routes: Mapping[str, str]) -> Target | None:
    """Where a host is asked instead, None where it is asked itself; `Refused` where it is not among the hosts, or not over https."""
    if not is_listed(target, hosts):
        raise Refused(f"{shown} is not among the hosts of the skill.", hint=f"Add {target.shown!r} to its `hosts`.")
    route = route_for(target, routes)
    if route is None and target.scheme != "https":
        raise Refused(f"{shown} is asked over https only.", hint="Use https, or have an administrator route it.")
    return route
