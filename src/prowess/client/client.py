"""The client of a Prowess server: the shape of the engine, over HTTP."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prowess.client.part import decode, session_name, unavailable
from prowess.client.sessions import Sessions, decode_session, load_error, session_path
from prowess.client.skills import Skills, skill_path
from prowess.client.transport import Transport, check_url
from prowess.errors import Conflict, Invalid, NotFound, Refused
from prowess.net.addresses import is_loopback
from prowess.settings import read_settings
from prowess.storage.secret_file import SERVER_TOKEN_FILE, read_secret, read_token_file

if TYPE_CHECKING:
    import httpx2

    from prowess.client.authoring import Composer, Evals, Optimizations
    from prowess.client.conversations import Agent
    from prowess.client.governance import Approvals, AuditLog, Organizations, Policy, Tokens, Users
    from prowess.client.records import Events, Traces
    from prowess.client.runs import Jobs, Runs
    from prowess.client.sources import Registries, Sources
    from prowess.match.recommendation import Recommendation
    from prowess.policy.actor import Actor
    from prowess.run.request import StepListener
    from prowess.run.result import RunResult
    from prowess.session.explanation import Explanation
    from prowess.session.index import IndexPlan
    from prowess.session.session import Session

TIMEOUT_SECONDS = 60.0
"""How long a server may take to start with a response, unless the caller says otherwise."""


class AsyncClient:
    """A client of one server. It has the parts and methods of `Prowess`, and returns the same values.

    `url` is the address that `prowess serve` prints (default: PROWESS_SERVER). The token is `token`, the content of
    `token_file`, PROWESS_TOKEN, or for a server on this machine the one in PROWESS_HOME; it decides who acts. Errors are
    those of the engine, raised by their code. Use it as a context manager.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: str = "",
        token_file: Path | None = None,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        url, token = _find_server(url, token, token_file)
        self._transport = Transport(url, token, timeout=timeout, transport=transport)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.url

    @cached_property
    def skills(self) -> Skills:
        """Read, search, write, import and export skills."""
        return Skills(self._transport)

    @cached_property
    def registries(self) -> Registries:
        """Search registries of skills, and preview their skills."""
        from prowess.client.sources import Registries

        return Registries(self._transport)

    @cached_property
    def sessions(self) -> Sessions:
        """Open, list, change and close sessions."""
        return Sessions(self._transport)

    @cached_property
    def runs(self) -> Runs:
        """Run skills."""
        from prowess.client.runs import Runs

        return Runs(self._transport)

    @cached_property
    def jobs(self) -> Jobs:
        """Start, list, wait for, cancel and retry durable jobs."""
        from prowess.client.runs import Jobs

        return Jobs(self._transport)

    @cached_property
    def evals(self) -> Evals:
        """Run, list and compare evaluations of skills."""
        from prowess.client.authoring import Evals

        return Evals(self._transport)

    @cached_property
    def optimize(self) -> Optimizations:
        """Optimize skills, and decide about proposals."""
        from prowess.client.authoring import Optimizations

        return Optimizations(self._transport)

    @cached_property
    def compose(self) -> Composer:
        """Draft skills with a model, refine them in words, and save what a person approves."""
        from prowess.client.authoring import Composer

        return Composer(self._transport)

    @cached_property
    def agent(self) -> Agent:
        """Talk to the agent of the server, and read conversations."""
        from prowess.client.conversations import Agent

        return Agent(self._transport)

    @cached_property
    def approvals(self) -> Approvals:
        """List and answer approvals."""
        from prowess.client.governance import Approvals

        return Approvals(self._transport)

    @cached_property
    def audit(self) -> AuditLog:
        """Read and verify the audit log."""
        from prowess.client.governance import AuditLog

        return AuditLog(self._transport)

    @cached_property
    def organizations(self) -> Organizations:
        """Create, list and deactivate organizations."""
        from prowess.client.governance import Organizations

        return Organizations(self._transport)

    @cached_property
    def users(self) -> Users:
        """Add, list, change and remove the members of an organization."""
        from prowess.client.governance import Users

        return Users(self._transport)

    @cached_property
    def tokens(self) -> Tokens:
        """Create, list and revoke tokens for HTTP."""
        from prowess.client.governance import Tokens

        return Tokens(self._transport)

    @cached_property
    def sources(self) -> Sources:
        """Manage the sources that skills are copied from, and sync them."""
        from prowess.client.sources import Sources

        return Sources(self._transport)

    @cached_property
    def traces(self) -> Traces:
        """Read, count, export and follow the traces of runs."""
        from prowess.client.records import Traces

        return Traces(self._transport)

    @cached_property
    def events(self) -> Events:
        """Read and follow events."""
        from prowess.client.records import Events

        return Events(self._transport)

    @cached_property
    def policy(self) -> Policy:
        """Read and change the organization's settings."""
        from prowess.client.governance import Policy

        return Policy(self._transport)

    @cached_property
    def settings(self) -> Policy:
        """The same as `policy`, by the name that the HTTP API has for it."""
        return self.policy

    async def me(self) -> Actor:
        """Return the actor of this token, and its permissions."""
        from prowess.policy.actor import Actor

        found = await self._transport.get("/me")
        return Actor(
            name=found["name"],
            kind=found["kind"],
            organization=found["organization_id"],
            user=found["user_id"],
            permissions=frozenset(found["permissions"]),
            channel=found["channel"],
        )

    async def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the skills that match a message, best first, with reasons. Uses no model.

        `context` is the earlier conversation; it counts less than the message. With `tags`, only skills that have all of
        them are considered.
        """
        return await self.skills.match(message, limit=limit, tags=tags, context=context)

    async def why(self, message: str, *, session: Session | str = "", limit: int = 10, skill: str = "") -> Explanation:
        """Explain why each skill, or one skill, was or was not offered for a message, and whether it could be enabled. Changes nothing."""
        from prowess.session.explanation import Explanation

        body = {"message": message, "session": session_name(session), "limit": limit, "skill": skill}
        return decode(Explanation, await self._transport.post("/why", body))

    async def index(self, message: str = "", *, session: Session | str = "", budget: int | None = None) -> IndexPlan:
        """Return the list of available skills for a system prompt, within a budget of characters."""
        from prowess.session.index import IndexEntry, IndexPlan

        found = await self._transport.get("/index", message=message, session=session_name(session), budget=budget)
        entries = [IndexEntry(one["slug"], one["form"], one["text"]) for one in found["entries"]]
        return IndexPlan(
            text=found["text"],
            shown=tuple(entry for entry in entries if entry.form != "omitted"),
            unnamed=tuple(entry.slug for entry in entries if entry.form == "omitted"),
        )

    async def enable(self, slug: str, *, session: Session | str, reason: str = "") -> Session:
        """Put a skill's text into the prompt of a session and return the changed session.

        Raise `BudgetExceeded` (with the skills to disable), `ApprovalRequired` (an approval is pending) or another
        `Refused`. Enabling a skill twice changes nothing.
        """
        body = {"skill_slug": slug, "reason": reason}
        return decode_session(await self._transport.post(session_path(session, "enable"), body))

    async def disable(self, slug: str, *, session: Session | str) -> Session:
        """Remove a skill's text from the prompt of a session, and free its budget."""
        return decode_session(await self._transport.post(session_path(session, "disable"), {"skill_slug": slug}))

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
        body = {"into": into, "policies": policies, "memory": memory, "graph_context": graph_context}
        return (await self._transport.post(session_path(session, "prompt"), body))["text"]

    async def load(
        self, slug: str, *, reference: str | None = None, script: str | None = None, session: Session | str = ""
    ) -> dict[str, Any]:
        """Return one text of a skill: its instructions, a reference or a script. An error is returned in `error`."""
        body: dict[str, Any] = {"reference": reference, "script": script}
        name = session_name(session)
        path = session_path(name, "load") if name else skill_path(slug, "load")
        try:
            return await self._transport.post(path, {**body, "skill_slug": slug} if name else body)
        except (NotFound, Refused, Invalid, Conflict) as error:
            return load_error(slug, error)

    async def run(
        self,
        slug: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        artifacts: str | Sequence[str] = (),
        session: Session | str = "",
        model: str = "",
        evaluation_model: str = "",
        timeout: float | None = None,  # noqa: ASYNC109  (the deadline of the run, which its trace records too)
        resume: str = "",
        dry_run: bool = False,
        on_step: StepListener | None = None,
    ) -> RunResult:
        """Run a skill, or some of its artifacts, and return the result; raise the error of a run that failed.

        `on_step` receives states and text as a model writes it. Models are those of the server, by name.
        """
        from prowess.run.request import RunRequest, ignore_step, list_names

        request = RunRequest(
            slug=slug,
            artifacts=list_names(artifacts),
            inputs=inputs or {},
            session=session_name(session),
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise `Unavailable` for a part that only the engine has, with what to do instead."""
            from prowess.engine.engine import Engine

            if hasattr(Engine, name):
                raise unavailable(name)
            raise AttributeError(f"'AsyncClient' object has no attribute {name!r}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


def _find_server(url: str, token: str, token_file: Path | None) -> tuple[str, str]:
    """Return the URL and the token of a server, from the arguments or the settings. The token is '' if there is none."""
    # No client reads the workspace, so a PROWESS_WORKSPACE that does not exist is not an error here.
    settings = read_settings(workspace=".")
    chosen = url or settings.server
    if not chosen:
        raise Invalid("No server given.", hint="Pass its URL with `--server URL`, or set PROWESS_SERVER.")
    host = check_url(chosen).host
    found = token or (read_token_file(token_file) if token_file is not None else "") or settings.token
    # The token of this machine's server is never sent anywhere else.
    if not found and is_loopback(host):
        found = read_secret(settings.home / SERVER_TOKEN_FILE) or ""
    # The message does not contain the token.
    if found and (not found.isascii() or not found.isprintable() or " " in found):
        raise Invalid("The token contains invalid characters.", hint="Check PROWESS_TOKEN or the token file.")
    return chosen, found
