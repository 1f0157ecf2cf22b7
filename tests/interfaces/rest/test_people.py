"""Members, tokens and web sessions over HTTP: what each caller may see and do, and how people sign in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest
from starlette.testclient import TestClient

from prowess import Prowess
from prowess.interfaces.auth.tokens import find_callers, find_session_callers
from prowess.interfaces.server import make_app
from prowess.policy.tokens import NewToken

KEY = b"0123456789abcdef0123456789abcdef"


class Server:
    """A server with the organizations acme (admin ann, member bob) and globex (admin gus), and a client for each token."""

    def __init__(self, engine: Prowess, **options: Any) -> None:
        self.engine = engine
        self._app = make_app(
            engine,
            callers=find_callers(engine),
            cookies=find_session_callers(engine),
            keys=[KEY],
            hosts=("testserver",),
            **options,
        )
        self.tokens = asyncio.run(self._prepare())

    async def _prepare(self) -> dict[str, NewToken]:
        engine, made = self.engine, {"operator": await self.engine.tokens.create("operator")}
        for organization, admin in (("acme", "ann"), ("globex", "gus")):
            await engine.organizations.create(organization)
            await engine.users.add(admin, organization=organization, admin=True)
        await engine.users.add("bob", organization="acme")
        for organization, user in (("acme", "ann"), ("acme", "bob"), ("globex", "gus")):
            made[user] = await engine.tokens.create("laptop", organization=organization, user=user)
        made["agent"] = await engine.tokens.create(agent="builder", organization="acme", user="ann")
        return made

    def client(self, who: str = "", url: str = "http://testserver") -> TestClient:
        headers = {"authorization": f"Bearer {self.tokens[who].secret}"} if who else {}
        return TestClient(self._app, base_url=url, headers=headers, raise_server_exceptions=False)


@pytest.fixture
def start(place: Any) -> Generator[Callable[..., Server]]:
    engine = place.open()
    yield lambda **options: Server(engine, **options)
    asyncio.run(engine.close())


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    return start()


def test_me_says_who_the_token_lets_act(server: Server) -> None:
    assert server.client("bob").get("/api/v1/me").json() == {
        "organization_id": "acme",
        "user_id": "bob",
        "name": "bob",
        "kind": "person",
        "permissions": ["approvals.resolve", "skills.read", "skills.run", "skills.write"],
        "channel": "http",
    }
    agent = server.client("agent").get("/api/v1/me").json()
    assert (agent["kind"], agent["user_id"], agent["name"]) == ("agent", "ann", "builder")
    assert agent["permissions"] == ["skills.read", "skills.run", "skills.write"]
    assert server.client().get("/api/v1/me").status_code == 401


def test_an_admin_adds_changes_and_removes_members(server: Server) -> None:
    ann = server.client("ann")

    added = ann.post("/api/v1/members", json={"user_id": "eve", "permissions": ["skills.read"]})
    changed = ann.put("/api/v1/members/eve/permissions", json={"permissions": ["skills.read", "skills.run"]})
    removed = ann.delete("/api/v1/members/eve")
    again = ann.delete("/api/v1/members/eve")

    assert [one.status_code for one in (added, changed, removed, again)] == [201, 200, 200, 404]
    assert added.json()["permissions"] == ["skills.read"]
    assert changed.json()["permissions"] == ["skills.read", "skills.run"]
    assert removed.json()["deactivated_at"] is not None
    assert [one["user_id"] for one in ann.get("/api/v1/members").json()["items"]] == ["ann", "bob", "eve"]


def test_a_body_cannot_choose_more_than_its_fields(server: Server) -> None:
    ann = server.client("ann")
    for body in ({"user_id": "eve", "organization_id": "globex"}, {"user_id": "eve", "role": "admin"}, {}):
        assert ann.post("/api/v1/members", json=body).status_code == 422
    made = ann.post("/api/v1/tokens", json={"name": "x", "organization_id": "globex"})
    assert made.status_code == 422


@pytest.mark.parametrize("who", ["bob", "agent"])
def test_nobody_but_an_admin_manages_members(server: Server, who: str) -> None:
    client = server.client(who)

    assert client.get("/api/v1/members").status_code == 403
    assert client.post("/api/v1/members", json={"user_id": "eve"}).status_code == 403
    assert client.put("/api/v1/members/bob/permissions", json={"admin": True}).status_code == 403
    assert client.delete("/api/v1/members/ann").status_code == 403
    assert client.post("/api/v1/organizations", json={"id": "mine"}).status_code == 403
    assert client.delete("/api/v1/organizations/acme").status_code == 403


def test_a_foreign_organization_member_and_token_answer_like_unknown_ones(server: Server) -> None:
    ann, gus = server.client("ann"), server.tokens["gus"].token.id
    unknown = "f" * 16

    def answer(method: str, path: str, name: str) -> tuple[int, str]:
        response = ann.request(method, path)
        return response.status_code, response.text.replace(name, "NAME")

    pairs = [
        ("GET", "/api/v1/organizations/{}", "globex", "nowhere"),
        ("GET", "/api/v1/members?organization={}", "globex", "nowhere"),
        ("GET", "/api/v1/members/{}", "gus", "nobody"),
        ("DELETE", "/api/v1/members/{}", "gus", "nobody"),
        ("DELETE", "/api/v1/tokens/{}", gus, unknown),
        ("DELETE", "/api/v1/web-sessions/{}", gus, unknown),
    ]
    for method, path, foreign, none in pairs:
        assert answer(method, path.format(foreign), foreign) == answer(method, path.format(none), none)
        assert answer(method, path.format(foreign), foreign)[0] == 404


def test_the_operator_manages_all_organizations(server: Server) -> None:
    operator = server.client("operator")

    made = operator.post("/api/v1/organizations", json={"id": "initech", "name": "Initech"})
    added = operator.post("/api/v1/members?organization=initech", json={"user_id": "ian", "admin": True})
    token = operator.post("/api/v1/tokens?organization=initech", json={"user_id": "ian", "expires_days": None})
    ended = operator.delete("/api/v1/organizations/initech")

    assert [one.status_code for one in (made, added, token, ended)] == [201, 201, 201, 200]
    assert [one["id"] for one in operator.get("/api/v1/organizations").json()["items"]] == ["acme", "globex", "initech"]
    secret = token.json()["token"]
    assert server.client().get("/api/v1/me", headers={"authorization": f"Bearer {secret}"}).status_code == 401


def test_everyone_creates_and_revokes_tokens_with_no_more_than_their_own_permissions(server: Server) -> None:
    bob = server.client("bob")

    made = bob.post("/api/v1/tokens", json={"name": "ci", "scopes": ["skills.read"], "expires_days": 7})
    secret, number = made.json()["token"], made.json()["id"]
    narrow = {"authorization": f"Bearer {secret}"}

    assert made.status_code == 201
    assert bob.post("/api/v1/tokens", json={"scopes": ["admin"]}).status_code == 403
    assert server.client().post("/api/v1/tokens", json={"scopes": ["skills.run"]}, headers=narrow).status_code == 403
    assert server.client("agent").post("/api/v1/tokens", json={}).status_code == 403
    assert secret not in bob.get("/api/v1/tokens").text
    assert bob.delete(f"/api/v1/tokens/{number}").json()["state"] == "revoked"
    assert server.client().get("/api/v1/me", headers=narrow).status_code == 401


def test_a_token_revokes_itself_but_none_with_permissions_that_it_lacks(server: Server) -> None:
    bob, others = server.client("bob"), {}
    for scopes in (["skills.read"], ["skills.read", "skills.run"]):
        others[len(scopes)] = bob.post("/api/v1/tokens", json={"scopes": scopes}).json()
    narrow = server.client()
    narrow.headers["authorization"] = f"Bearer {others[1]['token']}"
    equal = narrow.post("/api/v1/tokens", json={}).json()

    refused = narrow.delete(f"/api/v1/tokens/{others[2]['id']}")
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        f"Your token cannot revoke {others[2]['id']!r}, which has skills.run.",
    )
    assert narrow.delete(f"/api/v1/tokens/{server.tokens['bob'].token.id}").status_code == 403
    assert {one["state"] for one in bob.get("/api/v1/tokens").json()["items"]} == {"active"}
    denied = [one for one in server.client("ann").get("/api/v1/audit").json()["items"] if one["outcome"] == "denied"]
    assert [(one["actor"], one["action"]) for one in denied] == [("bob", "token")] * 2

    assert narrow.delete(f"/api/v1/tokens/{equal['id']}").json()["state"] == "revoked"
    assert narrow.delete(f"/api/v1/tokens/{others[1]['id']}").json()["state"] == "revoked"
    assert narrow.get("/api/v1/me").status_code == 401
    assert bob.delete(f"/api/v1/tokens/{others[2]['id']}").json()["state"] == "revoked"


def test_a_token_with_admin_and_a_web_session_revoke_tokens_with_other_permissions(server: Server) -> None:
    bob, ann = server.client("bob"), server.client("ann")
    made = [bob.post("/api/v1/tokens", json={"scopes": ["skills.run"]}).json()["id"] for _ in range(2)]
    narrow = {"authorization": f"Bearer {ann.post('/api/v1/tokens', json={'scopes': ['admin']}).json()['token']}"}
    browser = server.client()
    code = asyncio.run(server.engine.sign_ins.create_code(organization="acme", user="bob"))
    browser.post("/api/v1/sign-in", json={"code": code})

    assert server.client().delete(f"/api/v1/tokens/{made[0]}", headers=narrow).json()["state"] == "revoked"
    assert browser.delete(f"/api/v1/tokens/{made[1]}", headers={"origin": "http://testserver"}).status_code == 200


def test_a_user_who_lost_a_permission_revokes_tokens_that_have_it_in_their_scopes(server: Server) -> None:
    bob = server.client("bob")
    other = bob.post("/api/v1/tokens", json={"scopes": ["skills.read", "skills.run"]}).json()["id"]
    server.client("ann").put("/api/v1/members/bob/permissions", json={"permissions": ["skills.read"]})
    assert bob.delete(f"/api/v1/tokens/{other}").json()["state"] == "revoked"


def test_a_token_ends_web_sessions_only_with_all_permissions_of_its_user(server: Server) -> None:
    bob, browser = server.client("bob"), server.client()
    code = asyncio.run(server.engine.sign_ins.create_code(organization="acme", user="bob"))
    browser.post("/api/v1/sign-in", json={"code": code})
    [session] = bob.get("/api/v1/web-sessions").json()["items"]
    narrow = bob.post("/api/v1/tokens", json={"scopes": ["skills.read"]}).json()["token"]
    path, headers = f"/api/v1/web-sessions/{session['id']}", {"authorization": f"Bearer {narrow}"}

    assert server.client().delete(path, headers=headers).status_code == 403
    assert browser.get("/api/v1/me").status_code == 200
    assert bob.delete(path).status_code == 204
    assert browser.get("/api/v1/me").status_code == 401


def test_a_code_signs_a_person_in_once(server: Server) -> None:
    code = asyncio.run(server.engine.sign_ins.create_code(organization="acme", user="bob"))
    browser = server.client()

    signed_in = browser.post("/api/v1/sign-in", json={"code": code}, headers={"user-agent": "Firefox"})
    cookie = signed_in.headers["set-cookie"]
    me = browser.get("/api/v1/me")
    sessions = browser.get("/api/v1/web-sessions").json()["items"]

    assert (signed_in.status_code, signed_in.content) == (204, b"")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert (me.json()["user_id"], me.json()["channel"]) == ("bob", "web")
    assert [(one["how"], one["client"]) for one in sessions] == [("code", "Firefox")]
    for wrong in (code, "unknown", "x" * 200):
        assert server.client().post("/api/v1/sign-in", json={"code": wrong}).status_code == 403


def test_an_admin_in_a_browser_decides_nothing_about_the_machine_of_the_server(server: Server) -> None:
    code = asyncio.run(server.engine.sign_ins.create_code(organization="acme", user="ann"))
    browser = server.client()
    browser.post("/api/v1/sign-in", json={"code": code})
    page = {"origin": "http://testserver"}

    assert browser.patch("/api/v1/settings", json={"approval_minutes": 30}, headers=page).status_code == 200
    for setting in (
        {"host_routes": {"api.example.com": "http://127.0.0.1:8080"}},
        {"allowed_binaries": ["bash"]},
        {"skill_roots": ["/"]},
    ):
        assert browser.patch("/api/v1/settings", json=setting, headers=page).status_code == 403


def test_the_cookie_is_for_https_alone_if_browsers_use_https(start: Callable[..., Server]) -> None:
    server = start(public_url="https://testserver")
    code = asyncio.run(server.engine.sign_ins.create_code())

    assert "Secure" in server.client().post("/api/v1/sign-in", json={"code": code}).headers["set-cookie"]


def test_signing_out_ends_the_session_on_the_server(server: Server) -> None:
    code = asyncio.run(server.engine.sign_ins.create_code())
    browser = server.client()
    browser.post("/api/v1/sign-in", json={"code": code})
    kept = dict(browser.cookies)

    origin = {"origin": "http://testserver"}
    assert browser.get("/api/v1/me").json()["user_id"] == ""
    assert browser.post("/api/v1/sign-out", headers=origin).status_code == 204
    assert dict(browser.cookies) == {}
    thief = server.client()
    thief.cookies.update(kept)
    assert thief.get("/api/v1/me").status_code == 401
    assert browser.post("/api/v1/sign-out", headers=origin).status_code == 204


def test_a_person_ends_another_browser_of_theirs(server: Server) -> None:
    browsers = []
    for _ in range(2):
        code = asyncio.run(server.engine.sign_ins.create_code(organization="acme", user="bob"))
        browsers.append(server.client())
        browsers[-1].post("/api/v1/sign-in", json={"code": code})
    first, second = browsers
    ids = {one["id"] for one in server.client("bob").get("/api/v1/web-sessions").json()["items"]}

    for number in ids:
        assert server.client("ann").delete(f"/api/v1/web-sessions/{number}").status_code == 404
        assert server.client("bob").delete(f"/api/v1/web-sessions/{number}").status_code == 204

    assert [one.get("/api/v1/me").status_code for one in (first, second)] == [401, 401]


def test_removing_a_member_ends_their_token_and_browser_at_once(server: Server) -> None:
    code = asyncio.run(server.engine.sign_ins.create_code(organization="acme", user="bob"))
    browser = server.client()
    browser.post("/api/v1/sign-in", json={"code": code})

    server.client("ann").delete("/api/v1/members/bob")

    assert browser.get("/api/v1/me").status_code == 401
    assert server.client("bob").get("/api/v1/me").status_code == 401
