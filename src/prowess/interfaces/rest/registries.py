"""Routes of registries: those that are searched for skills, and those of prompts and rubrics by id and version."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from prowess.engine.registry_results import RegistryHit, RegistryPreview
from prowess.errors import Invalid
from prowess.interfaces.rest.request import Body, Page, PageShape, Reader, Shape, Writer, paginate, respond, shape_of
from prowess.interfaces.rest.skills import ProblemShape
from prowess.prompts.registry import unusable_entry
from prowess.prompts.shelf import EntryKind, RegistryEntry
from prowess.view import entry_json, to_json

router = APIRouter(prefix="/registries", tags=["registries"])

Kind = Annotated[Literal["prompts", "rubrics"], Path()]
EntryId = Annotated[str, Path(max_length=200)]
Version = Annotated[str, Path(max_length=200)]
_KINDS: dict[str, EntryKind] = {"prompts": "prompt", "rubrics": "rubric"}


class EntryShape(Shape):
    """One version of a prompt or rubric. `ok` is False if its problems make it unusable."""

    kind: EntryKind
    id: str
    version: str
    origin: str
    description: str
    ok: bool
    problems: list[ProblemShape]


class WholeEntryShape(EntryShape):
    """A prompt or rubric with its content."""

    content: dict[str, Any]


class EntryBody(Body):
    """One version of a prompt or rubric. `content` has its fields, for example `description` and `template`."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")]
    version: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,99}$", examples=["1.0.0"])]
    content: dict[str, Any]


class AddedShape(EntryShape):
    """A stored entry. `new` is False if exactly this entry was stored before."""

    new: bool


@router.get("/{kind}", response_model=PageShape[EntryShape])
async def list_entries(kind: Kind, engine: Reader, page: Page) -> Response:
    """Return every available prompt or rubric by id and version, also those with problems."""
    found = [_summary(entry) for entry in await engine.registry.list(_KINDS[kind])]
    # An id and version may occur in several places.
    keyed = [(f"{row['id']}\n{row['version']}\n{row['origin']}\n{index:06}", row) for index, row in enumerate(found)]
    return respond(paginate(keyed, page, lambda pair: pair[0], show=lambda pair: pair[1]))


@router.get("/{kind}/{id}", response_model=WholeEntryShape)
async def get_entry(
    kind: Kind,
    id: EntryId,
    engine: Reader,
    version: Annotated[str, Query(max_length=200, description="Exactly this version. Default: the latest.")] = "",
    skill: Annotated[
        str, Query(max_length=500, description="Resolve it as this skill does, its own files first.")
    ] = "",
) -> Response:
    """Return the latest release of an id, or exactly this version."""
    entry = await engine.registry.get(_KINDS[kind], id, version or None, skill=skill)
    if entry.value is None:
        raise unusable_entry(entry)
    return respond({**_summary(entry), "content": to_json(entry.value)})


@router.post("/{kind}", response_model=AddedShape)
async def add_entry(kind: Kind, body: EntryBody, engine: Writer) -> Response:
    """Store a prompt or rubric for the organization. Only a person can do this. A stored version never changes."""
    entry, new = await engine.registry.add_content(_KINDS[kind], body.id, body.version, body.content)
    return respond({**_summary(entry), "new": new})


@router.delete("/{kind}/{id}/{version}", status_code=204, response_class=Response)
async def remove_entry(kind: Kind, id: EntryId, version: Version, engine: Writer) -> Response:
    """Remove one version that the organization has stored. Only a person can do this."""
    await engine.registry.remove(_KINDS[kind], id, version)
    return Response(status_code=204)


def _summary(entry: RegistryEntry) -> dict[str, Any]:
    # The location is a path on the server.
    return {name: value for name, value in entry_json(entry).items() if name != "location"}


search_router = APIRouter(prefix="/skills/registry", tags=["skills"])

RegistryName = Annotated[
    str, Query(max_length=80, description="The registry to use. Default: the one that the server is configured with.")
]


@shape_of(RegistryHit)
class RegistryHitShape(Shape):
    """A skill that a registry lists. Nobody has accepted its texts; an agent that would have to ask gets none of them."""

    source: str = Field(description="Where the registry got it, for example `owner/repo`.")
    installed: bool = Field(description="True if an available skill was installed from this page.")


class RegistryHitsShape(Shape):
    """Skills of a registry."""

    skills: list[RegistryHitShape]


@shape_of(RegistryPreview)
class RegistryPreviewShape(Shape):
    """A skill of a registry, checked and scanned. `digest` identifies exactly these files."""

    entry: RegistryHitShape
    reach: Literal["", "outside", "machine"]
    problems: list[ProblemShape]


@search_router.get("/search", response_model=RegistryHitsShape, summary="Search a registry")
async def search_registry(
    engine: Reader,
    q: Annotated[str, Query(min_length=1, max_length=300, description="What the skill should be about.")],
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    registry: RegistryName = "",
) -> Response:
    """Return skills of a registry, ranked by fit, the registry's own order and its counts.

    An agent can search only if `skills_dynamic_search_enabled` is on.
    """
    found = await engine.registries.search(q, limit=limit, registry=registry)
    return respond({"skills": [hit.as_json() for hit in found]})


@search_router.get("/trending", response_model=RegistryHitsShape, summary="List trending skills of a registry")
async def list_trending(
    engine: Reader, limit: Annotated[int, Query(ge=1, le=50)] = 20, registry: RegistryName = ""
) -> Response:
    """Return the trending skills of a registry, in its order."""
    found = await engine.registries.trending(limit=limit, registry=registry)
    return respond({"skills": [hit.as_json() for hit in found]})


@search_router.get("/metadata", response_model=RegistryPreviewShape, summary="Preview a skill of a registry")
async def preview_skill(
    engine: Reader,
    id: Annotated[
        str,
        Query(max_length=500, description="An id from a search, `REGISTRY:ID`, or the address of the skill's page."),
    ] = "",
    source: Annotated[str, Query(max_length=500, description="Instead of `id`: the `source` from a search.")] = "",
    skill_id: Annotated[str, Query(max_length=200, description="The `skill_id` from a search.")] = "",
    registry: RegistryName = "",
) -> Response:
    """Download a skill from a registry, and return its findings, size, reach, and whether it is installed.

    Nothing is stored.
    """
    if bool(id) == bool(source):
        raise Invalid("Give either `id`, or `source` and `skill_id`.", hint="Use values from a search.")
    return respond((await engine.registries.metadata(id or source, skill_id=skill_id, registry=registry)).as_json())
