"""Environment grants of skills."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from prowess.engine.parts import Frame
from prowess.errors import NotFound
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.policy.grants import EnvGrant, EnvGrants
    from prowess.policy.organization import OrgPolicy


class Granting(Frame):
    """The part of the engine that lets skills read from the environment, each by exactly its bytes."""

    async def allow_env(self, slug: str, name: str, *, actor: Actor | None = None) -> EnvGrant:
        """Let a skill, as it is now, read a name of the environment that it asks for; an administrator does this."""
        from prowess.policy.grants import EnvGrant
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
        from prowess.policy.grants import list_env_grants
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
        from prowess.policy.grants import EnvGrants

        return EnvGrants(self._parts.records())
