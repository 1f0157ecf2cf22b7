"""The strict reader of one server's skills: nothing that it returns is unverified.

It asks for entries and single files, never ahead of need, and only of the server that listed them. `resources/directory/read`
is not used: the entry lists every file of a skill, and dynamic skills are not read at all.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from prowess.connectors.hosted.entry import HostedFile, HostedSkill, parse_entry, parse_skill_uri, show_uri
from prowess.errors import Conflict, Invalid, NotFound, Refused, RunFailed, Unavailable
from prowess.skill.json_frontmatter import frontmatter_json
from prowess.skill.json_values import equal_json, json_object

if TYPE_CHECKING:
    from mcp.client.client import Client

MAX_PAGES = 100
MAX_SKILLS = 5_000
MAX_CURSOR_CHARS = 4_096
MAX_REPORTED = 100
"""How many invalid entries of a list are reported."""


class SkillServer(Protocol):
    """A server with the skills extension. Each method returns the JSON of the result, unchecked.

    Raise `NotFound` if the server answers that there is no such skill or file, and another `ProwessError` if it fails.
    """

    @property
    def name(self) -> str:
        """The host's name for the server."""
        ...

    async def list_skills(self, cursor: str | None) -> object:
        """Send `skills/list`."""
        ...

    async def get_skill(self, uri: str) -> object:
        """Send `skills/get`."""
        ...

    async def read_resource(self, uri: str) -> object:
        """Send `resources/read`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillList:
    """The skills of a server, and why other entries were left out. `partial` is True if the server has more than the limit."""

    skills: tuple[HostedSkill, ...]
    refused: tuple[str, ...] = ()
    partial: bool = False


@dataclass(frozen=True, slots=True)
class SkillReader:
    """Reads the skills of one server."""

    server: SkillServer

    async def list(self) -> SkillList:
        """Return the listed skills, in the server's order. One invalid entry does not hide the others."""
        found: dict[str, HostedSkill] = {}
        refused: list[str] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = _check_result(await self.server.list_skills(cursor), "skills/list")
            entries: object = page.get("skills")
            if not isinstance(entries, list):
                raise _broken("skills/list", "`skills` is not a list")
            for value in cast("list[object]", entries):
                if len(found) == MAX_SKILLS:
                    return SkillList(skills=tuple(found.values()), refused=tuple(refused), partial=True)
                self._take(value, found, refused)
            following = page.get("nextCursor")
            if following is None:
                return SkillList(skills=tuple(found.values()), refused=tuple(refused))
            if not isinstance(following, str) or len(following) > MAX_CURSOR_CHARS or following == cursor:
                raise _broken("skills/list", "`nextCursor` is not valid")
            cursor = following
        return SkillList(skills=tuple(found.values()), refused=tuple(refused), partial=True)

    def _take(self, value: object, found: dict[str, HostedSkill], refused: list[str]) -> None:
        """Add the skill of an entry, or why it cannot be used."""
        try:
            skill = parse_entry(self.server.name, value)
        except Invalid as error:
            uri = json_object(value).get("uri")
            place, why = show_uri(uri) if isinstance(uri, str) else "An entry without an address", error.message
        else:
            place, why = show_uri(skill.uri), "It is listed twice."
            if skill.uri not in found:
                found[skill.uri] = skill
                return
        if len(refused) < MAX_REPORTED:
            refused.append(f"{place}: {why}")

    async def get(self, uri: str) -> HostedSkill:
        """Return the entry of the skill at an address, listed or not. Raise `NotFound` or `Invalid`."""
        parse_skill_uri(uri)
        result = _check_result(await self.server.get_skill(uri), "skills/get")
        skill = parse_entry(self.server.name, result.get("skill"))
        if skill.uri != uri:
            raise _broken("skills/get", f"it describes another skill than {show_uri(uri)}")
        return skill

    async def read_main(self, skill: HostedSkill) -> bytes:
        """Return the SKILL.md of a skill, with its digest, its size and its frontmatter verified.

        Raise `Conflict` if the server sends something else than its entry says. Then nothing of it was used.
        """
        content = await self._read(skill, require_fixed(skill).main)
        if not equal_json(frontmatter_json(content), skill.frontmatter):
            raise Conflict(
                f"The frontmatter in the SKILL.md of {show_uri(skill.uri)} differs from the one that the server lists.",
                hint="Nothing was used. Report this to the operator of the server; values are compared as YAML 1.2.",
            )
        return content

    async def read_file(self, skill: HostedSkill, path: str) -> bytes:
        """Return one file of a skill by its exact path in the entry, verified.

        Raise `Conflict` if the server sends other bytes, `NotFound` for a file that the entry does not list, and `Refused` for one of a nested skill, which needs an
        approval of its own.
        """
        file = require_fixed(skill).by_path.get(path)
        if file is None:
            raise NotFound(
                f"The skill {skill.slug!r} lists no file {path[:200]!r}.",
                hint=f"Files: {', '.join(list(skill.by_path)[:20])}.",
            )
        if nested := skill.nested_in(path):
            raise Refused(
                f"{path!r} belongs to another skill, in {nested!r}.",
                hint=f"Fetch that skill by its address: {skill.address.folder}/{nested}/SKILL.md.",
            )
        return await self._read(skill, file)

    async def _read(self, skill: HostedSkill, file: HostedFile) -> bytes:
        content = _take_content(await self.server.read_resource(file.uri), file)
        # Both, as the extension asks. The size comes first, because it is cheaper.
        if content is None or len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
            raise Conflict(
                f"The server {skill.connector!r} lists a different digest for {file.path!r} of the skill {skill.slug!r} than that of the bytes it sent.",
                hint="Nothing was used. Fetch the skill again: a person is asked about the new files.",
            )
        return content


def require_fixed(skill: HostedSkill) -> HostedSkill:
    """Return the skill, or raise `Refused` if no digest describes its content."""
    if skill.state == "dynamic":
        raise Refused(
            f"The skill {skill.slug!r} is dynamic: the server states no digests, so no approval can cover it.",
            hint="Use another skill, or ask the operator of the server to publish fixed files.",
        )
    return skill


def _check_result(value: object, method: str) -> Mapping[str, Any]:
    """Return a result with the fields that every answer must have. How long it may be cached does not matter: it is not."""
    if not isinstance(value, dict):
        raise _broken(method, "it is not an object")
    result = cast("dict[str, Any]", value)
    ttl = result.get("ttlMs")
    if result.get("resultType") != "complete":
        raise _broken(method, "`resultType` is not 'complete'")
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or not ttl >= 0:
        raise _broken(method, "`ttlMs` is missing or not valid")
    if result.get("cacheScope") not in ("public", "private"):
        raise _broken(method, "`cacheScope` is missing or not valid")
    return result


def _take_content(value: object, file: HostedFile) -> bytes | None:
    """Return the bytes of the one content of an answer to `resources/read`, or None if it has another form."""
    contents: object = json_object(value).get("contents")
    if not isinstance(contents, list) or len(cast("list[object]", contents)) != 1:
        return None
    [content] = cast("list[object]", contents)
    if not isinstance(content, dict):
        return None
    part = cast("dict[str, object]", content)
    text, blob = part.get("text"), part.get("blob")
    if part.get("uri") != file.uri or (text is None) == (blob is None):
        return None
    try:
        if isinstance(text, str):
            return text.encode()
        # Four characters stand for three bytes: longer ones are not decoded at all.
        if isinstance(blob, str) and len(blob) <= (file.size + 3) * 4 // 3 + 4:
            return b64decode(blob, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return None
    return None


def _broken(method: str, why: str) -> Invalid:
    return Invalid(
        f"The answer of the server to `{method}` breaks the MCP skills extension: {why}.",
        hint="Report this to the operator of the server.",
    )


EXTENSION_ID = "io.modelcontextprotocol/skills"


class ClientSkillServer:
    """The skills of a server that a client of the MCP SDK is connected to. Results are passed on as the JSON that came."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client
        capabilities = client.server_capabilities
        # The extension is used only where a server declares it, together with resources.
        if EXTENSION_ID not in (capabilities.extensions or {}) or capabilities.resources is None:
            raise Unavailable(
                f"The connector {name!r} serves no skills: it does not declare the extension {EXTENSION_ID}.",
                hint="Its tools can still be used: `prowess connector tools`.",
            )

    async def list_skills(self, cursor: str | None) -> object:
        """Send `skills/list`."""
        return await self._send("skills/list", {} if cursor is None else {"cursor": cursor})

    async def get_skill(self, uri: str) -> object:
        """Send `skills/get`."""
        return await self._send("skills/get", {"uri": uri})

    async def read_resource(self, uri: str) -> object:
        """Send `resources/read`."""
        return await self._send("resources/read", {"uri": uri})

    async def _send(self, method: str, params: dict[str, Any]) -> object:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, Request
        from pydantic import TypeAdapter, ValidationError

        request = Request[dict[str, Any], str](method=method, params=params)
        try:
            # Not through the client's own methods: they answer from a cache, and leave out what they do not know. The SDK
            # wants a model, but takes any type.
            whole: Any = TypeAdapter(dict[str, Any])
            return await self._client.session.send_request(request, whole)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise
            # Its message is the server's words, which nobody has accepted.
            if error.code == INVALID_PARAMS:
                raise NotFound(
                    f"The connector {self.name!r} has no such skill or file.",
                    hint=f"Run `prowess connector skills {self.name}` to list its skills.",
                ) from None
            raise RunFailed(
                f"The connector {self.name!r} answered `{method}` with the error {error.code}.",
                hint="Report this to the operator of the server.",
            ) from None
        except ValidationError:
            raise Invalid(
                f"The answer of the connector {self.name!r} to `{method}` breaks the protocol.",
                hint="Report this to the operator of the server.",
            ) from None
