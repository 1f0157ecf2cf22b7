"""The redactor for everything that goes into traces, logs and error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from prowess.errors import Invalid
from prowess.redaction.known import REDACTED, SHORTEST_SECRET, KnownValues, replace_surrogates
from prowess.redaction.patterns import NAME_HINT, SHAPE_HINT, has_secret_name, redact_named, redact_shapes
from prowess.redaction.regex import compile_linear

_LONG_PART = 16
"""Shorter parts of a secret are not redacted by themselves."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:auth|bearer|cookie|credential|dsn|jwt|keys?|pass|passphrase|passwords|pat|pwd|salt|secrets|signature|webhook)(?:_|$)"
    r"|(?:^|_)(?:apikey|credentials|passwd|password|secret|token)(?:_|$)"
    r"|(?:apikey|credentials|passwd|password|secret|token)$"
)
# `PWD` is the working folder, and `TOKEN_LIMIT` or `TOKEN_FILE` hold no secret themselves. Redacting their values would
# remove ordinary numbers and paths from every trace.
_HARMLESS_NAME = re.compile(
    r"(?:old)?pwd$|(?:^|.*_)(?:max|min|public)(?:_|$)"
    r"|.*_(?:algorithm|algo|count|dir|enabled|expiry|file|folder|header|home|length|limit|method|mode|name|path|prefix|seconds"
    r"|size|sock|ttl|type)$"
)


_TOKEN_LENGTH = 16
"""A user name in a URL is taken for a token from this length on."""


def find_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables with secret names, and the secrets in all values that are URLs."""
    return frozenset(value for value in _candidate_values(environment) if len(value) >= SHORTEST_SECRET)


def _candidate_values(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if is_secret_variable(name):
            yield value.strip()
            yield from _secret_parts(value)
        if "://" in value:
            yield from _url_secrets(value)


def _secret_parts(value: str) -> Iterator[str]:
    """Yield the parts that are secret by themselves: lines of a key, items of a list, secret members of a JSON object."""
    if not value.lstrip().startswith("{"):
        parts = re.split(r"[\s,;]+", value.strip())
        # `-----BEGIN …` is the same in every key, so it is not secret.
        yield from (part for part in parts if len(part) >= _LONG_PART and "-----" not in part)
        return
    try:
        found: Any = json.loads(value)
    except (ValueError, RecursionError):
        return
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    yield from (inner for key, inner in members.items() if isinstance(inner, str) and has_secret_name(key))


def is_secret_variable(name: str) -> bool:
    """Return True if the name of a variable says that it holds a secret."""
    lowered = name.lower().replace("-", "_")
    return not _HARMLESS_NAME.match(lowered) and _SECRET_NAME.search(lowered) is not None


def _url_secrets(value: str) -> Iterator[str]:
    """Yield the secrets in URLs: the password, a user name long enough to be a token, and parameters with secret names."""
    for url in value.split():
        try:
            parts = urlsplit(url)
            user, password = parts.username or "", parts.password or ""
        except ValueError:
            continue
        found = [password, user if len(user) >= _TOKEN_LENGTH else ""]
        found += [value for name, value in parse_qsl(parts.query) if has_secret_name(name)]
        for secret in filter(None, found):
            yield secret
            # Programs decode a password before they use or log it.
            yield unquote(secret)


SECRET_HINT = f"{NAME_HINT}|{SHAPE_HINT}"
"""Matches in every text with a named or shaped secret, and in few others: a cheap test before the exact patterns."""


class Redactor:
    """Removes secrets from texts and JSON values: known ones in any spelling, and unknown ones by name or shape.

    Thread-safe. Known values are always removed; an unknown secret stays if neither its name nor its shape shows it.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = KnownValues(secrets)

    def is_clean(self, text: str) -> bool:
        """Return True if a quick check shows that the text (also JSON) has no secrets; False means it must be redacted."""
        text = replace_surrogates(text)
        return not compile_linear(SECRET_HINT).search(text) and not self._known.found_in(text)

    def text(self, text: str) -> str:
        """Return the text with every secret replaced by `[redacted]`, or `[redacted:kind]` if its kind is known."""
        # Known values first: they are exact, and a pattern that cut one in half would leave the rest in the text.
        text = self._known.redact(replace_surrogates(text))
        return redact_shapes(redact_named(text)) if compile_linear(SECRET_HINT).search(text) else text

    def value(self, value: Any) -> Any:
        """Return a redacted copy of a JSON value; anything under a secret name is replaced whatever it looks like.

        Raise `Invalid` for a value that is nested too deeply, such as the arguments of a call that a model made up.
        """
        try:
            return self._walk(value, hidden=False)
        except RecursionError:
            raise Invalid("The value is nested too deeply.", hint="Use lists and objects with fewer levels.") from None

    def _walk(self, value: Any, *, hidden: bool) -> Any:
        if isinstance(value, str):
            return REDACTED if hidden and value else self.text(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            # Keys may contain secrets, too. Everything below a secret name is hidden, whatever its own names.
            return {self.text(key): self._walk(inner, hidden=hidden or has_secret_name(key)) for key, inner in members}
        if isinstance(value, list | tuple):
            return [self._walk(inner, hidden=hidden) for inner in cast("list[Any]", value)]
        if value is None or isinstance(value, bool):
            return value
        return REDACTED if hidden or self._known.has_number(value) else value
