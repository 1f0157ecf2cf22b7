"""The files of skills as resources, and two documents about them that older clients look for.

`skill://index.json` is the discovery index (0.2.0), and `_manifest_document` beside a skill's SKILL.md lists its files.
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

from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.elicitation import read_with_approval
from prowess.interfaces.mcp.protocol import (
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
