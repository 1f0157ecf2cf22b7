"""Fixtures of the web application: a browser, a server with a workspace, and a page of a person who has signed in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any, NoReturn

import pytest
from playwright.sync_api import Browser, Error, expect, sync_playwright

from prowess.interfaces.rest.web_app import FOLDER
from prowess.policy.actor import Actor

from .site import ME, WAIT_MS, Site, View

expect.set_options(timeout=WAIT_MS)


def _find_browser() -> str:
    ours = os.environ.get("PROWESS_CHROMIUM", "")
    names = (ours, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), "")


def _go_without(reason: str) -> NoReturn:
    """Skip the test. Where changes are judged it fails instead: a skipped test shows nothing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def open_browser() -> Generator[Browser]:
    """Yield Chromium. Skip the test where there is none.

    Close it before other tests run: while Playwright is open, no other event loop runs in this thread.
    """
    if not (FOLDER / "index.html").is_file():
        _go_without("the web application is not built: run `make ui`")
    path = _find_browser()
    if not path:
        _go_without("there is no Chromium: install it with `apt-get install chromium`, or name it in PROWESS_CHROMIUM")
    with sync_playwright() as playwright:
        # Chromium refuses its own sandbox to root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            opened = playwright.chromium.launch(executable_path=path, args=options)
        except Error as error:
            _go_without(f"Chromium does not start: {error.message.splitlines()[0]}")
        yield opened
        opened.close()


browser = pytest.fixture(open_browser, scope="package", name="browser")
"""One for all files in this folder."""


@pytest.fixture
def serve() -> Generator[Callable[..., Site]]:
    """Return a function that serves a place to people, by default to the person at this machine."""
    with ExitStack() as stack:

        def start(place: Any, people: dict[str, Actor] | None = None) -> Site:
            return stack.enter_context(Site(place.open(ME), people))

        yield start


@pytest.fixture
def site(place: Any, serve: Callable[..., Site]) -> Site:
    """Serve an empty workspace, with records in SQLite."""
    return serve(place)


@pytest.fixture
def each_site(each_place: Any, serve: Callable[..., Site]) -> Site:
    """The same with each kind of database."""
    return serve(each_place)


@pytest.fixture
def look(browser: Browser) -> Generator[Callable[..., View]]:
    """Return a function that opens a browser of a person at a site."""
    opened: list[View] = []

    def start(site: Site, person: str = "me", **options: Any) -> View:
        opened.append(site.open(browser, person, **options))
        return opened[-1]

    yield start
    for view in opened:
        view.close()
