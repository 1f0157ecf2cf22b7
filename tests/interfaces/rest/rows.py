"""The rows of the matrix: for every route the permission it takes, a request that succeeds, and to whom its object belongs."""

from __future__ import annotations

import asyncio
import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .world import AGENT, ENABLED, OWNER, World

SIDECAR = """title: Greeter
artifacts:
  - {kind: prompt_template, name: greet, path: prompts/greet.j2}
"""
ANYONE = "token"
"""Every caller with a valid token."""
PUBLIC = ""
REGISTRY_SKILL = "acme/runbooks/registry-triage"
"""The skill of the registry that the server asks."""


def nothing(_: World) -> dict[str, str]:
    return {}


def document(slug: str) -> str:
    return f"---\nname: {slug}\ndescription: Adds up {slug}.\n---\n\n# {slug}\n\nAdd them.\n"


def make_slug(world: World) -> str:
    """Make a skill of the organization; its slug."""
    slug = world.name("skill")
    world.do("POST", "/api/v1/skills", json={"slug": slug, "content": document(slug)})
    return slug


def make_skill(world: World) -> dict[str, str]:
    """Make a skill of the organization; its id."""
    return {"id": world.do("GET", f"/api/v1/skills/{make_slug(world)}")["id"]}


def make_own_skill(world: World) -> dict[str, str]:
    """Make a skill of the owner alone."""
    slug = world.name("own")
    made = world.do("POST", "/api/v1/skills", json={"slug": slug, "content": document(slug), "scope": "user"})
    return {"id": made["id"]}


def make_fact(world: World) -> dict[str, str]:
    """Have a fact remembered for the owner."""
    return {"id": world.do("POST", "/api/v1/memory", json={"text": "It rains."})["id"]}


def make_connector(world: World) -> dict[str, str]:
    """Make a connector of the organization. Its address is not public, so nothing is ever sent to it."""
    name = world.name("connector").lower()
    world.do("PUT", f"/api/v1/connectors/{name}", json={"url": "https://127.0.0.1:1/mcp"})
    return {"name": name}


SOURCE = {"repo": "acme/nothing"}
"""A repository that does not exist: nothing is fetched from it in these tests."""


def new_source(world: World) -> dict[str, Any]:
    return {"json": {"name": world.name("source"), "source_type": "github", "config": SOURCE}}


def make_source(world: World) -> dict[str, str]:
    """Make a source of the organization."""
    return {"id": world.do("POST", "/api/v1/skills/sources", **new_source(world))["id"]}


def make_archive(slug: str) -> bytes:
    """Return a skill with a reference and a script, as a zip file."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(f"{slug}/SKILL.md", document(slug))
        archive.writestr(f"{slug}/references/guide.md", "# Guide\n")
        archive.writestr(f"{slug}/scripts/total.py", "print(1)\n")
    return held.getvalue()


def upload(world: World) -> dict[str, Any]:
    """Return the request that uploads a skill."""
    return {"content": make_archive(world.name("packed")), "headers": {"content-type": "application/zip"}}


def make_packed(world: World) -> str:
    """Import a skill with several files; its slug."""
    slug = world.name("packed")
    archive = {"content": make_archive(slug), "headers": {"content-type": "application/zip"}}
    world.do("POST", "/api/v1/skills/import", **archive)
    return slug


def make_trace(world: World) -> dict[str, str]:
    """Run a skill; there is no model, and the trace says so."""
    slug = world.name("traced")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(f"{slug}/SKILL.md", document(slug))
        archive.writestr(f"{slug}/agents/prowess.yaml", SIDECAR)
        archive.writestr(f"{slug}/prompts/greet.j2", "Greet.")
    packed = {"content": held.getvalue(), "headers": {"content-type": "application/zip"}}
    world.do("POST", "/api/v1/skills/import", **packed)
    world.send(OWNER, "POST", f"/api/v1/skills/{slug}/run", json={})
    return {"id": world.do("GET", "/api/v1/traces", params={"skill": slug})["items"][0]["id"]}


def make_ended_job(world: World) -> dict[str, str]:
    """Run a skill of the organization as a job, until it has ended."""
    job = world.do("POST", "/api/v1/jobs", json=_JOB)
    while world.do("GET", f"/api/v1/jobs/{job['id']}")["state"] in ("queued", "running"):
        time.sleep(0.02)
    return {"id": job["id"]}


def make_ended_optimization(world: World) -> dict[str, str]:
    """Start an optimization and wait for its end: there are too few queries."""
    made = world.do("POST", "/api/v1/optimizations", json=_OPTIMIZATION)
    while world.do("GET", f"/api/v1/optimizations/{made['id']}")["state"] == "running":
        time.sleep(0.02)
    return {"id": made["id"]}


def make_eval(world: World) -> dict[str, str]:
    """Evaluate a skill whose only case needs no model, until it has ended."""
    job = world.do("POST", "/api/v1/evals", json={"skill_slug": make_evaluated(world)})
    while job["state"] in ("queued", "running"):
        time.sleep(0.02)
        job = world.do("GET", f"/api/v1/jobs/{job['id']}")
    return {"id": job["result"]["run"]}


def make_compared(world: World) -> dict[str, str]:
    """Evaluate a skill, to be compared with itself."""
    made = make_eval(world)
    return {**made, "other": made["id"]}


def make_evaluated(world: World) -> str:
    """Store a skill with a case; its slug."""
    slug = world.name("measured")
    case = {"inputs": {}, "artifact": "instructions", "checks": [{"type": "contains", "value": "Add"}]}
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(f"{slug}/SKILL.md", document(slug))
        archive.writestr(f"{slug}/evals/cases.json", json.dumps({"cases": [case]}))
    packed = {"content": held.getvalue(), "headers": {"content-type": "application/zip"}}
    world.do("POST", "/api/v1/skills/import", **packed)
    return slug


_OPTIMIZATION = {"skill_slug": ENABLED, "method": "phrases"}
_JOB = {"skill_slug": ENABLED, "artifacts": ["instructions"], "items": [{}]}


def make_composition(world: World) -> dict[str, str]:
    """Store a draft of the owner, as a model would have written it."""
    from prowess.authoring.compose.checks import Checks
    from prowess.authoring.compose.draft import Draft
    from prowess.authoring.compose.files import build_package
    from prowess.storage import compositions

    draft = Draft(slug=world.name("draft"), title="Draft", description="Adds up drafts.", instructions="Add them.")
    package, owner = build_package(draft), {"organization_id": "acme"}
    row = compositions.CompositionRow(
        id=str(uuid.uuid4()), **owner, user_id="ann", created_by="ann", request="x", round=1
    )
    made = compositions.RoundRow(
        **{"composition_id": row.id, "number": 1, **owner, "actor": "ann", "model": "m", "slug": draft.slug},
        digest=package.digest,
        manifest=compositions.stored_manifest(package),
        draft=draft.model_dump(mode="json"),
        checks=Checks().as_json(),
    )
    with world.engine.context.resources.records().write() as connection:
        compositions.add(connection, row)
        compositions.add_round(connection, made, package)
    return {"id": row.id}


def make_entry(world: World) -> dict[str, str]:
    """Store a prompt of the organization."""
    entry = new_entry(world)["json"]
    world.do("POST", "/api/v1/registries/prompts", json=entry)
    return {"kind": "prompts", "id": entry["id"], "version": entry["version"]}


def new_entry(_: World) -> dict[str, Any]:
    """Return the request that stores a prompt. Its id is like no other, so that no hint suggests another one."""
    return {"json": {"id": uuid.uuid4().hex, "version": "1.0.0", "content": {"template": "Write."}}}


def make_changed_skill(world: World) -> dict[str, str]:
    """Make a skill with two versions."""
    made = make_skill(world)
    world.do("PUT", f"/api/v1/skills/{made['id']}", json={"description": "Adds them twice."})
    return made


def make_session(world: World) -> dict[str, str]:
    """Open a session of the owner, in which a skill is enabled."""
    made = world.do("POST", "/api/v1/sessions", json={"conversation": world.name("chat")})
    world.do("POST", f"/api/v1/sessions/{made['id']}/enable", json={"skill_slug": ENABLED})
    return {"id": made["id"]}


def make_conversation(world: World) -> dict[str, str]:
    """Begin a conversation of the owner. There is no model, so the turn fails, and the message stays."""
    made = make_session(world)
    world.do("POST", f"/api/v1/sessions/{made['id']}/messages", json={"message": "hello"})
    return made


def make_approval(world: World) -> dict[str, str]:
    """Let the owner's agent ask for something that needs an approval."""
    asked = world.send(AGENT, "DELETE", f"/api/v1/skills/{make_slug(world)}")
    return {"id": asked.json()["approval_id"]}


def make_member(world: World) -> dict[str, str]:
    """Add a user to the organization."""
    user = world.name("user")
    world.do("POST", "/api/v1/members", json={"user_id": user})
    return {"user": user}


def make_token(world: World) -> dict[str, str]:
    """Make a token of the owner."""
    return {"id": world.do("POST", "/api/v1/tokens", json={"name": world.name("token")})["id"]}


def make_code(world: World) -> str:
    """Return a code with which the owner signs in to a browser."""
    return asyncio.run(world.engine.sign_ins.create_code(organization="acme", user="ann"))


def make_web_session(world: World) -> dict[str, str]:
    """Sign the owner in to a browser."""
    return {"id": asyncio.run(world.engine.sign_ins.use_code(make_code(world))).session.id}


def new_skill(world: World) -> dict[str, Any]:
    """Return the request that creates a skill."""
    slug = world.name("new")
    return {"json": {"slug": slug, "content": document(slug)}}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One route.

    `make` makes an object as its owner, and returns the parameters of the path. `owner` says who sees it: all members of
    the organization, or one user with their agents; '' for a path that names no object.
    """

    needs: str
    make: Callable[[World], Mapping[str, str]] = nothing
    owner: Literal["", "organization", "user"] = ""
    request: Mapping[str, Any] | Callable[[World], Mapping[str, Any]] = field(default_factory=dict)
    # The request where it names what was made.
    about: Callable[[Mapping[str, str]], Mapping[str, Any]] | None = None
    status: int = 200
    exceptions: Mapping[str, int] = field(default_factory=dict)
    """Callers for whom the status is another one although they have the permission."""
    once: bool = False
    """True if a request that succeeds leaves nothing for a second one."""
    stream: bool = False
    """True for a response that does not end."""


_READ: dict[str, Any] = {"needs": "skills.read"}
_WRITE: dict[str, Any] = {"needs": "skills.write"}
_OF_SKILL: dict[str, Any] = {"make": make_skill, "owner": "organization"}
_OF_SOURCE: dict[str, Any] = {"make": make_source, "owner": "organization"}
_OF_SESSION: dict[str, Any] = {"make": make_session, "owner": "user", "exceptions": {"agent": 404}}
"""An agent has sessions of its own, and sees no others."""
_OF_CONVERSATION: dict[str, Any] = {**_OF_SESSION, "make": make_conversation}
_OF_DRAFT: dict[str, Any] = {"make": make_composition, "owner": "user", "exceptions": {"agent": 404}}
_NO_RUNS = {"writer": 403}
"""Drafting asks a model, which takes the permission to run skills, too."""
_ABOUT: dict[str, Any] = {"request": {"json": {"skill_slug": ENABLED}}}
_ASKS = {"agent": 403}
"""An agent needs an approval to change or delete a skill that it did not write."""
_PERSONS = {"agent": 403}
"""Only people can."""
_OF_CONNECTOR: dict[str, Any] = {"make": make_connector, "owner": "organization"}
_NOT_ADMIN = ("reader", "writer", "runner", "approver", "other user", "agent")

ROUTES: dict[str, Row] = {
    "GET /healthz": Row(needs=PUBLIC),
    "GET /readyz": Row(needs=PUBLIC),
    "GET /metrics": Row(**_READ),
    "GET /api/v1/settings": Row(**_READ),
    "GET /api/v1/settings/details": Row(**_READ),
    "PUT /api/v1/settings/{name}": Row(
        needs="admin", make=lambda _: {"name": "approval_days"}, request={"json": {"value": 3}}
    ),
    "DELETE /api/v1/settings/{name}": Row(needs="admin", make=lambda _: {"name": "approval_days"}),
    "GET /api/v1/skills": Row(**_READ),
    "POST /api/v1/skills": Row(**_WRITE, request=new_skill, status=201),
    "GET /api/v1/skills/sources": Row(**_READ),
    "POST /api/v1/skills/sources": Row(**_WRITE, request=new_source, status=201, exceptions=_PERSONS),
    "POST /api/v1/skills/sources/sync-stale": Row(**_WRITE, exceptions=_PERSONS),
    "POST /api/v1/skills/sources/preview": Row(
        **_WRITE, request={"json": {"source_type": "github", "config": SOURCE}}, exceptions=_PERSONS
    ),
    "GET /api/v1/skills/sources/{id}": Row(**_READ, **_OF_SOURCE),
    "PUT /api/v1/skills/sources/{id}": Row(
        **_WRITE, **_OF_SOURCE, request={"json": {"enabled": True}}, exceptions=_PERSONS
    ),
    "DELETE /api/v1/skills/sources/{id}": Row(once=True, **_WRITE, **_OF_SOURCE, status=204, exceptions=_PERSONS),
    "POST /api/v1/skills/sources/{id}/sync": Row(**_WRITE, **_OF_SOURCE, exceptions=_PERSONS),
    "GET /api/v1/skills/sources/{id}/preview": Row(**_WRITE, **_OF_SOURCE, exceptions=_PERSONS),
    "POST /api/v1/skills/parse": Row(**_READ, request={"json": {"content": document("draft")}}),
    "POST /api/v1/skills/trigger-test": Row(
        **_READ, request={"json": {"content": document("draft"), "messages": ["add up drafts"]}}
    ),
    "POST /api/v1/skills/render": Row(
        needs="skills.run",
        request={
            "json": {
                "content": document("draft"),
                "files": {"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Hello!"},
                "artifact": "greet",
            }
        },
    ),
    "GET /api/v1/kinds": Row(**_READ),
    "GET /api/v1/summary": Row(**_READ),
    "GET /api/v1/catalog": Row(**_READ, request={"params": {"facets": "true"}}),
    "GET /api/v1/skills/{id}/artifacts": Row(**_READ, **_OF_SKILL),
    "GET /api/v1/skills/registry/search": Row(**_READ, request={"params": {"q": "triage"}}),
    "GET /api/v1/skills/registry/trending": Row(**_READ),
    "GET /api/v1/skills/registry/metadata": Row(
        **_READ, request={"params": {"id": REGISTRY_SKILL}}, exceptions=_PERSONS
    ),
    "GET /api/v1/skills/{id}": Row(**_READ, **_OF_SKILL),
    "PUT /api/v1/skills/{id}": Row(
        once=True, **_WRITE, **_OF_SKILL, request={"json": {"description": "Adds more."}}, exceptions=_ASKS
    ),
    "DELETE /api/v1/skills/{id}": Row(once=True, **_WRITE, **_OF_SKILL, status=204, exceptions=_ASKS),
    "POST /api/v1/skills/validate": Row(**_READ, request=upload),
    "POST /api/v1/skills/import": Row(**_WRITE, request=upload, exceptions=_PERSONS),
    "GET /api/v1/skills/{id}/export": Row(**_READ, **_OF_SKILL),
    "GET /api/v1/skills/{id}/files": Row(**_READ, **_OF_SKILL),
    "GET /api/v1/skills/{id}/files/{path}": Row(
        **_READ, owner="organization", make=lambda world: {**make_skill(world), "path": "SKILL.md"}
    ),
    "GET /api/v1/skills/{id}/findings": Row(**_READ, **_OF_SKILL),
    "GET /api/v1/skills/{id}/versions": Row(**_READ, **_OF_SKILL),
    "GET /api/v1/skills/{id}/versions/{number}": Row(
        **_READ, owner="organization", make=lambda world: {**make_skill(world), "number": "1"}
    ),
    "GET /api/v1/skills/{id}/diff": Row(**_READ, owner="organization", make=make_changed_skill),
    "POST /api/v1/skills/{id}/rollback": Row(
        once=True,
        **_WRITE,
        owner="organization",
        make=make_changed_skill,
        request={"json": {"version": 1}},
        exceptions=_ASKS,
    ),
    "POST /api/v1/skills/{id}/fork": Row(once=True, **_WRITE, **_OF_SKILL, request={"json": {}}, status=201),
    "GET /api/v1/skills/{id}/usage": Row(**_READ, **_OF_SKILL),
    "GET /api/v1/usage": Row(**_READ),
    "POST /api/v1/match": Row(**_READ, request={"json": {"message": "add up invoices"}}),
    "POST /api/v1/search": Row(**_READ, request={"json": {"query": "invoices"}}),
    "POST /api/v1/why": Row(**_READ, request={"json": {"message": "add up invoices"}}),
    "GET /api/v1/index": Row(**_READ),
    "POST /api/v1/sessions": Row(**_READ),
    "GET /api/v1/sessions": Row(**_READ),
    "GET /api/v1/sessions/{id}": Row(**_READ, **_OF_SESSION),
    "PATCH /api/v1/sessions/{id}": Row(**_READ, **_OF_SESSION, request={"json": {"model": "large"}}),
    "DELETE /api/v1/sessions/{id}": Row(once=True, **_READ, **_OF_SESSION, status=204),
    "GET /api/v1/sessions/{id}/prompt": Row(**_READ, **_OF_SESSION),
    "POST /api/v1/sessions/{id}/prompt": Row(**_READ, **_OF_SESSION),
    "POST /api/v1/sessions/{id}/enable": Row(**_READ, **_OF_SESSION, **_ABOUT),
    "POST /api/v1/sessions/{id}/disable": Row(**_READ, **_OF_SESSION, **_ABOUT),
    "POST /api/v1/sessions/{id}/load": Row(**_READ, **_OF_SESSION, **_ABOUT),
    "POST /api/v1/sessions/{id}/decide": Row(
        **_READ, **_OF_SESSION, request={"json": {"message": "hello", "action": "answer"}}
    ),
    "POST /api/v1/sessions/{id}/messages": Row(needs="skills.run", **_OF_SESSION, request={"json": {"message": "hi"}}),
    "POST /api/v1/sessions/{id}/messages/resume": Row(needs="skills.run", **_OF_CONVERSATION),
    "GET /api/v1/sessions/{id}/messages": Row(**_READ, **_OF_SESSION),
    "GET /api/v1/sessions/{id}/messages/stream": Row(**_READ, **_OF_SESSION, status=204),
    "POST /api/v1/sessions/{id}/messages/stop": Row(needs="skills.run", **_OF_SESSION),
    "DELETE /api/v1/sessions/{id}/messages": Row(needs="skills.run", **_OF_CONVERSATION, once=True, status=204),
    "GET /api/v1/sessions/{id}/messages/export": Row(**_READ, **_OF_CONVERSATION),
    "GET /api/v1/memory": Row(**_READ),
    "POST /api/v1/memory": Row(
        needs="skills.run", request={"json": {"text": "It rains."}}, status=201, exceptions=_PERSONS
    ),
    "DELETE /api/v1/memory/{id}": Row(needs="skills.run", make=make_fact, owner="user", once=True, exceptions=_PERSONS),
    "GET /api/v1/stats/series": Row(**_READ),
    "GET /api/v1/conversations": Row(**_READ),
    "GET /api/v1/conversations/{id}": Row(**_READ, **_OF_CONVERSATION),
    "PATCH /api/v1/conversations/{id}": Row(
        needs="skills.run", **_OF_CONVERSATION, request={"json": {"title": "Locks"}}
    ),
    "GET /api/v1/models": Row(**_READ),
    # There is nothing to run in a skill of instructions, and a caller who may run it learns that.
    "POST /api/v1/sessions/{id}/run": Row(needs="skills.run", **_OF_SESSION, **_ABOUT, status=422),
    "POST /api/v1/skills/{id}/run": Row(
        needs="skills.run", make=lambda world: {"id": make_slug(world)}, owner="organization", status=422
    ),
    "POST /api/v1/skills/{id}/load": Row(
        **_READ, make=lambda world: {"id": make_slug(world)}, owner="organization", request={"json": {}}
    ),
    "GET /api/v1/sessions/{id}/events": Row(**_READ, **_OF_SESSION, stream=True),
    "GET /api/v1/events": Row(**_READ, stream=True),
    "GET /api/v1/events/list": Row(**_READ),
    "GET /api/v1/compositions": Row(**_READ),
    # No model is configured.
    "POST /api/v1/compositions": Row(**_WRITE, request={"json": {"request": "x"}}, status=503, exceptions=_NO_RUNS),
    "GET /api/v1/compositions/{id}": Row(**_READ, **_OF_DRAFT),
    "GET /api/v1/compositions/{id}/rounds": Row(**_READ, **{**_OF_DRAFT, "exceptions": {"agent": 403}}),
    "GET /api/v1/compositions/{id}/files": Row(**_READ, **{**_OF_DRAFT, "exceptions": {"agent": 403}}),
    "POST /api/v1/compositions/{id}/refine": Row(
        **_WRITE,
        **{**_OF_DRAFT, "exceptions": {"agent": 404, **_NO_RUNS}},
        request={"json": {"feedback": "Shorter."}},
        status=503,
    ),
    "POST /api/v1/compositions/{id}/back": Row(**_WRITE, **_OF_DRAFT, request={"json": {"round": 1}}),
    "POST /api/v1/compositions/{id}/approve": Row(
        **_WRITE,
        **{**_OF_DRAFT, "exceptions": {"agent": 403}},
        # The files of another round.
        request={"json": {"digest": "0" * 64}},
        status=409,
    ),
    "POST /api/v1/compositions/{id}/propose": Row(**_WRITE, **_OF_DRAFT, once=True),
    "POST /api/v1/compositions/{id}/discard": Row(**_WRITE, **_OF_DRAFT, once=True),
    "GET /api/v1/approvals": Row(**_READ),
    "GET /api/v1/approvals/{id}": Row(**_READ, make=make_approval, owner="user"),
    "POST /api/v1/approvals/{id}": Row(
        once=True, needs="approvals.resolve", make=make_approval, owner="user", request={"json": {"approved": False}}
    ),
    "POST /api/v1/approvals/{id}/revoke": Row(once=True, needs="approvals.resolve", make=make_approval, owner="user"),
    "GET /api/v1/jobs": Row(**_READ),
    "POST /api/v1/jobs": Row(needs="skills.run", request={"json": _JOB}, status=201),
    "GET /api/v1/jobs/{id}": Row(**_READ, make=make_ended_job, owner="user"),
    "GET /api/v1/jobs/{id}/results": Row(**_READ, make=make_ended_job, owner="user"),
    "POST /api/v1/jobs/{id}/cancel": Row(needs="skills.run", make=make_ended_job, owner="user", status=409),
    "POST /api/v1/jobs/{id}/retry": Row(needs="skills.run", make=make_ended_job, owner="user", status=409),
    "GET /api/v1/connectors": Row(**_READ),
    "GET /api/v1/connectors/{name}": Row(**_READ, **_OF_CONNECTOR),
    "PUT /api/v1/connectors/{name}": Row(
        needs="admin",
        make=lambda world: {"name": world.name("connector").lower()},
        request={"json": {"url": "https://mcp.example.com/mcp"}},
    ),
    "DELETE /api/v1/connectors/{name}": Row(needs="admin", **_OF_CONNECTOR, status=204, once=True),
    "GET /api/v1/connectors/{name}/tools": Row(**_READ, **_OF_CONNECTOR, status=403),
    "POST /api/v1/connectors/{name}/call": Row(
        needs="skills.run", **_OF_CONNECTOR, request={"json": {"tool": "echo"}}, status=403
    ),
    "POST /api/v1/connectors/{name}/allowed": Row(needs="approvals.resolve", **_OF_CONNECTOR, request={"json": {}}),
    "DELETE /api/v1/connectors/{name}/allowed": Row(needs="approvals.resolve", **_OF_CONNECTOR),
    "GET /api/v1/evals": Row(**_READ),
    "POST /api/v1/evals": Row(
        needs="skills.run",
        make=lambda world: {"slug": make_evaluated(world)},
        about=lambda made: {"json": {"skill_slug": made["slug"]}},
        status=201,
        owner="organization",
    ),
    "GET /api/v1/evals/{id}": Row(**_READ, make=make_eval, owner="user"),
    "GET /api/v1/evals/{id}/compare/{other}": Row(**_READ, make=make_compared, owner="user"),
    "GET /api/v1/optimizations": Row(**_READ),
    "POST /api/v1/optimizations": Row(needs="skills.run", request={"json": _OPTIMIZATION}, status=201),
    "GET /api/v1/optimizations/{id}": Row(**_READ, make=make_ended_optimization, owner="user"),
    "GET /api/v1/optimizations/{id}/diff": Row(
        **_READ, make=make_ended_optimization, owner="user", status=409, exceptions={AGENT: 403}
    ),
    "POST /api/v1/optimizations/{id}/approve": Row(
        needs="skills.write",
        make=make_ended_optimization,
        owner="user",
        request={"json": {"digest": "0" * 64}},
        status=409,
        exceptions={AGENT: 403},
    ),
    "POST /api/v1/optimizations/{id}/reject": Row(
        needs="skills.write",
        make=make_ended_optimization,
        owner="user",
        request={"json": {}},
        status=409,
        exceptions={AGENT: 403},
    ),
    "POST /api/v1/optimizations/{id}/cancel": Row(
        needs="skills.run", make=make_ended_optimization, owner="user", status=409
    ),
    "GET /api/v1/traces": Row(**_READ),
    "GET /api/v1/traces/export": Row(**_READ),
    "GET /api/v1/traces/{id}": Row(**_READ, make=make_trace, owner="user", exceptions={"agent": 404}),
    "GET /api/v1/stats": Row(**_READ),
    "GET /api/v1/registries/{kind}": Row(**_READ, make=lambda _: {"kind": "prompts"}),
    "POST /api/v1/registries/{kind}": Row(
        **_WRITE, make=lambda _: {"kind": "prompts"}, request=new_entry, exceptions=_PERSONS
    ),
    "GET /api/v1/registries/{kind}/{id}": Row(**_READ, make=make_entry, owner="organization"),
    "DELETE /api/v1/registries/{kind}/{id}/{version}": Row(
        **_WRITE, make=make_entry, owner="organization", once=True, status=204, exceptions=_PERSONS
    ),
    "GET /api/v1/roles": Row(**_READ),
    "GET /api/v1/roles/{name}": Row(**_READ, make=lambda _: {"name": "builder"}),
    "GET /api/v1/roles/{name}/prompt": Row(**_READ, make=lambda _: {"name": "builder"}),
    "GET /api/v1/tools": Row(**_READ),
    "POST /api/v1/tools/{name}": Row(**_READ, make=lambda _: {"name": "list_skills"}),
    "GET /api/v1/audit/newest": Row(needs="admin"),
    "GET /api/v1/audit": Row(needs="admin"),
    "GET /api/v1/audit/verify": Row(needs="admin"),
    "GET /api/v1/audit/skills/{slug}": Row(needs="admin", make=lambda _: {"slug": ENABLED}),
    "GET /api/v1/trust": Row(**_READ),
    "POST /api/v1/trust": Row(
        needs="approvals.resolve", request={"json": {"skills": [{"slug": ENABLED, "digest": "0" * 64}]}}
    ),
    # Skills of the database are accepted when they are written, so nothing is left to accept.
    "GET /api/v1/trust/found": Row(needs="approvals.resolve"),
    "GET /api/v1/trust/found/{slug}": Row(needs="approvals.resolve", make=lambda _: {"slug": ENABLED}, status=404),
    "DELETE /api/v1/trust/{target}": Row(needs="approvals.resolve", make=lambda _: {"target": "nothing"}, status=404),
    "PATCH /api/v1/settings": Row(needs="admin", request={"json": {"approval_days": 3}}),
    "GET /api/v1/env": Row(**_READ),
    # Variables of the server are granted by its operator alone.
    "PUT /api/v1/env/{slug}/{name}": Row(needs="admin", make=lambda _: {"slug": ENABLED, "name": "KEY"}, status=403),
    "DELETE /api/v1/env/{slug}/{name}": Row(needs="admin", make=lambda _: {"slug": ENABLED, "name": "KEY"}, status=403),
    "GET /api/v1/me": Row(needs=ANYONE),
    "GET /api/v1/organizations": Row(needs=ANYONE),
    # The operator alone creates and removes organizations, and is no member of any.
    "POST /api/v1/organizations": Row(needs="admin", request={"json": {"id": "initech"}}, status=403),
    "GET /api/v1/organizations/{id}": Row(needs=ANYONE, make=lambda _: {"id": "acme"}, owner="organization"),
    "DELETE /api/v1/organizations/{id}": Row(needs="admin", make=lambda _: {"id": "acme"}, status=403),
    "GET /api/v1/members": Row(needs="admin"),
    "POST /api/v1/members": Row(
        needs="admin", request=lambda world: {"json": {"user_id": world.name("user")}}, status=201
    ),
    "GET /api/v1/members/{user}": Row(
        needs=ANYONE, make=make_member, owner="organization", exceptions=dict.fromkeys(_NOT_ADMIN, 404)
    ),
    "DELETE /api/v1/members/{user}": Row(once=True, needs="admin", make=make_member, owner="organization"),
    "PUT /api/v1/members/{user}/permissions": Row(
        needs="admin", make=make_member, owner="organization", request={"json": {"permissions": ["skills.read"]}}
    ),
    "GET /api/v1/tokens": Row(needs=ANYONE, exceptions=_PERSONS),
    "POST /api/v1/tokens": Row(needs=ANYONE, request={"json": {"name": "laptop"}}, status=201, exceptions=_PERSONS),
    "DELETE /api/v1/tokens/{id}": Row(once=True, needs=ANYONE, make=make_token, owner="user", exceptions=_PERSONS),
    "GET /api/v1/web-sessions": Row(needs=ANYONE, exceptions=_PERSONS),
    "DELETE /api/v1/web-sessions/{id}": Row(
        once=True,
        needs=ANYONE,
        make=make_web_session,
        owner="user",
        status=204,
        exceptions=_PERSONS,
    ),
    "POST /api/v1/sign-in": Row(needs=PUBLIC, request=lambda world: {"json": {"code": make_code(world)}}, status=204),
    "POST /api/v1/sign-out": Row(needs=PUBLIC, status=204),
    # Without a provider, as here.
    "GET /api/v1/sign-in/oidc": Row(needs=PUBLIC, status=404),
    "GET /api/v1/sign-in/oidc/callback": Row(needs=PUBLIC, status=404),
}
"""All routes."""
