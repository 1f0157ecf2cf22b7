"""Import the MCP SDK for a server on stdin and stdout with a third less CPU than `import mcp.server` takes.

More than half of the start of `prowess mcp` is this import, and clients start the server again and again. Three things can
wait until someone needs them, which in such a server is never or seldom: the packages' own `__init__`, which import the
clients and a second server framework; the code for HTTP; and the validators of some 500 message types, of which a third
belongs to the protocol that the client does not speak.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager
from importlib.metadata import version
from types import ModuleType
from typing import Any, Self

import pydantic
from pydantic import BaseModel, ConfigDict, TypeAdapter

_PACKAGES = ("mcp", "mcp.server")
_MODULES = ("mcp.server.lowlevel.server", "mcp.server.request_state", "mcp.server.subscriptions")
_HTTP_MODULES = (
    "mcp.server.auth.routes",
    "sse_starlette",
    "starlette.applications",
    "starlette.middleware.authentication",
    "starlette.routing",
)
"""Modules whose names the SDK imports, but uses only to serve HTTP."""
_WIRE_MODULES = ("mcp_types._v2025_11_25", "mcp_types._v2026_07_28")
"""The message types of the two protocols; a client speaks one. The SDK has tables of them, and only validates with them."""
_KNOWN_TYPES = "2.3."
"""The versions of `mcp-types` for which that is known. It shows at a request, not at the import, if it is not so."""


def import_sdk() -> None:
    """Import what `prowess mcp` needs of the SDK. Do nothing if it is imported already."""
    if "mcp" in sys.modules:
        return
    try:
        wire = _WIRE_MODULES if version("mcp-types").startswith(_KNOWN_TYPES) else ()
        with _deferred_validators(), _late_modules([*_HTTP_MODULES, *wire]):
            for name in _PACKAGES:
                _add_lazy_package(name)
            # The base of the wire types is imported now, so that they too build their validators late.
            for name in (*_MODULES, *(["mcp_types._wire_base"] if wire else [])):
                importlib.import_module(name)
    except (ImportError, AttributeError, TypeError):
        # Another version of the SDK may import its own modules in an order that needs the `__init__` first, or use a name
        # for HTTP at once. Then start over; the server imports the modules in the usual way.
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
def _late_modules(names: Collection[str]) -> Generator[None]:
    """Let `from MODULE import NAME` within the block bind names that import the module when they are first used."""
    added = {name: _LateModule(name) for name in names if name not in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


class _LateModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by the import system
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _LateName(self.__name__, name)


class _LateName:
    """A class or function of a module, which is imported when it is called, subclassed or asked for an attribute."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def load(self) -> Any:
        """Return the class or function itself."""
        return getattr(importlib.import_module(self._module), self._name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.load()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.load(), name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.load(),)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.load())


class _LateTypeAdapter:
    """Stands in for `TypeAdapter`: makes adapters that build their validator when they are first used."""

    def __getitem__(self, kind: Any) -> Self:
        return self

    def __call__(self, kind: Any, **options: Any) -> TypeAdapter[Any]:
        kind = kind.load() if isinstance(kind, _LateName) else kind
        # A class decides for itself when its validator is built, and pydantic refuses a second configuration.
        if not isinstance(kind, type):
            options.setdefault("config", ConfigDict(defer_build=True))
        # The names in a type are looked up in the frame of our caller, which is one further away than usual.
        options["_parent_depth"] = options.get("_parent_depth", 2) + 1
        return TypeAdapter(kind, **options)


@contextmanager
def _deferred_validators() -> Generator[None]:
    """Let every model and adapter that is defined within the block build its validator when it is first used."""
    before = BaseModel.model_config
    BaseModel.model_config = ConfigDict(defer_build=True)
    pydantic.TypeAdapter = _LateTypeAdapter()  # pyright: ignore[reportAttributeAccessIssue]  for the block only
    try:
        yield
    finally:
        BaseModel.model_config = before
        pydantic.TypeAdapter = TypeAdapter
