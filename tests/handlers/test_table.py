"""Tests of the table of handlers beside the table of kinds."""

from __future__ import annotations

from typing import Any

from prowess.handlers.table import build_handlers
from prowess.skill.kinds import KINDS


class Anything:
    """Stands in for what handlers are given; none of them uses it before it runs."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __getitem__(self, name: str) -> Any:
        return Anything()


PARTS = (
    *("models", "renderer", "registry", "sandboxes", "commands", "outbound"),
    *("grants_of", "provision", "host", "checkpoints", "read_file", "files", "assertions"),
)


def test_every_kind_has_a_handler() -> None:
    handlers = build_handlers(**{name: Anything() for name in PARTS}, sidecar=Anything())
    assert handlers.keys() == KINDS.keys()


def test_without_the_sidecar_a_plugin_may_serve_dspy_modules() -> None:
    handlers = build_handlers(**{name: Anything() for name in PARTS}, sidecar=None)
    assert KINDS.keys() - handlers.keys() == {"dspy_module"}


def test_each_handler_is_found_by_the_kind_that_it_names() -> None:
    handlers = build_handlers(**{name: Anything() for name in PARTS}, sidecar=Anything())
    assert all(handler.kind == kind for kind, handler in handlers.items())
