"""The registry of prompts and rubrics that these settings give."""

from __future__ import annotations

from pathlib import Path

from prowess.build.stores import Stores
from prowess.catalog.catalog import Catalog
from prowess.settings import FOLDER
from prowess.templates.registry import Registry
from prowess.templates.shelves import EntryKind, Shelf
from prowess.templates.shelves_database import DatabaseShelf
from prowess.templates.shelves_folder import FolderShelf


def registry_of(stores: Stores, catalog: Catalog) -> Registry:
    """The registry over the workspace's folders, those of the home folder, and the database of the account."""
    settings, limits = stores.settings, stores.limits
    near = ["", f"{FOLDER}/"]
    shelves: list[Shelf] = [FolderShelf(settings.workspace, _folders(near), origin="workspace", limits=limits)]
    if not _is_inside(settings.home, settings.workspace, near):
        shelves.append(FolderShelf(settings.home, _folders([""]), origin="home", limits=limits))
    shelves.append(DatabaseShelf(stores.records, stores.has_records))
    return Registry(lambda: shelves, catalog)


def _folders(prefixes: list[str]) -> dict[EntryKind, list[str]]:
    return {
        "prompt": [f"{prefix}prompts" for prefix in prefixes],
        "rubric": [f"{prefix}rubrics" for prefix in prefixes],
    }


def _is_inside(home: Path, workspace: Path, prefixes: list[str]) -> bool:
    """Whether the home folder is one that the workspace's shelf has already."""
    return any(home == workspace / prefix for prefix in prefixes)
