"""Take pictures of every page of the web application for the docs: `python scripts/screenshots.py [PAGE ...]`.

A server runs on a copy of the examples, with conversations, runs and a question that waits for an answer. The pictures are
written to docs/assets/web, light and dark; look at each one. Chromium must be there (`scripts/browser`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/assets/web"
PROWESS = ROOT / ".venv/bin/prowess"
SIZE = ViewportSize(width=1280, height=820)
PAGES = {
    "overview": "/",
    "skills": "/skills",
    "skill": "/skills/release-notes",
    "editor": "/skills/release-notes/edit",
    "chat": "/chat",
    "approvals": "/approvals",
    "browse": "/browse",
    "sources": "/sources",
    "why": "/why?message=write%20release%20notes",
    "traces": "/traces",
    "jobs": "/jobs",
    "evals": "/evals",
    "settings": "/settings",
    "people": "/people",
    "audit": "/audit",
}
NOTES = "## 1.4.0\n\n### Added\n\n- Export to CSV.\n\n### Fixed\n\n- Login on slow networks."
COMMITS = "write release notes for version 1.4.0 from these commits"


def main() -> int:
    """Take the pictures of these pages, or of all."""
    wanted = sys.argv[1:] or list(PAGES)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with _make_folder() as folder, _serve(folder) as link, sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = filter(None, map(shutil.which, ("chromium", "chromium-headless-shell")))
        browser = playwright.chromium.launch(executable_path=next(found, None), args=options)
        url = link.partition("/sign-in")[0]
        page = browser.new_context(base_url=url, viewport=SIZE, locale="en-US", reduced_motion="reduce").new_page()
        page.goto(link)
        page.wait_for_url("**/")
        page.locator("h1").wait_for()
        for name in wanted:
            for scheme in ("light", "dark"):
                _take(page, name, scheme)
        browser.close()
    return 0


@contextmanager
def _make_folder() -> Generator[Path]:
    """Make an empty folder, and remove it at the end. Its name is short, since paths are in the pictures."""
    folder = Path(tempfile.gettempdir()) / "demo"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _take(page: Page, name: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(PAGES[name])
    page.locator("h1").wait_for()
    if name == "chat":
        page.locator("main a[href^='/chat/']").first.click()
    # The connection for events stays open, so there is no moment without requests to wait for.
    page.locator(".loading").first.wait_for(state="detached")
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(700)
    target = PICTURES / f"{name}-{scheme}.png"
    page.screenshot(path=target)
    print(target.relative_to(ROOT))


@contextmanager
def _serve(folder: Path) -> Generator[str]:
    """Serve the examples with something in them. Yield the link that signs in."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    workspace = folder / "examples/workspace"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROWESS_")}
    environment = {
        **kept,
        "HOME": str(folder),
        "USER": "ada",
        "PROWESS_HOME": str(folder / "home"),
        # The skill in the other folder waits until a person accepts it.
        "PROWESS_TRUSTED_FOLDERS": str(workspace / ".agents"),
    }
    for command in _commands(folder):
        full = [PROWESS, *command]
        done = subprocess.run(full, cwd=workspace, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 4):
            print(f"prowess {' '.join(command)}: {done.stderr or done.stdout}", file=sys.stderr)
    serving = [PROWESS, "serve", "--port", "0", "--workspace", str(workspace)]
    server = subprocess.Popen(serving, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        link = ""
        for line in server.stderr or ():
            found = re.search(r"\S+/sign-in#\S+", line)
            link = found[0] if found else link
            if line.startswith("Press Ctrl+C"):
                break
        yield link
    finally:
        server.terminate()
        server.communicate()


def _commands(folder: Path) -> list[list[str]]:
    """Return the commands that fill the workspace."""
    script = folder / "notes.json"
    script.write_text(json.dumps([NOTES]))
    approval = folder / "examples/chat/approval.json"
    texts = ("Measure twice, cut once.", "One skill for each job.", "A message finds its skill in milliseconds.")
    return [
        ["import", str(folder / "examples/more/word-count")],
        ["import", str(folder / "examples/more/on-call-handover.md")],
        ["import", str(folder / "examples/more/timeline-checker.json")],
        *(["run", "word-count", "--input", f"text={text}"] for text in texts),
        ["chat", COMMITS, "--model", f"scripted:{script}"],
        ["chat", "write a message for this change", "--model", f"scripted:{approval}"],
    ]


if __name__ == "__main__":
    sys.exit(main())
