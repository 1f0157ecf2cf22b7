"""The context of a fetch, the same for every kind of source: a client, limits, permissions and a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prowess.net.request import HttpClient
from prowess.skill.limits import DEFAULT_LIMITS, MIB, Limits

GIT_PROTOCOLS = frozenset({"https", "ssh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """How much a fetch may cost, what it may reach, and where it caches."""

    client: HttpClient

    cache: Path
    """The folder for bare repositories, below `PROWESS_HOME`. It can be deleted at any time."""
    limits: Limits = DEFAULT_LIMITS
    seconds: float = 120.0
    """For everything together. Files and sites have 30 seconds at most, `MAX_SECONDS` in `download.py`."""
    max_bytes: int = 256 * MIB
    """For everything that is downloaded."""
    every_markdown: bool = False
    """Also read every other Markdown file below the path as a skill, as a source of type `github` does."""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other places for hosts, by name, such as `http://127.0.0.1:8080`; see `HttpRequest.routes`."""
    protocols: frozenset[str] = GIT_PROTOCOLS
    """The transports that git may use."""
    credentials: bool = True
    """Let git use the credential helpers and ssh keys of the user who runs this process. Never for requests of others."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The variables of this process; git gets a few of them."""
