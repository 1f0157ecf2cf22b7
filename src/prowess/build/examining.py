"""What `prowess doctor` looks at."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from prowess.build.stores import Stores
from prowess.build.trying import examine_sandboxes
from prowess.catalog.catalog import Catalog
from prowess.catalog.doctor import Finding, examine_stores
from prowess.errors import Invalid, ProwessError
from prowess.settings import read_settings


def examine(workspace: str | Path | None = None) -> list[Finding]:
    """What `prowess doctor` reports; it also clears away what an interrupted write left behind."""
    stores = Stores(read_settings(workspace=workspace))
    try:
        findings = examine_stores(
            home=stores.settings.home,
            workspace=stores.settings.workspace,
            database_urls=stores.places.database_urls,
            catalog=Catalog(stores.present),
        )
        return [
            *findings,
            *_examine_plugins(),
            *_examine_models(stores),
            _examine_index(stores),
            *examine_sandboxes(stores.settings.home),
        ]
    finally:
        stores.close()


def _examine_plugins() -> list[Finding]:
    """One finding for each plugin; a broken one is skipped, which is worth knowing and ends nothing."""
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
