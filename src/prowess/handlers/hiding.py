"""What a run was given in confidence, kept out of all that is said about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from prowess.redaction.environment import secrets_in
from prowess.redaction.known import REDACTED, KnownValues


class Hiding:
    """Removes the values of an environment from texts, however they are written, and its secrets from data.

    A value whose name does not say that it is secret, such as the name of a model, may be in a result.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._values = KnownValues(env.values())
        self._secrets = KnownValues(secrets_in(env))
        self._is_idle = not env

    def text(self, text: str) -> str:
        """A text about the run, without any of the values."""
        return text if self._is_idle else self._values.redact(text)

    def data(self, value: Any) -> Any:
        """A JSON value without the secrets."""
        if self._is_idle or not self._secrets.found_in(json.dumps(value)):
            return value
        return self._walk(value)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._secrets.redact(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {self._secrets.redact(name): self._walk(inner) for name, inner in members}
        if isinstance(value, list):
            return [self._walk(inner) for inner in cast("list[Any]", value)]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return REDACTED if is_number and self._secrets.has_number(value) else value
