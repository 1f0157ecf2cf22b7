"""The engine: one object with the everyday verbs, and a part for everything else that an interface can ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from prowess.catalog.catalog import Catalog
from prowess.engine.context import Context, Resources, check_message, check_string
from prowess.errors import RunFailed
from prowess.policy.actor import Actor
from prowess.skill.slug import check_name
from prowess.storage.database_url import display_url
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.engine.approvals import Approvals, AuditLog, Environment, Policy
    from prowess.engine.devices import Devices
    from prowess.engine.events import Events
    from prowess.engine.installs import Installs
    from prowess.engine.marketplace import Marketplace
    from prowess.engine.people import Organizations, SignIns, Tokens, Users
    from prowess.engine.registries import Registries
    from prowess.engine.registry import Registry
    from prowess.engine.runs import Runs
    from prowess.engine.sessions import Roles, Sessions
    from prowess.engine.skills import Skills
    from prowess.engine.sources import Sources
    from prowess.engine.traces import Traces
    from prowess.engine.trust import Trust
    from prowess.engine.turns import Turns
    from prowess.llm.model import Model
    from prowess.match.recommendation import Recommendation
    from prowess.run.request import StepListener
    from prowess.run.result import RunResult
    from prowess.session.explanation import Explanation
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session


class Engine:
    """Keeps, matches, enables and runs skills for one actor. Open it with `prowess.Prowess.open`, as a context manager.

    A part is imported and made when it is first used, so that a short command does not pay for the others.
    """

    def __init__(self, resources: Resources, actor: Actor) -> None:
        self._context = Context(opened=resources.of(actor.organization, actor.user), actor=actor)

    @property
    def actor(self) -> Actor:
        """The actor."""
        return self._context.actor

    @property
    def context(self) -> Context:
        """The context that the parts of the engine share, for parts that are built on top of it."""
        return self._context

    @property
    def catalog(self) -> Catalog:
        """The catalog of available skills, for code that reads it directly. Blocking."""
        return self._context.catalog

    def as_actor(
        self,
        actor: Actor | None = None,
        *,
        organization: str | None = None,
        user: str | None = None,
        role: str | None = None,
        channel: str | None = None,
    ) -> Self:
        """Return this engine for another actor, organization, user, role or channel.

        Both engines share everything that is open. Closing one closes both.
        """
        options = {"organization": organization, "user": user, "role": role, "channel": channel}
        changes = {name: value for name, value in options.items() if value is not None}
        who = actor or self.actor
        who = replace(who, **changes) if changes else who
        if who == self.actor:
            return self
        # The constructor of a subclass may take other arguments.
        other = object.__new__(type(self))
        Engine.__init__(other, self._context.resources, who)
        return other

    @property
    def database(self) -> str:
        """The location of the database of records, without a password. Show it only to the operator."""
        return display_url(self._context.resources.records_url)

    @cached_property
    def skills(self) -> Skills:
        """Read, check, search, write and export skills."""
        from prowess.engine.skills import Skills

        return Skills(self._context)

    @cached_property
    def sessions(self) -> Sessions:
        """Open, list, change and close sessions."""
        from prowess.engine.sessions import Sessions

        return Sessions(self._context)

    @cached_property
    def runs(self) -> Runs:
        """Run skills."""
        from prowess.engine.runs import Runs

        return Runs(self._context)

    @cached_property
    def turns(self) -> Turns:
        """Prepare and record what is decided about a message, without an agent loop."""
        from prowess.engine.turns import Turns

        return Turns(self._context)

    @cached_property
    def approvals(self) -> Approvals:
        """List and answer approvals."""
        from prowess.engine.approvals import Approvals

        return Approvals(self._context)

    @cached_property
    def trust(self) -> Trust:
        """Show and accept skills that were found, and take that back."""
        from prowess.engine.trust import Trust

        return Trust(self._context)

    @cached_property
    def installs(self) -> Installs:
        """Install skills from sources into agents' folders; update, verify and remove them."""
        from prowess.engine.installs import Installs

        return Installs(self._context)

    @cached_property
    def policy(self) -> Policy:
        """Read and change the organization's policy."""
        from prowess.engine.approvals import Policy

        return Policy(self._context)

    @cached_property
    def env(self) -> Environment:
        """Grant skills access to environment variables."""
        from prowess.engine.approvals import Environment

        return Environment(self._context)

    @cached_property
    def audit(self) -> AuditLog:
        """Read and verify the audit log."""
        from prowess.engine.approvals import AuditLog

        return AuditLog(self._context)

    @cached_property
    def organizations(self) -> Organizations:
        """Create, list and deactivate organizations."""
        from prowess.engine.people import Organizations

        return Organizations(self._context)

    @cached_property
    def users(self) -> Users:
        """Add, list, change and remove the members of an organization."""
        from prowess.engine.people import Users

        return Users(self._context)

    @cached_property
    def tokens(self) -> Tokens:
        """Create, list and revoke tokens for HTTP."""
        from prowess.engine.people import Tokens

        return Tokens(self._context)

    @cached_property
    def sign_ins(self) -> SignIns:
        """Sign people in to a browser, and list and end web sessions."""
        from prowess.engine.people import SignIns

        return SignIns(self._context)

    @cached_property
    def traces(self) -> Traces:
        """Read, count, export and follow the traces of runs."""
        from prowess.engine.traces import Traces

        return Traces(self._context)

    @cached_property
    def events(self) -> Events:
        """Read and follow events, and export metrics."""
        from prowess.engine.events import Events

        return Events(self._context)

    @cached_property
    def registry(self) -> Registry:
        """Find, check, add and remove prompts and rubrics."""
        from prowess.engine.registry import Registry

        return Registry(self._context)

    @cached_property
    def marketplace(self) -> Marketplace:
        """Sync what comes from registries, and refresh the skills that come with Prowess."""
        from prowess.engine.marketplace import Marketplace

        return Marketplace(self._context)

    @cached_property
    def sources(self) -> Sources:
        """Manage the sources that skills are copied from, and sync them."""
        from prowess.engine.sources import Sources

        return Sources(self._context)

    @cached_property
    def registries(self) -> Registries:
        """Search registries of skills, preview their skills, and fetch or install them."""
        from prowess.engine.registries import Registries

        return Registries(self._context)

    @cached_property
    def devices(self) -> Devices:
        """Push skills to a location, and pull them on another device of the same person."""
        from prowess.engine.devices import Devices

        return Devices(self._context)

    @cached_property
    def roles(self) -> Roles:
        """Build the prompts of roles."""
        from prowess.engine.sessions import Roles

        return Roles(self._context)

    async def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the skills that match a message, best first, with reasons. Uses no model.

        `context` is the earlier conversation; it counts less than the message. With `tags`, only skills that have all of
        them are considered. Each result says how far the skill is trusted; an agent gets no text of skills that it could
        not enable at once. Raise `Invalid` if the message is blank.
        """
        check_message(message, limit)
        resources, visibility = self._context.resources, self._context.visibility

        def find(most: int) -> Sequence[Recommendation]:
            return resources.matcher.match(message, limit=most, tags=tags, context=context)

        return await resources.answers.offload(lambda: visibility.usable(find, limit))

    async def enable(self, slug: str, *, session: Session | str, reason: str = "") -> Session:
        """Put a skill's text into the prompt of a session and return the changed session.

        Raise `BudgetExceeded` (with the skills to disable), `ApprovalRequired` (an approval is pending) or another
        `Refused`. Enabling a skill twice changes nothing.
        """
        check_string(reason, "The reason")
        context, key = self._context, self._context.session_key(session)
        return await offload(lambda: context.resources.activation.enable(context.actor, key, slug, reason=reason))

    async def disable(self, slug: str, *, session: Session | str) -> Session:
        """Remove a skill's text from the prompt of a session, and free its budget."""
        context = self._context
        key, name = context.session_key(session), check_name(slug)
        return await offload(lambda: context.resources.activation.disable(context.actor, key, name))

    async def prompt(
        self,
        session: Session | str,
        *,
        into: str = "",
        policies: str = "",
        memory: str = "",
        graph_context: str = "",
    ) -> str:
        """Return the system prompt of a session as one text. With `into`, replace our older blocks in that prompt."""
        from prowess.session.prompt import join_blocks, replace_blocks

        blocks = await self.sessions.blocks(session, policies=policies, memory=memory, graph_context=graph_context)
        return replace_blocks(into, blocks) if into else join_blocks(blocks)

    async def load(
        self, slug: str, *, reference: str | None = None, script: str | None = None, session: Session | str = ""
    ) -> dict[str, Any]:
        """Return one text of a skill: its instructions, a reference or a script. An error is returned in `error`.

        Every load is recorded and published as the event `skill_loaded`.
        """
        from prowess.engine.sessions import load_text

        key = self._context.session_key(session)
        return await load_text(self._context, check_name(slug), reference=reference, script=script, session=key)

    async def run(
        self,
        slug: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        artifacts: str | Sequence[str] = (),
        session: Session | str = "",
        model: Model | str = "",
        evaluation_model: Model | str = "",
        timeout: float | None = None,  # noqa: ASYNC109  (the deadline of the run, which its trace records too)
        resume: str = "",
        dry_run: bool = False,
        on_step: StepListener | None = None,
    ) -> RunResult:
        """Run a skill, or some of its artifacts, and return the result; raise the error of a run that failed.

        Artifacts run in ordinal order; each gets the outputs of those before it among its inputs. `on_step` receives
        states and text as a model writes it. With `dry_run` nothing is sent: the parts of the result say what would be.
        Every run of an artifact leaves a trace. `resume` is the trace of a run that was interrupted after a checkpoint:
        its artifact and those after it run with the inputs it had, and answers from before the checkpoint are reused.
        """
        from prowess.run.request import RunRequest, ignore_step, list_names

        request = RunRequest(
            slug=slug,
            artifacts=list_names(artifacts),
            inputs=inputs or {},
            session=self._context.session_key(session),
            model=model,
            evaluation_model=evaluation_model,
            timeout=timeout,
            resume=resume,
            dry_run=dry_run,
            on_step=on_step or ignore_step,
        )
        result = await self.runs.attempt(request)
        if result.error is not None:
            raise result.error
        return result

    async def why(self, message: str, *, session: Session | str = "", limit: int = 10, skill: str = "") -> Explanation:
        """Explain why each skill, or one skill, was or was not offered for a message, and whether it could be enabled. Changes nothing."""
        from prowess.engine.search import explain

        return await offload(explain, self._context, message, session=session, limit=limit, skill=skill)

    async def index(self, message: str = "", *, session: Session | str = "", budget: int | None = None) -> IndexPlan:
        """Return the list of available skills for a system prompt, within a budget of characters.

        Skills that match the message best and were used most keep their description; the others are shortened. The
        default budget is a share of the session's context window, or 8,000 characters.
        """
        from prowess.engine.search import plan_for_prompt

        return await offload(plan_for_prompt, self._context, message, session=session, budget=budget)

    async def check_ready(self) -> None:
        """Raise `Unavailable` unless the database answers and has the tables of this version of Prowess."""
        await offload(self._context.resources.check_records)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            await self.close()
        except RunFailed:
            if kind is None:  # otherwise the exception that ended the block matters more
                raise

    async def clean_up(self) -> None:
        """Close the traces of interrupted runs, and delete records that are no longer kept, in all organizations.

        A server calls this about every hour; several may at the same time. Problems are logged, not raised.
        """
        if self._context.resources.has_records():
            await offload(self._context.resources.clean_up)

    async def close(self) -> None:
        """Close models, workers, databases and files. Closing twice does nothing.

        Raise `RunFailed`, after everything is closed, if a scripted model has unused steps.
        """
        opened = self._context.opened
        if opened.is_closed():
            return
        try:
            await opened.aclose()
        finally:
            await offload(opened.close)
