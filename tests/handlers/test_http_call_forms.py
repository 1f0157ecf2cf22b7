"""http_call in the forms in which it is written: the examples of the documentation, sent to a server on loopback."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qsl, urlsplit

import pytest

from prowess.handlers.http_call import HttpCallHandler
from prowess.net.client import GuardedHttpClient
from prowess.policy.grants import Grants
from prowess.run.call import Call
from prowess.skill.forms.conversion import read_package, write_package
from prowess.skill.needs import read_needs
from prowess.skill.package import Package
from prowess.skill.profiles.declarations import check_requests

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http-calls.md"
DESCRIPTOR, SIDECAR = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
SKILL_MD = "---\nname: issue-finder\ndescription: Finds the issues of a project by their words.\n---\nFinds issues.\n"
PACKAGES = {
    "descriptor": Package.of_texts("issue-finder", {"issue-finder.yaml": DESCRIPTOR}),
    "sidecar": Package.of_texts("issue-finder", {"SKILL.md": SKILL_MD, "agents/prowess.yaml": SIDECAR}),
}


@pytest.fixture
def asked() -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """The port of a server, and what it was asked: path and authorization."""
    heard: list[tuple[str, str]] = []

    class Issues(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append((self.path, self.headers["Authorization"]))
            told = json.dumps({"items": [{"title": "It hangs"}, {"title": "It waits"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Issues)
    serving = Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server.server_port, heard
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.mark.parametrize("form", PACKAGES)
def test_the_example_of_the_page_asks_and_gives_what_it_says(form, asked, call_of):
    port, heard = asked
    skill = read_package(PACKAGES[form]).skill
    artifact = next(one for one in skill.artifacts if one.kind == "http_call")
    needs = read_needs(skill)

    async def grants_of(call: Call) -> Grants:
        routes = {"api.example.com": f"http://127.0.0.1:{port}"}
        return Grants(hosts=needs.hosts, routes=routes, env=dict.fromkeys(needs.env, "sk-canary-91"))

    outbound = GuardedHttpClient()
    about = {"extra": skill.extra, "parameters": skill.parameters, "output_schema": skill.output_schema}
    if form == "sidecar":
        about["parameters"] = read_package(PACKAGES["descriptor"]).skill.parameters
    call = call_of(artifact, {"project": "a/b", "words": "time out"}, skill=about)
    output = asyncio.run(HttpCallHandler(outbound, grants_of).run(call))
    outbound.close()
    assert output.data == ["It hangs", "It waits"]
    path, authorization = heard[0]
    assert (urlsplit(path).path, authorization) == ("/projects/a%2Fb/issues", "Bearer sk-canary-91")
    assert parse_qsl(urlsplit(path).query) == [("q", "time out"), ("per_page", "20")]


@pytest.mark.parametrize("form", PACKAGES)
def test_the_example_of_the_page_has_no_problems(form):
    reading = read_package(PACKAGES[form])
    assert [problem for problem in reading.problems if problem.severity == "error"] == []
    assert list(check_requests(reading)) == []


def test_its_settings_come_back_from_the_native_form():
    package = PACKAGES["descriptor"]
    skill = read_package(package).skill
    native = write_package(skill, package, "native").package
    again = read_package(native).skill
    assert (again.artifact("handler").metadata, again.artifact("handler").handler) == (
        skill.artifact("handler").metadata,
        skill.artifact("handler").handler,
    )


@pytest.mark.parametrize(
    ("changed", "by", "told"),
    [
        ("https://api.example.com/projects", "https://{{ host }}/projects", "literal host"),
        ("env: [ISSUES_API_KEY]", "env: []", "not declared"),
        ("query:", "querry:", "unknown field 'querry'"),
        ("items.*.title}", "items.*.title, as: pdf}", "is not valid"),
    ],
)
@pytest.mark.parametrize("form", PACKAGES)
def test_a_request_that_could_not_be_sent_is_a_problem_of_the_skill(form, changed, by, told):
    package = PACKAGES[form]
    texts = {file.path: file.content.decode().replace(changed, by) for file in package.files}
    problems = list(check_requests(read_package(Package.of_texts("issue-finder", texts))))
    assert [problem.code for problem in problems] == ["request-invalid"]
    assert told in problems[0].message
