"""Two organizations with people and agents of all kinds, each with a token, on one server."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

from prowess import Prowess
from prowess.interfaces.server import make_app
from prowess.policy.actor import PERMISSIONS

OWNER = "admin"
"""The caller to whom everything belongs that a test makes."""

MEMBERS: dict[str, tuple[str, str, frozenset[str]]] = {
    "admin": ("acme", "ann", frozenset(PERMISSIONS)),
    "reader": ("acme", "rob", frozenset({"skills.read"})),
    "writer": ("acme", "wes", frozenset({"skills.read", "skills.write"})),
    "runner": ("acme", "ray", frozenset({"skills.read", "skills.run"})),
    "approver": ("acme", "amy", frozenset({"skills.read", "approvals.resolve"})),
    "other user": ("acme", "bob", frozenset(PERMISSIONS - {"admin"})),
    "other organization": ("globex", "eve", frozenset(PERMISSIONS)),
}
"""Callers who are people: their organization, user and permissions."""

AGENT, EXPIRED, REVOKED, NOBODY = "agent", "expired token", "revoked token", "nobody"
CALLERS = (*MEMBERS, AGENT, EXPIRED, REVOKED, NOBODY)
STRANGERS = (EXPIRED, REVOKED, NOBODY)
"""Callers whom the server does not know."""

ENABLED = "invoices"
"""A skill of both organizations."""

PERMITTED: dict[str, frozenset[str]] = {name: permissions for name, (_, _, permissions) in MEMBERS.items()} | {
    AGENT: frozenset({"skills.read", "skills.write", "skills.run"})
}


@dataclass
class World:
    """A server with all these callers."""

    engine: Prowess
    client: TestClient
    tokens: dict[str, str]
    made: int = field(default=0)

    def send(self, caller: str, method: str, path: str, **options: Any) -> Any:
        """Send a request as one of the callers."""
        token = self.tokens[caller]
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        if method in ("POST", "PUT", "PATCH") and "json" not in options and not options.keys() & {"content", "files"}:
            options["json"] = {}
        return self.client.request(method, path, headers=headers, **options)

    def status_of_stream(self, caller: str, path: str) -> int:
        """Begin to follow a stream as one of the callers, and go away. Return the status of the response."""
        headers = [(b"host", b"testserver"), (b"accept", b"text/event-stream")]
        if self.tokens[caller]:
            headers.append((b"authorization", f"Bearer {self.tokens[caller]}".encode()))
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers}
        scope |= {"client": ("127.0.0.1", 1), "server": ("testserver", 80), "state": {}}

        async def follow() -> int:
            begun = asyncio.Event()
            statuses: list[int] = []
            asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

            async def receive() -> Any:
                message = next(asked, None)
                if message is None:
                    await begun.wait()
                return message or {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])
                    begun.set()

            await self.client.app(scope, receive, send)
            return statuses[0]

        assert self.client.portal is not None
        return self.client.portal.call(follow)

    def do(self, method: str, path: str, **options: Any) -> Any:
        """Send a request as the owner. It must succeed; return the value of the response."""
        answer = self.send(OWNER, method, path, **options)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer.json() if answer.content else None

    def name(self, kind: str) -> str:
        """Return a name that was not used before."""
        self.made += 1
        return f"{kind}-{self.made}"


async def add_people(engine: Prowess) -> dict[str, str]:
    """Add both organizations with everyone in them. Return the tokens."""
    for organization in sorted({organization for organization, _, _ in MEMBERS.values()}):
        await engine.organizations.create(organization)
    tokens = {NOBODY: ""}
    for caller, (organization, user, permissions) in MEMBERS.items():
        admin = "admin" in permissions
        await engine.users.add(user, organization=organization, admin=admin, permissions=None if admin else permissions)
        tokens[caller] = (await engine.tokens.create(organization=organization, user=user)).secret
    ann = {"organization": "acme", "user": "ann"}
    tokens[AGENT] = (await engine.tokens.create(agent="builder", **ann)).secret
    tokens[EXPIRED] = (await engine.tokens.create(days=1e-9, **ann)).secret
    revoked = await engine.tokens.create(**ann)
    await engine.tokens.revoke(revoked.token.id)
    return tokens | {REVOKED: revoked.secret}


@contextmanager
def opened(engine: Prowess) -> Generator[World]:
    """Serve an engine to all callers."""
    from prowess.interfaces.auth.tokens import find_callers

    tokens = asyncio.run(add_people(engine))
    app = make_app(engine, callers=find_callers(engine), keys=[b"k" * 32], hosts=("testserver",), approval_seconds=0)
    with TestClient(app, raise_server_exceptions=False) as client:
        world = World(engine=engine, client=client, tokens=tokens)
        text = f"---\nname: {ENABLED}\ndescription: Adds up invoices.\n---\n\n# Invoices\n\nAdd them.\n"
        for caller in (OWNER, "other organization"):
            made = world.send(caller, "POST", "/api/v1/skills", json={"slug": ENABLED, "content": text})
            assert made.status_code == 201, made.text
        yield world
    asyncio.run(engine.close())
