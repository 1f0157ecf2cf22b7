"""Marketplaces: registries whose skills are kept in step, and the one that refreshes the skills that come with Prowess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prowess.engine.context import MarketplaceSettings, Part
from prowess.errors import ProwessError, Refused
from prowess.policy.people_log import is_operator
from prowess.sources.download import RoutedClient, route_to
from prowess.sources.marketplace import FindKnown, fetch_marketplace

if TYPE_CHECKING:
    from prowess.engine.source_sync import SyncResult
    from prowess.sources.fetch_context import FetchContext
    from prowess.sources.fetched import Fetched, SourceState
    from prowess.sources.system_skills import SystemRefresh
    from prowess.storage.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketplaceSync:
    """The result of a sync of everything that comes from registries."""

    sources: tuple[SyncResult, ...] = ()
    system: SystemRefresh | None = None
    """None if no registry of system skills is configured, or it failed."""
    system_error: ProwessError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        system = self.system
        return {
            "sources": [result.as_json() for result in self.sources],
            "system": {"updated": list(system.updated), "unchanged": system.unchanged} if system else None,
            "system_error": self.system_error and self.system_error.as_json(),
        }


class Marketplace(Part):
    """Skills from registries, for background work of the operator at launch and at intervals."""

    async def sync(self) -> MarketplaceSync:
        """Refresh system skills, and sync every marketplace with the policy `auto`, of all organizations, whether due or not.

        An unchanged registry costs one small request. If the registry is invalid, the result has the reason, and nothing is changed.
        """
        from prowess.engine.sources import Sources

        if not is_operator(self._context.actor):
            raise Refused("Only the operator can sync everything.", hint="Sync your own sources: prowess source sync")
        system, error = None, None
        try:
            system = await self.refresh_system_skills()
        except ProwessError as failed:
            error = failed
        sources = Sources(self._context)
        marketplaces = [source for source in await sources.list_automatic() if source.source_type == "marketplace"]
        results = [await sources.sync_one_due(source) for source in marketplaces]
        found = tuple(result for result in results if result is not None)
        return MarketplaceSync(sources=found, system=system, system_error=error)

    async def refresh_system_skills(self) -> SystemRefresh | None:
        """Fetch newer versions of the skills that come with Prowess; None if no registry is configured for them."""
        from prowess.sources.system_skills import refresh_system_skills

        resources = self._context.resources
        settings = resources.marketplace
        if not is_operator(self._context.actor):
            raise Refused("Only the operator can refresh system skills.", hint="Ask the operator of this server.")
        if not settings.system_url:
            return None
        client = RoutedClient(resources.fetch_context().client, route_to(settings.system_url))
        refreshed = await refresh_system_skills(
            settings.home, settings.bundled, url=settings.system_url, key=settings.system_key, client=client
        )
        if not refreshed.unchanged:
            resources.mark_changed()
        return refreshed


async def fetch_source(
    source: Source,
    last: SourceState | None,
    *,
    settings: MarketplaceSettings,
    context: FetchContext,
    known: FindKnown,
) -> Fetched:
    """Return the skills of a source of type `marketplace`.

    The registry of the settings, and one that the person at this machine chose, may be in a private network. Only the first
    gets the token, and the key of the settings counts for it.
    """
    url = str(source.config["base_url"]).strip().rstrip("/")
    is_configured = bool(settings.url) and url == settings.url
    is_reachable = is_configured or context.credentials
    return await fetch_marketplace(
        url,
        client=RoutedClient(context.client, route_to(url)) if is_reachable else context.client,
        last=last,
        key=str(source.config.get("key", "")) or (settings.key if is_configured else ""),
        token=settings.token if is_configured else "",
        known=known,
        limits=context.limits,
    )
