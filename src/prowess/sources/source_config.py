"""Check the configuration of a source, and turn it into the address that is fetched.

    github        {repo, ref?, path?}     any git repository: `owner/repo`, or the URL of another host
    url           {url}                   a file, an archive, or a site with a well-known index
    marketplace   {base_url, key?}        a registry with a signed index; `key` is the public key that must have signed it

Each may have `sync_policy` (`manual` or `auto`), `sync_interval_minutes`, and `on_removed` (`delete` or `keep`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from prowess.errors import Invalid, Problem
from prowess.net.target import parse_target
from prowess.sources.reference import GIT_KINDS, SourceReference, parse_source
from prowess.storage.sources import SourceType

SyncPolicy = Literal["manual", "auto"]
OnRemoved = Literal["delete", "keep"]
SOURCE_TYPES: tuple[SourceType, ...] = get_args(SourceType)

MIN_MINUTES = 5
MAX_MINUTES = 60 * 24 * 30
_MAX_TEXT = 2_000
_COMMON = ("sync_policy", "sync_interval_minutes", "on_removed")
_FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "github": (("repo",), ("ref", "path")),
    "url": (("url",), ()),
    "marketplace": (("base_url",), ("key",)),
}
"""The fields of each type: those that it needs, and those that it may have."""
_WORDS: Mapping[str, tuple[str, ...]] = {"sync_policy": get_args(SyncPolicy), "on_removed": get_args(OnRemoved)}


def check_config(source_type: str, config: Mapping[str, Any], *, remote: bool = False) -> dict[str, Any]:
    """Return the configuration without empty fields, or raise `Invalid` with every problem.

    A `remote` actor names only addresses on the internet: nothing on this machine, and nothing that uses its ssh keys.
    """
    if source_type not in _FIELDS:
        raise Invalid(f"Unknown source type {source_type[:40]!r}.", hint=f"Use one of: {', '.join(SOURCE_TYPES)}.")
    needed, optional = _FIELDS[source_type]
    filled = {name: value for name, value in config.items() if value not in (None, "")}
    problems = [_problem(name, "is missing") for name in needed if name not in filled]
    for name, value in filled.items():
        if name not in (*needed, *optional, *_COMMON):
            problems.append(_problem(name, f"is not a field of a {source_type} source"))
        elif name == "sync_interval_minutes":
            if type(value) is not int or not MIN_MINUTES <= value <= MAX_MINUTES:
                problems.append(_problem(name, f"must be a number from {MIN_MINUTES} to {MAX_MINUTES}"))
        elif name in _WORDS:
            if value not in _WORDS[name]:
                problems.append(_problem(name, f"must be one of {', '.join(_WORDS[name])}"))
        elif not isinstance(value, str) or len(value) > _MAX_TEXT:
            problems.append(_problem(name, f"must be a text of at most {_MAX_TEXT:,} characters"))
    if problems:
        raise Invalid(
            f"The configuration of the source is not valid: {problems[0].message}",
            hint=f"A {source_type} source has {', '.join((*needed, *optional, *_COMMON))}.",
            problems=problems,
        )
    make_reference(cast("SourceType", source_type), filled, remote=remote)
    return filled


def make_reference(source_type: SourceType, config: Mapping[str, Any], *, remote: bool = False) -> SourceReference:
    """Return the address of a source, or raise `Invalid`. A marketplace is an index at a well-known place of its base URL."""
    if source_type == "marketplace":
        parsed = parse_target(config["base_url"])
        return SourceReference(kind="well-known", url=parsed.url)
    if source_type == "url":
        reference = parse_source(config["url"])
        if reference.kind not in ("file", "archive", "well-known"):
            raise Invalid(
                f"{str(reference)[:200]!r} is not the URL of a file, an archive or a site.",
                hint="Use the type `github` for a repository, or `prowess import` for a folder on this machine.",
            )
        return reference
    reference = parse_source(config["repo"])
    if reference.kind not in GIT_KINDS:
        raise Invalid(
            f"{config['repo'][:200]!r} is not a git repository.",
            hint="Use owner/repo or the URL of a repository. To import a folder on this machine, run `prowess import PATH`.",
        )
    if remote and not reference.url.startswith("https://"):
        raise Invalid("On a server, a source must be an https repository.", hint="Use https://host/owner/repo.git.")
    return reference.at(ref=config.get("ref", ""), path=config.get("path", ""))


def describe_place(reference: SourceReference, path: str) -> str:
    """Return the address of a path in a source. It stays the same from commit to commit."""
    if reference.kind != "github" or not path:
        return f"{reference.url}#{path}" if path else reference.url
    return f"{reference.url.removesuffix('.git')}/tree/{reference.ref or 'HEAD'}/{path}"


def _problem(name: str, what: str) -> Problem:
    return Problem(
        code="source-config", severity="error", message=f"`{name[:60]}` {what}.", field=f"config.{name[:60]}"
    )
