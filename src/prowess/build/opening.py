"""Opening the engine."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prowess.build.deliveries import Deliveries
from prowess.build.places import PACKS
from prowess.build.running import Workshop
from prowess.build.stores import Stores
from prowess.catalog.catalog import Catalog
from prowess.engine.engine import Engine
from prowess.engine.frame import Parts
from prowess.policy.actor import Actor, local_person
from prowess.settings import Settings, read_settings

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher


class Prowess(Engine):
    """The engine, opened for a workspace."""

    @classmethod
    def open(
        cls, workspace: str | Path | None = None, *, settings: Settings | None = None, actor: Actor | None = None
    ) -> Self:
        """Open with the settings of the environment; nothing is written before something is kept.

        `actor` is who acts where a call names nobody else; without one, the person at this machine.
        """
        stores = Stores(settings or read_settings(workspace=workspace))
        catalog, matched = Catalog(stores.present), Catalog(stores.matched)
        who = actor or local_person(_local_name())
        deliveries = Deliveries(stores, who.organization)
        workshop = Workshop(stores, catalog, deliveries.recorder)

        def matcher() -> Matcher:
            from prowess.build.matching import matcher_of

            return matcher_of(stores.settings, lambda: matched, stores)

        def close() -> None:
            workshop.close()
            deliveries.close()
            stores.close()

        engine = cls(
            Parts(
                catalog=catalog,
                limits=stores.limits,
                packs=PACKS,
                actor=who,
                writable=stores.writable,
                matcher=matcher,
                records=stores.records,
                has_records=stores.has_records,
                feed=deliveries.feed,
                wake=deliveries.wake,
                recorder=deliveries.recorder,
                runner=lambda: workshop.runner,
                registry=lambda: workshop.registry,
                build_sandbox=workshop.sandboxes.build,
                environment=stores.settings.environment,
                aclose=workshop.aclose,
                close=close,
            )
        )
        workshop.run_skill = engine._run_for_script
        return engine


def _local_name() -> str:
    """What the person at this machine is called."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "me"
