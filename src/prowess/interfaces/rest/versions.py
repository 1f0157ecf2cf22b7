"""Routes of the versions of a skill: list and read them, compare, roll back, and copy a skill into a nearer scope."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from prowess.engine.skill_reader import VersionDiff
from prowess.errors import Conflict
from prowess.interfaces.rest.packages import FileShape
from prowess.interfaces.rest.request import (
    Body,
    Page,
    PageShape,
    Reader,
    Shape,
    WholeNumber,
    Writer,
    etag,
    expected_digests,
    make_page,
    respond,
    shape_of,
)
from prowess.interfaces.rest.skills import (
    SkillId,
    WholeSkillShape,
    WritableScope,
    check_none_match,
    find_readable,
    stale,
)
from prowess.skill.edit import FileChange
from prowess.skill.model import Version
from prowess.view import to_json

router = APIRouter(prefix="/skills/{id}", tags=["versions"])

MAX_NUMBER = 2**31 - 1
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER, description="The number of a version.")]
_QueryNumber = Annotated[int | None, Query(ge=1, le=MAX_NUMBER)]


@shape_of(Version)
class VersionShape(Shape):
    """One accepted change of a skill."""

    manifest: list[FileShape]


class WholeVersionShape(VersionShape):
    """A version with its document."""

    content: str


@shape_of(FileChange)
class FileChangeShape(Shape):
    """One file that differs. `text` is a unified diff, or a sentence if the content is not text."""


@shape_of(VersionDiff)
class DiffShape(Shape):
    """The changes from one version to another. A version of null is the skill as it is now."""

    changes: list[FileChangeShape]


class RollbackBody(Body):
    """The version to restore."""

    version: WholeNumber = Field(ge=1, le=MAX_NUMBER)
    note: str = Field(default="", max_length=2_000)


class ForkBody(Body):
    """The scope of the copy."""

    scope: WritableScope = "user"


@router.get("/versions", response_model=PageShape[VersionShape], summary="List versions")
async def list_versions(id: SkillId, engine: Reader, page: Page) -> Response:
    """Return every accepted change, oldest first, even if the skill was deleted."""
    address = await find_readable(engine, id)
    after = page.after_number() or 0
    history = await engine.skills.history(address)
    rest = [version for version in history if version.number > after]
    return respond(make_page(rest, page, lambda version: version.number, len(history)))


@router.get("/versions/{number}", response_model=WholeVersionShape, summary="Get a version")
async def read_version(id: SkillId, number: Number, engine: Reader) -> Response:
    """Return one version with its document."""
    address = await find_readable(engine, id)
    version, content = await engine.skills.version(address, number)
    return respond({**to_json(version), "content": content}, 200, {"ETag": etag(version.digest)})


@router.get("/diff", response_model=DiffShape, summary="Compare versions")
async def compare_versions(
    id: SkillId, engine: Reader, before: _QueryNumber = None, after: _QueryNumber = None
) -> Response:
    """Return what changed. Without `before`, since the first version; without `after`, up to now; without both, the last change."""
    address = await find_readable(engine, id)
    found = await engine.skills.diff(address, before, after)
    changes: list[dict[str, Any]] = [to_json(change) for change in found.changes]
    return respond({"slug": found.slug, "before": found.before, "after": found.after, "changes": changes})


@router.post("/rollback", response_model=WholeSkillShape, summary="Roll back to a version")
async def roll_back(id: SkillId, body: RollbackBody, request: Request, engine: Writer) -> Response:
    """Make the files of an earlier version current again, as a new version. Also restores a deleted skill.

    With `If-Match`, answers 412 if the skill has another ETag by now.
    """
    address = await engine.skills.locate(id)
    await check_none_match(request, engine, address)
    expected = expected_digests(request)
    try:
        skill = await engine.skills.rollback(address, body.version, expected=expected, note=body.note)
    except Conflict as error:
        raise await stale(error, request, engine, address) from error
    row = await engine.skills.row(f"{skill.scope}:{skill.slug}")
    return respond(row, 200, {"ETag": etag(row.digest)})


@router.post("/fork", status_code=201, response_model=WholeSkillShape, summary="Fork a skill")
async def fork_skill(id: SkillId, body: ForkBody, engine: Writer) -> Response:
    """Copy a skill into a nearer scope, where the copy overrides it. 409 if that scope has the skill already."""
    address = await find_readable(engine, id)
    skill = await engine.skills.fork(address, scope=body.scope)
    row = await engine.skills.row(f"{skill.scope}:{skill.slug}")
    return respond(row, 201, {"Location": f"/api/v1/skills/{row.id}", "ETag": etag(row.digest)})
