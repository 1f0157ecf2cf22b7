"""A renderer that the tests of a file share, and a plain way to call it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from prowess.prompts.renderer import WorkerRenderer


@pytest.fixture(scope="module")
def renderer() -> Iterator[WorkerRenderer]:
    opened = WorkerRenderer()
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def render(renderer):
    """The text of a template with these values."""

    def rendered(template, values=None, syntax="jinja"):
        return asyncio.run(renderer.render(template, values or {}, syntax=syntax))

    return rendered
