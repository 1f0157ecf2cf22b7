"""Routes of sources: the places that skills are copied from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.interfaces.rest.request import (
    Body,
    Page,
    PageShape,
    Reader,
    Shape,
    WholeNumber,
    Writer,
    paginate,
    respond,
    shape_of,
)
from prowess.sources.sync_result import SkillChange
from prowess.storage.sources import Source, SourceType, SyncStatus

router = APIRouter(prefix="/skills/sources", tags=["sources"])

SourceId = Annotated[str, Path(max_length=200)]


class ConfigBody(Body):
    """The configuration of a source: `repo`, `ref` and `path` for github, `url` for url, `base_url` and `key` for marketplace."""

    repo: str | None = Field(default=None, max_length=2_000, examples=["acme/runbooks"])
    ref: str | None = Field(default=None, max_length=300)
    path: str | None = Field(default=None, max_length=1_000)
    url: str | None = Field(default=None, max_length=2_000)
    base_url: str | None = Field(default=None, max_length=2_000)
    key: str | None = Field(default=None, max_length=200)
    sync_policy: Literal["manual", "auto"] | None = None
    sync_interval_minutes: WholeNumber | None = Field(default=None, ge=5, le=43_200)
    on_removed: Literal["delete", "keep"] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The fields that have a value."""
        return self.model_dump(exclude_none=True)


class NewSourceBody(Body):
    """A new source. Nothing is fetched before the first sync."""

    name: str = Field(min_length=1, max_length=200)
    source_type: SourceType
    config: ConfigBody
    scope: Literal["org", "user"] = "org"
    enabled: StrictBool = True


class SourceChangeBody(Body):
    """The fields that change. `config` is replaced as a whole; `source_type` and `scope` never change."""

    name: str | None = Field(default=None, min_length=1, max_length=200)
    source_type: SourceType | None = None
    config: ConfigBody | None = None
    enabled: StrictBool | None = None


class PreviewBody(Body):
    """A source that does not exist yet."""

    source_type: SourceType
    config: ConfigBody
    scope: Literal["org", "user"] = "org"


class SyncBody(Body):
    """Options of a sync. `take` lists slugs that were edited or deleted here, to replace with the source's version."""

    take: list[Annotated[str, Field(max_length=200)]] = Field(default_factory=list, max_length=1_000)


@shape_of(Source, without=("lease_owner", "lease_until"))
class SourceShape(Shape):
    """A source, with the state and the result of its last sync."""

    scope: str
    syncing: bool
    stale: bool


@shape_of(SkillChange)
class ChangeShape(Shape):
    """The change of one skill of a source, made or planned."""


class SyncShape(Shape):
    """The result of a sync. Skills that are unchanged are only counted."""

    source_id: str
    status: SyncStatus
    unchanged: bool
    preview: bool
    counts: dict[str, int]
    skills: list[ChangeShape]
    warnings: list[dict[str, Any]]
    error: dict[str, Any] | None


class SyncsShape(Shape):
    """The results of several syncs."""

    items: list[SyncShape]


@router.get("", response_model=PageShape[SourceShape], summary="List sources")
async def list_sources(engine: Reader, page: Page) -> Response:
    """Return the sources of the organization, and the caller's own."""
    return respond(paginate(await engine.sources.list(), page, lambda source: source.id))


@router.post("", status_code=201, response_model=SourceShape, summary="Create a source")
async def create_source(body: NewSourceBody, engine: Writer) -> Response:
    """Add a source for the organization, or with the scope `user` only for the caller. Only a person can do this."""
    source = await engine.sources.create(
        body.name, body.source_type, body.config.given, scope=body.scope, enabled=body.enabled
    )
    return respond(source.as_json(), 201, {"Location": f"/api/v1/skills/sources/{source.id}"})


@router.post("/sync-stale", response_model=SyncsShape, summary="Sync stale sources")
async def sync_stale_sources(engine: Writer) -> Response:
    """Sync every enabled source whose interval has passed. Only a person can do this."""
    return respond({"items": [result.as_json() for result in await engine.sources.sync_stale()]})


@router.post("/preview", response_model=SyncShape, summary="Preview a source")
async def preview_new_source(body: PreviewBody, engine: Writer) -> Response:
    """Return what the first sync of a source would add, with findings. Nothing is stored. Only a person can do this."""
    preview = await engine.sources.preview(source_type=body.source_type, config=body.config.given, scope=body.scope)
    return respond(preview.as_json())


@router.get("/{id}", response_model=SourceShape, summary="Get a source")
async def get_source(id: SourceId, engine: Reader) -> Response:
    """Return a source with the result of its last sync."""
    return respond((await engine.sources.get(id)).as_json())


@router.put("/{id}", response_model=SourceShape, summary="Update a source")
async def change_source(id: SourceId, body: SourceChangeBody, engine: Writer) -> Response:
    """Change a source. Only a person can do this."""
    source: Source = await engine.sources.update(
        id,
        name=body.name,
        source_type=body.source_type,
        config=body.config.given if body.config else None,
        enabled=body.enabled,
    )
    return respond(source.as_json())


@router.delete("/{id}", status_code=204, response_class=Response, summary="Delete a source")
async def delete_source(
    id: SourceId,
    engine: Writer,
    remove_skills: Annotated[bool, Query(description="Also delete its skills, except those that were edited.")] = False,
) -> Response:
    """Delete a source. Its skills stay, unless `remove_skills` is set. Only a person can do this."""
    await engine.sources.delete(id, remove_skills=remove_skills)
    return Response(status_code=204)


@router.post("/{id}/sync", response_model=SyncShape, summary="Sync a source")
async def sync_source(id: SourceId, engine: Writer, body: SyncBody | None = None) -> Response:
    """Fetch a source and update its skills in the catalog. Only a person can do this.

    A source that could not be fetched is a result with the status `failed`, which is stored with the source. 409 if another
    sync of the source is running.
    """
    return respond((await engine.sources.sync(id, take=body.take if body else ())).as_json())


@router.get("/{id}/preview", response_model=SyncShape, summary="Preview a sync")
async def preview_source(id: SourceId, engine: Writer) -> Response:
    """Return what a sync of a source would do. Nothing is stored. Only a person can do this."""
    return respond((await engine.sources.preview(id)).as_json())
