"""Every kind of store, for tests, and small skills to put into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import Store
from prowess.skill.package import Package
from prowess.storage.database import open_database

Pack = Callable[..., Package]


def make_pack(slug: str, body: str = "Do it well.", **files: str | bytes) -> Package:
    """A small skill: a SKILL.md, and files by keyword, `references_guide` standing for `references/guide.md`."""
    text = f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n# {slug}\n\n{body}\n"
    others = {key.replace("_", "/", 1) + ".md": content for key, content in files.items()}
    return Package.of_texts(slug, {"SKILL.md": text, **others})


@pytest.fixture
def pack() -> Pack:
    """`make_pack`, for tests."""
    return make_pack


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
