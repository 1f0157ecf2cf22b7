"""Registries on this machine, with exactly the shapes of the real ones. Unknown paths and parameters are refused and noted."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit


def skill_md(slug: str, description: str = "", body: str = "Do it.") -> str:
    return f"---\nname: {slug}\ndescription: {description or f'What {slug} is for.'}\n---\n\n# {slug}\n\n{body}\n"


@dataclass
class Answer:
    """One HTTP answer."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        return self.value if isinstance(self.value, bytes) else json.dumps(self.value).encode()


class Refusal(Exception):
    """The client asked for something that the API does not have."""


@dataclass
class RegistryStub:
    """A registry. `faults` answers a path, whatever the API says; `requests` has every request, `refused` the wrong ones."""

    url: str = ""
    faults: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """The values of the header `authorization`."""

    def answer(self, path: str, params: dict[str, str]) -> Answer:
        raise NotImplementedError

    def respond(self, target: str, authorization: str) -> Answer:
        self.requests.append(target)
        self.keys.append(authorization)
        parts = urlsplit(target)
        if parts.path in self.faults:
            return self.faults[parts.path]
        params = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        try:
            return self.answer(parts.path, params)
        except Refusal as error:
            self.refused.append(f"{target}: {error}")
            return Answer({"error": "bad_request", "message": str(error)}, 400)

    @contextmanager
    def served(self) -> Generator[Self]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = stub.respond(self.path, self.headers.get("authorization", ""))
                self.send_response(answer.status)
                self.send_header(
                    "content-type",
                    "application/octet-stream" if isinstance(answer.value, bytes) else "application/json",
                )
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                with suppress(ConnectionError):  # a client that has had enough
                    self.wfile.write(answer.body)

            def do_POST(self) -> None:
                stub.refused.append(f"POST {self.path}")
                self.send_error(405)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def take(params: dict[str, str], *required: str, optional: tuple[str, ...] = ()) -> None:
    """Refuse a request with other parameters than these."""
    missing, unknown = set(required) - params.keys(), params.keys() - {*required, *optional}
    if missing or unknown:
        raise Refusal(f"missing {sorted(missing)}, unknown {sorted(unknown)}")


@dataclass
class SkillsShStub(RegistryStub):
    """skills.sh: the API of its command line, and the documented one for whoever sends `key`."""

    skills: dict[str, dict[str, Any]] = field(default_factory=dict)
    trending: list[str] = field(default_factory=list)
    audits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    extra_rows: list[Any] = field(default_factory=list)
    """Rows that every list begins with, whatever they are."""
    key: str = "sk-test"

    def add(self, id: str, *, installs: int = 10, files: Mapping[str, str] | None = None, **row: Any) -> None:
        slug = id.rpartition("/")[2]
        held = files or {"SKILL.md": skill_md(slug)}
        self.skills[id] = {"installs": installs, "files": held, "row": {"name": slug, **row}}

    def _row(self, id: str, *, v1: bool) -> dict[str, Any]:
        source, _, slug = id.rpartition("/")
        row = {"id": id, "source": source, "installs": self.skills[id]["installs"], **self.skills[id]["row"]}
        if not v1:
            return {"skillId": slug, **row}
        more = {"slug": slug, "sourceType": "github", "installUrl": f"https://github.com/{source}"}
        return {**more, "url": f"https://skills.sh/{id}", **row}

    def _found(self, params: dict[str, str], *, v1: bool) -> list[Any]:
        if len(params["q"]) < 2:
            raise Refusal("q is too short")
        if not 1 <= int(params.get("limit", "10")) <= 200:
            raise Refusal("limit")
        owner = params.get("owner", "")
        if owner != owner.lower():
            raise Refusal("owner is not in lower case")
        words = params["q"].lower().replace("-", " ").split()
        found = [one for one in self.skills if any(word in one.lower() for word in words if len(word) > 2)]
        found = [one for one in found if not owner or one.lower().startswith(f"{owner}/")]
        return [*self.extra_rows, *(self._row(one, v1=v1) for one in found)][: int(params.get("limit", "10"))]

    def _files(self, id: str) -> list[dict[str, str]]:
        return [{"path": path, "contents": text} for path, text in self.skills[id]["files"].items()]

    def _find(self, path: str) -> str | None:
        wanted = unquote(path)
        if wanted.rpartition("/")[0] != wanted.rpartition("/")[0].lower():
            raise Refusal("owner and repo are not in lower case")
        return next((one for one in self.skills if one.lower() == wanted.lower()), None)

    def answer(self, path: str, params: dict[str, str]) -> Answer:
        if path == "/api/search":
            take(params, "q", optional=("limit", "owner"))
            return Answer({"skills": self._found(params, v1=False)})
        if path == "/api/skills/trending":
            take(params)
            return Answer(
                {"skills": [*self.extra_rows, *(self._row(one, v1=False) for one in self.trending)], "hasMore": False}
            )
        if path.startswith("/api/download/"):
            take(params)
            if path.count("/") != 5:
                raise Refusal("not owner/repo/slug")
            held = self._find(path.removeprefix("/api/download/"))
            return Answer({"files": self._files(held), "hash": "h1"}) if held else self.missing()
        if path.startswith("/api/v1/"):
            return self._v1(path.removeprefix("/api/v1"), params)
        raise Refusal("unknown path")

    def _v1(self, path: str, params: dict[str, str]) -> Answer:
        if path.startswith("/skills/audit/"):
            take(params)
            held = self._find(path.removeprefix("/skills/audit/"))
            return Answer({"id": held, "audits": self.audits[held]}) if held in self.audits else self.missing()
        if self.keys[-1] != f"Bearer {self.key}":
            return Answer({"error": "unauthorized", "message": "Send a key."}, 401)
        if path == "/skills/search":
            take(params, "q", optional=("limit", "owner"))
            rows = self._found(params, v1=True)
            return Answer({"data": rows, "searchType": "fuzzy", "count": len(rows)})
        if path == "/skills":
            take(params, "view", "page", "per_page")
            rows = [self._row(one, v1=True) for one in self.trending]
            return Answer(
                {"data": rows, "pagination": {"page": 0, "perPage": 100, "total": len(rows), "hasMore": False}}
            )
        if path.startswith("/skills/"):
            take(params)
            held = self._find(path.removeprefix("/skills/"))
            if held is None:
                return self.missing()
            return Answer({**self._row(held, v1=True), "hash": "v1-hash", "files": self._files(held)})
        raise Refusal("unknown path")

    @staticmethod
    def missing() -> Answer:
        return Answer({"error": "not_found", "message": "No such skill."}, 404)


@dataclass
class ClawHubStub(RegistryStub):
    """ClawHub's public API for reading."""

    skills: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(
        self, slug: str, summary: str = "", *, downloads: int = 5, moderation: Any = None, **files: str | bytes
    ) -> None:
        held = {"SKILL.md": skill_md(slug, summary), **files}
        self.skills[slug] = {"summary": summary, "downloads": downloads, "moderation": moderation, "files": held}

    def _item(self, slug: str) -> dict[str, Any]:
        kept = self.skills[slug]
        return {
            "slug": slug, "displayName": slug.title(), "summary": kept["summary"], "tags": {"latest": "1.2.3"},
            "stats": {"downloads": kept["downloads"]}, "createdAt": 1_730_000_000_000, "updatedAt": 1_730_000_000_000,
        }  # fmt: skip

    def answer(self, path: str, params: dict[str, str]) -> Answer:
        latest = {"version": "1.2.3", "createdAt": 0, "changelog": "", "license": None}
        if path == "/api/v1/search":
            take(params, "q", optional=("limit", "nonSuspiciousOnly"))
            words = [word for word in params["q"].lower().split() if len(word) > 2]
            found = [
                slug
                for slug in self.skills
                if any(word in f"{slug} {self.skills[slug]['summary']}".lower() for word in words)
            ]
            rows = [
                {k: v for k, v in self._item(slug).items() if k in ("slug", "displayName", "summary", "updatedAt")}
                for slug in found
            ]
            return Answer(
                {"results": [{"score": 1.0, "version": "1.2.3", "ownerHandle": "steve", **row} for row in rows]}
            )
        if path == "/api/v1/skills":
            take(params, optional=("limit", "sort", "nonSuspiciousOnly", "cursor"))
            if params.get("sort", "updated") not in ("updated", "trending"):
                raise Refusal("sort")
            items = [{**self._item(slug), "latestVersion": latest} for slug in self.skills]
            return Answer({"items": items, "nextCursor": None})
        if path == "/api/v1/download":
            take(params, "slug", optional=("version",))
            if params["slug"] not in self.skills or params.get("version", "1.2.3") != "1.2.3":
                return Answer(b"not found", 404)
            return Answer(self._zip(params["slug"]))
        slug = unquote(path.removeprefix("/api/v1/skills/"))
        if not path.startswith("/api/v1/skills/") or "/" in slug:
            raise Refusal("unknown path")
        take(params)
        if slug not in self.skills:
            return Answer({"skill": None, "latestVersion": None, "owner": None})
        owner = {"handle": "steve", "displayName": None, "image": None}
        moderation = self.skills[slug]["moderation"]
        return Answer({"skill": self._item(slug), "latestVersion": latest, "owner": owner, "moderation": moderation})

    def _zip(self, slug: str) -> bytes:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            for path, content in self.skills[slug]["files"].items():
                archive.writestr(path, content)
        return held.getvalue()
