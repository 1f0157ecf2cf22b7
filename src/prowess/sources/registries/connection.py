"""Ask a registry over HTTP, and read its answers without trusting them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

from prowess.errors import Invalid, NotFound, Refused, TryLater, Unavailable
from prowess.net.request import HttpClient
from prowess.policy.text import clean_text
from prowess.skill.limits import MIB
from prowess.sources.download import Download, RoutedClient, download, route_to
from prowess.sources.registries.registry import RegistryEntry

LIST_BYTES = 2 * MIB
FILES_BYTES = 16 * MIB
"""The largest answers: lists of skills, and the files of one skill."""
SECONDS = 15.0
_READ_ROWS = 1_000
"""How many rows of a list are looked at. A registry that sends more than it was asked for is not read to the end."""
_MAX_INSTALLS = 10**12
_MAX_MILLISECONDS = 10**14
"""A time after the year 5000 is a mistake."""


class RegistryConnection:
    """One address of a registry. An address that the operator has configured may be private, and may use plain http."""

    def __init__(
        self, name: str, base_url: str, client: HttpClient, *, key: str = "", configured: bool = False
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        # Without the route, the client would refuse every address that is not public and encrypted.
        self._client = RoutedClient(client, route_to(self.base_url)) if configured else client
        self.key = key

    async def get(
        self, path: str, params: Mapping[str, str | int] | None = None, *, max_bytes: int = LIST_BYTES
    ) -> Download:
        """Return the answer to a GET request. The key goes to this host only."""
        url = f"{self.base_url}{path}" + (f"?{urlencode(params)}" if params else "")
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            return await download(self._client, url, max_bytes=max_bytes, seconds=SECONDS, headers=headers)
        except NotFound as error:
            raise NotFound(f"The registry {self.name} does not have it.", hint=error.hint) from error
        except TryLater as error:
            raise TryLater(
                f"The registry {self.name} cannot be used now: {error.message}",
                hint=error.hint,
                retry_after=error.retry_after,
            ) from error
        except Refused as error:
            raise Refused(f"The registry {self.name} refused the request: {error.message}", hint=error.hint) from error
        except Invalid as error:
            raise self.malformed(error.message) from error

    async def get_json(
        self, path: str, params: Mapping[str, str | int] | None = None, *, max_bytes: int = LIST_BYTES
    ) -> dict[str, Any]:
        """Return the JSON object that answers a GET request; raise `Unavailable` for anything else."""
        answer = await self.get(path, params, max_bytes=max_bytes)
        try:
            value: object = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise self.malformed("It is not JSON.") from error
        if not isinstance(value, dict):
            raise self.malformed("It is not an object.")
        return cast("dict[str, Any]", value)

    def rows(self, answer: Mapping[str, Any], field: str) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of a list in an answer; raise `Unavailable` if there is no list. Other items are skipped."""
        value = answer.get(field)
        if not isinstance(value, list):
            raise self.malformed(f"It has no list {field!r}.")
        for item in cast("list[object]", value)[:_READ_ROWS]:
            if isinstance(item, dict):
                yield cast("dict[str, Any]", item)

    def object(self, answer: Mapping[str, Any], field: str) -> Mapping[str, Any]:
        """Return an object in an answer; raise `Unavailable` if there is none."""
        value = answer.get(field)
        if not isinstance(value, dict):
            raise self.malformed(f"It has no object {field!r}.")
        return cast("dict[str, Any]", value)

    def malformed(self, why: str) -> Unavailable:
        """Return the error for an answer in another shape."""
        return Unavailable(
            f"The registry {self.name} sent an invalid answer. {why}",
            hint="Try again later, or use another registry with `--registry`.",
        )


def first_entries(entries: Iterable[RegistryEntry | None], limit: int) -> list[RegistryEntry]:
    """Return the first readable entries, each id once: a second claim on an id is not shown."""
    found: dict[str, RegistryEntry] = {}
    for entry in entries:
        # Ids that differ only in case look like the same skill.
        if entry is not None and entry.id.casefold() not in found:
            found[entry.id.casefold()] = entry
        if len(found) >= limit:
            break
    return list(found.values())


def read_text(row: Mapping[str, Any], *names: str, limit: int = 200) -> str:
    """Return the first of these fields that is a text, in one line and without hidden characters; '' if none is."""
    value = next((row[name] for name in names if isinstance(row.get(name), str) and row[name].strip()), "")
    # A name needs no zero-width, bidirectional or tag characters, and a model would read what a person does not see.
    return "".join(char if char.isprintable() else "\ufffd" for char in " ".join(value[:limit].split()))


def read_count(value: object) -> int | None:
    """Return a plausible count, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MAX_INSTALLS else None


def read_time(value: object) -> str:
    """Return a time in milliseconds since 1970, or a text, as ISO 8601; '' if it is neither."""
    if isinstance(value, str):
        return clean_text(value, limit=40)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MAX_MILLISECONDS:
        return ""
    return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
