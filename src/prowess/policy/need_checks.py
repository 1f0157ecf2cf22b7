"""What the settings about the world outside the sandbox can have: slugs, routes, names, programs and folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import cast

from prowess.errors import Invalid
from prowess.outbound.target import route_of
from prowess.policy.plain import has_unfit
from prowess.skill.need_values import binary, env_name, host
from prowess.skill.slug import is_slug

MOST = 1_000
"""So many entries a setting has at most."""

_HEX = frozenset("0123456789abcdef")


def are_slugs(value: object) -> bool:
    """A list of slugs."""
    return _is_list(value, is_slug)


def are_binaries(value: object) -> bool:
    """A list of programs, each by its name alone."""
    return _is_list(value, lambda text: binary(text) == text)


def are_folders(value: object) -> bool:
    """A list of absolute folders, none of them the root of everything."""
    return _is_list(value, _is_folder)


def are_routes(value: object) -> bool:
    """A mapping of a host to the place that its requests go to."""
    return _is_mapping(value, _is_plain_host, lambda to: isinstance(to, str) and _is_place(to))


def are_env_grants(value: object) -> bool:
    """A mapping of a slug to names, and of each name to the digests that may have it."""
    return _is_mapping(value, is_slug, lambda names: _is_mapping(names, _is_env, _are_digests))


def _is_list(value: object, fits: Callable[[str], bool]) -> bool:
    if not isinstance(value, list | tuple):
        return False
    items = cast("list[object]", value)
    return len(items) <= MOST and all(isinstance(item, str) and fits(item) for item in items)


def _is_mapping(value: object, is_key: Callable[[str], bool], fits: Callable[[object], bool]) -> bool:
    if not isinstance(value, dict):
        return False
    items = cast("dict[object, object]", value)
    return len(items) <= MOST and all(isinstance(key, str) and is_key(key) and fits(of) for key, of in items.items())


def _is_folder(text: str) -> bool:
    path = PurePosixPath(text)
    return path.is_absolute() and len(path.parts) > 1 and ".." not in path.parts and not has_unfit(text)


def _is_plain_host(text: str) -> bool:
    return host(text) == text and ":" not in text and "*" not in text


def _is_env(text: str) -> bool:
    return env_name(text) == text


def _are_digests(value: object) -> bool:
    return _is_list(value, lambda text: len(text) == 64 and _HEX.issuperset(text))


def _is_place(text: str) -> bool:
    """`http://127.0.0.1:8080`: what a request can be sent to, and nothing else."""
    try:
        route_of(text)
    except Invalid:
        return False
    return True
