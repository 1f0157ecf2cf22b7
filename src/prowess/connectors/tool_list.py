"""The tools of a connector: read within limits, cleaned, with a digest of each definition, and searched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prowess.catalog.store import SearchDocument
from prowess.connectors.results import clean
from prowess.errors import RunFailed, Unavailable
from prowess.redaction.known import KnownValues
from prowess.skill.json_values import json_object, json_value
from prowess.skill.slug import slugify

if TYPE_CHECKING:
    from mcp.client.client import Client

MAX_TOOLS = 500
"""The most tools of a connector that are read."""
_MAX_PAGES = 50
_DESCRIPTION_CHARS = 1_000
_SCHEMA_CHARS = 16_000
_NAME_CHARS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTool:
    """One tool, as its server describes it now. `digest` is that of the whole definition, uncut.

    `reads` is what the server claims (`readOnlyHint`).
    """

    connector: str
    name: str
    digest: str
    title: str = ""
    description: str = ""
    reads: bool = False
    schema: dict[str, Any] | None = field(default=None, hash=False)
    allowed: bool = False
    """True if a person has allowed it without being asked."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON, with its origin."""
        return {
            "connector": self.connector,
            "tool": self.name,
            "title": self.title,
            "description": self.description,
            "reads": self.reads,
            "allowed": self.allowed,
            "arguments": self.schema,
            "digest": self.digest,
            "origin": f"connector:{self.connector}",
        }


async def read_tools(
    client: Client, connector: str, secrets: Iterable[str] = ()
) -> tuple[list[ConnectorTool], list[str]]:
    """Return the tools of an open connector, in its order, and notes about what was left out.

    `secrets` are removed from the texts. What only looks like a secret stays: it is a word of a description, or the name
    of an argument.
    """
    redact = KnownValues(secrets).redact
    tools: dict[str, ConnectorTool] = {}
    notes: list[str] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            if len(tools) >= MAX_TOOLS:
                notes.append(f"The connector has more than {MAX_TOOLS} tools; only the first {MAX_TOOLS} are shown.")
                return list(tools.values()), notes
            whole = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            connector_tool = _make_tool(connector, whole, redact)
            # A person would be asked about a call that the server refuses.
            if json_object(whole.get("execution")).get("taskSupport") == "required":
                notes.append("A tool that runs only as a task was left out: Prowess does not support tasks.")
            elif connector_tool is None or connector_tool.name in tools:
                notes.append("A tool with an invalid or repeated name was left out.")
            else:
                tools[connector_tool.name] = connector_tool
        cursor = page.next_cursor
        if not cursor:
            return list(tools.values()), list(dict.fromkeys(notes))
    raise RunFailed(f"The connector {connector!r} sends an endless list of tools.", hint="Remove the connector.")


def _make_tool(connector: str, whole: dict[str, Any], redact: Callable[[str], str]) -> ConnectorTool | None:
    name = str(whole.get("name", ""))
    # The name is sent back to the server, so it is used as it is or not at all.
    if not name or len(name) > _NAME_CHARS or not name.isascii() or not name.isprintable() or " " in name:
        return None
    annotations: dict[str, Any] = whole.get("annotations") or {}
    schema: dict[str, Any] = whole.get("inputSchema") or {}
    return ConnectorTool(
        connector=connector,
        name=name,
        digest=hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest(),
        title=" ".join(clean(redact(str(whole.get("title") or annotations.get("title") or "")), limit=100).split()),
        description=clean(redact(str(whole.get("description") or "")), limit=_DESCRIPTION_CHARS).strip(),
        reads=annotations.get("readOnlyHint") is True,
        schema=_clean_schema(schema, redact),
    )


def _clean_schema(schema: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any] | None:
    """Return the schema of the arguments with all texts cleaned; None if it is too long to show."""
    text = json.dumps(schema, ensure_ascii=False)
    if len(text) > _SCHEMA_CHARS:
        return None
    return json_value(clean(redact(text), limit=_SCHEMA_CHARS * 2))


def search_tools(query: str, tools: Sequence[ConnectorTool], *, limit: int) -> list[tuple[ConnectorTool, float]]:
    """Return the tools that fit a query, best first, with scores from 0 to 1. Blocking."""
    from prowess.match.index import Index
    from prowess.match.ranking import rank
    from prowess.match.vectors.embedder import WordsOnly

    documents = [_document(position, tool) for position, tool in enumerate(tools)]
    if not documents:
        return []
    try:
        index = Index.build(documents)
    except Unavailable:  # a damaged installation still matches by words
        index = Index.build(documents, WordsOnly())
    found = rank(index, query, limit=limit)
    return [(tools[int(item.version)], round(item.score, 4)) for item in found]


def _document(position: int, tool: ConnectorTool) -> SearchDocument:
    words = " ".join(part for part in slugify(tool.name.replace("_", "-").replace(".", "-")).split("-") if part)
    return SearchDocument(
        # Two connectors may have tools of the same name, and slugs must differ.
        slug=f"t{position}.{slugify(tool.name) or 'tool'}",
        title=tool.title or words or tool.name,
        description=f"{words}. {tool.description}" if tool.description else words or tool.name,
        # The version is not searched: here it carries the position of the tool.
        version=str(position),
    )
