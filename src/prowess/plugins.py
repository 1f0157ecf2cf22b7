"""Plugins: installed packages that extend Prowess, found by their entry points.

A package registers a function without arguments, or a `Plugin` itself, in the group `prowess.plugins`:

    [project.entry-points."prowess.plugins"]
    my-data-pack = "my_pack:plugin"

A broken plugin is reported and skipped; the others and Prowess itself keep working.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import field, replace
from functools import cache
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

    from prowess.catalog.store import Store
    from prowess.match.vectors.embedder import Embedder
    from prowess.run.assertions.assertion import AssertionType
    from prowess.run.handler import Handler
    from prowess.skill.form_info import FormInfo
    from prowess.skill.kinds import KindInfo

GROUP = "prowess.plugins"
_NAMESPACED = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+", re.ASCII)
_TOOL = lazy_pattern(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_ENTRY_POINTS = "entry_points.txt"
_MAX_PROBLEM_CHARS = 500
SLOW_SECONDS = 10.0
"""A plugin that takes longer to load is named: every command waits for it, and nothing else says for what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTool:
    """A tool that agents can call: an async function, named and described by its own name and docstring.

    Its first parameter is the `ToolContext` of the call; the others, with their types, are the arguments from the agent.
    It returns a JSON-serializable object, or raises a `ProwessError` whose hint says what to do next.
    """

    function: Callable[..., Awaitable[dict[str, Any]]]
    effect: Literal["reads", "changes", "destroys", "runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The extensions that a package provides. They never replace parts of Prowess: their names have a namespace.

    `packs` are read-only folders of skills in the system scope; `stores` are further stores, each with its own scope.
    `kinds` and `forms` are rows of the tables of kinds and forms; each of the `handlers` runs artifacts of one kind.
    `embedders` are selected by name with the setting `embedder`.
    """

    name: str
    packs: tuple[Path, ...] = ()
    stores: tuple[Store, ...] = ()
    kinds: tuple[KindInfo, ...] = ()
    handlers: tuple[Handler, ...] = ()
    forms: tuple[FormInfo, ...] = ()
    assertions: tuple[AssertionType, ...] = ()
    embedders: Mapping[str, Callable[[], Embedder]] = field(default_factory=dict[str, "Callable[[], Embedder]"])
    tools: tuple[PluginTool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """One entry point: the plugin, or its problem."""

    name: str
    distribution: str
    version: str
    plugin: Plugin | None = None
    problem: str = ""

    @property
    def brings(self) -> str:
        """A readable list of what the plugin provides."""
        if self.plugin is None:
            return ""
        packs = [str(pack) for pack in self.plugin.packs]
        stores = [f"{store.scope}:{store.location}" for store in self.plugin.stores]
        handlers = [f"runs {handler.kind}" for handler in self.plugin.handlers]
        kinds = [f"kind {kind.name}" for kind in self.plugin.kinds]
        forms = [f"form {form.name}" for form in self.plugin.forms]
        others = [f"assertion {one.name}" for one in self.plugin.assertions]
        others += [f"embedder {name}" for name in self.plugin.embedders]
        others += [f"tool {tool.function.__name__}" for tool in self.plugin.tools]
        return ", ".join([*kinds, *handlers, *forms, *others, *packs, *stores]) or "nothing"


@cache
def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Return every installed plugin by name. Each is loaded once per process."""
    if not _is_any_declared():
        return ()
    from importlib.metadata import distributions

    found: list[InstalledPlugin] = []
    seen: set[str] = set()
    for distribution in distributions():
        # Not `entry_points()`: it fails for all packages if the file of one is not valid, even one without plugins.
        if not _declares_plugins(distribution):
            continue
        name, version = _identify(distribution)
        key = re.sub(r"[-_.]+", "-", name).lower()
        # As for imports, the first folder on the path wins.
        if not key or key not in seen:
            seen.add(key)
            found += _load_all(distribution, name, version)
    return tuple(sorted(found, key=lambda plugin: plugin.name))


def _declares_plugins(distribution: Distribution) -> bool:
    try:
        return f"[{GROUP}]" in (distribution.read_text(_ENTRY_POINTS) or "")
    except (OSError, UnicodeDecodeError):
        return False


def _is_any_declared() -> bool:
    """Return True if an installed package uses our group. Runs at every start, in a tenth of the time of `entry_points`."""
    wanted = f"[{GROUP}]".encode()
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208  (a third of the time of `glob`)
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError), open(f"{folder or '.'}/{name}/{_ENTRY_POINTS}", "rb") as declared:  # noqa: PTH123
                    if wanted in declared.read():
                        return True
    return False


def working_plugins() -> list[Plugin]:
    """Return the plugins that work."""
    return [found.plugin for found in installed_plugins() if found.plugin is not None]


def _identify(distribution: Distribution) -> tuple[str, str]:
    """Return the name and version of a package, '' for both if its metadata are missing or damaged."""
    try:
        return str(distribution.metadata["Name"] or ""), str(distribution.metadata["Version"] or "")
    except Exception:  # noqa: BLE001  (what is raised differs between versions of Python)
        return "", ""


def _load_all(distribution: Distribution, name: str, version: str) -> list[InstalledPlugin]:
    try:
        points = [point for point in distribution.entry_points if point.group == GROUP]
    except Exception:  # noqa: BLE001  (the parser raises errors of many types)
        return [_skip(name or "?", name, version, ValueError(f"{_ENTRY_POINTS} is not valid"))]
    return [_load(point, name, version) for point in points]


def _load(point: EntryPoint, distribution: str, version: str) -> InstalledPlugin:
    try:
        # Output of a plugin must not end up in the JSON of a command, or among the messages of an MCP server.
        with redirect_stdout(sys.stderr), _name_if_slow(point.name, distribution):
            plugin = _make_plugin(point)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (also exits, and what extensions in Rust raise)
        return _skip(point.name, distribution, version, error)
    return InstalledPlugin(name=point.name, distribution=distribution, version=version, plugin=plugin)


@contextmanager
def _name_if_slow(name: str, distribution: str) -> Generator[None]:
    """Log a warning while the block takes longer than `SLOW_SECONDS`."""
    import logging
    import threading

    from prowess.policy.text import clean_text

    text = "The plugin %s takes long to load. If it never does, remove it: pip uninstall %s"
    values = (clean_text(name), clean_text(distribution) or "?")
    timer = threading.Timer(SLOW_SECONDS, logging.getLogger(__name__).warning, (text, *values))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _skip(name: str, distribution: str, version: str, error: BaseException) -> InstalledPlugin:
    """Return a plugin with its problem, which is logged."""
    import logging  # only here: importing it takes 2 % of a short command

    from prowess.policy.text import clean_text

    problem = _describe(error)
    shown, owner = clean_text(name), clean_text(distribution) or "?"
    logging.getLogger(__name__).warning("Skipping the plugin %s of %s: %s", shown, owner, problem)
    return InstalledPlugin(name=name, distribution=distribution, version=version, problem=problem)


def _describe(error: BaseException) -> str:
    from prowess.policy.text import clean_text

    try:
        problem = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  (an error of a plugin that cannot be printed)
        problem = type(error).__name__
    return clean_text(problem, limit=_MAX_PROBLEM_CHARS)


def _make_plugin(point: EntryPoint) -> Plugin:
    given: object = point.load()
    if not isinstance(given, Plugin) and callable(given):
        given = cast("Callable[[], object]", given)()
    if not isinstance(given, Plugin):
        raise TypeError(f"{point.value} returned {type(given).__name__}, expected prowess.Plugin")
    missing = [str(pack) for pack in given.packs if not Path(pack).is_dir()]
    if missing:
        raise FileNotFoundError(f"folder not found: {', '.join(missing)}")
    if given.stores:
        _check_stores(given.stores)
    strange = [type(tool).__name__ for tool in given.tools if not _is_tool(tool)]
    if strange:
        raise TypeError(f"not a tool: {', '.join(strange)}")
    wrong = [name for name in given.embedders if not _NAMESPACED.fullmatch(name)]
    if wrong:
        raise ValueError(f"the embedder {wrong[0][:80]!r} has no namespace; use a name such as 'acme.tiny'")
    given = replace(
        given,
        stores=tuple(cast("Store", _Contained(store, point.name)) for store in given.stores),
        forms=tuple(replace(form, load=cache(_contain_made(form.load, point.name))) for form in given.forms),
        embedders={name: _contain_made(make, point.name) for name, make in given.embedders.items()},
    )
    _register(given)
    return given


class _Contained:
    """A part of a plugin. Foreign errors of its methods become `Unavailable`, so that Prowess does without the part."""

    def __init__(self, part: object, plugin: str) -> None:
        self._part, self._plugin = part, plugin
        # Kept as attributes of its own, because `isinstance` with a protocol does not ask `__getattr__`.
        for name in dir(type(part)):
            if not name.startswith("_") and callable(getattr(type(part), name)):
                setattr(self, name, _contain(getattr(part, name), plugin))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return _contain(value, self._plugin) if callable(value) else value

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class of the part, for `isinstance`."""
        return type(self._part)


def _contain_made(make: Callable[[], Any], plugin: str) -> Callable[[], Any]:
    made = _contain(make, plugin)
    return lambda: _Contained(made(), plugin)


def _contain(call: Callable[..., Any], plugin: str) -> Callable[..., Any]:
    """Return a function that raises no foreign errors; neither does the iterator that it may return."""

    def contained(*args: Any, **named: Any) -> Any:
        with _foreign_errors(plugin):
            answer = call(*args, **named)
        return _iterate(cast("Iterator[Any]", answer), plugin) if isinstance(answer, Iterator) else answer

    return contained


def _iterate(items: Iterator[Any], plugin: str) -> Iterator[Any]:
    with _foreign_errors(plugin):
        yield from items


@contextmanager
def _foreign_errors(plugin: str) -> Generator[None]:
    from prowess.errors import ProwessError, Unavailable

    try:
        yield
    except (ProwessError, OSError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise Unavailable(
            f"The plugin {plugin} failed: {_describe(error)}.", hint="Update it, or uninstall its package."
        ) from error


def _check_stores(stores: tuple[Store, ...]) -> None:
    from prowess.catalog.store import Store
    from prowess.skill.model import SCOPES

    members = [name for name in (*Store.__annotations__, *vars(Store)) if not name.startswith("_")]
    for store in stores:
        missing = [name for name in members if not hasattr(store, name)]
        if missing:
            raise TypeError(f"not a store: {type(store).__name__}, which lacks {', '.join(missing)}")
        if store.scope not in SCOPES:
            raise ValueError(f"the store {type(store).__name__} has the unknown scope {str(store.scope)[:40]!r}")


def _register(plugin: Plugin) -> None:
    """Add the rows of a plugin to the tables of Prowess: all of them, or none if one cannot be added."""
    if not (plugin.kinds or plugin.forms or plugin.assertions or plugin.handlers):
        return
    from prowess.skill.assertion_specs import ASSERTION_CHECKS, add_assertion_type
    from prowess.skill.form_info import FORMS, MARKER_FILES, add_form
    from prowess.skill.kinds import KINDS, add_kind

    tables: tuple[dict[str, Any], ...] = (KINDS, FORMS, ASSERTION_CHECKS)
    before, markers = [dict(table) for table in tables], set(MARKER_FILES)
    try:
        for kind in plugin.kinds:
            add_kind(kind)
        for form in plugin.forms:
            add_form(form)
        for assertion in plugin.assertions:
            add_assertion_type(assertion.name, assertion.checks)
        _check_handlers(plugin, KINDS)
    except Exception:
        for table, rows in zip(tables, before, strict=True):
            for name in table.keys() - rows.keys():
                del table[name]
        MARKER_FILES.intersection_update(markers)
        raise


def _check_handlers(plugin: Plugin, kinds: Mapping[str, Any]) -> None:
    """Raise `TypeError` for a handler that does not name a kind of artifact, or has no async `run`."""
    useless = [
        type(handler).__name__
        for handler in plugin.handlers
        if getattr(handler, "kind", None) not in kinds or not iscoroutinefunction(getattr(handler, "run", None))
    ]
    if useless:
        raise TypeError(f"not a handler with a kind and an async `run`: {', '.join(useless)}")


def _is_tool(given: object) -> bool:
    if not isinstance(given, PluginTool) or not iscoroutinefunction(given.function):
        return False
    name = given.function.__name__
    return _TOOL.fullmatch(name) is not None and not name.startswith("skill_") and bool(given.function.__doc__)
