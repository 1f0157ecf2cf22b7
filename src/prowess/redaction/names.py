"""Secrets that are named: `api_key: …`, `Authorization: Bearer …`, `--password …`, and the keys of JSON objects."""

from __future__ import annotations

import re
from functools import lru_cache

from prowess.redaction.linear import Match, linear

_NAMES = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|account[_-]?key|auth[_-]?key|"
    r"encryption[_-]?key|signing[_-]?key|client[_-]?secret|secret|token|passw(?:or)?d|passphrase|pwd|credentials?)"
)
_VALUE = r"[^\s\"'`,;<>{}()\[\]&|]{6,}"
_ASSIGNED = (
    rf"(?i)(?P<before>\b(?:[a-z0-9_.-]*[_.-]|[a-z0-9]*)?(?P<name>{_NAMES})\\?[\"'`]?\s*(?::=|=>|=|:)\s*\\?[\"'`]?)"
    rf"(?P<value>{_VALUE})(?P<after>\(?)"
)
_OPTION = rf"(?i)(?P<before>(?:^|\s)--?[a-z0-9-]*(?P<name>{_NAMES})\s+[\"']?)(?P<value>{_VALUE})"
_HEADER = (
    r"(?i)(?P<before>\bauthorization\\?[\"'`]?\s*[:=]\s*\\?[\"'`]?(?:(?:bearer|basic|token|digest|apikey)\s+)?|\bbearer\s+)"
    r"(?P<value>[A-Za-z0-9._~+/=:-]{8,})"
)
_COOKIE = r"(?i)(?P<before>\b(?:set-)?cookie:\s*)(?P<value>[^\s=;]+=[^\s;]{10,}[^\r\n\"'`]*)"
_LOGIN = r"(?P<before>(?:^|\s)(?:-u|--user)[ =][\"']?[^\s:\"'$<{]+:)(?P<value>[^\s\"'$<{]{3,})"

NAME_HINT = (
    r"(?i:(?:key(?:[_-]?id)?|secret|token|passw(?:or)?d|passphrase|pwd|credentials?|authorization|cookie)\\?[\"'`]?\s*[:=]"
    rf"|-{_NAMES}\s|bearer\s|(?:-u|--user)[ =])"
)

_KEY = re.compile(
    r"(?:.*[^a-z])?(?:api_?key|access_?key|secret_?key|private_?key|account_?key|client_?secret|secret|token|password|"
    r"passwd|passphrase|pwd|credentials?|(?:proxy_)?authorization|(?:set_)?cookie)",
    re.DOTALL,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# What stands for a value in documentation: words for it anywhere, and words of programs as a part of their own.
_PLACEHOLDER = re.compile(
    r"your|example|placeholder|changeme|replace|generate|redacted|abc123|token123|x{3,}|\*{3,}|\.{3}|…|[$%]\w|^[#@/~.\\]|://"
    r"|(?:^|[^a-z0-9])(?:api|config|dummy|env|fake|false|id|input|key|name|none|null|password|sample|secret|settings|"
    r"string|test|todo|token|true|undefined|value)(?:$|[^a-z0-9])",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|0x[0-9a-zA-Z]{1,40}")

_WORDS = re.compile(r"[a-z_.:/-]+|[A-Z_]+|.*(?i:your|example|x{4}|\.{3}).*")


@lru_cache(maxsize=4096)
def has_secret_name(name: str) -> bool:
    """Whether what stands under this key of a JSON object is a secret."""
    if len(name) > 200:
        return False
    return _KEY.fullmatch(_HUMP.sub("_", name).replace("-", "_").replace(" ", "_").lower()) is not None


def redact_named(text: str) -> str:
    """The text without the values that are named as secrets and are more than a placeholder or an expression."""
    for pattern, replacement in _REPLACEMENTS:
        text = linear(pattern).sub(replacement, text)
    return text


def _unless_placeholder(match: Match) -> str:
    named = match.groupdict()
    after = named.get("after") or ""
    before, value = named.get("before") or "", named.get("value") or ""
    if after or "public" in before.lower() or not _looks_secret(value):
        return match.group()
    return f"{before}[redacted]"


def _unless_words(match: Match) -> str:
    """In the place of a credential every long value is one, unless it is written in small letters as words are."""
    named = match.groupdict()
    before, value = named.get("before") or "", named.get("value") or ""
    if len(value) >= 16 and not _WORDS.fullmatch(value):
        return f"{before}[redacted]"
    return _unless_placeholder(match)


def _looks_secret(value: str) -> bool:
    """Whether a value is neither a word, nor a name in a program, nor what stands for a value in documentation."""
    if _PLACEHOLDER.search(value) or _EXPRESSION.fullmatch(value):
        return False
    return any(character.isdigit() for character in value) and any(character.isalpha() for character in value)


_REPLACEMENTS = (
    (_HEADER, _unless_words),
    (_COOKIE, _unless_placeholder),
    (_LOGIN, _unless_placeholder),
    (_OPTION, _unless_placeholder),
    (_ASSIGNED, _unless_placeholder),
)
