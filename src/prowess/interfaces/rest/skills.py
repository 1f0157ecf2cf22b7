"""Routes of skills: list, create, read, change and delete them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.engine.skill_changes import SkillChange
from prowess.engine.skill_rows import SkillQuery, SkillRow
from prowess.errors import Conflict, Invalid, NotFound, PreconditionFailed, Problem
from prowess.interfaces.rest.request import (
    MAX_MEMBERS,
    Body,
    FewMembers,
    Page,
    PageShape,
    Reader,
    Shape,
    Writer,
    cursor_at,
    etag,
    expected_digests,
    if_match,
    is_stale,
    is_unchanged,
    respond,
    shape_of,
)
from prowess.skill.draft import SOURCE_FIELDS, SkillDraft, SourceType
from prowess.skill.model import Scope

router = APIRouter(prefix="/skills", tags=["skills"])

WritableScope = Literal["org", "user", "account", "workspace"]
SkillId = Annotated[
    str,
    Path(
        alias="id",
        min_length=1,
        max_length=250,
        description="The id of a skill, its slug, or `scope:slug` for one that a nearer scope hides.",
    ),
]


async def find_readable(engine: Engine, id: str) -> str:
    """Return the address of a skill that the caller may read, or raise the error that says why not."""
    address = await engine.skills.locate(id)
    await engine.skills.check_readable(address)
    return address


FileTexts = Annotated[
    dict[Annotated[str, Field(max_length=1_000)], Annotated[str, Field(max_length=2_000_000)] | None] | None,
    Field(
        max_length=MAX_MEMBERS,
        description="Other files of the skill, as a mapping from path to text. Null removes a file.",
    ),
    FewMembers,
]


@shape_of(Problem)
class ProblemShape(Shape):
    """A problem of a skill, for the person who fixes it. `line` is counted from 1."""


class HiddenShape(Shape):
    """A skill that is hidden by one of the same slug in a nearer scope."""

    scope: Scope
    source: str
    digest: str


@shape_of(SkillRow, without=("content",))
class SkillShape(Shape):
    """A skill, without its document."""

    content_length: int = Field(description="The number of characters that it uses of the prompt budget.")
    source_type: SourceType
    digest: str = Field(description="The SHA-256 of all its files. In quotes, it is also the ETag.")
    source: str = Field(description="Its origin: `system`, `community` or `user`.")
    hides: list[HiddenShape] = Field(description="Skills with the same slug in farther scopes.")
    enabled: bool = Field(description="False if an administrator has switched it off for the organization.")
    people_only: bool = Field(description="True if only people start it, and agents are not offered it.")
    dangers: int | None = Field(description="Number of severe findings. Null if it was not scanned yet.")


class WholeSkillShape(SkillShape):
    """A skill with its document. `content` is null for an agent that may not see it before a person has accepted it."""

    content: str | None


class _SkillFields(Body):
    """Fields of a skill. They take precedence over the frontmatter of `content`, and are written into it.

    Fields that the server sets (`id`, `digest`, dates and so on) are accepted and ignored, so that a skill can be sent back
    as it was read.
    """

    name: str | None = Field(default=None, min_length=1, max_length=500, description="The title, for people.")
    description: str | None = Field(default=None, min_length=1, max_length=20_000)
    version: str | None = Field(default=None, min_length=1, max_length=100)
    author: str | None = Field(default=None, max_length=500)
    tags: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = Field(default=None, max_length=200)
    source_type: SourceType | None = None
    source_url: str | None = Field(default=None, max_length=2_000)
    source_ref: str | None = Field(default=None, max_length=500)
    source_id: str | None = Field(default=None, max_length=200)
    enabled: StrictBool | None = None
    files: FileTexts = None

    id: Any = Field(default=None, exclude=True)
    organization_id: Any = Field(default=None, exclude=True)
    user_id: Any = Field(default=None, exclude=True)
    content_length: Any = Field(default=None, exclude=True)
    content_hash: Any = Field(default=None, exclude=True)
    digest: Any = Field(default=None, exclude=True)
    kinds: Any = Field(default=None, exclude=True)
    people_only: Any = Field(default=None, exclude=True)
    trust: Any = Field(default=None, exclude=True)
    source: Any = Field(default=None, exclude=True)
    hides: Any = Field(default=None, exclude=True)
    dangers: Any = Field(default=None, exclude=True)
    created_at: Any = Field(default=None, exclude=True)
    updated_at: Any = Field(default=None, exclude=True)


class NewSkillBody(_SkillFields):
    """A new skill: its document, and fields that take precedence over the frontmatter."""

    content: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_000_000,
        description="The whole document, frontmatter included. Without it, the skill is fetched from `source_url`.",
    )
    slug: str | None = Field(default=None, min_length=1, max_length=200)
    scope: WritableScope = "org"


class SkillChangeBody(_SkillFields):
    """The fields to change. Fields that are left out, or null, do not change. `slug` and `scope` cannot change."""

    content: str | None = Field(default=None, min_length=1, max_length=2_000_000)
    slug: str | None = Field(default=None, max_length=200)
    scope: Scope | None = None


_ETAG: dict[str, Any] = {"ETag": {"description": "The digest of the skill, in quotes.", "schema": {"type": "string"}}}


@router.get("", response_model=PageShape[SkillShape], summary="List skills")
async def list_skills(
    engine: Reader,
    page: Page,
    q: Annotated[str, Query(max_length=1_000, description="Words that the skill must contain.")] = "",
    tags: Annotated[
        list[str] | None, Query(description="Tags that the skill must have. Repeat it, or separate tags by commas.")
    ] = None,
    scope: Annotated[Scope | None, Query(description="Only skills of this scope.")] = None,
    source_id: Annotated[str, Query(max_length=200, description="Only skills that came from this source.")] = "",
    enabled: Annotated[bool | None, Query(description="Only skills that are switched on, or off.")] = None,
) -> Response:
    """Return the available skills, by slug. If several scopes have a slug, the nearest one is listed."""
    found = await engine.skills.page(
        SkillQuery(
            words=tuple(q.casefold().split()),
            tags=frozenset(tag for text in tags or () for tag in text.split(",") if tag),
            scope=scope or "",
            source_id=source_id,
            enabled=enabled,
            limit=page.limit,
            after=page.after_text or "",
        )
    )
    last = found.rows[-1].slug if found.rows and found.more else None
    cursor = f'"{cursor_at(last)}"' if last else "null"
    return _ready(b'{"items":%b,"next_cursor":%b,"total":%d}' % (found.items_json, cursor.encode(), found.total))


def _ready(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return JSON that is encoded already."""
    return Response(body, status, {**(headers or {}), "content-type": "application/json"})


@router.post(
    "",
    status_code=201,
    response_model=WholeSkillShape,
    responses={201: {"headers": {**_ETAG, "Location": {"schema": {"type": "string"}}}}},
    summary="Create a skill",
)
async def create_skill(body: NewSkillBody, engine: Writer) -> Response:
    """Create a skill from one document.

    The fields of the body take precedence over the frontmatter, and are written into it. 409 if the slug is taken.

    Without `content`, the skill is fetched from `source_url`: a repository with the `source_type` `github` (at `source_ref`),
    or a file, archive or site with `url`. If there are several skills, `slug` chooses one. With `marketplace`, it is the page
    or the id of a skill in a registry; if its files do not have the `digest` of the preview, they are refused. Only a person can do this.
    """
    if body.content is None:
        return await _install_skill(body, engine)
    is_on = body.enabled is not False
    return _created(await engine.skills.create_row(_draft(body, body.slug), scope=body.scope, enabled=is_on))


async def _install_skill(body: NewSkillBody, engine: Writer) -> Response:
    if not body.source_url or body.source_type in (None, "manual"):
        raise Invalid(
            "A new skill needs `content`, or a `source_type` and a `source_url` to fetch it from.",
            hint="Send the document as `content`.",
        )
    revision = "digest" if body.source_type == "marketplace" else "source_ref"
    allowed = {"source_type", "source_url", "slug", "scope", revision}
    if body.model_fields_set - allowed:
        raise Invalid(
            "A fetched skill is stored unchanged.",
            hint=f"Send only {', '.join(sorted(allowed))}, and change the skill afterwards.",
        )
    slug = body.slug or ""
    if body.source_type == "marketplace":
        digest = body.digest if isinstance(body.digest, str) else ""
        skill = await engine.registries.install(body.source_url, slug=slug, digest=digest, scope=body.scope)
    else:
        ref = body.source_ref or ""
        skill = await engine.sources.install(body.source_type, body.source_url, ref=ref, slug=slug, scope=body.scope)
    return _created(await engine.skills.row(f"{skill.scope}:{skill.slug}"))


def _created(row: SkillRow) -> Response:
    return _ready(row.json, 201, {"Location": f"/api/v1/skills/{row.id}", "ETag": etag(row.digest)})


@router.get(
    "/{id}",
    response_model=WholeSkillShape,
    responses={200: {"headers": _ETAG}, 304: {"description": "The skill has the ETag of `If-None-Match`."}},
    summary="Get a skill",
)
async def read_skill(id: SkillId, request: Request, engine: Reader) -> Response:
    """Return a skill with its document."""
    row = await engine.skills.row(await engine.skills.locate(id))
    headers = {"ETag": etag(row.digest)}
    # `enabled` and `trust` can change without a new digest, so only the usual state is answered without a body.
    if row.enabled and row.trust == "local" and is_unchanged(request, row.digest):
        return Response(status_code=304, headers=headers)
    return _ready(row.json, 200, headers)


@router.put("/{id}", response_model=WholeSkillShape, responses={200: {"headers": _ETAG}}, summary="Update a skill")
async def change_skill(id: SkillId, body: SkillChangeBody, request: Request, engine: Writer) -> Response:
    """Change a skill: its document, single fields, or whether it is switched on (which needs `admin`).

    With `If-Match`, answers 412 if the skill has another ETag by now. Without it, answers 409 if the skill changes during the request.
    """
    address = await engine.skills.locate(id)
    await check_none_match(request, engine, address)
    change = SkillChange(
        draft=_draft(body, body.slug), scope=body.scope, enabled=body.enabled, expected=expected_digests(request)
    )
    try:
        row = await engine.skills.change_row(address, change)
    except Conflict as error:
        raise await stale(error, request, engine, address) from error
    return _ready(row.json, 200, {"ETag": etag(row.digest)})


_RETURN = "return=representation"


@router.delete(
    "/{id}",
    status_code=204,
    response_class=Response,
    summary="Delete a skill",
    responses={200: {"description": "The last version, if `Prefer` asks for it."}},
)
async def delete_skill(
    id: SkillId,
    request: Request,
    engine: Writer,
    note: Annotated[str, Query(max_length=2_000, description="A note for the history.")] = "",
    stored: Annotated[
        bool, Query(description="Delete only the copy in the database, and leave the skill in its folder.")
    ] = False,
    prefer: Annotated[
        str, Header(description=f"`{_RETURN}` to return the last version, as in a list of versions.")
    ] = "",
) -> Response:
    """Delete a skill. Its versions are kept, and `rollback` restores it."""
    address = await engine.skills.locate(id)
    await check_none_match(request, engine, address)
    expected = ""
    if if_match(request):
        if stored:
            raise Invalid("`If-Match` is the ETag of the skill in its folder.", hint="Leave it out with `stored`.")
        before = await engine.skills.row(address)
        if is_stale(request, before.digest):
            raise await _precondition_failed(engine, before)
        expected = before.digest
    try:
        version = await engine.skills.delete(address, expected=expected, note=note, stored=stored)
    except Conflict as error:
        raise await stale(error, request, engine, address) from error
    wants_version = _RETURN in [part.strip() for part in prefer.lower().split(",")]
    return respond(version, 200, {"Preference-Applied": _RETURN}) if wants_version else Response(status_code=204)


def file_pairs(files: FileTexts) -> tuple[tuple[str, str | None], ...]:
    """Return the files of a body as a draft has them."""
    return tuple((files or {}).items())


def _draft(body: NewSkillBody | SkillChangeBody, slug: str | None) -> SkillDraft:
    return SkillDraft(
        files=file_pairs(body.files),
        slug=slug,
        title=body.name,
        tags=None if body.tags is None else tuple(body.tags),
        **body.model_dump(include={"content", "description", "version", "author", *SOURCE_FIELDS}),
    )


async def check_none_match(request: Request, engine: Engine, address: str) -> None:
    """Raise `PreconditionFailed` if a change names the skill in `If-None-Match`, as `*` names every skill."""
    if "if-none-match" not in request.headers:
        return
    try:
        now = await engine.skills.row(address)
    except NotFound:
        return
    if is_unchanged(request, now.digest):
        raise await _precondition_failed(engine, now, f"`If-None-Match` excludes the skill {now.slug!r}, which exists.")


async def stale(error: Conflict, request: Request, engine: Engine, address: str) -> Conflict:
    """Return the error for a write that came second: 412 if the request had a condition."""
    if not if_match(request):
        return error
    try:
        now = await engine.skills.row(address)
    except NotFound:
        return PreconditionFailed("The skill no longer exists.", hint="Repeat the request without `If-Match`.")
    return await _precondition_failed(engine, now)


async def _precondition_failed(engine: Engine, now: SkillRow, message: str = "") -> PreconditionFailed:
    history = await engine.skills.history(f"{now.scope}:{now.slug}")
    changed = f"The skill has changed: it is now at version {history[-1].number}, with the ETag {etag(now.digest)}."
    return PreconditionFailed(
        message or changed,
        hint="Read the skill again, and repeat the change with its ETag in `If-Match`.",
        etag=etag(now.digest),
        version=history[-1].number,
    )
