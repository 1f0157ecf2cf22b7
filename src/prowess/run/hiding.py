"""What a run was given in confidence, kept out of all that is said about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from prowess.redaction.environment import secrets_in
from prowess.redaction.known import REDACTED, KnownValues


class Hiding:
    """Removes the values of an environment from what is told about a run, however they are written, and its secrets from data.

    A value whose name does not say that it is secret, such as the name of a model, may be in a result.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env = dict(env or {})
        self._values = KnownValues(self.env.values())
        self._secrets = KnownValues(secrets_in(self.env))

    def together_with(self, env: Mapping[str, str]) -> Hiding:
        """One that hides these values, too."""
        return Hiding({**self.env, **env}) if env else self

    def text(self, text: str) -> str:
        """A text about the run, without any of the values."""
        return self._values.redact(text) if self.env else text

    def told(self, value: Any) -> Any:
        """JSON about the run, such as its inputs, without any of the values."""
        return self._without(value, self._values)

    def data(self, value: Any) -> Any:
        """A JSON value without the secrets."""
        return self._without(value, self._secrets)

    def _without(self, value: Any, known: KnownValues) -> Any:
        if not self.env or not known.found_in(json.dumps(value, ensure_ascii=False, default=str)):
            return value
        return _walk(value, known)


def _walk(value: Any, known: KnownValues) -> Any:
    if isinstance(value, str):
        return known.redact(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {known.redact(name): _walk(inner, known) for name, inner in members}
    if isinstance(value, list | tuple):
        return [_walk(inner, known) for inner in cast("list[Any]", value)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return REDACTED if is_number and known.has_number(value) else value
