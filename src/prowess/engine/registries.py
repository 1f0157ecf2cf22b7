"""Registries of skills: search them, preview a skill, and fetch it for one conversation.

Nothing that a registry sends is accepted by anyone here. A person sees all of it, marked as such. An agent sees texts
only where it could use the skill at once; otherwise it sees ids and numbers, and a person is asked about the rest.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prowess.catalog.store_rules import accepted_skill
from prowess.engine.context import Context, Part
from prowess.engine.registry_results import (
    RegistryHit,
    RegistryPreview,
    make_hit,
    make_preview,
    make_ranked_hit,
    redact_hit,
)
from prowess.engine.sessions import Sessions
from prowess.errors import Conflict, Invalid, NotFound, ProwessError, Refused
from prowess.policy.roles import find_role
from prowess.policy.subject import Subject
from prowess.skill.model import Provenance, Scope, Skill
from prowess.skill.slug import slugify
from prowess.skill.validate import accept
from prowess.threads import offload, offload_to_completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prowess.engine.update_check import UpdateStatus
    from prowess.net.request import HttpClient
    from prowess.policy.actor import Actor
    from prowess.policy.organization import OrgPolicy
    from prowess.session.session import Session
    from prowess.skill.outline import SkillOutline
    from prowess.skill.package import Package
    from prowess.sources.registries.registry import Registry, RegistryEntry

MAX_QUERY_CHARS = 300
LIVE_BYTES = 256 * 1024
"""The most bytes of a skill that is fetched for one conversation: only its text is used, and that has to fit into a prompt.

Its files are kept with the request for an approval, so a small limit also bounds what agents can make the database store."""
_SEARCHED = 50
"""How many results a registry is asked for. More than are shown, because they are ranked here."""
_TRENDING = 100
_AT_ONCE = 4
"""How many skills are fetched at the same time."""


class Registries(Part):
    """Registries of skills, as the actor may use them. An empty `registry` means the default one."""

    async def search(self, query: str, *, limit: int = 10, registry: str = "") -> list[RegistryHit]:
        """Return skills of a registry for a query, best first: ranked by our matcher with the registry's order and counts.

        Raise `Refused` for an agent unless fetching skills live is turned on for it.
        """
        from prowess.sources.registries.ranking import rank_entries

        words = check_query(query)
        shows_texts, opened = await offload(self._open, registry)
        found, trending = await asyncio.gather(
            opened.search(words, limit=_SEARCHED), _or_nothing(opened.trending(limit=_TRENDING))
        )
        ranked = await offload(lambda: rank_entries(words, found, trending=trending))
        chosen = ranked[: _check_limit(limit)]
        return await offload(lambda: self._present([make_ranked_hit(entry) for entry in chosen], shows_texts))

    async def trending(self, *, limit: int = 20, registry: str = "") -> list[RegistryHit]:
        """Return the trending skills of a registry, in its order."""
        shows_texts, opened = await offload(self._open, registry)
        most = _check_limit(limit)
        found = (await opened.trending(limit=most))[:most]
        hits = [replace(make_hit(entry), trending=index) for index, entry in enumerate(found, 1)]
        return await offload(lambda: self._present(hits, shows_texts))

    async def metadata(self, id: str, *, skill_id: str = "", registry: str = "") -> RegistryPreview:
        """Return a skill of a registry with its files checked and scanned. Nothing is stored.

        `id` is that of a search, `REGISTRY:ID`, the address of the skill's page, or a source with `skill_id`. Raise `Refused`
        for an agent that could not use the skill at once.
        """
        shows_texts, client = await offload(self._permit)
        if not shows_texts:
            raise Refused(
                "Only a person can read a skill that nobody has accepted.",
                hint="Call fetch_registry_skill: it asks a person, who then sees the skill.",
            )
        from prowess.sources.registries.table import find_registry_skill

        named = find_registry_skill(
            id, self._context.resources.registries(), client, skill_id=skill_id, registry=registry
        )
        detail = await named.registry.metadata(named.id)
        return await offload(make_preview, self._context, detail)

    async def fetch(
        self, source: str, *, session: Session | str, skill_id: str = "", reason: str = "", registry: str = ""
    ) -> Session:
        """Put a skill of a registry into the prompt of this session only, and return the changed session.

        It is not installed, counts against the budget, and is gone when the session ends. Raise `ApprovalRequired` (the
        request shows exactly these files), `BudgetExceeded`, `Conflict` if the catalog has its slug, or another `Refused`.
        """
        from prowess.sources.registries.table import find_registry_skill

        # Before anything is downloaded: an agent that may not fetch reaches no host.
        _, client = await offload(self._permit)
        named = find_registry_skill(
            source, self._context.resources.registries(), client, skill_id=skill_id, registry=registry
        )
        try:
            fetched = await named.registry.download(named.id)
            await offload(accept, fetched.package, self._context.resources.limits)
        except Invalid as error:
            # What is wrong with files is said in words of these files, and nobody has accepted them.
            raise error if self._context.actor.is_person else _unusable(named.id) from None
        _check_size(fetched.package)
        return await Sessions(self._context).enable_fetched(
            fetched.package, session=session, origin=named.registry.page_url(fetched.path), reason=reason
        )

    async def install(
        self, id: str, *, registry: str = "", scope: Scope | None = None, slug: str = "", digest: str = ""
    ) -> Skill:
        """Store a skill from a registry in the catalog, with its origin, and return it. Only a person can do this.

        `digest` is that of a preview: raise `Conflict` if the registry sends other files now, or if the skill does not have
        this `slug`. `scope` is by default the organization, or the account where there is none. The skill counts as synced:
        its text is used only as far as the policy allows, or once a person has accepted it.
        """
        from prowess.engine.source_install import install_package
        from prowess.engine.sources import SOURCE_SCOPES
        from prowess.sources.registries.table import find_registry_skill

        actor = self._context.actor
        actor.require("skills.write")
        if not actor.is_person:
            raise Refused("Only a person can install a skill from a registry.", hint="Tell the user its id.")
        chosen: Scope = scope or ("org" if actor.organization else "account")
        if chosen not in SOURCE_SCOPES:
            raise Invalid(
                f"A skill from a registry cannot be stored in the {chosen} scope.",
                hint=f"Use one of: {', '.join(SOURCE_SCOPES)}.",
            )
        _, client = await offload(self._permit)
        named = find_registry_skill(id, self._context.resources.registries(), client, registry=registry)
        fetched = await named.registry.download(named.id)
        if digest and fetched.package.digest != digest:
            raise Conflict(
                f"The registry now sends different files for {fetched.path!r} than it showed before.",
                hint=f"Review them again: `prowess registry show {named.registry.name}:{fetched.path}`.",
            )
        await offload(self._check_slug, fetched.package, slug)
        provenance = Provenance(
            source="community",
            source_type="marketplace",
            source_url=named.registry.page_url(fetched.path),
            source_ref=fetched.revision or None,
            marketplace_id=fetched.marketplace_id or None,
            sync_etag=fetched.etag or None,
        )
        return await offload_to_completion(install_package, self._context, fetched.package, provenance, chosen)

    async def outdated(self, names: Sequence[str] = ()) -> list[UpdateStatus]:
        """Return how the skills that were installed from registries compare with them, or those with these slugs. Changes nothing."""
        from prowess.engine.update_check import UpdateStatus
        from prowess.sources.registries.table import find_registry_skill

        installed = await offload(self._list_installed, names)
        if not installed:
            return []
        _, client = await offload(self._permit)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def compare(skill: SkillOutline) -> UpdateStatus:
            url, before = skill.provenance.source_url or "", skill.provenance.source_ref or skill.digest
            known = UpdateStatus(name=skill.slug, status="current", source=url, registry=True, installed=before)
            try:
                async with slots:
                    named = find_registry_skill(url, self._context.resources.registries(), client)
                    now = await named.registry.download(named.id)
            except NotFound:
                return replace(known, status="gone")
            except ProwessError as error:
                return replace(known, status="unknown", problem=error.message)
            status = "current" if now.package.digest == skill.digest else "outdated"
            return replace(known, status=status, latest=now.revision or now.package.digest)

        return await asyncio.gather(*map(compare, installed))

    def _list_installed(self, names: Sequence[str]) -> list[SkillOutline]:
        """Return the skills that were installed from a registry, and not by a source that keeps them up to date."""
        cards = self._context.catalog.cards()
        slugs = [card.slug for card in cards if card.source == "community" and (not names or card.slug in names)]
        found = [outline for slug in slugs if (outline := self._context.catalog.outline(slug))]
        return [
            outline
            for outline in found
            if outline.provenance.source_type == "marketplace" and not outline.provenance.source_id
        ]

    def _check_slug(self, package: Package, slug: str) -> None:
        found = accepted_skill(accept(package, self._context.resources.limits))[0].slug
        if slug and found != slug:
            raise Conflict(
                f"The files call the skill {found!r}, not {slug!r}.",
                hint=f"Use the slug {found!r}, or leave out the slug.",
            )

    def _open(self, registry: str) -> tuple[bool, Registry]:
        from prowess.sources.registries.table import open_registry

        shows_texts, client = self._permit()
        return shows_texts, open_registry(registry, self._context.resources.registries(), client)

    def _permit(self) -> tuple[bool, HttpClient]:
        """Return True if the actor may see texts of unknown skills, and a client that may be used. Blocking.

        Raise `Refused` for an agent that may not fetch at all: a query, too, sends information to another host.
        """
        from prowess.sources.download import RoutedClient

        shows_texts, policy = permit_fetch(self._context)
        return shows_texts, RoutedClient(self._context.resources.fetch_context().client, policy.host_routes)

    def _present(self, hits: Sequence[RegistryHit], shows_texts: bool) -> list[RegistryHit]:
        marked = [replace(hit, installed=self._is_installed(hit)) for hit in hits]
        return marked if shows_texts else [redact_hit(hit) for hit in marked]

    def _is_installed(self, hit: RegistryHit) -> bool:
        slug = slugify(hit.skill_id)
        outline = self._context.catalog.outline(slug) if slug else None
        return outline is not None and outline.provenance.source_url == hit.url


async def _or_nothing(entries: Any) -> list[RegistryEntry]:
    """Return what a request brings, or nothing if it fails: the ranking is only a little worse without it."""
    try:
        return await entries
    except ProwessError:
        return []


def permit_fetch(context: Context) -> tuple[bool, OrgPolicy]:
    """Return True if the actor may see texts of unknown skills, and the policy. Blocking.

    Raise `Refused` for an agent that may not fetch at all.
    """
    actor = context.actor
    actor.require("skills.read")
    policy = context.read_policy()
    return actor.is_person or _may_fetch(actor, policy), policy


def _may_fetch(actor: Actor, policy: OrgPolicy) -> bool:
    """Return True if an agent may fetch a skill without being asked, False if a person is asked; else raise `Refused`."""
    from prowess.policy.gate import judge

    if actor.role and not find_role(actor.role, policy).may("fetch_live"):
        raise Refused(
            f"The role {actor.role!r} may not fetch skills from a registry.",
            hint="Use an installed skill: call search_skills.",
        )
    # Without the role: the tags that a role is limited to cannot be known before the skill is.
    unknown = Subject(slug="unknown", digest="unknown", live=True, trust="live")
    ruling = judge(replace(actor, role=""), "fetch_live", unknown, policy)
    if ruling.answer == "deny":
        raise Refused(ruling.reason, hint=ruling.hint)
    return ruling.answer == "allow"


def check_query(query: str) -> str:
    """Return the words of a query on one line, or raise `Invalid`."""
    words = " ".join(query.split())
    if not words or len(words) > MAX_QUERY_CHARS or not words.isprintable():
        raise Invalid(
            "The query is empty, too long or not plain text." if words else "The query is empty.",
            hint=f"Use a few words, at most {MAX_QUERY_CHARS} characters.",
        )
    return words


def _check_limit(limit: int) -> int:
    return max(1, min(limit, _SEARCHED))


def _check_size(package: Package) -> None:
    size = sum(entry.size for entry in package.manifest)
    if size > LIVE_BYTES:
        raise Invalid(
            f"The skill has {size:,} bytes, more than the {LIVE_BYTES:,} that may be fetched for one conversation.",
            hint="Ask a person to install it instead.",
        )


def _unusable(id: str) -> Invalid:
    return Invalid(
        f"The files of {id!r} are not a valid skill.",
        hint="Choose another skill. A person sees what is wrong with `prowess registry show`.",
    )
