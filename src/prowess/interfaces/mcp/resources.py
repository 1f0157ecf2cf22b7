"""The files of skills as resources, the skills extension, and two documents about skills that older clients look for."""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CacheableResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PaginatedResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.elicitation import read_with_approval
from prowess.interfaces.mcp.protocol import (
    FILES_PER_PAGE,
    SKILLS_PER_PAGE,
    make_cursor,
    read_cursor,
    resource_not_found,
)
from prowess.interfaces.mcp.request import Context
from prowess.interfaces.mcp.skill_entry import SCHEME, SkillEntry, guess_media_type
from prowess.skill.filenames import SKILL_MD
from prowess.skill.text.hidden import show_controls

INDEX_URI = f"{SCHEME}index.json"
MANIFEST_PATH = "_manifest"
_INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_JSON = "application/json"

TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{SCHEME}{{+skill}}/{{+path}}",
        name="skill-file",
        description="A file of a skill, by the path that its manifest gives.",
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{{+skill}}/{MANIFEST_PATH}",
        name="skill-manifest",
        description="The files of a skill with their sizes and digests.",
        mime_type=_JSON,
    ),
)


async def list_resources(
    backend: Backend, context: Context, params: PaginatedRequestParams | None
) -> ListResourcesResult:
    """Return a page of all files of all skills, by slug, with SKILL.md first; the first page starts with the index."""
    after = read_cursor(params.cursor if params else None)
    if not backend.may_read(context):
        return ListResourcesResult(resources=[])
    await backend.notices.mark()
    found = [] if after else [_index_resource()]
    taken = 0
    async for entry in backend.entries(context, after):
        if taken == SKILLS_PER_PAGE:
            return ListResourcesResult(resources=found, next_cursor=make_cursor(after))
        if not entry.people_only:
            found += [file_resource(entry, file.path) for file in sorted(entry.files, key=_skill_md_first)]
        after, taken = entry.slug, taken + 1
    return ListResourcesResult(resources=found)


def _skill_md_first(file: Any) -> tuple[bool, str]:
    return file.path != SKILL_MD, file.path


def _index_resource() -> Resource:
    return Resource(uri=INDEX_URI, name="index.json", description="The skills served here.", mime_type=_JSON)


def file_resource(entry: SkillEntry, path: str) -> Resource:
    """Return the resource of a file. SKILL.md has the name and the description of the skill."""
    file = entry.file(path)
    main = path == SKILL_MD
    return Resource(
        uri=entry.uri_of(path),
        name=entry.name if main else path.rpartition("/")[2],
        title=entry.title if main else None,
        description=entry.description if main else None,
        mime_type=guess_media_type(path),
        size=file.size if file else None,
    )


async def list_templates(
    backend: Backend,  # noqa: ARG001
    context: Context,  # noqa: ARG001
    params: PaginatedRequestParams | None,  # noqa: ARG001
) -> ListResourceTemplatesResult:
    """Return the URI templates of files and manifests."""
    return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))


async def read_resource(
    backend: Backend, context: Context, params: ReadResourceRequestParams
) -> ReadResourceResult | InputRequiredResult:
    """Return one file by its exact address, through the gate, or one of the two documents."""
    uri = params.uri
    if uri == INDEX_URI and backend.may_read(context):
        return _json_contents(uri, await _index_document(backend, context))
    found = await backend.find(context, uri)
    if found is None:
        raise resource_not_found(uri)
    entry, path = found
    if entry.file(path) is not None:
        content = await read_with_approval(
            backend, context, params, lambda: backend.read(context, entry.slug, path), uri=uri
        )
        return content if isinstance(content, InputRequiredResult) else _file_contents(uri, path, content)
    if path == MANIFEST_PATH and (seen := await backend.find_seen(context, uri)):
        return _json_contents(uri, _manifest_document(seen[0]))
    raise resource_not_found(uri)


def _file_contents(uri: str, path: str, content: bytes) -> ReadResourceResult:
    """Return UTF-8 bytes as text, which restores them exactly, and all others as base64."""
    media = guess_media_type(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    # Control characters must not reach a prompt, and a text that is not exactly the file would not have its digest.
    if text is None or show_controls(text) != text:
        blob = base64.b64encode(content).decode()
        return ReadResourceResult(
            contents=[BlobResourceContents(uri=uri, mime_type=media or "application/octet-stream", blob=blob)]
        )
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=media or "text/plain", text=text)])


def _json_contents(uri: str, value: Any) -> ReadResourceResult:
    text = json.dumps(value, ensure_ascii=False)
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_JSON, text=text)])


async def _index_document(backend: Backend, context: Context) -> dict[str, Any]:
    skills = [
        {
            "name": entry.name,
            "type": "skill-md",
            "description": entry.description,
            "url": entry.uri,
            "digest": f"sha256:{file.sha256}",
        }
        async for entry in backend.entries(context)
        if entry.listed and (file := entry.file(SKILL_MD)) is not None
    ]
    return {"$schema": _INDEX_SCHEMA, "skills": skills}


def _manifest_document(entry: SkillEntry) -> dict[str, Any]:
    files = [{"path": file.path, "size": file.size, "hash": f"sha256:{file.sha256}"} for file in entry.files]
    return {"skill": entry.name, "files": files}


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
