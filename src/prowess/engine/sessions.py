"""Sessions: what is enabled in them, their prompt, single texts of skills, and the prompts of roles."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.catalog.collisions import describe_collision, find_collision
from prowess.engine.context import Context, Part, check_string
from prowess.errors import DuplicateSkill, NotFound
from prowess.policy.text import clean_text
from prowess.storage.database_url import sqlite_path
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.policy.actor import Actor
    from prowess.policy.roles import Role
    from prowess.session.load import LoadResult, ResourceResult
    from prowess.session.role_prompt import RolePrompt, RolePrompts
    from prowess.session.session import Session
    from prowess.skill.package import Package

_CACHE_SECONDS, _CACHED_ACTORS = 1.0, 1_000
"""How long another process's new session in a SQLite file may go unnoticed by the choice of tools, and how many are remembered."""

_RECORDED_CHARS = 200
"""How much of a name is recorded. Names come from callers, who may send anything."""


class Sessions(Part):
    """The actor's sessions. Methods take a `Session`, its id or its conversation.

    The conversation `default` is that of the workspace: each folder has its own. Every other name means the same session
    in all folders.
    """

    async def open(
        self,
        conversation: str = "",
        *,
        role: str = "",
        model: str = "",
        window: int | None = None,
        budget: int | None = None,
    ) -> Session:
        """Return the open session of a conversation, or create it. Without a name, always create one.

        `budget` is in characters; the default is the organization's, 16,000 unless it was changed.
        """
        context = self._context
        for value, name in ((conversation, "conversation"), (role, "role"), (model, "model")):
            check_string(value, f"The {name}")

        def open_session() -> Session:
            opened = context.resources.sessions.open(
                context.actor, context.session_key(conversation), role=role, model=model, window=window, budget=budget
            )
            context.resources.acting.clear()  # the session may have a role
            return opened

        return await offload(open_session)

    async def create(
        self, *, role: str = "", model: str = "", window: int | None = None, budget: int | None = None
    ) -> Session:
        """Create a session without a named conversation."""
        return await self.open(role=role, model=model, window=window, budget=budget)

    async def list(self, *, limit: int = 200, after: tuple[str, str] | None = None) -> list[Session]:
        """Return the open sessions, last changed first. `after` is the `position` of the last one on the previous page."""
        context = self._context
        place = {} if after is None else {"after": after}
        return await offload(lambda: context.resources.sessions.listed(context.actor, limit=limit, **place))

    async def count(self) -> int:
        """Return the number of open sessions."""
        context = self._context
        return await offload(lambda: context.resources.sessions.count(context.actor))

    async def get(self, session: Session | str) -> Session:
        """Return a session as it is now, or raise `NotFound`."""
        context = self._context
        return await offload(lambda: context.resources.sessions.get(context.actor, context.session_key(session)))

    async def find(self, conversation: str) -> Session | None:
        """Return the open session of a conversation, or None. Create nothing."""
        return await offload(find_session, self._context, conversation)

    async def acting(self, conversation: str) -> Actor:
        """Return the actor in a conversation, with the session's role if it has no role of its own."""
        return _recent_actor(self._context, conversation) or await offload(read_acting, self._context, conversation)

    async def change(
        self,
        session: Session | str,
        *,
        budget: int | None = None,
        model: str | None = None,
        window: int | None = None,
    ) -> Session:
        """Change the budget, the model or the context window. A budget below the current use does not remove skills."""
        context = self._context
        return await offload(
            lambda: context.resources.sessions.change(
                context.actor, context.session_key(session), budget=budget, model=model, window=window
            )
        )

    async def close(self, session: Session | str) -> None:
        """End a session and disable everything in it."""
        context = self._context
        await offload(lambda: context.resources.sessions.close(context.actor, context.session_key(session)))

    async def enable_fetched(
        self, package: Package, *, session: Session | str, origin: str, reason: str = ""
    ) -> Session:
        """Enable a skill that was fetched for this session. It is not stored."""
        context = self._context
        return await offload(
            lambda: context.resources.activation.enable_fetched(
                context.actor,
                context.session_key(session),
                package,
                origin=origin,
                reason=reason,
                limits=context.resources.limits,
            )
        )

    async def load(
        self, slug: str, *, session: Session | str = "", reference: str | None = None, script: str | None = None
    ) -> dict[str, Any]:
        """Load one text of a skill like `Prowess.load`, but raise the error, also for an unknown session."""
        opened = (await self.get(session)).id if session else ""
        loaded = await _load(self._context, slug, reference, script, session=opened)
        if loaded.failure is not None:
            raise loaded.failure
        return loaded.as_json()

    async def text(self, slug: str, *, session: Session | str) -> str:
        """Return the prompt block of one enabled skill, as it was admitted.

        Raise `NotFound` if the skill is not enabled, or may no longer be.
        """
        context, name = self._context, slug.rpartition(":")[2]
        return await offload(
            lambda: context.resources.activation.text(context.actor, context.session_key(session), name)
        )

    async def blocks(
        self, session: Session | str, *, policies: str = "", memory: str = "", graph_context: str = ""
    ) -> tuple[str, ...]:
        """Return the system blocks of a turn in order: policies, memory, graph context, then the enabled skills.

        Each skill has exactly the bytes that were admitted. A skill whose files have changed since passes the gate again
        or is left out.
        """
        from prowess.session.prompt import assemble_blocks

        for name, text in (("policies", policies), ("memory", memory), ("graph_context", graph_context)):
            check_string(text, f"`{name}`")
        context = self._context
        _, skills = await offload(
            lambda: context.resources.activation.blocks(context.actor, context.session_key(session))
        )
        return assemble_blocks(policies=policies, memory=memory, graph_context=graph_context, skills=skills)


def find_session(context: Context, conversation: str) -> Session | None:
    """Return the open session of a conversation, or None. Blocking."""
    if not context.resources.has_records():
        return None
    # The gate finds open sessions only.
    _, session = context.resources.gate.within(context.actor, context.session_key(conversation))
    return context.resources.sessions.get(context.actor, session) if session else None


def read_acting(context: Context, conversation: str) -> Actor:
    """Return the actor as it acts in a conversation. Blocking; see `Sessions.acting`."""
    known = _recent_actor(context, conversation)
    if known is not None:
        return known
    found = context.actor
    # Without records there are no sessions, and the gate need not be imported: it imports the database code, a third of a
    # server's start.
    if context.resources.has_records():
        found = context.resources.gate.within(context.actor, context.session_key(conversation))[0]
    cache = context.resources.acting
    if len(cache) >= _CACHED_ACTORS:
        cache.clear()
    cache[context.actor, conversation] = (time.monotonic() + _CACHE_SECONDS, found)
    return found


def _recent_actor(context: Context, conversation: str) -> Actor | None:
    # The gate reads the role again before every action. This answer only decides which tools an agent has, and every tool
    # call needs it: a second-old one saves a query and a thread. Several servers may share a database that is not a file,
    # and what one of them did must show at once.
    until, known = context.resources.acting.get((context.actor, conversation), (0.0, context.actor))
    return known if time.monotonic() < until and sqlite_path(context.resources.records_url) else None


class Roles(Part):
    """Roles: what each may do, and its prompt."""

    async def list(self) -> list[Role]:
        """Return the roles of the organization, by name: its own and those that come with Prowess."""
        from prowess.policy.roles import find_role, role_names

        policy = await offload(self._context.read_policy)
        return [find_role(name, policy) for name in role_names(policy)]

    async def get(self, name: str) -> Role:
        """Return one role, or raise `NotFound`."""
        from prowess.policy.roles import find_role

        return find_role(name, await offload(self._context.read_policy))

    async def prompt(
        self, role: str, *, templates: str | Path | None = None, values: Mapping[str, Any] | None = None
    ) -> RolePrompt:
        """Return the prompt of a role: its pack below the index of skills, its older template, or one sentence.

        `templates` has packs in `skills/` and older templates in `roles/`. Roles that it does not have are looked up in
        the packs that come with Prowess. An older template is rendered with `values`.
        """
        from prowess.session.role_prompt import render_role

        found = await offload(self._resolve, role, Path(templates) if templates else None)
        return await render_role(found, values or {}, self._context.resources.render)

    def _resolve(self, role: str, templates: Path | None) -> RolePrompt:
        found = self._prompts(templates).resolve(role)
        if found.source != "pack":
            return found
        catalog = self._context.catalog
        # In a strict workspace this raises if two sources have a skill of this name.
        with suppress(NotFound):
            store, outline = catalog.find_outline(role)
            note = find_collision(store, outline, catalog.hidden_by(store, outline)) or ""
            if outline.digest != found.digest:
                note = describe_collision(role, found.location, [outline.location or store.location])
            if note and self._context.resources.limits.strict:
                raise DuplicateSkill(note, hint="This workspace is strict: rename or remove one of them.")
            return replace(found, note=note)
        return found

    def _prompts(self, templates: Path | None) -> RolePrompts:
        from prowess.session.role_prompt import RolePrompts

        context = self._context
        # The index inside a prompt has only texts that the actor may see.
        key, cache = (context.actor, templates), context.resources.role_prompts
        known = cache.get(key)
        if known is None:
            known = RolePrompts(
                templates=templates,
                packs=context.resources.packs,
                plugin_packs=context.resources.plugin_packs,
                index=self._index_text,
                limits=context.resources.limits,
            )
            if len(cache) >= _CACHED_ACTORS:
                cache.clear()
            cache[key] = known
        return known

    def _index_text(self, about: str) -> str:
        from prowess.session.prompt import index_block

        context = self._context
        cards = context.visibility.for_prompt(context.catalog.cards())
        return index_block(context.resources.planner.plan_for_role(context.actor, cards, about))


async def load_text(
    context: Context,
    slug: str,
    *,
    reference: str | None = None,
    script: str | None = None,
    session: str,
    chosen: bool = False,
) -> dict[str, Any]:
    """Load the instructions, a reference or a script of a skill, and record that. With `chosen`, a person chose it."""
    return (await _load(context, slug, reference, script, session=session, chosen=chosen)).as_json()


async def _load(
    context: Context, slug: str, reference: str | None, script: str | None, *, session: str, chosen: bool = False
) -> LoadResult:
    check_string(reference or "", "The name of a reference")
    check_string(script or "", "The name of a script")
    began = time.perf_counter()
    loaded = await offload(
        lambda: context.resources.loader.load(
            context.actor, slug, reference=reference, script=script, session=session, chosen=chosen
        )
    )
    record_load(context, slug, reference, script, loaded, error=loaded.error, began=began)
    return loaded


async def load_file(context: Context, slug: str, path: str, *, session: str) -> bytes:
    """Load one file of a skill by its exact path, and record that."""
    began = time.perf_counter()
    loaded = await offload(lambda: context.resources.loader.resource(context.actor, slug, path, session=session))
    reference, script = (None, path) if loaded.is_script else (path, None)
    error = loaded.error.message if loaded.error else None
    record_load(context, slug, reference, script, loaded, error=error, began=began)
    if loaded.error is not None:
        raise loaded.error
    return loaded.content


def record_load(
    context: Context,
    slug: str,
    reference: str | None,
    script: str | None,
    loaded: LoadResult | ResourceResult,
    *,
    error: str | None,
    began: float,
) -> None:
    """Record that a text of a skill was loaded, or why not."""
    from prowess.feed.event_recorder import SkillLoad

    context.resources.recorder().record(
        SkillLoad(
            name=clean_text(slug, limit=_RECORDED_CHARS),
            reference=None if reference is None else clean_text(reference, limit=_RECORDED_CHARS),
            script=None if script is None else clean_text(script, limit=_RECORDED_CHARS),
            source=loaded.source,
            duration_s=round(time.perf_counter() - began, 6),
            error=None if error is None else clean_text(error),
            session_id=loaded.session_id,
            user_id=context.actor.user,
            organization_id=context.actor.organization,
        )
    )
