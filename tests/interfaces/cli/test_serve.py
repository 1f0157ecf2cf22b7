"""`prowess serve`: start, sign-in, MCP, refusals and shutdown of the process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SKILL = "---\nname: release-notes\ndescription: Writes release notes from merged changes.\n---\n\nWrite.\n"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
STREAM = {"accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Running:
    """A server process, and what it printed when it was ready."""

    process: subprocess.Popen[str]
    url: str
    printed: str
    home: Path

    def token(self, name: str = "server-token") -> dict[str, str]:
        return {"authorization": f"Bearer {(self.home / name).read_text().strip()}"}

    def get(self, path: str, **headers: str):
        return httpx2.get(self.url + path, headers={**self.token(), **headers}, timeout=60)


def environment_of(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "PROWESS_HOME": str(folder / "home"),
        "PROWESS_TRUSTED_FOLDERS": str(folder),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
    }


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "prowess", "serve", "--port", "0", "--workspace", str(folder / "work"), *arguments]


def filled(folder: Path) -> Path:
    (folder / "work/.agents/skills/release-notes").mkdir(parents=True)
    (folder / "work/.agents/skills/release-notes/SKILL.md").write_text(SKILL)
    return folder


@contextmanager
def running(folder: Path, *arguments: str, **variables: str) -> Generator[Running]:
    environment = {**environment_of(folder), **variables}
    with subprocess.Popen(
        command(folder, *arguments), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        printed: list[str] = []
        for line in process.stderr:
            printed.append(line)
            if "Ctrl+C" in line:
                break
        found = re.search(r"running at (http://\S+)", "".join(printed))
        assert found, "".join(printed)
        try:
            yield Running(process, found[1], "".join(printed), folder / "home")
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Generator[Running]:
    """One server for the tests that do not change it."""
    with running(filled(tmp_path_factory.mktemp("serve")), "--log") as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path)


def refused(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        env={**environment_of(folder), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_first_start_makes_two_tokens_that_only_their_owner_can_read(server):
    for name in ("server-token", "token"):
        assert stat.S_IMODE((server.home / name).stat().st_mode) == 0o600
        assert (server.home / name).read_text().strip() not in server.printed
        assert str(server.home / name) in server.printed
    assert server.get("/api/v1/settings").status_code == 200
    agent = httpx2.put(
        f"{server.url}/api/v1/settings/approval_days", headers=server.token("token"), json={"value": 3}, timeout=60
    )
    assert agent.status_code == 403


def test_the_command_that_it_prints_works(server):
    line = re.search(r"^  (curl .*)$", server.printed, re.MULTILINE)[1]
    answer = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)
    assert len(json.loads(answer.stdout)["items"]) == 3


def test_the_sign_in_link_works_once_and_gives_a_cookie_that_scripts_cannot_read(server):
    link = re.search(r"http://\S+/sign-in#(\S+)", server.printed)
    with httpx2.Client(base_url=server.url, timeout=60, headers={"origin": server.url}) as browser:
        assert browser.get("/sign-in").status_code == 200
        assert browser.get("/api/v1/settings").status_code == 401
        signed_in = browser.post("/api/v1/sign-in", json={"code": link[1]})
        assert signed_in.status_code == 204
        cookie = signed_in.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/api/v1/settings").status_code == 200
        assert browser.put("/api/v1/settings/approval_days", json={"value": 30}).status_code == 200
    again = httpx2.post(f"{server.url}/api/v1/sign-in", json={"code": link[1]}, timeout=60)
    assert again.status_code == 403
    assert again.json()["hint"]


@pytest.mark.few(1)
@pytest.mark.parametrize("token", ["token", "server-token"])
def test_an_mcp_client_works_with_the_server_and_is_always_an_agent(server, token):
    async def use():
        web = httpx2.AsyncClient(headers=server.token(token), timeout=60)
        transport = streamable_http_client(f"{server.url}/mcp", http_client=web)
        async with web, Client(transport, mode="auto") as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            found = await client.call_tool("search_skills", {"query": "release notes"})
            return tools, found.structured_content

    tools, found = asyncio.run(use())
    assert "search_skills" in tools
    assert not {name for name in tools if "approv" in name}
    assert "release-notes" in str(found)


@pytest.mark.long
def test_the_log_has_a_line_for_each_request_and_no_secret(folder):
    with running(folder, "--log") as server:
        httpx2.get(f"{server.url}/api/v1/settings?secret=1", headers=server.token(), timeout=60)
        line = server.process.stdout.readline()
    assert '"path": "/api/v1/settings"' in line
    assert "secret" not in line
    assert server.token()["authorization"] not in line


def test_it_does_not_listen_for_others_before_there_is_a_token(folder):
    answer = refused(folder, "--host", "0.0.0.0")
    assert answer.returncode == 5
    assert "prowess token create" in answer.stderr
    assert not list((folder / "home").glob("*token*"))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--database", "postgresql://db.invalid/x"], {}, "openssl rand -hex 32"),
        (["--database", "postgresql://db.invalid/x"], {"PROWESS_SECRET_KEY": "short"}, "at least 32"),
        (["--database", "mysql://db.invalid/x"], {"PROWESS_SECRET_KEY": "k" * 32}, "'mysql' are not supported"),
        (["--database", "/srv/agents.db"], {"PROWESS_SECRET_KEY": "k" * 32}, "The database URL is not valid."),
        (["--allow-host", "*"], {}, "Invalid host name"),
        (["--allow-origin", "*"], {}, "--allow-origin"),
        (["--allow-origin", "http://[::1"], {}, "--allow-origin"),
        (["--public-url", "skills.example"], {}, "--public-url"),
        (["--public-url", "https://skills.example/path"], {}, "--public-url"),
        (["--trust-proxy", "*"], {}, "--trust-proxy"),
        (["--host", "203.0.113.7"], {"PROWESS_OIDC_ISSUER": "https://id.example"}, "PROWESS_OIDC_CLIENT_ID"),
    ],
)
def test_options_that_cannot_be_right_are_refused_with_what_to_do(folder, arguments, variables, words):
    answer = refused(folder, *arguments, **variables)
    assert answer.returncode not in (0, 1)
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_with_streams_open_and_the_streams_end_properly(folder, number, code):
    with running(folder) as server:
        headers = {**STREAM, **server.token("token")}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        greeted = httpx2.post(f"{server.url}/mcp", headers=headers, json=body, timeout=60)
        headers["mcp-session-id"] = greeted.headers["mcp-session-id"]
        ended = threading.Event()
        with (
            httpx2.stream("GET", f"{server.url}/mcp", headers=headers, timeout=60) as mcp,
            httpx2.stream("GET", f"{server.url}/api/v1/events", headers=server.token(), timeout=60) as events,
        ):
            assert (mcp.status_code, events.status_code) == (200, 200)
            server.process.send_signal(number)

            def read() -> None:
                for stream in (mcp, events):
                    for _ in stream.iter_bytes():
                        pass  # an incomplete chunk would raise
                ended.set()

            reader = threading.Thread(target=read)
            reader.start()
            assert server.process.wait(timeout=60) == code
            reader.join(timeout=60)
            assert ended.is_set()
        rest = server.process.stderr.read()
    assert "Traceback" not in rest
    assert "ERROR" not in rest


@pytest.mark.long
def test_a_replica_waits_for_its_database_and_resumes_by_itself_when_it_comes_back(folder, stoppable_postgres):
    url = stoppable_postgres.get_uri()
    key = {"PROWESS_SECRET_KEY": "k" * 32, "PROWESS_SYSTEM_SKILLS": "off"}
    environment = {**environment_of(folder), **key, "PROWESS_DATABASE_URL": url}
    create = [sys.executable, "-m", "prowess", "token", "create", "ci", "--scopes", "skills.read", "--expires", "never"]
    made = subprocess.run(create, env=environment, capture_output=True, text=True, timeout=120, check=True)
    headers = {"authorization": f"Bearer {made.stdout.strip()}"}

    def get(path: str):
        return httpx2.get(server.url + path, headers=headers, timeout=60)

    def check_unavailable() -> None:
        for path in ("/readyz", "/api/v1/settings", "/api/v1/skills", "/metrics", "/mcp"):
            answer = get(path)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "postgres" not in answer.text
        assert get("/healthz").status_code == 200

    def wait_until_ready() -> None:
        while get("/readyz").status_code != 200:
            pass

    def wait_for_worker() -> None:
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(url) as connection:
            while not connection.execute("SELECT 1 FROM job_workers").fetchall():
                pass

    stoppable_postgres.stop()
    with running(folder, "--database", url, **key) as server:
        assert not list((folder / "home").glob("*token"))
        check_unavailable()
        for _ in range(2):
            stoppable_postgres.start()
            wait_until_ready()
            assert get("/api/v1/settings").status_code == 200
            wait_for_worker()
            stoppable_postgres.stop()
            check_unavailable()
