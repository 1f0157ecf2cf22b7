"""Opening the engine, and examining what it would open."""

from __future__ import annotations

import getpass
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prowess.build.deliveries import Deliveries
from prowess.build.places import PACKS
from prowess.build.running import Workshop
from prowess.build.stores import Stores
from prowess.catalog.catalog import Catalog
from prowess.engine.engine import Engine
from prowess.engine.frame import Parts
from prowess.errors import Invalid, ProwessError
from prowess.policy.actor import Actor, local_person
from prowess.settings import Settings, read_settings

if TYPE_CHECKING:
    from prowess.catalog.doctor import Finding
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
                build_sandbox=workshop.build_sandbox,
                aclose=workshop.aclose,
                close=close,
            )
        )
        workshop.run_skill = engine.run_for_script
        return engine


def _local_name() -> str:
    """What the person at this machine is called."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "me"


def examine(workspace: str | Path | None = None) -> list[Finding]:
    """What `prowess doctor` reports; it also clears away what an interrupted write left behind."""
    from prowess.catalog.doctor import examine_stores

    stores = Stores(read_settings(workspace=workspace))
    try:
        findings = examine_stores(
            home=stores.settings.home,
            workspace=stores.settings.workspace,
            database_urls=stores.places.database_urls,
            catalog=Catalog(stores.present),
        )
        return [*findings, *_examine_plugins(), *_examine_models(stores), _examine_index(stores)]
    finally:
        stores.close()


def _examine_plugins() -> list[Finding]:
    """One finding for each plugin; a broken one is skipped, which is worth knowing and ends nothing."""
    from prowess.catalog.doctor import Finding
    from prowess.plugins import installed

    found: list[Finding] = []
    for one in installed():
        name, owner = f"plugin {one.name}", f"{one.distribution} {one.version}".strip()
        if one.problem:
            hint = f"Update or uninstall {one.distribution or 'the package that brings it'}."
            found.append(Finding(name=name, status="warning", detail=f"{owner} is skipped: {one.problem}", hint=hint))
        else:
            found.append(Finding(name=name, status="ok", detail=f"{owner}: {one.brings}"))
    return found


def _examine_models(stores: Stores) -> list[Finding]:
    """A finding for each model that the settings name: whether that is a name of a model at all."""
    from prowess.build.models import model_config
    from prowess.catalog.doctor import Finding
    from prowess.llm.models import Models

    models = Models(model_config(stores.settings))
    found: list[Finding] = []
    for name, named in (("model", models.default), ("evaluation model", models.evaluation)):
        try:
            models.check(named)
        except Invalid as error:
            found.append(Finding(name=name, status="error", detail=error.message, hint=error.hint))
        else:
            found += [Finding(name=name, status="ok", detail=named)] if named else []
    return found


def _examine_index(stores: Stores) -> Finding:
    """Where the index of matching lies, and whether it is current; a settings fault or a missing model shows here."""
    from prowess.build.embedding import embedder_of
    from prowess.build.matching import snapshot_folder
    from prowess.catalog.doctor import Finding
    from prowess.match.snapshot import Snapshot

    name, folder = "match index", snapshot_folder(stores.settings)
    try:
        saved = Snapshot(folder).load(embedder_of(stores.settings))
    except ProwessError as error:
        status = "error" if isinstance(error, Invalid) else "warning"
        return Finding(name=name, status=status, detail=error.message, hint=error.hint)
    if saved is None:
        return Finding(name=name, status="ok", detail=f"{folder} (made by the next match)")
    size = 0
    for file in folder.iterdir():
        with suppress(OSError):  # another process may just have replaced it
            size += file.stat().st_size
    count = f"{saved.index.size:,} skill{'s' * (saved.index.size != 1)}, {size:,} bytes"
    state = "current" if stores.holds(saved.record) else "brought up to date by the next match"
    return Finding(name=name, status="ok", detail=f"{folder}: {count}, {state}")
