"""The resources that a call used or was refused, and a filter that keeps granted secrets out of reports about the call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from prowess.redaction.known import REDACTED, KnownValues
from prowess.redaction.redactor import find_secrets
from prowess.skill.kinds import JsonObject

ResourceKind = Literal["hosts", "env", "read", "written", "skills", "binaries", "packages", "pages", "models"]

MAX_NAMES = 100
"""Different names counted for one kind of resource; all others count as `others`."""
OTHERS = "others"
_NAME_CHARS = 200


class Receipt:
    """The outside resources that a call used or was refused, together with those that its skill declares.

    Only the code that hands something out writes to it; a skill cannot.
    """

    def __init__(self, declared: JsonObject | None = None) -> None:
        self._declared = declared or {}
        self.redact: Callable[[str], str] = str
        """Removes secrets from a name."""
        self._touched: dict[ResourceKind, Counter[str]] = {}
        self._refused: dict[ResourceKind, Counter[str]] = {}

    def touch(self, kind: ResourceKind, name: str) -> None:
        """Note that the call used a resource."""
        _count(self._touched, kind, self.redact(name))

    def refuse(self, kind: ResourceKind, name: str) -> None:
        """Note that a resource was refused."""
        _count(self._refused, kind, self.redact(name))

    @property
    def is_empty(self) -> bool:
        """True if nothing was declared, used or refused."""
        return not (self._touched or self._refused or self._declared)

    def as_json(self) -> JsonObject:
        """Return what was declared, and how often each resource was used or refused."""
        return {
            "declared": self._declared,
            "touched": {kind: dict(names) for kind, names in self._touched.items()},
            "refused": {kind: dict(names) for kind, names in self._refused.items()},
        }


def _count(counts: dict[ResourceKind, Counter[str]], kind: ResourceKind, name: str) -> None:
    names, short = counts.setdefault(kind, Counter()), name[:_NAME_CHARS]
    # Code chooses the names, such as hosts that it tries, so their number must be limited.
    is_counted = short in names or len(names) < MAX_NAMES
    names[short if is_counted else OTHERS] += 1


class SecretFilter:
    """Removes the environment values that a run was granted from texts and JSON about the run. Immutable."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env = dict(env or {})
        self._values = KnownValues(self.env.values())
        self._secrets = KnownValues(find_secrets(self.env))

    def extended(self, env: Mapping[str, str]) -> SecretFilter:
        """Return a filter that removes these values too."""
        return SecretFilter({**self.env, **env}) if env else self

    def redact_text(self, text: str) -> str:
        """Return a text without any of the values."""
        return self._values.redact(text) if self.env else text

    def redact_json(self, value: Any) -> Any:
        """Return JSON about the run, such as its inputs, without any of the values."""
        return self._redact(value, self._values)

    def redact_output(self, value: Any) -> Any:
        """Return the output of a run without the secret values.

        A value whose name does not mark it as a secret, such as the name of a model, may be part of an output.
        """
        return self._redact(value, self._secrets)

    def _redact(self, value: Any, known: KnownValues) -> Any:
        # Most values hold no secret: one search through their JSON is cheaper than walking them.
        if not self.env or not known.found_in(json.dumps(value, ensure_ascii=False, default=str)):
            return value
        return _redact_value(value, known)


NO_SECRETS = SecretFilter()


def _redact_value(value: Any, known: KnownValues) -> Any:
    if isinstance(value, str):
        return known.redact(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {known.redact(name): _redact_value(inner, known) for name, inner in members}
    if isinstance(value, list | tuple):
        return [_redact_value(inner, known) for inner in cast("list[Any]", value)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return REDACTED if is_number and known.has_number(value) else value
