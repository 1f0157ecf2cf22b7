"""Load one text or file of a skill, once. Errors are returned as data; no `ProwessError` is raised."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from prowess.catalog.catalog import Catalog
from prowess.catalog.collisions import Hidden, find_collision
from prowess.catalog.store import Store
from prowess.errors import ApprovalRequired, Conflict, Invalid, NotFound, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import Action, Actor
from prowess.policy.subject import Subject
from prowess.session.admission import Gate
from prowess.session.text import SkillText, compose_skill_text, read_skill_text, read_subject
from prowess.skill.kinds import Kind
from prowess.skill.outline import SkillOutline
from prowess.skill.text.hidden import show_hidden
from prowess.storage.owner import Owner
from prowess.storage.sessions import list_enabled

_MAX_CHOSEN = 1_000
_HINT = "Continue without it, or list the skills to see what is available."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The answer of `load_skill`. If `error` is set, nothing was loaded."""

    name: str
    body: str | None = None
    available_references: tuple[str, ...] = ()
    available_scripts: tuple[str, ...] = ()
    reference_content: str | None = None
    script_content: str | None = None
    error: str | None = None
    hint: str | None = None
    approval_id: str | None = None
    note: str | None = None
    """A warning that another skill of the same scope has the same slug."""
    source: str = ""
    session_id: str = ""
    failure: ProwessError | None = None
    """The error that `error` and `hint` describe."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the tool's answer. `hint`, `approval_id` and `note` appear only if they have a value."""
        payload: dict[str, Any] = {
            "name": self.name,
            "body": self.body,
            "available_references": list(self.available_references),
            "available_scripts": list(self.available_scripts),
            "reference_content": self.reference_content,
            "script_content": self.script_content,
            "error": self.error,
        }
        if self.hint is not None:
            payload["hint"] = self.hint
        if self.approval_id is not None:
            payload["approval_id"] = self.approval_id
        if self.note is not None:
            payload["note"] = self.note
        return payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceResult:
    """The bytes of one file, or the error."""

    content: bytes = b""
    error: ProwessError | None = None
    is_script: bool = False
    source: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """Loads instructions, references, scripts and other files of skills through the gate."""

    catalog: Catalog
    gate: Gate
    plugin_of: Callable[[str], str] = lambda _: ""
    """Returns the name of the plugin that brings a store, by its location; '' if none does."""
    _chosen: dict[tuple[Owner, str, str, str, str], None] = field(
        default_factory=dict[tuple[Owner, str, str, str, str], None]
    )
    """What persons have started by its name: owner, actor, conversation, slug and digest, oldest first."""

    def _describe_source(self, store: Store, outline: SkillOutline) -> str:
        plugin = self.plugin_of(store.location)
        return f"plugin:{plugin}" if plugin else f"{outline.scope}:{outline.location or store.location}"

    def load(
        self,
        actor: Actor,
        name: str,
        *,
        reference: str | None = None,
        script: str | None = None,
        session: str = "",
        chosen: bool = False,
    ) -> LoadResult:
        """Load the instructions of a skill, or one reference, one script or both by their exact names.

        With `chosen`, a person chose the skill by its name, so an agent acting for them may load one that only people start,
        and its files in the same conversation.
        """
        # Filled step by step, so that an error answer has everything that was known by then.
        answer: dict[str, Any] = {"name": name}
        conversation = session
        known: tuple[SkillOutline, Subject] | None = None
        try:
            # One transaction for everything that is read before the gate decides: each of its own takes longer than its read.
            with self.gate.snapshot():
                actor, session = self.gate.within(actor, session)
                answer["session_id"] = session
                store, outline = self.catalog.find_outline(name)
                answer["source"] = self._describe_source(store, outline)
                hidden = self.catalog.hidden_by(store, outline)
                answer["note"] = find_collision(store, outline, hidden)
                text = None
                if reference is None and script is None:
                    text = self._read_text(actor, store, outline, hidden)
                    outline, subject = text.outline, text.subject
                else:
                    subject = read_subject(self.catalog, store, outline, hidden)
                if chosen and subject.people_only:
                    self._remember_chosen(actor, conversation, subject)
                subject = self._with_choice(actor, (conversation, session), subject)
                policy = self.gate.read_policy(actor)
            known = (outline, subject)
            for action in _load_actions(reference, script):
                self.gate.check(
                    actor,
                    action,
                    subject,
                    session=session,
                    policy=policy,
                    describe=lambda: self._describe(actor, store, outline, subject),
                )
            # Not before: the names of files are text of a skill, too.
            answer |= _names_of(outline)
            if text is not None:
                answer["body"] = show_hidden(text.body)
            if reference is not None:
                answer["reference_content"] = _read_part(store, outline, "reference", reference)
            if script is not None:
                answer["script_content"] = _read_part(store, outline, "script", script)
        except ProwessError as error:
            waits_for = error.approval_id if isinstance(error, ApprovalRequired) else None
            # The text of a local skill is no secret, even if the actor may not load it now.
            if known and self.gate.resolve(actor, [known[1]])[0].trust == "local":
                answer |= _names_of(known[0])
            error = error if actor.is_person else error.for_agent()
            answer |= {"error": error.message, "hint": error.hint or _HINT, "approval_id": waits_for, "failure": error}
        return LoadResult(**answer)

    def resource(self, actor: Actor, name: str, path: str, *, session: str = "") -> ResourceResult:
        """Load one file of a skill by its exact path in the manifest: the bytes of the digest that is admitted."""
        answer = ResourceResult()
        try:
            acting, session_id = self.gate.within(actor, session)
            answer = replace(answer, session_id=session_id)
            store, outline = self.catalog.find_outline(name)
            is_script = path in {part.path for part in outline.of_kind("script")}
            answer = replace(answer, source=self._describe_source(store, outline), is_script=is_script)
            action = "load_script" if is_script else "load"
            subject = self._with_choice(acting, (session, session_id), read_subject(self.catalog, store, outline))
            self.gate.check(
                acting,
                action,
                subject,
                session=session_id,
                describe=lambda: self._describe(actor, store, outline, subject),
            )
            if outline.file(path) is None:
                raise _no_file_error(outline, path)
            return replace(answer, content=read_verified_file(store, outline, path))
        except ProwessError as error:
            return replace(answer, error=error if actor.is_person else error.for_agent())

    def _remember_chosen(self, actor: Actor, conversation: str, subject: Subject) -> None:
        key = (actor.owner, actor.label, conversation, subject.slug, subject.digest)
        self._chosen.pop(key, None)
        self._chosen[key] = None
        while len(self._chosen) > _MAX_CHOSEN:
            self._chosen.pop(next(iter(self._chosen)), None)

    def _with_choice(self, actor: Actor, session: tuple[str, str], subject: Subject) -> Subject:
        """Return the subject of a skill for people only as of one that agents may use, if it was started in this conversation.

        `session` is the name of the conversation, and the id of its session. A person has started the skill there, or it is
        enabled, so that its text is in the prompt already.
        """
        if not subject.people_only or actor.is_person:
            return subject
        is_started = (actor.owner, actor.label, session[0], subject.slug, subject.digest) in self._chosen
        if not is_started and session[1]:
            with self.gate.records.read() as connection:
                enabled = list_enabled(connection, session[1])
            is_started = any((row.slug, row.digest) == (subject.slug, subject.digest) for row in enabled)
        return replace(subject, people_only=not is_started)

    def _describe(self, actor: Actor, store: Store, outline: SkillOutline, subject: Subject) -> Subject:
        """Return the subject with the size of the skill's text, as enabling it would show it."""
        try:
            text = compose_skill_text(self.catalog, store, outline, actor) if not subject.chars else None
        except ProwessError:
            return subject  # it has no text for a prompt
        return text.subject if text else subject

    def _read_text(self, actor: Actor, store: Store, outline: SkillOutline, hidden: Hidden) -> SkillText:
        # If the skill has changed since its outline was read, outline and text are read again together.
        return compose_skill_text(self.catalog, store, outline, actor, hidden) or read_skill_text(
            self.catalog, f"{outline.scope}:{outline.slug}", actor
        )


def _read_part(store: Store, outline: SkillOutline, kind: Kind, name: str) -> str:
    path = outline.find_file(kind, name)
    if path is None:
        there = ", ".join(_part_names(outline, kind))
        raise NotFound(f"{outline.slug!r} has no {kind} {name[:200]!r}.", hint=f"Available: {there or 'none'}.")
    try:
        # Control characters are allowed in scripts, and must not reach a prompt.
        return show_hidden(read_verified_file(store, outline, path).decode())
    except UnicodeDecodeError as error:
        raise Invalid(f"{path!r} is a binary file.", hint="Read it as a resource to get its bytes.") from error


def _load_actions(reference: str | None, script: str | None) -> tuple[Action, ...]:
    """Return what the gate has to allow: a role may read references but not scripts."""
    if script is None:
        return ("load",)
    return ("load_script",) if reference is None else ("load", "load_script")


def _names_of(outline: SkillOutline) -> dict[str, Any]:
    return {
        "available_references": _part_names(outline, "reference"),
        "available_scripts": _part_names(outline, "script"),
    }


def _part_names(outline: SkillOutline, kind: Kind) -> tuple[str, ...]:
    return tuple(part.name for part in outline.of_kind(kind))


def read_verified_file(store: Store, outline: SkillOutline, path: str) -> bytes:
    """Return the bytes that the manifest names. Raise `Conflict` if the file changed after the outline was read."""
    entry = outline.file(path)
    content = store.read_file(outline.id, path)
    # The gate decided about the manifest's digest, so no other bytes may be returned, whatever the reason for the difference.
    if entry is None or hashlib.sha256(content).hexdigest() != entry.sha256:
        raise Conflict(f"The skill {outline.slug!r} changed while it was being read.", hint="Try again.")
    return content


def _no_file_error(outline: SkillOutline, path: str) -> NotFound:
    paths = [entry.path for entry in outline.manifest]
    some = ", ".join(paths[:20]) + (" …" if len(paths) > 20 else "")
    return NotFound(f"{outline.slug!r} has no file {path[:200]!r}.", hint=f"Available: {some}")
