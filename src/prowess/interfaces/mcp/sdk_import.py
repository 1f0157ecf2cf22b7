"""Import the MCP SDK for a server with a fifth less CPU than `import mcp.server` takes.

More than half of the start of `prowess mcp` is this import, and clients start the server again and again. Two things can
wait until somebody needs them, which in a server is never or seldom: the packages' own `__init__`, which import the
clients and a second server framework, and the validators of some 500 message types.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict

_PACKAGES = ("mcp", "mcp.server")
_MODULES = ("mcp.server.lowlevel.server", "mcp.server.request_state", "mcp.server.subscriptions")


def import_sdk() -> None:
    """Import what `prowess mcp` needs of the SDK. Do nothing if it is imported already."""
    if "mcp" in sys.modules:
        return
    try:
        with _deferred_validators():
            for name in _PACKAGES:
                _add_lazy_package(name)
            for name in _MODULES:
                importlib.import_module(name)
    except (ImportError, AttributeError):
        # Another version of the SDK may import its own modules in an order that needs the `__init__` first. Then start
        # over; the server imports the modules in the usual way.
        for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
            del sys.modules[name]


class _LazyPackage(ModuleType):
    """A package whose submodules can be imported. Its `__init__` runs when a name that it defines is first used."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        # The import system looks for dunder names such as `__file__` on modules that do not have them.
        if name.startswith("__") or spec is None or spec.loader is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]  a module of the usual kind from here on
        spec.loader.exec_module(self)
        return getattr(self, name)


def _add_lazy_package(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"There is no package {name}.")
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _LazyPackage
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)


@contextmanager
def _deferred_validators() -> Generator[None]:
    """Let every model that is defined within the block build its validator when it is first used."""
    before = BaseModel.model_config
    BaseModel.model_config = ConfigDict(defer_build=True)
    try:
        yield
    finally:
        BaseModel.model_config = before
