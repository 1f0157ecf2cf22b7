"""What a run is given of what its skill asks for, and why not the rest: the skill's needs against the organization's policy.

Hosts are given as declared, since the gate showed them and let the skill through. Everything else takes the word of an
administrator, or lies within the workspace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prowess.policy.grants import Grants
from prowess.policy.organization import OrgPolicy
from prowess.sandbox.roots import Root
from prowess.skill.need_values import split_root
from prowess.skill.needs import Needs

OWN_PREFIX = "PROWESS_"
"""Names that begin so are Prowess's own settings, keys and addresses among them; no skill reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where runs happen. All paths are whole and without links.

    `find` gives the folder at a path in that form, None where there is none. What is `closed`, a folder or a file, is in no
    folder that is given. So is what is `hidden`, but for a function that reads the whole workspace: no name below that begins
    with a dot is given to it. Where `skills` lie, nobody writes.
    """

    environment: Mapping[str, str] = field(repr=False)
    workspace: Path
    find: Callable[[Path], Path | None]
    closed: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    skills: Sequence[Path] = ()


def granted(
    needs: Needs, policy: OrgPolicy, around: Surroundings, *, slug: str, digest: str, program: bool = False
) -> Grants:
    """What the bytes of this digest are given; a `program` opens files itself, so that a folder is its with all below."""
    denied: dict[str, str] = {}
    env: dict[str, str] = {}
    for name in needs.env:
        why = _why_no_value(name, policy, around, slug, digest)
        if why:
            denied[name] = why
        else:
            env[name] = around.environment[name]
    roots: list[Root] = []
    for said in needs.roots:
        found = _root(said, policy, around, program=program)
        if isinstance(found, Root):
            roots.append(found)
        else:
            denied[split_root(said)[0]] = found
    binaries = tuple(name for name in needs.binaries if name in policy.allowed_binaries)
    denied |= {name: _why_no_program(name, policy) for name in needs.binaries if name not in binaries}
    return Grants(
        hosts=needs.hosts,
        routes=_routes(needs.hosts, policy.host_routes),
        env=env,
        roots=tuple(roots),
        binaries=binaries,
        denied=denied,
    )


def _why_no_value(name: str, policy: OrgPolicy, around: Surroundings, slug: str, digest: str) -> str:
    """Why a name of the environment is not given; '' where it is."""
    if name.upper().startswith(OWN_PREFIX):
        return f"{name} is a setting of Prowess itself, which no skill reads."
    digests = policy.skill_env.get(slug, {}).get(name)
    if digests is None:
        return f"Nobody has allowed {slug!r} to read {name}. An administrator does: `prowess env allow {slug} {name}`."
    if digest not in digests:
        return (
            f"{slug!r} has changed since it was allowed to read {name}. An administrator looks at it and allows it again: "
            f"`prowess env allow {slug} {name}`."
        )
    if name not in around.environment:
        return f"{slug!r} may read {name}, but it is not set where Prowess runs."
    return ""


def _why_no_program(name: str, policy: OrgPolicy) -> str:
    allowed = json.dumps([*policy.allowed_binaries, name])
    return f"No administrator has allowed the program {name!r}: `prowess policy set allowed_binaries '{allowed}'`."


def _routes(hosts: Sequence[str], routes: Mapping[str, str]) -> dict[str, str]:
    """The routes of hosts that are declared, below a `*.` as well."""
    names = [host.partition(":")[0] for host in hosts]
    return {host: to for host, to in routes.items() if any(_names(name, host) for name in names)}


def _names(name: str, host: str) -> bool:
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _root(said: str, policy: OrgPolicy, around: Surroundings, *, program: bool) -> Root | str:
    """The folder that a root stands for, or why it is not given."""
    name, writable = split_root(said)
    place = around.find(around.workspace / name)
    if place is None:
        return f"There is no folder {name!r}."
    allowed = [found for folder in policy.skill_roots if (found := around.find(Path(folder)))]
    base = next((base for base in (around.workspace, *allowed) if place.is_relative_to(base)), None)
    if base is None:
        return (
            f"The folder {name!r} is not in the workspace, and in none that an administrator allows: "
            "`prowess policy set skill_roots '[\"/absolute/folder\"]'`."
        )
    if program and place == around.workspace:
        return "A program is not given the whole workspace, hidden files and all; name folders in it."
    hidden = () if place == around.workspace else around.hidden
    if any(_meet(place, kept) for kept in (*around.closed, *hidden)):
        return f"The folder {name!r} holds what Prowess keeps, or lies in it; no skill reads that."
    why = _why_not_written(place, base, around) if writable else ""
    return f"The folder {name!r} is not written to: {why}." if why else Root(name=name, path=place, writable=writable)


def _why_not_written(place: Path, base: Path, around: Surroundings) -> str:
    """Why a folder that may be read may not be written: what lies in it would be run or trusted by others."""
    if place == around.workspace:
        return "it is the whole workspace; name a folder in it"
    if any(part.startswith(".") for part in place.relative_to(base).parts):
        return "it is hidden, and tools run what they find in hidden folders"
    if any(_meet(place, skills) for skills in around.skills):
        return "skills are kept there"
    return ""


def _meet(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
