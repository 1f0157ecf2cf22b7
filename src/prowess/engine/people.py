"""Organizations, their users, and the tokens and web sessions that these act with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from prowess.engine.context import Context, Part
from prowess.storage.database_url import sqlite_path
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.engine.answers import Commit
    from prowess.policy.actor import Actor
    from prowess.policy.people import People
    from prowess.policy.sign_in import Account, NewSession
    from prowess.policy.sign_in import SignIns as SignInRules
    from prowess.policy.tokens import NewToken
    from prowess.policy.tokens import Tokens as TokenRules
    from prowess.storage.credentials import Holder, Token, WebSession
    from prowess.storage.people import Member, Organization

_log = logging.getLogger(__name__)
_MAX_KNOWN = 10_000
_USE_SECONDS = 60.0
"""How often the last use of a token or web session is written at most."""


def _people(context: Context) -> People:
    from prowess.policy.people import People

    return People(context.resources.records())


class Organizations(Part):
    """The organizations of a server. The operator manages all of them; everyone else sees their own."""

    async def create(self, organization: str, *, name: str = "") -> Organization:
        """Create an organization. Its id is a handle such as `acme`, which cannot be changed or reused.

        Only the operator can. Raise `Conflict` if the id is or was in use.
        """
        context = self._context
        return await offload(lambda: _people(context).create_organization(context.actor, organization, name=name))

    async def list(self) -> list[Organization]:
        """Return the organizations that the actor may see, by id."""
        context = self._context
        if not context.resources.has_records():
            return []
        return await offload(lambda: _people(context).list_organizations(context.actor))

    async def get(self, organization: str = "") -> Organization:
        """Return an organization, by default the actor's own, or raise `NotFound`."""
        context = self._context
        return await offload(lambda: _people(context).get_organization(context.actor, organization))

    async def deactivate(self, organization: str) -> Organization:
        """Deactivate an organization: its tokens and web sessions end at once, its records stay. Only the operator can."""
        context = self._context
        return await offload(lambda: _people(context).deactivate_organization(context.actor, organization))


class Users(Part):
    """The members of an organization: the actor's own, or any organization for the operator."""

    async def add(
        self,
        user: str,
        *,
        organization: str = "",
        name: str = "",
        email: str = "",
        admin: bool = False,
        permissions: Collection[str] | None = None,
    ) -> Member:
        """Add a user, as admin or with some permissions (by default all but `admin`). Only an admin can.

        Raise `Conflict` if the user is a member, or the id is taken.
        """
        context = self._context
        return await offload(
            lambda: _people(context).add_member(
                context.actor,
                user,
                organization=organization,
                name=name,
                email=email,
                admin=admin,
                permissions=permissions,
            )
        )

    async def change(
        self, user: str, *, organization: str = "", admin: bool = False, permissions: Collection[str] | None = None
    ) -> Member:
        """Replace the permissions of a member. Only an admin can; the last admin stays one."""
        context = self._context
        return await offload(
            lambda: _people(context).change_member(
                context.actor, user, organization=organization, admin=admin, permissions=permissions
            )
        )

    async def list(self, *, organization: str = "") -> list[Member]:
        """Return the members, active or not, by id. Only an admin can."""
        context = self._context
        return await offload(lambda: _people(context).list_members(context.actor, organization=organization))

    async def get(self, user: str, *, organization: str = "") -> Member:
        """Return a member, or raise `NotFound`. People see themselves, admins see everyone."""
        context = self._context
        return await offload(lambda: _people(context).get_member(context.actor, user, organization=organization))

    async def remove(self, user: str, *, organization: str = "") -> Member:
        """End a membership: the user's tokens and web sessions end at once. Only an admin can; the last admin stays."""
        context = self._context
        return await offload(lambda: _people(context).remove_member(context.actor, user, organization=organization))

    async def deactivate(self, user: str) -> Sequence[Member]:
        """Deactivate a user in all organizations, and return the memberships that ended. Only the operator can."""
        context = self._context
        return await offload(lambda: _people(context).deactivate_user(context.actor, user))

    async def bind(self, user: str, *, issuer: str, subject: str, organization: str = "") -> Member:
        """Let an account at an OpenID Connect provider sign in as a member. Only an admin can."""
        context = self._context
        return await offload(
            lambda: _people(context).bind_identity(
                context.actor, user, issuer=issuer, subject=subject, organization=organization
            )
        )


class _Holders(Protocol):
    """Finds the holders of secrets, and records their use. Blocking."""

    def find_holder(self, secret: str) -> Holder | None: ...

    def record_use(self, holder: Holder) -> None: ...


class _Lookup:
    """Finds the actor of a secret, and records its last use in the background, at most once a minute.

    On SQLite, a holder that was found counts until anything is committed, by this process or another, so that a token
    that was revoked is refused from then on. PostgreSQL is asked every time.
    """

    def __init__(self, context: Context, holders: Callable[[], _Holders], *, channel: str) -> None:
        self._context = context
        self._holders = holders
        self._channel = channel
        self._is_quick = False
        self._known: dict[str, tuple[Commit, Holder]] = {}
        self._recorded: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def find(self, secret: str) -> Actor | None:
        """Return who may act with a secret, or None."""
        from prowess.policy.tokens import to_actor
        from prowess.storage.clock import now
        from prowess.storage.credentials import hash_secret

        # Before the query: what is committed during it is then looked up again next time.
        committed = self._context.resources.answers.committed()
        key = hash_secret(secret)
        at, found = self._known.get(key, (None, None))
        if found is None or committed is None or at != committed or found.expires_at <= now():
            found = await self._ask(secret)
            if found is not None and committed is not None:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[key] = (committed, found)
        if found is None:
            return None
        self._note(found)
        return to_actor(found, channel=self._channel)

    async def _ask(self, secret: str) -> Holder | None:
        if self._is_quick:
            return self._holders().find_holder(secret)
        found = await offload(lambda: self._holders().find_holder(secret))
        # In an open SQLite file, the query takes a third of the time that a thread costs, and no writer can block it.
        self._is_quick = sqlite_path(self._context.resources.records_url) != ""
        return found

    def _note(self, holder: Holder) -> None:
        moment = monotonic()
        if moment - self._recorded.get(holder.id, -_USE_SECONDS) < _USE_SECONDS:
            return
        if len(self._recorded) > 10_000:
            self._recorded.clear()
        self._recorded[holder.id] = moment
        task = asyncio.get_running_loop().create_task(self._write(holder))
        # The loop keeps only a weak reference to a task.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, holder: Holder) -> None:
        try:
            await offload(lambda: self._holders().record_use(holder))
        except Exception as error:  # noqa: BLE001  (also of a database that is being closed; nobody waits for this)
            # The request was answered long ago. Forgotten here, so that the next use is written.
            self._recorded.pop(holder.id, None)
            _log.debug("The last use of a token was not recorded: %r", error)


class Tokens:
    """Tokens for HTTP. Everyone manages their own; an admin also manages those of the organization."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lookup = _Lookup(context, self._rules, channel="http")

    def _rules(self) -> TokenRules:
        from prowess.policy.tokens import Tokens as TokenRules

        return TokenRules(self._context.resources.records())

    async def create(
        self,
        name: str = "",
        *,
        agent: str = "",
        scopes: Collection[str] | None = None,
        days: float | None = 90,
        organization: str = "",
        user: str = "",
    ) -> NewToken:
        """Create a token, and return it with its secret, which is not stored and cannot be shown again.

        With `agent`, it is the token of an agent of that name, which can neither approve nor administer. `scopes` are
        permissions, by default all that the actor and the user have. It expires after `days`; with None never, which only
        the operator can choose. `user` is a member for whom an admin creates it.
        """
        context = self._context
        return await offload(
            lambda: self._rules().create(
                context.actor,
                name=name,
                agent=agent,
                scopes=scopes,
                days=days,
                organization=organization,
                user=user,
            )
        )

    async def list(self, *, organization: str = "", user: str = "", everyone: bool = False) -> list[Token]:
        """Return the actor's tokens, newest first; as an admin those of a user, or of everyone."""
        context = self._context
        if not context.resources.has_records():
            return []
        return await offload(
            lambda: self._rules().list(context.actor, organization=organization, user=user, everyone=everyone)
        )

    async def revoke(self, token_id: str) -> Token:
        """Revoke a token at once, and return it. Raise `NotFound` for a token that the actor may not see."""
        context = self._context
        return await offload(lambda: self._rules().revoke(context.actor, token_id))

    async def authenticate(self, secret: str) -> Actor | None:
        """Return who may act with a token, or None if it is unknown, expired or revoked. Its use is recorded."""
        return await self._lookup.find(secret)


class SignIns:
    """Signing in to a browser: one-time codes, accounts at a provider, and web sessions."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lookup = _Lookup(context, self._rules, channel="web")

    def _rules(self) -> SignInRules:
        from prowess.policy.sign_in import SignIns as SignInRules

        return SignInRules(self._context.resources.records())

    async def create_code(self, *, organization: str = "", user: str = "") -> str:
        """Return a code that signs the actor in to a browser, once and within ten minutes.

        An admin can create one for a member. Anyone who has the code can use it, so it must never be in a URL that is logged.
        """
        context = self._context
        return await offload(lambda: self._rules().create_code(context.actor, organization=organization, user=user))

    async def use_code(self, code: str, *, client: str = "") -> NewSession:
        """Start a web session with a code. Raise `Refused` if it is unknown, expired or was used."""
        return await offload(lambda: self._rules().use_code(code, client=client))

    async def sign_in(
        self, account: Account, *, organization: str, domains: Collection[str] = (), client: str = ""
    ) -> NewSession:
        """Start a web session for an account that a provider has verified. Raise `Refused` unless the account belongs to a member.

        An unknown account whose verified email is in one of `domains` joins the organization as a new user.
        """
        return await offload(lambda: self._rules().sign_in(account, organization, domains=domains, client=client))

    async def authenticate(self, secret: str) -> Actor | None:
        """Return who may act with a web session, or None if it has ended. Each use extends it."""
        return await self._lookup.find(secret)

    async def sign_out(self, secret: str) -> None:
        """End a web session. Nothing happens if it has ended."""
        await offload(lambda: self._rules().end(secret))

    async def list(self) -> list[WebSession]:
        """Return the actor's own web sessions, newest first."""
        context = self._context
        return await offload(lambda: self._rules().list(context.actor))

    async def revoke(self, session_id: str) -> None:
        """End one of the actor's own web sessions at once. Raise `NotFound` if it does not exist."""
        context = self._context
        await offload(lambda: self._rules().revoke(context.actor, session_id))
