"""Open the registry of prompts and rubrics that the settings name."""

from __future__ import annotations

from pathlib import Path

from prowess.catalog.catalog import Catalog
from prowess.engine.stores import Stores
from prowess.prompts.database_shelf import DatabaseShelf
from prowess.prompts.folder_shelf import FolderShelf
from prowess.prompts.registry import Registry
from prowess.prompts.shelf import EntryKind, Shelf
from prowess.settings import FOLDER


def open_registry(stores: Stores, catalog: Catalog) -> Registry:
    """Return the registry over the folders of the workspace and the home folder, and the account's database."""
    settings, limits = stores.settings, stores.limits
    near = ["", f"{FOLDER}/"]
    shelves: list[Shelf] = [FolderShelf(settings.workspace, _registry_folders(near), origin="workspace", limits=limits)]
    if not _is_in_workspace(settings.home, settings.workspace, near):
        shelves.append(FolderShelf(settings.home, _registry_folders([""]), origin="home", limits=limits))
    shelves.append(DatabaseShelf(stores.records, stores.has_records))
    return Registry(lambda: shelves, catalog)


def _registry_folders(prefixes: list[str]) -> dict[EntryKind, list[str]]:
    return {
        "prompt": [f"{prefix}prompts" for prefix in prefixes],
        "rubric": [f"{prefix}rubrics" for prefix in prefixes],
    }


def _is_in_workspace(home: Path, workspace: Path, prefixes: list[str]) -> bool:
    """Return True if the home folder is already one of the workspace's folders."""
    return any(home == workspace / prefix for prefix in prefixes)
