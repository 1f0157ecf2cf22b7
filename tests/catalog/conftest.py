"""Every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import Store
from prowess.storage.database import open_database


@pytest.fixture(params=["memory", "directory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every kind of store, empty."""
    if request.param == "memory":
        yield MemoryStore("workspace")
        return
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/agents.db"
    opened = open_database(url)
    try:
        if request.param == "directory":
            from prowess.catalog.directory_store import DirectoryStore

            log = DatabaseVersions(opened, scope="workspace")
            yield DirectoryStore(tmp_path / "skills", scope="workspace", versions=log)
        else:
            yield DatabaseStore(opened, scope="workspace")
    finally:
        opened.close()
