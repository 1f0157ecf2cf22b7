"""The header fields that a request may bring, and which of them go along to another host."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prowess.errors import Invalid

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MOST_FIELDS = 64
LONGEST_FIELDS = 32_768
"""All names and values of a request together."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_UNFIT = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_OURS = frozenset({"accept-encoding", "connection", "content-length", "keep-alive"})
"""Said by whoever sends the request; what the request says is passed over."""
_REFUSED = frozenset({"expect", "host", "te", "trailer", "transfer-encoding", "upgrade"})
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""What also goes to a host that only a redirect names. Any other field may hold a secret."""
_OF_A_BODY = frozenset({"content-encoding", "content-language", "content-type"})


def method_of(text: str) -> str:
    """The method in capital letters; `Invalid` where it is none that is sent."""
    method = text.upper()
    if method not in METHODS:
        raise Invalid("The method is none that is sent.", hint=f"Use one of {', '.join(sorted(METHODS))}.")
    return method


def fields_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The fields by name in lower case; `Invalid` names one that may not be sent, and never shows a value."""
    if len(headers) > MOST_FIELDS or sum(len(name) + len(value) for name, value in headers.items()) > LONGEST_FIELDS:
        raise Invalid(
            f"The header has more than {MOST_FIELDS} fields, or more than {LONGEST_FIELDS:,} characters.",
            hint="Send less, or send it in the body.",
        )
    fields: dict[str, str] = {}
    for given, value in headers.items():
        name = given.lower()
        _check(name, value)
        if name in fields:
            raise Invalid(f"The header field {name!r} is given twice.", hint="Give it once.")
        if name not in _OURS:
            fields[name] = value.strip(" \t")
    return fields


def kept_elsewhere(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields that go along to another host than the one they were meant for."""
    return {name: value for name, value in fields.items() if name in _HARMLESS}


def without_body(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields of a request whose body stays behind."""
    return {name: value for name, value in fields.items() if name not in _OF_A_BODY}


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise Invalid("A header field has a name that none can have.", hint="Use letters, digits and hyphens.")
    if name in _REFUSED or name.startswith("proxy-"):
        raise Invalid(f"The header field {name!r} is not for a request to set.", hint="Leave it out.")
    if _UNFIT.search(value):
        raise Invalid(
            f"The value of the header field {name!r} has a line break or a sign that no header has.",
            hint="Send it in the body, or encode it.",
        )
