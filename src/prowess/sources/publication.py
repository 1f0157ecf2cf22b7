"""Publish versions to a Prowess registry, and yank them."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from prowess.errors import Conflict, Invalid, NotFound, ProwessError, Refused, TooLarge, TryLater, Unavailable
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.net.target import Target, parse_target
from prowess.skill.archive import write_archive
from prowess.skill.json_values import json_object, json_value
from prowess.skill.limits import MIB
from prowess.skill.package import Package

_SECONDS = 120.0
_ANSWER_BYTES = 4 * MIB
_ERRORS: Mapping[int, type[ProwessError]] = {404: NotFound, 409: Conflict, 413: TooLarge, 422: Invalid}


class Publisher:
    """Publishes to one registry with one token.

    The person who runs this chose the registry, so it may be on this machine or in a private network. Over plain http it must
    be on this machine, because the token would travel in the open.
    """

    def __init__(self, client: HttpClient, base_url: str, token: str) -> None:
        self._client = client
        self._target = _check_url(base_url)
        self._base = base_url.strip().rstrip("/")
        self._token = token

    async def publish(self, package: Package, signature: bytes = b"") -> dict[str, Any]:
        """Publish the version that is written in the package, and return what the registry says about it.

        Raise `Conflict` if the version was published with other files, `Refused` if the token may not publish it or a quota is
        exceeded, and `Invalid` if the registry does not accept the package.
        """
        headers = {"content-type": "application/zip"}
        if signature:
            headers["prowess-signature"] = base64.b64encode(signature).decode()
        return await self._send("POST", "/api/v1/skills", write_archive(package, "zip"), headers)

    async def yank(self, name: str, version: str, *, undo: bool = False) -> dict[str, Any]:
        """Hide a version from new installs, or undo that, and return what the registry says about it."""
        path = f"/api/v1/skills/{quote(name, safe='')}/{quote(version, safe='')}/yank"
        return await self._send("DELETE" if undo else "PUT", path, b"", {})

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        target = self._target.shown
        request = HttpRequest(
            url=self._base + path,
            method=method,
            headers={**headers, "authorization": f"Bearer {self._token}"},
            body=body,
            hosts=(f"{target}:{self._target.port}" if target == self._target.host else target,),
            routes={target: f"{self._target.scheme}://{target}"},
            seconds=_SECONDS,
            answer_bytes=_ANSWER_BYTES,
            redirects=0,
        )
        return _read_answer(await self._client.send(request), target)


def _check_url(base_url: str) -> Target:
    target = parse_target(base_url.strip())
    address = target.address
    is_here = target.host == "localhost" or (address is not None and ipaddress.ip_address(str(address)).is_loopback)
    if target.scheme != "https" and not is_here:
        raise Refused(
            f"The token would be sent to {target.shown} without encryption.", hint="Use the https URL of the registry."
        )
    return target


def _read_answer(response: HttpResponse, shown: str) -> dict[str, Any]:
    fields = json_object(json_value(response.body))
    if response.status in (200, 201) and fields:
        return fields
    detail, hint = str(fields.get("detail", ""))[:1000], str(fields.get("hint", ""))[:1000]
    if response.status == 401:
        raise Refused(
            f"{shown} does not accept the token.",
            hint="Set PROWESS_REGISTRY_TOKEN to a token from `prowess registry token create`.",
        )
    if response.status == 403:
        raise Refused(detail or f"{shown} refused the request.", hint=hint)
    if response.status in (429, 503):
        raise TryLater(detail or f"{shown} is overloaded.", hint="Try again later.")
    if response.status in _ERRORS and detail:
        raise _ERRORS[response.status](detail, hint=hint)
    raise Unavailable(
        f"{shown} answered HTTP {response.status}, which a Prowess registry would not do.",
        hint="Check the URL of the registry.",
    )
