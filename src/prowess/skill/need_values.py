"""How a need is written: a host, a name of the environment, a folder, a package, a program. Everything else is no need.

A skill from elsewhere writes what it likes here, so nothing is taken that could be read in two ways, shown as something
else than it is, or become an option or an address of its own.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

MOST = 50
"""So many values of one need count."""

_LONGEST = 300
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(\*\.)?({_LABEL}(?:\.{_LABEL})*)(?::([0-9]{{1,5}}))?")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_BINARY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
_PACKAGE = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(\[[A-Za-z0-9._, \t-]*\])?")
_SPECIFIER = re.compile(r"(?:~=|===?|!=|<=?|>=?)[ \t]*[A-Za-z0-9.*+!_-]+")
_MARKER = re.compile(r"[A-Za-z0-9_.'\"<>=!~() \t-]+")
_READ_ONLY, _WRITABLE = "ro:", "rw:"
_HTTPS = 443


def host(text: str) -> str | None:
    """`name`, `name:port` or `*.name`, in lower case and ASCII; None for anything else, an address with a path included."""
    try:
        plain = text if text.isascii() else text.encode("idna").decode()
    except UnicodeError:
        return None
    found = _HOST.fullmatch(plain.lower().removesuffix("."))
    if found is None:
        return None
    below, name, port = found[1] or "", found[2], int(found[3] or _HTTPS)
    if len(name) > 253 or not 0 < port < 65_536 or not _is_name(name, below=bool(below)):
        return None
    return f"{below}{name}" if port == _HTTPS else f"{below}{name}:{port}"


def _is_name(name: str, *, below: bool) -> bool:
    """Whether it cannot be mistaken for another way to write an address; `*.` goes with two labels or more."""
    last = name.rpartition(".")[2]
    if not (last.isdigit() or last.startswith("0x")):
        return not below or "." in name
    try:
        return not below and str(ipaddress.IPv4Address(name)) == name
    except ValueError:
        return False


def env_name(text: str) -> str | None:
    """A name as environments have them."""
    return text if _ENV.fullmatch(text) else None


def root(text: str) -> str | None:
    """A folder, with `rw:` before it where it is written to; `..` and `~` lead out of where a reader thinks they are."""
    path, writable = split_root(text)
    tidy = posixpath.normpath(path) if path else ""
    if not tidy or not tidy.isprintable() or "\\" in tidy or tidy.startswith(("~", "//")) or ".." in tidy.split("/"):
        return None
    return f"{_WRITABLE}{tidy}" if writable else tidy


def split_root(text: str) -> tuple[str, bool]:
    """The folder of a root, and whether it is written to."""
    if text.startswith(_WRITABLE):
        return text.removeprefix(_WRITABLE).strip(), True
    return text.removeprefix(_READ_ONLY).strip(), False


def requirement(text: str) -> str | None:
    """A package by its name, with extras, versions and a marker; never by an address, a path or an option."""
    named, mark, marker = text.partition(";")
    found = _PACKAGE.match(named)
    if found is None or (mark and not _MARKER.fullmatch(marker)):
        return None
    rest = named[found.end() :].strip().removeprefix("(").removesuffix(")")
    if rest and not all(_SPECIFIER.fullmatch(one.strip()) for one in rest.split(",")):
        return None
    return " ".join(text.split())


def binary(text: str) -> str | None:
    """A program by its name alone."""
    return text if _BINARY.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one value of a need is read, and in words what it takes. One text may hold several, parted by `between`."""

    read: Callable[[str], str | None]
    takes: str
    between: str = ",\n"


FORMS: Mapping[str, Form] = {
    "hosts": Form(
        read=host, takes="hosts such as api.example.com, api.example.com:8443 or *.example.com, without https://"
    ),
    "env": Form(read=env_name, takes="names of the environment such as EXAMPLE_API_KEY, without values"),
    "roots": Form(read=root, takes="folders such as notes or rw:out, without .. and ~", between="\n"),
    "requirements": Form(
        read=requirement, takes="packages by name such as numpy or 'numpy>=2,<3', without addresses", between="\n"
    ),
    "binaries": Form(read=binary, takes="names of programs such as git, without folders"),
}
"""The needs that are lists."""


def read_values(name: str, value: Any) -> tuple[tuple[str, ...], list[Any]]:
    """What a list of a manifest, or one text, gives for a need; and what of it cannot be read."""
    form = FORMS[name]
    if value is None:
        return (), []
    if isinstance(value, str):
        listed: list[Any] = [part for part in _split(value, form.between) if part.strip()]
    else:
        listed = [*cast("list[Any]", value)] if isinstance(value, list | tuple) else [value]
    read: dict[str, None] = {}
    unread: list[Any] = listed[MOST:]
    for item in listed[:MOST]:
        found = form.read(item.strip()) if isinstance(item, str) and len(item) <= _LONGEST else None
        if found is None:
            unread.append(item)
        else:
            read[found] = None
    return tuple(read), unread


def _split(text: str, between: str) -> list[str]:
    for mark in between:
        text = text.replace(mark, "\n")
    return text.split("\n", MOST)
