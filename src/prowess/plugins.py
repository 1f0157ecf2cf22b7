"""Plugins: installed packages that bring skills and handlers along, found by their entry points.

A package registers a function without arguments, or a `Plugin` itself, in the group `prowess.plugins`:

    [project.entry-points."prowess.plugins"]
    my-data-pack = "my_pack:plugin"

One that is broken is named, counted and skipped; the others and Prowess itself go on.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from glob import escape, glob
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from prowess.catalog.store import Store
    from prowess.run.handler import Handler

GROUP = "prowess.plugins"
_STORE_ATTRIBUTES = ("scope", "location", "list_skills", "get_outline")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What a package brings.

    `packs` are folders of skills of the system scope, which are only read; `stores` are places of any kind, each served in
    the scope that it names; `handlers` run artifacts, each those of one kind.
    """

    name: str
    packs: tuple[Path, ...] = ()
    stores: tuple[Store, ...] = ()
    handlers: tuple[Handler, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """One entry point: the plugin, or the problem that it has."""

    name: str
    distribution: str
    version: str
    plugin: Plugin | None = None
    problem: str = ""

    @property
    def brings(self) -> str:
        """What it brings, for people: the kinds that it runs, its folders of skills and its stores."""
        if self.plugin is None:
            return ""
        packs = [str(pack) for pack in self.plugin.packs]
        stores = [f"{store.scope}:{store.location}" for store in self.plugin.stores]
        handlers = [f"runs {handler.kind}" for handler in self.plugin.handlers]
        return ", ".join([*handlers, *packs, *stores]) or "nothing"


@cache
def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Every plugin that is installed, by name; each is loaded once in a process."""
    if not _is_any_declared():
        return ()
    from importlib.metadata import entry_points

    return tuple(_load(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name))


def _is_any_declared() -> bool:
    """Whether any installed package names our group: asked at every start, in a tenth of the time that the library takes."""
    wanted = f"[{GROUP}]".encode()
    for folder in sys.path:
        for kind in ("dist-info", "egg-info"):
            for file in glob(f"{escape(folder or '.')}/*.{kind}/entry_points.txt"):  # noqa: PTH207
                with suppress(OSError), open(file, "rb") as declared:  # noqa: PTH123
                    if wanted in declared.read():
                        return True
    return False


def working_plugins() -> list[Plugin]:
    """Those that work."""
    return [found.plugin for found in installed_plugins() if found.plugin is not None]


def _load(point: EntryPoint) -> InstalledPlugin:
    distribution = point.dist.name if point.dist else ""
    version = point.dist.version if point.dist else ""
    try:
        plugin = _make_plugin(point)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a plugin does, the others are served)
        problem = f"{type(error).__name__}: {error}"[:500]
        log.warning("The plugin %s of %s is skipped: %s", point.name, distribution or "?", problem)
        return InstalledPlugin(name=point.name, distribution=distribution, version=version, problem=problem)
    return InstalledPlugin(name=point.name, distribution=distribution, version=version, plugin=plugin)


def _make_plugin(point: EntryPoint) -> Plugin:
    given: object = point.load()
    if not isinstance(given, Plugin) and callable(given):
        given = cast("Callable[[], object]", given)()
    if not isinstance(given, Plugin):
        raise TypeError(f"{point.value} gives {type(given).__name__}, not prowess.Plugin")
    missing = [str(pack) for pack in given.packs if not Path(pack).is_dir()]
    if missing:
        raise FileNotFoundError(f"no such folder: {', '.join(missing)}")
    strange = [
        type(store).__name__ for store in given.stores if not all(hasattr(store, name) for name in _STORE_ATTRIBUTES)
    ]
    if strange:
        raise TypeError(f"not a store: {', '.join(strange)}")
    useless = [type(handler).__name__ for handler in given.handlers if not _is_handler(handler)]
    if useless:
        raise TypeError(f"not a handler of a kind: {', '.join(useless)}")
    return given


def _is_handler(given: object) -> bool:
    """Whether it names a kind of artifact, and has an async `run`."""
    from prowess.skill.kinds import KINDS

    return getattr(given, "kind", None) in KINDS and iscoroutinefunction(getattr(given, "run", None))
