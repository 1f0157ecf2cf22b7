"""Start `prowess serve` on a copy of the sample workspace, and show what to open and what to try: `make run`.

In a terminal the server runs until Ctrl-C, and the web application opens in a browser where there is a screen. Without one, the same requests are sent and printed, and the server is stopped.
Nothing outside a temporary folder is touched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PORT = os.environ.get("PORT", "7717")
SHOWN_LINES = 32


@dataclass(frozen=True)
class Step:
    """A request, and what it shows."""

    title: str
    path: str
    body: dict[str, Any] | None = None

    def command(self, url: str, token: Path) -> str:
        """Return the command that sends it."""
        parts = ["curl -s"]
        if self.body is not None:
            parts.append(f"-H 'Content-Type: application/json' -d '{json.dumps(self.body)}'")
        parts.append(f'-H "Authorization: Bearer $(cat {token})" "{url}{self.path}"')
        return " ".join(parts)

    def send(self, url: str, token: Path) -> Any:
        """Send it and return the answer."""
        headers = {"Authorization": f"Bearer {token.read_text().strip()}", "Content-Type": "application/json"}
        data = json.dumps(self.body).encode() if self.body is not None else None
        with urllib.request.urlopen(urllib.request.Request(url + self.path, data, headers), timeout=120) as answer:  # noqa: S310
            return json.load(answer)


CLAIMS = [{"text": "Born in 388.", "page": "mara-venn"}, {"text": "Born in 391.", "page": "timeline"}]
STEPS = (
    Step("The skills of the workspace.", "/api/v1/skills?scope=workspace"),
    Step(
        "The skills that fit a message, and why.", "/api/v1/match", {"message": "are there contradictions in my notes?"}
    ),
    Step(
        "What a run would send to a model. A dry run sends nothing and needs no key.",
        "/api/v1/skills/consistency-checker/run",
        {"artifacts": ["Check Prompt"], "inputs": {"entity": "Mara", "claims": CLAIMS}, "dry_run": True},
    ),
)


def main() -> int:
    """Run the server, and show or walk through the steps."""
    folder = Path(tempfile.mkdtemp(prefix="prowess-run."))
    try:
        shutil.copytree(ROOT / "examples/workspace", folder / "workspace")
        return _run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path) -> int:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROWESS_")}
    # Skills that are found in a folder are not used until a person accepts them. The sample comes with Prowess.
    environment = {
        **kept,
        "HOME": str(folder),
        "PROWESS_HOME": str(folder / "home"),
        "PROWESS_TRUSTED_FOLDERS": str(folder / "workspace"),
    }
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    port = PORT if is_terminal and _is_free(PORT) else "0"
    command = [str(ROOT / ".venv/bin/prowess"), "serve", "--port", port, "--workspace", str(folder / "workspace")]
    if is_terminal and _has_screen():
        command.append("--open")
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    # Without this, SIGTERM would end this process and leave the server and the folder behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        printed = _wait_until_ready(server)
        if printed is None:
            return server.wait()
        threading.Thread(target=shutil.copyfileobj, args=(server.stderr, sys.stderr), daemon=True).start()
        token = folder / "home/server-token"
        if is_terminal:
            _show(*printed, token)
            return server.wait()
        _walk(printed[0], token)
    except KeyboardInterrupt:
        server.wait()  # Ctrl-C has reached the server, too
        print()
    finally:
        server.terminate()
        server.wait()
    print("Stopped.")
    return 0


def _has_screen() -> bool:
    """Return True if a browser can show a page here."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _is_free(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) != 0


def _wait_until_ready(server: subprocess.Popen[str]) -> tuple[str, str] | None:
    """Return the address and the sign-in link that the server prints; None if it ends with an error, which is shown."""
    printed: list[str] = []
    for line in server.stderr or ():
        printed.append(line)
        if line.startswith("Press Ctrl+C"):
            text = "".join(printed)
            url, link = re.search(r"running at (\S+)", text), re.search(r"\S+/sign-in#\S+", text)
            assert url, text  # noqa: S101
            return url[1], link[0] if link else f"{url[1]}/sign-in"
    sys.stderr.write("".join(printed))
    return None


def _show(url: str, link: str, token: Path) -> None:
    print(f"Prowess is running at {url}, on a copy of examples/workspace.\n")
    print("Open in a browser:")
    print(f"  {link}\n    the web application; the link signs you in (works once, for 10 minutes)")
    print(f"  {url}/api/v1/docs\n    every route of the API\n")
    print("Try in another terminal:")
    for step in STEPS:
        print(f"  # {step.title}\n  {step.command(url, token)}")
    print(f"\nFor MCP clients: {url}/mcp, with the token in {token.with_name('token')}")
    print("Press Ctrl+C to stop.", flush=True)


def _walk(url: str, token: Path) -> None:
    print(f"Prowess is running at {url}, on a copy of examples/workspace.")
    for step in STEPS:
        print(f"\n# {step.title}\n$ {step.command(url, token)}")
        print(_shorten(step.send(url, token)))
    with urllib.request.urlopen(f"{url}/api/v1/docs", timeout=120) as page:  # noqa: S310
        print(f"\nThe reference of the API is at {url}/api/v1/docs ({len(page.read()):,} bytes).")
    print("There is no terminal here, so the server stops. In a terminal it runs until Ctrl+C.")


def _shorten(answer: Any) -> str:
    """Return JSON for people: indented, with long texts and long answers cut."""
    text = json.dumps(_cut(answer), indent=2, ensure_ascii=False)
    lines = [textwrap.shorten(line, 118, placeholder=" …") if len(line) > 118 else line for line in text.splitlines()]
    more = [f"… {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return "\n".join([*lines[:SHOWN_LINES], *more])


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in value.items() if one not in (None, "", [], {})}
    if isinstance(value, list):
        return [_cut(one) for one in value]
    return textwrap.shorten(value, 90, placeholder=" …") if isinstance(value, str) else value


if __name__ == "__main__":
    sys.exit(main())
