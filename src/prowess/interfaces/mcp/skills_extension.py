"""The skills extension of MCP: `skills/list`, `skills/get` and `resources/directory/read`."""

from __future__ import annotations

from typing import Any, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CacheableResult,
    PaginatedRequestParams,
    PaginatedResult,
    RequestParams,
    Resource,
)

from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.protocol import FILES_PER_PAGE, SKILLS_PER_PAGE, make_cursor, read_cursor
from prowess.interfaces.mcp.request import Context
from prowess.interfaces.mcp.resources import file_resource
from prowess.interfaces.mcp.skill_entry import SkillEntry
from prowess.skill.filenames import SKILL_MD

EXTENSION_ID = "io.modelcontextprotocol/skills"
EXTENSION_SETTINGS: dict[str, Any] = {"directoryRead": True}
FOLDER_MEDIA_TYPE = "inode/directory"
LIST_TTL_MS = 60_000
"""How long a client may cache a list; changes are announced earlier."""


class SkillParams(RequestParams):
    """The parameters of `skills/get`: the address of a skill."""

    uri: str


class DirectoryParams(PaginatedRequestParams):
    """The parameters of `resources/directory/read`: the address of a folder, and a cursor."""

    uri: str


class SkillsPage(PaginatedResult, CacheableResult):
    """A page of skills."""

    skills: list[dict[str, Any]]
    result_type: Literal["complete"] = "complete"


class SkillResult(CacheableResult):
    """One skill."""

    skill: dict[str, Any]
    result_type: Literal["complete"] = "complete"


class FolderPage(PaginatedResult, CacheableResult):
    """A page of the contents of a folder."""

    resources: list[Resource]
    result_type: Literal["complete"] = "complete"


async def list_skills(backend: Backend, context: Context, params: PaginatedRequestParams) -> SkillsPage:
    """Return a page of the skills that every host accepts, by slug; the others can be read by address."""
    after = read_cursor(params.cursor)
    if not backend.may_read(context):
        return SkillsPage(skills=[], ttl_ms=LIST_TTL_MS)
    await backend.notices.mark()
    found: list[dict[str, Any]] = []
    async for entry in backend.entries(context, after):
        if len(found) == SKILLS_PER_PAGE:
            return SkillsPage(skills=found, next_cursor=make_cursor(after), ttl_ms=LIST_TTL_MS)
        if entry.listed:
            found.append(_skill_json(entry))
        after = entry.slug
    return SkillsPage(skills=found, ttl_ms=LIST_TTL_MS)


def _skill_json(entry: SkillEntry) -> dict[str, Any]:
    resources = [
        {"uri": entry.uri_of(file.path), "digest": f"sha256:{file.sha256}", "size": file.size} for file in entry.files
    ]
    return {"uri": entry.uri, "frontmatter": entry.frontmatter, "resources": resources}


async def get_skill(backend: Backend, context: Context, params: SkillParams) -> SkillResult:
    """Return the skill whose SKILL.md has this address."""
    found = await backend.find_seen(context, params.uri)
    if found is None or found[1] != SKILL_MD or found[0].frontmatter is None:
        raise MCPError(code=INVALID_PARAMS, message="No skill at this address.", data={"uri": params.uri})
    return SkillResult(skill=_skill_json(found[0]), ttl_ms=LIST_TTL_MS)


async def read_directory(backend: Backend, context: Context, params: DirectoryParams) -> FolderPage:
    """Return a page of the direct contents of a skill's folder or of one of its subfolders."""
    found = await backend.find_seen(context, params.uri)
    children = _children(*found) if found else []
    if not children:
        raise MCPError(code=INVALID_PARAMS, message="No folder at this address.", data={"uri": params.uri})
    after = read_cursor(params.cursor)
    rest = [child for child in children if child.uri > after]
    page = rest[:FILES_PER_PAGE]
    following = make_cursor(page[-1].uri) if len(rest) > len(page) else None
    return FolderPage(resources=page, next_cursor=following, ttl_ms=LIST_TTL_MS)


def _children(entry: SkillEntry, folder: str) -> list[Resource]:
    """Return the files and folders directly in a folder, by address; [] if it is not a folder."""
    before = f"{folder}/" if folder else ""
    inside = [file.path.removeprefix(before) for file in entry.files if file.path.startswith(before)]
    names = {name.partition("/")[0]: "/" in name for name in inside}
    children = [
        _folder_resource(entry, before + name) if is_folder else file_resource(entry, before + name)
        for name, is_folder in names.items()
    ]
    return sorted(children, key=lambda child: child.uri)


def _folder_resource(entry: SkillEntry, path: str) -> Resource:
    return Resource(uri=entry.uri_of(path), name=path.rpartition("/")[2], mime_type=FOLDER_MEDIA_TYPE)
