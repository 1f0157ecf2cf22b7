"""Environment grants of skills, and what each run may reach outside the sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.engine.parts import Frame
from prowess.errors import NotFound
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.policy.configuration import EnvGrant, EnvGrants
    from prowess.policy.grants import GrantContext, Grants
    from prowess.policy.organization import OrgPolicy
    from prowess.run.call import Call
    from prowess.storage.database import Connections


class Granting(Frame):
    """The part of the engine that lets skills read from the environment, each by exactly its bytes."""

    async def allow_env(self, slug: str, name: str, *, actor: Actor | None = None) -> EnvGrant:
        """Let a skill, as it is now, read a name of the environment that it asks for; an administrator does this."""
        from prowess.policy.configuration import EnvGrant
        from prowess.skill.needs import read_needs

        def work() -> EnvGrant:
            skill = self.catalog.find(slug)[1]
            asked = read_needs(skill).env
            self._env_grants.allow(actor or self.actor, slug=skill.slug, digest=skill.digest, asked=asked, name=name)
            there = name in self._parts.environment
            return EnvGrant(slug=skill.slug, name=name, state="allowed" if there else "unset")

        return await self._blocking(work)

    async def forbid_env(self, slug: str, name: str, *, actor: Actor | None = None) -> None:
        """Take that back, whatever the skill is by now; an administrator does this."""
        await self._blocking(
            lambda: self._env_grants.forbid(actor or self.actor, slug=slug.rpartition(":")[2], name=name)
        )

    async def env_grants(self, slug: str = "", *, actor: Actor | None = None) -> list[EnvGrant]:
        """What a skill asks for and is allowed; without a slug, of every skill that was allowed something."""

        def work() -> list[EnvGrant]:
            who = actor or self.actor
            who.require("skills.read")
            policy = self._policy_of(who)
            return [grant for one in ([slug] if slug else policy.skill_env) for grant in self._env_of(one, policy)]

        return await self._blocking(work)

    def _env_of(self, address: str, policy: OrgPolicy) -> Sequence[EnvGrant]:
        from prowess.policy.configuration import list_env_grants
        from prowess.skill.needs import read_needs

        try:
            skill = self.catalog.find(address)[1]
        except NotFound:
            if address not in policy.skill_env:
                raise
            return list_env_grants(address, "", (), policy.skill_env[address], there=())
        allowed, there = policy.skill_env.get(skill.slug, {}), self._parts.environment
        return list_env_grants(skill.slug, skill.digest, read_needs(skill).env, allowed, there=there)

    @cached_property
    def _env_grants(self) -> EnvGrants:
        from prowess.policy.configuration import EnvGrants

        return EnvGrants(self._parts.records())


class GrantResolver:
    """Finds what each run is given. What is decided meanwhile holds for the next run.

    `closed` are the folders and files in which Prowess keeps its own things, `hidden` what it keeps in the workspace; `skills`
    gives the folders that skills lie in.
    """

    def __init__(
        self,
        *,
        records: Callable[[], Connections],
        has_records: Callable[[], bool],
        environment: Mapping[str, str],
        workspace: Path,
        closed: Sequence[Path],
        hidden: Sequence[Path] = (),
        skills: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._records = records
        self._has_records = has_records
        self._environment = environment
        self._workspace = workspace
        self._closed = closed
        self._hidden = hidden
        self._skills = skills

    async def of(self, call: Call) -> Grants:
        """What the call is given of what its skill asks for."""
        return await asyncio.to_thread(self._find, call)

    def _find(self, call: Call) -> Grants:
        from prowess.policy.grants import Grants, resolve_grants
        from prowess.skill.needs import PROGRAM_KINDS, read_needs

        needs = read_needs(call.skill)
        if not needs.as_json():
            return Grants()
        return resolve_grants(
            needs,
            self._policy(call.actor),
            self._surroundings(),
            slug=call.skill.slug,
            digest=call.skill.digest,
            program=call.artifact.kind in PROGRAM_KINDS,
        )

    def _policy(self, actor: Actor) -> OrgPolicy:
        from prowess.policy.configuration import read_policy
        from prowess.policy.organization import OrgPolicy

        if not self._has_records():
            return OrgPolicy()
        with self._records().read() as connection:
            return read_policy(connection, actor.organization)

    def _surroundings(self) -> GrantContext:
        from prowess.policy.grants import GrantContext

        return GrantContext(
            environment=self._environment,
            workspace=self._workspace.resolve(),
            find=_find_folder,
            closed=_resolve_all(self._closed),
            hidden=_resolve_all(self._hidden),
            skills=_resolve_all(self._skills()),
        )


def _resolve_all(paths: Sequence[Path]) -> list[Path]:
    """The same, without links, whether they are there or not."""
    return [path.resolve() for path in paths]


def _find_folder(path: Path) -> Path | None:
    """The folder at a path, whole and without links."""
    try:
        found = path.resolve(strict=True)
        return found if found.is_dir() else None
    except (OSError, RuntimeError, ValueError):
        return None
