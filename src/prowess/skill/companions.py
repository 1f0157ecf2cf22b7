"""Find the files that a descriptor refers to: prompts and rubrics in a registry, and the file of its function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from prowess.skill.forms.data import parse_file
from prowess.skill.forms.descriptor import split_handler
from prowess.skill.forms.layout import EXECUTE_FILES, is_path
from prowess.skill.json_values import json_object
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.slug import slugify

COMPANION_FOLDERS = {"prompts": "prompt_id", "rubrics": "rubric_id"}
"""Companion folders, with the field through which a descriptor and a companion refer to each other."""

_SUFFIXES = (".json", ".yaml", ".yml", ".mustache")


def find_companion_ids(name: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    """Return the id that a descriptor names in each registry."""
    if not name.endswith((".yaml", ".yml")):
        return {}
    settings = json_object((parse_file(name, data, limits).object or {}).get("template_config"))
    named = {folder: settings.get(field) for folder, field in COMPANION_FOLDERS.items()}
    return {folder: entry_id for folder, entry_id in named.items() if isinstance(entry_id, str) and entry_id.strip()}


def find_function_files(name: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Return the paths where a descriptor's function may be, relative to the descriptor's folder; the first existing file wins."""
    if not name.endswith((".yaml", ".yml")) or b"ts_function" not in data:
        return ()
    implementation = json_object((parse_file(name, data, limits).object or {}).get("implementation"))
    handler = implementation.get("handler")
    if implementation.get("type") != "ts_function" or not isinstance(handler, str):
        return ()
    path, function = split_handler(handler)
    if path:
        return (path,) if is_path(path) else ()
    return EXECUTE_FILES if function.isidentifier() else ()


def choose_companions(folder: str, entry_id: str, names: Iterable[str], read: Callable[[str], bytes]) -> list[str]:
    """Return the files of a registry that hold an entry: files named after it, or else files whose content names it."""
    known = sorted(name for name in names if name.endswith(_SUFFIXES))
    stems = {entry_id, slugify(entry_id)}
    named = [name for name in known if any(_is_named(name, stem) for stem in stems)]
    if named:
        return named
    says = re.compile(
        rb"[\"']?%s[\"']?\s*:\s*[\"']?%s[\"']?\s*(?:[,}#\n]|$)"
        % (COMPANION_FOLDERS[folder].encode(), re.escape(entry_id.encode()))
    )
    return [name for name in known if says.search(read(name))]


def _is_named(name: str, stem: str) -> bool:
    """Return True if a file is called `stem.json`, or has a version in between, as in `stem.v2.json`."""
    return bool(stem) and name.startswith(stem) and name[len(stem) :][:1] in (".", "@")
