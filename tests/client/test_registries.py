"""Registries of skills through a server: the same values as from the engine, and an installation on the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.sources.registry_stubs import SkillsShStub

from prowess.errors import Conflict, NotFound

pytestmark = pytest.mark.anyio

POSTGRES = "acme/runbooks/postgres-triage"


@pytest.fixture(autouse=True)
def registry(place: Any) -> Iterator[SkillsShStub]:
    with SkillsShStub().served() as stub:
        stub.add(POSTGRES, installs=7)
        stub.trending = [POSTGRES]
        place.environment |= {"SKILLS_API_URL": stub.url, "SKILLS_DOWNLOAD_URL": stub.url}
        yield stub


async def test_a_client_gets_what_the_engine_gets(each_side: Any):
    async with each_side() as (engine, client):
        for side in (engine, client):
            assert [hit.id for hit in await side.registries.search("postgres", limit=3)] == [POSTGRES]
        assert await client.registries.trending() == await engine.registries.trending()
        assert await client.registries.metadata(POSTGRES) == await engine.registries.metadata(POSTGRES)
        source, _, skill = POSTGRES.rpartition("/")
        assert (await client.registries.metadata(source, skill_id=skill)).slug == "postgres-triage"
        with pytest.raises(NotFound):
            await client.registries.metadata("acme/runbooks/nothing")


async def test_a_skill_is_installed_on_the_server_with_the_files_that_were_shown(place: Any, registry: SkillsShStub):
    async with place.client() as client:
        shown = await client.registries.metadata(POSTGRES)
        with pytest.raises(Conflict):
            await client.registries.install(POSTGRES, digest="0" * 64)
        kept = await client.registries.install(f"skills.sh:{POSTGRES}", digest=shown.digest)
        assert (kept.slug, kept.digest) == ("postgres-triage", shown.digest)
        assert (kept.provenance.source_type, kept.provenance.source_url) == ("marketplace", shown.entry.url)
        assert (await client.registries.search("postgres"))[0].installed
    assert registry.refused == []
