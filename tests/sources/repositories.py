"""Git repositories for tests: made by `fast-import`, without a work tree, and served over loopback HTTP with faults."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def skill(name: str, text: str = "Do the work.") -> str:
    return f"---\nname: {name}\ndescription: Use this for {name} work.\n---\n\n{text}\n"


class Repository:
    """A bare repository to fetch from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clock = 1_700_000_000
        # As `git init --bare` makes it, without three processes.
        for name in ("objects", "refs/heads"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(
            "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
            "[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n"
        )

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        return self._run(f"--git-dir={self.folder}", *arguments, stdin=stdin)

    def commit(
        self,
        files: Mapping[str, str | bytes],
        *,
        modes: Mapping[str, str] | None = None,
        onto: str | None = "",
        branch: str = "main",
        delete: tuple[str, ...] = (),
    ) -> str:
        """Write files on top of a branch, or of another commit (`onto`; None for no parent), and return the commit."""
        self._clock += 60
        ref = f"refs/heads/{branch}"
        parent = self._tip(ref) if onto == "" else onto
        lines = [b"commit %s\ncommitter A <a@example.com> %d +0000\ndata 1\nx\n" % (ref.encode(), self._clock)]
        lines += [b"from %s\n" % parent.encode()] if parent else []
        lines += [b"D %s\n" % path.encode() for path in delete]
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            mode = (modes or {}).get(path, "100644")
            if mode == "160000":
                lines.append(b"M 160000 %s %s\n" % (data, path.encode()))
            else:
                lines.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), path.encode(), len(data), data))
        # Without a parent, the branch starts anew only if it does not exist.
        if onto is None and self._tip(ref):
            self.git("update-ref", "-d", ref)
        self.git("fast-import", "--quiet", "--force", stdin=b"".join(lines))
        return self._tip(ref)

    def hostile_tree(self, entries: list[tuple[str, bytes, str]]) -> None:
        """Make a commit whose tree has exactly these (mode, name, object id), whether git likes them or not."""
        data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        tree = self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=data)
        identity = "A <a@example.com> 1700000000 +0000"
        text = f"tree {tree}\nauthor {identity}\ncommitter {identity}\n\nx\n".encode()
        commit = self.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
        self.git("update-ref", "refs/heads/main", commit)

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content)

    def tree(self, entries: Mapping[str, str]) -> str:
        lines = "".join(f"100644 blob {oid}\t{name}\n" for name, oid in entries.items())
        return self.git("mktree", stdin=lines.encode())

    def _tip(self, ref: str) -> str:
        path = self.folder / ref
        return path.read_text().strip() if path.exists() else ""

    @staticmethod
    def _run(*arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", *arguments], input=stdin, capture_output=True, check=True, env=ENVIRONMENT)
        return done.stdout.decode().strip()


@dataclass
class GitSite:
    """A smart HTTP server for the repositories in a folder, as `git http-backend` serves them."""

    root: Path
    port: int = 0
    fault: str = ""
    """What goes wrong from now on; see `_Handler`."""
    moved: dict[str, str] = field(default_factory=dict[str, str])
    """Repositories that redirect to another path."""
    pack_answer: bytes = b""
    """Sent for packs instead of what git would send."""
    password: str = ""
    """What clients must send as the password of the user `me`."""
    requests: list[str] = field(default_factory=list[str])
    release: threading.Event = field(default_factory=threading.Event)
    """Set it to end answers that hang."""
    hanging: threading.Event = field(default_factory=threading.Event)
    """Set while an answer hangs."""

    @property
    def routes(self) -> dict[str, str]:
        return {"git.example": f"http://127.0.0.1:{self.port}"}


def packet(data: bytes) -> bytes:
    """Return a line of git's protocol."""
    return b"%04x" % (len(data) + 4) + data


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: GitSite

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: bytes) -> None:
        site = self.site
        site.requests.append(f"{self.command} {self.path}")
        path, _, query = self.path.partition("?")
        for old, new in site.moved.items():
            if path.startswith(old):
                self._send(301, b"", {"location": self.path.replace(old, new, 1)})
                return
        token = base64.b64encode(f"me:{site.password}".encode()).decode()
        if site.password and self.headers.get("authorization") != f"Basic {token}":
            self._send(401, b"", {"www-authenticate": 'Basic realm="git"'})
            return
        # Faults concern the packs; the list of refs is answered, unless its name says otherwise.
        is_pack = self.command == "POST" and b"command=fetch" in body
        if site.fault == "500" or (site.fault == "500 for packs" and is_pack):
            self._send(500, b"oops", {})
        elif site.fault == "web page":
            self._send(200, b"<html>Please sign in</html>", {"content-type": "text/html"})
        elif site.fault == "hang" and is_pack:
            site.hanging.set()
            site.release.wait(20)
            self.close_connection = True
        else:
            status, fields, data = self._backend(path, query, body)
            if is_pack:
                data = self._spoiled(data)
            self._send(status, data, fields)

    def _spoiled(self, pack: bytes) -> bytes:
        if self.site.fault == "cut pack":
            return pack[: len(pack) // 2]
        if self.site.fault == "broken pack":
            return pack[:-400] + bytes(byte ^ 0x55 for byte in pack[-400:-20]) + pack[-20:]
        return os.urandom(2_000) if self.site.fault == "random bytes" else self.site.pack_answer or pack

    def _backend(self, path: str, query: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        variables = {
            **ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(self.site.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, check=False, env=variables)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n"))
            if value
        }
        return int(fields.pop("status", "200").split()[0]), fields, data

    def _send(self, status: int, data: bytes, fields: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**fields, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def git_site(root: Path) -> Generator[GitSite]:
    """Serve the repositories in a folder on a free port of this machine."""
    site = GitSite(root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    server.daemon_threads = True
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
