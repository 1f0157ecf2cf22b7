"""Prompts and rubrics in files, and shelves of every kind that hold the same of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prowess.policy.actor import Actor
from prowess.prompts.database_shelf import DatabaseShelf, RegistryWriter
from prowess.prompts.folder_shelf import FolderShelf
from prowess.prompts.shelf import EntryKind, MemoryShelf, Shelf, read_entry
from prowess.storage.database import Database, open_database

ANN = Actor(name="ann", organization="acme", user="ann")
CRITERION = {
    "id": "clear",
    "name": "Clear",
    "description": "It reads well.",
    "pass_condition": "Every sentence has one thought.",
    "fail_condition": "A sentence has to be read twice.",
}
FAR_OFF = 2**62
"""A moment so late that everything on disk has settled by then, in nanoseconds."""


@pytest.fixture
def ann() -> Actor:
    """A person who may do everything in an organization."""
    return ANN


@pytest.fixture
def prompt_document() -> Callable[..., dict[str, Any]]:
    """A prompt as its file has it."""

    def make(id: str = "outline", version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
        return {"prompt_id": id, "version": version, "template": "Outline {{topic}}.", **fields}

    return make


@pytest.fixture
def rubric_document() -> Callable[..., dict[str, Any]]:
    """A rubric as its file has it."""

    def make(id: str = "style", version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
        return {"rubric_id": id, "version": version, "scoring_mode": "binary", "criteria": [CRITERION], **fields}

    return make


@pytest.fixture
def folder_shelf(tmp_path: Path) -> Callable[..., FolderShelf]:
    """A shelf over `prompts/` and `rubrics/` of the test's folder, after so much time that every stamp can be trusted."""

    def make(**options: Any) -> FolderShelf:
        folders: dict[EntryKind, list[str]] = {"prompt": ["prompts"], "rubric": ["rubrics"]}
        given: dict[str, Any] = {"clock": lambda: FAR_OFF, **options}
        return FolderShelf(tmp_path, folders, origin="workspace", **given)

    return make


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of a registry: a document as JSON, or a text or bytes as they are."""

    def write(path: str, content: Any) -> Path:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content if isinstance(content, str) else json.dumps(content))
        return target

    return write


def _kind_of(document: dict[str, Any]) -> EntryKind:
    return "prompt" if "prompt_id" in document else "rubric"


@pytest.fixture(params=["memory", "folder", "sqlite", "postgres"])
def shelf_of(
    request: pytest.FixtureRequest, folder_shelf: Callable[..., FolderShelf], put: Callable[..., Path], tmp_path: Path
) -> Iterator[Callable[..., Shelf]]:
    """A shelf of each kind that holds these prompts and rubrics, given as their documents."""

    databases: list[Database] = []

    def make(*documents: dict[str, Any]) -> Shelf:
        named: list[tuple[EntryKind, str, dict[str, Any]]]
        named = [(_kind_of(one), f"{number}.json", one) for number, one in enumerate(documents)]
        entries = [read_entry(kind, name, json.dumps(one).encode()) for kind, name, one in named]
        if request.param == "memory":
            return MemoryShelf(*(entry.value for entry in entries if entry.value is not None))
        if request.param == "folder":
            for kind, name, one in named:
                put(f"{kind}s/{name}", one)
            return folder_shelf()
        sqlite = f"sqlite:///{tmp_path}/agents.db"
        database = open_database(sqlite if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
        databases.append(database)
        for entry in entries:
            RegistryWriter(lambda: database).add(ANN, entry)
        return DatabaseShelf(lambda: database, lambda: True)

    yield make
    for database in databases:
        database.close()
