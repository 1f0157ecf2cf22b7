"""What runs are given of what lies outside the sandbox, and the administrator's word about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.engine.frame import Frame
from prowess.errors import NotFound
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.policy.env_grants import EnvGrant, EnvGrants
    from prowess.policy.granting import Surroundings
    from prowess.policy.grants import Grants
    from prowess.policy.organization import OrgPolicy
    from prowess.run.call import Call
    from prowess.storage.database import Connections


class Granting(Frame):
    """The part of the engine that lets skills read from the environment, each by exactly its bytes."""

    async def allow_env(self, slug: str, name: str, *, actor: Actor | None = None) -> EnvGrant:
        """Let a skill, as it is now, read a name of the environment that it asks for; an administrator does this."""
        from prowess.policy.env_grants import EnvGrant
        from prowess.skill.needs import needs_of

        def work() -> EnvGrant:
            skill = self.catalog.find(slug)[1]
            asked = needs_of(skill).env
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
        from prowess.policy.env_grants import env_states
        from prowess.skill.needs import needs_of

        try:
            skill = self.catalog.find(address)[1]
        except NotFound:
            if address not in policy.skill_env:
                raise
            return env_states(address, "", (), policy.skill_env[address], there=())
        allowed, there = policy.skill_env.get(skill.slug, {}), self._parts.environment
        return env_states(skill.slug, skill.digest, needs_of(skill).env, allowed, there=there)

    @cached_property
    def _env_grants(self) -> EnvGrants:
        from prowess.policy.env_grants import EnvGrants

        return EnvGrants(self._parts.records())


class RunGrants:
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
        from prowess.policy.granting import granted
        from prowess.policy.grants import Grants
        from prowess.skill.needs import PROGRAM_KINDS, needs_of

        needs = needs_of(call.skill)
        if not needs.as_json():
            return Grants()
        return granted(
            needs,
            self._policy(call.actor),
            self._surroundings(),
            slug=call.skill.slug,
            digest=call.skill.digest,
            program=call.artifact.kind in PROGRAM_KINDS,
        )

    def _policy(self, actor: Actor) -> OrgPolicy:
        from prowess.policy.organization import OrgPolicy
        from prowess.policy.policies import read_policy

        if not self._has_records():
            return OrgPolicy()
        with self._records().read() as connection:
            return read_policy(connection, actor.organization)

    def _surroundings(self) -> Surroundings:
        from prowess.policy.granting import Surroundings

        return Surroundings(
            environment=self._environment,
            workspace=self._workspace.resolve(),
            find=_folder_at,
            closed=_whole(self._closed),
            hidden=_whole(self._hidden),
            skills=_whole(self._skills()),
        )


def _whole(paths: Sequence[Path]) -> list[Path]:
    """The same, without links, whether they are there or not."""
    return [path.resolve() for path in paths]


def _folder_at(path: Path) -> Path | None:
    """The folder at a path, whole and without links."""
    try:
        found = path.resolve(strict=True)
        return found if found.is_dir() else None
    except (OSError, RuntimeError, ValueError):
        return None
