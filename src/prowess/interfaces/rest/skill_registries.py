"""Routes of the registries of skills: search, trending, and the preview of one skill."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from prowess.engine.registry_results import RegistryHit, RegistryPreview
from prowess.errors import Invalid
from prowess.interfaces.rest.request import Reader, Shape, respond, shape_of
from prowess.interfaces.rest.skills import ProblemShape

router = APIRouter(prefix="/skills/registry", tags=["skills"])

RegistryName = Annotated[
    str, Query(max_length=80, description="The registry to ask; by default the one that the server is set up with.")
]


@shape_of(RegistryHit)
class RegistryHitShape(Shape):
    """A skill that a registry lists. Nobody has accepted its texts; an agent that would have to ask gets none of them."""

    source: str = Field(description="Where the registry has it from, for example `owner/repo`.")
    installed: bool = Field(description="True if a skill in reach came from exactly this page.")


class RegistryHitsShape(Shape):
    """Skills of a registry."""

    skills: list[RegistryHitShape]


@shape_of(RegistryPreview)
class RegistryPreviewShape(Shape):
    """A skill of a registry, checked and scanned. `digest` identifies exactly these files."""

    entry: RegistryHitShape
    reach: Literal["", "outside", "machine"]
    problems: list[ProblemShape]


@router.get("/search", response_model=RegistryHitsShape, summary="Search a registry")
async def search_registry(
    engine: Reader,
    q: Annotated[str, Query(min_length=1, max_length=300, description="What the skill should be about.")],
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    registry: RegistryName = "",
) -> Response:
    """Return skills of a registry, best first: ranked by our matcher with the registry's own order and counts.

    An agent may search where `skills_dynamic_search_enabled` is on.
    """
    found = await engine.registries.search(q, limit=limit, registry=registry)
    return respond({"skills": [hit.as_json() for hit in found]})


@router.get("/trending", response_model=RegistryHitsShape, summary="List trending skills of a registry")
async def list_trending(
    engine: Reader, limit: Annotated[int, Query(ge=1, le=50)] = 20, registry: RegistryName = ""
) -> Response:
    """Return the skills that a registry calls trending, in its order."""
    found = await engine.registries.trending(limit=limit, registry=registry)
    return respond({"skills": [hit.as_json() for hit in found]})


@router.get("/metadata", response_model=RegistryPreviewShape, summary="Preview a skill of a registry")
async def preview_skill(
    engine: Reader,
    id: Annotated[
        str, Query(max_length=500, description="An id of a search, `REGISTRY:ID`, or the address of the skill's page.")
    ] = "",
    source: Annotated[str, Query(max_length=500, description="In place of `id`: the `source` of a search.")] = "",
    skill_id: Annotated[str, Query(max_length=200, description="The `skill_id` of a search.")] = "",
    registry: RegistryName = "",
) -> Response:
    """Download a skill of a registry, and return what it would bring: findings, size, reach, and what is installed.

    Nothing is stored.
    """
    if bool(id) == bool(source):
        raise Invalid("Give either `id`, or `source` and `skill_id`.", hint="Take them from a search.")
    return respond((await engine.registries.metadata(id or source, skill_id=skill_id, registry=registry)).as_json())
