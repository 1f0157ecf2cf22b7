"""Which values of an environment are secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from prowess.redaction.known import SHORTEST
from prowess.redaction.names import has_secret_name

_LONG = 16
"""A part of a secret that is shorter says nothing."""

_SECRET = re.compile(
    r"(?:^|_)(?:auth|bearer|cookie|credential|dsn|jwt|keys?|pass|passphrase|passwords|pat|pwd|salt|secrets|signature|webhook)(?:_|$)"
    r"|(?:^|_)(?:apikey|credentials|passwd|password|secret|token)(?:_|$)"
    r"|(?:apikey|credentials|passwd|password|secret|token)$"
)
_HARMLESS = re.compile(
    r"(?:old)?pwd$|(?:^|.*_)(?:max|min|public)(?:_|$)"
    r"|.*_(?:algorithm|algo|count|dir|enabled|expiry|file|folder|header|home|length|limit|method|mode|name|path|prefix|seconds"
    r"|size|sock|ttl|type)$"
)


_TOKEN = 16
"""A user of a URL as long as this is a token."""


def secrets_in(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of the variables whose names say that they are secret, and what is secret in all that are URLs."""
    return frozenset(value for value in _candidates(environment) if len(value) >= SHORTEST)


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if names_a_secret(name):
            yield value.strip()
            yield from _parts(value)
        if "://" in value:
            yield from _passwords(value)


def _parts(value: str) -> Iterator[str]:
    """What is secret also by itself: the lines of a key, the keys of a list, the secrets of a JSON object."""
    if not value.lstrip().startswith("{"):
        parts = re.split(r"[\s,;]+", value.strip())
        yield from (part for part in parts if len(part) >= _LONG and "-----" not in part)
        return
    try:
        found: Any = json.loads(value)
    except (ValueError, RecursionError):
        return
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    yield from (inner for key, inner in members.items() if isinstance(inner, str) and has_secret_name(key))


def names_a_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    lowered = name.lower().replace("-", "_")
    return not _HARMLESS.match(lowered) and _SECRET.search(lowered) is not None


def _passwords(value: str) -> Iterator[str]:
    """What is secret in URLs: the password, a user so long that it is a token, and parameters whose names say so."""
    for url in value.split():
        try:
            parts = urlsplit(url)
            user, password = parts.username or "", parts.password or ""
        except ValueError:
            continue
        found = [password, user if len(user) >= _TOKEN else ""]
        found += [given for name, given in parse_qsl(parts.query) if has_secret_name(name)]
        for secret in filter(None, found):
            yield secret
            yield unquote(secret)
