"""Skills of connectors: list, search and read them, and use one in a conversation.

A connector's skill belongs to the pair of the connector's name here and its address there. It is never stored as a skill: a
person approves the entry (every file with its digest), then its SKILL.md is read, verified and put into the prompt of one
session, and its other files can be read, one by one, while it stays there. Nothing in it is run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from prowess.connectors.hosted.entry import HostedSkill, parse_skill_uri, read_manifest, show_uri
from prowess.connectors.hosted.reader import SkillReader, SkillServer, require_fixed
from prowess.engine.context import Context
from prowess.engine.registries import check_query, permit_fetch
from prowess.engine.registry_results import RegistryHit, make_ranked_hit, redact_hit
from prowess.engine.sessions import Sessions, record_load
from prowess.errors import Conflict, Invalid, NotFound, ProwessError, Refused
from prowess.policy.roles import find_role
from prowess.session.session import Session, check_budget
from prowess.skill.filenames import SKILL_MD
from prowess.skill.package import Package
from prowess.skill.text.hidden import show_hidden
from prowess.sources.registries.registry import RegistryEntry
from prowess.threads import offload

Connect = Callable[[str], AbstractAsyncContextManager[SkillServer]]
"""Opens a connector by its name, or raises why it cannot be used."""

_BYTES_PER_CHAR = 4
"""The most bytes of a character in UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedRow:
    """A skill of a connector in a list. `state` is `usable`, `needs approval`, `dynamic` or `denied`, and `why` explains it."""

    skill: HostedSkill
    state: str
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        skill = self.skill
        return {
            "connector": skill.connector,
            "uri": skill.uri,
            "name": skill.name,
            "description": show_hidden(skill.description),
            "slug": skill.slug,
            "state": self.state,
            "why": self.why,
            "digest": "" if skill.state == "dynamic" else skill.digest,
            "files": len(skill.files),
            "size": skill.size,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedList:
    """The skills of a connector, and what was left out. `partial` is True if the server lists more than the limit."""

    connector: str
    skills: tuple[HostedRow, ...]
    refused: tuple[str, ...] = ()
    partial: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "connector": self.connector,
            "skills": [row.as_json() for row in self.skills],
            "refused": list(self.refused),
            "partial": self.partial,
        }


class HostedSkills:
    """Skills that connectors serve, as the actor may use them."""

    def __init__(self, context: Context, connect: Connect) -> None:
        self._context = context
        self._connect = connect

    async def list(self, connector: str) -> HostedList:
        """Return the skills that a connector lists, with what would be decided about each. Only a person sees their texts."""
        self._require_person()
        async with self._connect(connector) as server:
            found = await SkillReader(server).list()
        rows = await offload(self._judge, found.skills)
        return HostedList(connector=connector, skills=rows, refused=found.refused, partial=found.partial)

    async def search(self, connector: str, query: str, *, limit: int = 10) -> list[RegistryHit]:
        """Return skills of a connector for a query, best first. An agent sees their names, and no text that a server wrote."""
        from prowess.sources.registries.ranking import rank_entries

        words = check_query(query)
        await offload(permit_fetch, self._context)
        async with self._connect(connector) as server:
            found = await SkillReader(server).list()
        names = Counter(skill.name for skill in found.skills)
        entries = [
            RegistryEntry(
                registry=f"connector:{connector}",
                id=skill.uri,
                source=f"connector:{connector}",
                # The name where it is unique: a server can write sentences into an address.
                skill_id=skill.name if names[skill.name] == 1 else skill.uri,
                name=skill.name,
                description=skill.description,
            )
            for skill in found.skills
            if skill.state == "fixed"
        ]
        ranked = await offload(lambda: rank_entries(words, entries))
        hits = [make_ranked_hit(entry) for entry in ranked[: max(1, limit)]]
        return hits if self._context.actor.is_person else [redact_hit(hit) for hit in hits]

    async def read(self, connector: str, uri: str) -> bytes:
        """Return one file of a connector's skill, verified, for a person to read. It is not put into any prompt.

        `uri` is the address of a SKILL.md or of another file of a skill.
        """
        self._require_person()
        async with self._connect(connector) as server:
            reader = SkillReader(server)
            if uri.endswith(f"/{SKILL_MD}"):
                return await reader.read_main(await reader.get(uri))
            skill = await _find_enclosing(reader, uri)
            return await reader.read_file(skill, skill.address.path_of(uri))

    async def fetch(self, connector: str, which: str, *, session: Session | str, reason: str = "") -> Session:
        """Put a skill of a connector into the prompt of this session only, and return the changed session.

        `which` is its address, or its name if that is unique. Raise `ApprovalRequired` (the request shows every file with its
        digest; none has been read), `BudgetExceeded`, `Conflict` if the server sends other bytes than it lists, or another
        `Refused`.
        """
        from prowess.connectors.hosted.text import compose_hosted_text

        context = self._context
        # Before the server is asked for anything: an agent that may not fetch reaches no host.
        await offload(permit_fetch, context)
        opened = await Sessions(context).get(session)
        async with self._connect(connector) as server:
            reader = SkillReader(server)
            try:
                skill = require_fixed(await _find(reader, which))
            except Invalid as error:
                # What is wrong with an entry is said in words of its server, and nobody has accepted them.
                raise error if context.actor.is_person else _unusable(connector) from None
            if await offload(self._ask, opened.id, skill, reason):
                await Sessions(context).blocks(opened)
                return await Sessions(context).get(opened)
            main = await reader.read_main(skill)
        text = await offload(compose_hosted_text, skill, main)
        return await offload(
            lambda: context.resources.activation.enable_hosted(context.actor, opened.id, text, reason=reason)
        )

    async def files(self, slug: str, *, session: Session | str) -> list[str]:
        """Return the paths that `read_file` takes for a connector's skill that is enabled in a session.

        Raise `NotFound` if it is not enabled, or not a connector's.
        """
        opened = (await Sessions(self._context).get(session)).id
        skill = await offload(self._held, opened, slug, "")
        return [path for path in sorted(skill.by_path) if path != SKILL_MD and not skill.nested_in(path)]

    async def read_file(self, slug: str, path: str, *, session: Session | str) -> str:
        """Return another file of a connector's skill that is enabled in a session, by its exact path, as text.

        The bytes are those that were approved. If the server sends others, nothing is returned, the skill leaves the
        session, and `Conflict` is raised.
        """
        began = time.perf_counter()
        from prowess.session.load import ResourceResult

        context = self._context
        opened = (await Sessions(context).get(session)).id
        answer = ResourceResult(session_id=opened, is_script=_is_script(path))
        error: ProwessError | None = None
        try:
            skill = await offload(self._held, opened, slug, path)
            answer = replace(answer, source=f"connector:{skill.connector}")
            return await self._read_held(opened, skill, path)
        except ProwessError as raised:
            error = raised
            raise
        finally:
            reference, script = (None, path) if answer.is_script else (path, None)
            record_load(context, slug, reference, script, answer, error=error.message if error else None, began=began)

    async def _read_held(self, session_id: str, skill: HostedSkill, path: str) -> str:
        from prowess.connectors.hosted.text import check_content, decode_text
        from prowess.session.enabled import expel_changed

        context = self._context
        try:
            async with self._connect(skill.connector) as server:
                content = await SkillReader(server).read_file(skill, path)
        except Conflict:
            await offload(
                expel_changed, context.resources.activation, context.actor, session_id, skill.slug, skill.digest
            )
            raise
        await offload(check_content, skill, path, content)
        return show_hidden(decode_text(path, content))

    def _held(self, session_id: str, slug: str, path: str) -> HostedSkill:
        """Return the entry that is in force in a session. Raise `Refused` if the role may not read its files. Blocking."""
        from prowess.session.enabled import read_entry

        context = self._context
        package: Package = read_entry(context.resources.activation, context.actor, session_id, slug)
        acting, _ = context.resources.gate.within(context.actor, session_id)
        action = "load_script" if _is_script(path) else "load"
        if acting.role and not find_role(acting.role, context.read_policy()).may(action):
            raise Refused(
                f"The role {acting.role!r} may not read this file.", hint="Use an agent whose role may read scripts."
            )
        return read_manifest(package)

    def _ask(self, session_id: str, skill: HostedSkill, reason: str) -> bool:
        """Return True if exactly this entry is enabled already, False if its SKILL.md may be read. Blocking.

        Otherwise raise the reason; a person is asked from the entry alone, and only about a skill that could fit.
        """
        from prowess.connectors.hosted.text import MAX_FILE_BYTES, make_subject

        context = self._context
        gate, actor = context.resources.gate, context.actor
        current = context.resources.sessions.get(actor, session_id)
        enabled = current.get(skill.slug)
        if enabled is not None and enabled.digest == skill.digest:
            return True
        context.resources.activation.refuse_shadow(skill.slug)
        if skill.main.size > MAX_FILE_BYTES:
            raise Invalid(
                f"The SKILL.md of {skill.slug!r} has {skill.main.size:,} bytes, more than the {MAX_FILE_BYTES:,} allowed.",
                hint="Choose another skill.",
            )
        least = skill.main.size // _BYTES_PER_CHAR
        if full := check_budget(skill.slug, least, least, current):
            raise full
        acting, _ = gate.within(actor, session_id)
        subject = make_subject(skill)
        if gate.preview(acting, subject, gate.read_policy(acting), "fetch_live").answer != "allow":
            gate.check(acting, "fetch_live", subject, session=session_id, reason=reason)
        return False

    def _judge(self, skills: tuple[HostedSkill, ...]) -> tuple[HostedRow, ...]:
        """Return each skill with what would be decided about it now. Blocking."""
        from prowess.connectors.hosted.text import make_subject

        gate, actor = self._context.resources.gate, self._context.actor
        fixed = [skill for skill in skills if skill.state == "fixed"]
        subjects = gate.resolve(actor, [make_subject(skill) for skill in fixed])
        rulings = gate.preview_all(actor, subjects, gate.read_policy(actor), "fetch_live")
        words = {"allow": "usable", "ask": "needs approval", "deny": "denied"}
        judged = {
            skill.uri: HostedRow(skill=skill, state=words[ruling.answer], why=ruling.reason)
            for skill, ruling in zip(fixed, rulings, strict=True)
        }
        why = "The server states no digests, so no approval can cover it."
        return tuple(judged.get(one.uri) or HostedRow(skill=one, state="dynamic", why=why) for one in skills)

    def _require_person(self) -> None:
        self._context.actor.require("skills.read")
        if not self._context.actor.is_person:
            raise Refused(
                "Only a person can read a skill that nobody has accepted.",
                hint="Call fetch_registry_skill: it asks a person, who then sees the skill.",
            )


def _unusable(connector: str) -> Invalid:
    return Invalid(
        f"The connector {connector!r} does not describe this skill as the MCP skills extension requires.",
        hint=f"Choose another skill. A person sees what is wrong with `prowess connector skills {connector}`.",
    )


def _is_script(path: str) -> bool:
    return path.startswith("scripts/")


async def _find(reader: SkillReader, which: str) -> HostedSkill:
    """Return the entry of a skill by its address, or by a name or slug that only one listed skill has."""
    if "://" in which:
        return await reader.get(which)
    found = [skill for skill in (await reader.list()).skills if which in (skill.name, skill.slug)]
    if not found:
        raise NotFound(
            f"The connector {reader.server.name!r} lists no skill {which[:80]!r}.",
            hint="Use the address of its SKILL.md: a server may serve skills that it does not list.",
        )
    if len(found) > 1:
        raise Conflict(
            f"The connector {reader.server.name!r} lists {len(found)} skills named {which!r}.",
            hint=f"Use an address: {', '.join(show_uri(skill.uri) for skill in found[:5])}.",
        )
    return found[0]


async def _find_enclosing(reader: SkillReader, uri: str) -> HostedSkill:
    """Return the innermost skill that lists a file."""
    folder = uri
    while "/" in (folder := folder.rpartition("/")[0]) and not folder.endswith(("/", ":")):
        candidate = f"{folder}/{SKILL_MD}"
        try:
            parse_skill_uri(candidate)
            skill = await reader.get(candidate)
        except NotFound:
            continue
        if uri in {file.uri for file in require_fixed(skill).files}:
            return skill
    raise NotFound(f"No skill of the connector {reader.server.name!r} lists {show_uri(uri)}.")
