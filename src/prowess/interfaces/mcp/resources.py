"""The files of skills as resources, and two documents about them that older clients look for.

`skill://index.json` is the discovery index (0.2.0), and `_manifest` beside a skill's SKILL.md lists its files.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from mcp_types import (
    BlobResourceContents,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from prowess.errors import ApprovalDenied, ApprovalRequired, ProwessError
from prowess.interfaces.mcp.approval import settle
from prowess.interfaces.mcp.caller import Context
from prowess.interfaces.mcp.door import Door
from prowess.interfaces.mcp.entry import SCHEME, Entry, media_type
from prowess.interfaces.mcp.paging import SKILLS_A_PAGE, cursor_after, key_of
from prowess.interfaces.mcp.refusals import nothing_at, protocol_error
from prowess.skill.filenames import SKILL_MD

INDEX = f"{SCHEME}index.json"
MANIFEST = "_manifest"
_INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_JSON = "application/json"

TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{SCHEME}{{+skill}}/{{+path}}",
        name="skill-file",
        description="A file of a skill, by the path that its manifest gives.",
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{{+skill}}/{MANIFEST}",
        name="skill-manifest",
        description="The files of a skill with their sizes and digests.",
        mime_type=_JSON,
    ),
)


async def list_resources(door: Door, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    """Every file of every skill, by slug, each skill's SKILL.md first; the index leads the first page."""
    after = key_of(params.cursor if params else None)
    if not door.may_read(context):
        return ListResourcesResult(resources=[])
    await door.notices.mark()
    found = [] if after else [_index_resource()]
    taken = 0
    async for entry in door.shelf.entries(after):
        if taken == SKILLS_A_PAGE:
            return ListResourcesResult(resources=found, next_cursor=cursor_after(after))
        found += [file_resource(entry, file.path) for file in sorted(entry.files, key=_skill_md_first)]
        after, taken = entry.slug, taken + 1
    return ListResourcesResult(resources=found)


def _skill_md_first(file: Any) -> tuple[bool, str]:
    return file.path != SKILL_MD, file.path


def _index_resource() -> Resource:
    return Resource(uri=INDEX, name="index.json", description="The skills served here.", mime_type=_JSON)


def file_resource(entry: Entry, path: str) -> Resource:
    """One file of a skill; SKILL.md goes by the skill's name and description."""
    file = entry.file(path)
    main = path == SKILL_MD
    return Resource(
        uri=entry.uri_of(path),
        name=entry.name if main else path.rpartition("/")[2],
        title=entry.title if main else None,
        description=entry.description if main else None,
        mime_type=media_type(path),
        size=file.size if file else None,
    )


async def list_templates(
    door: Door,  # noqa: ARG001
    context: Context,  # noqa: ARG001
    params: PaginatedRequestParams | None,  # noqa: ARG001
) -> ListResourceTemplatesResult:
    """How the addresses of files and manifests are made."""
    return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))


async def read_resource(
    door: Door, context: Context, params: ReadResourceRequestParams
) -> ReadResourceResult | InputRequiredResult:
    """One file, by its exact address and through the gate, or one of the two documents."""
    uri = params.uri
    if uri == INDEX and door.may_read(context):
        return _json(uri, await _index(door))
    found = await door.find(context, uri)
    if found is None:
        raise nothing_at(uri)
    entry, path = found
    if entry.file(path) is not None:
        content = await _read(door, context, params, entry, path)
        return content if isinstance(content, InputRequiredResult) else _contents(uri, path, content)
    if path == MANIFEST:
        return _json(uri, _manifest(entry))
    raise nothing_at(uri)


async def _read(
    door: Door, context: Context, params: ReadResourceRequestParams, entry: Entry, path: str
) -> bytes | InputRequiredResult:
    caller = door.caller_of(context)
    try:
        return await door.read(caller, entry.slug, path)
    except ApprovalRequired as refused:
        verdict = await settle(door, context, params, refused.approval_id)
        if isinstance(verdict, InputRequiredResult):
            return verdict
        if verdict == "open":
            raise protocol_error(refused, params.uri) from refused
        if verdict == "denied":
            raise protocol_error(ApprovalDenied("A person said no."), params.uri) from refused
    except ProwessError as error:
        raise protocol_error(error, params.uri) from error
    try:
        return await door.read(caller, entry.slug, path)
    except ProwessError as error:
        raise protocol_error(error, params.uri) from error


def _contents(uri: str, path: str, content: bytes) -> ReadResourceResult:
    """Text where the bytes are UTF-8, so that they come back as they were; else base64."""
    media = media_type(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        blob = base64.b64encode(content).decode()
        return ReadResourceResult(
            contents=[BlobResourceContents(uri=uri, mime_type=media or "application/octet-stream", blob=blob)]
        )
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=media or "text/plain", text=text)])


def _json(uri: str, value: Any) -> ReadResourceResult:
    text = json.dumps(value, ensure_ascii=False)
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_JSON, text=text)])


async def _index(door: Door) -> dict[str, Any]:
    skills = [
        {
            "name": entry.name,
            "type": "skill-md",
            "description": entry.description,
            "url": entry.uri,
            "digest": f"sha256:{file.sha256}",
        }
        async for entry in door.shelf.entries()
        if entry.listed and (file := entry.file(SKILL_MD)) is not None
    ]
    return {"$schema": _INDEX_SCHEMA, "skills": skills}


def _manifest(entry: Entry) -> dict[str, Any]:
    files = [{"path": file.path, "size": file.size, "hash": f"sha256:{file.sha256}"} for file in entry.files]
    return {"skill": entry.name, "files": files}
