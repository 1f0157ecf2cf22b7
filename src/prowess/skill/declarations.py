"""Parse the requests (`http_call`) and commands (`cli_command`) that artifacts declare, with their slots for values.

A slot is `{{ name }}`, `{{ name.part.0 }}`, or `{{ env.NAME }}` for a secret. A text is split into its slots once. The
caller that fills the slots escapes each value for its place, so that a value can never be read as anything else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.skill.kinds import CliCommand, FrozenModel, HttpCall, JsonObject
from prowess.skill.limits import MIB
from prowess.skill.schema import measure_depth
from prowess.suggestions import near_names

_SLOT = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*(?:\.\w+)*)[ \t]*\}\}", re.ASCII)
_ENV_PREFIX = "env"
_SLOT_HINT = "Only {{ name }} is supported here. Compute other values before the call and pass them as inputs."


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder for one value, identified by its path."""

    path: tuple[str, ...]

    @property
    def secret(self) -> str:
        """The environment variable it refers to; '' if it refers to an input."""
        return ".".join(self.path[1:]) if self.path[0] == _ENV_PREFIX and len(self.path) > 1 else ""

    def __str__(self) -> str:
        return f"{{{{ {'.'.join(self.path)} }}}}"

    def value(self, values: Mapping[str, Any]) -> Any:
        """Return the input value at this path, or None."""
        found: Any = values
        for part in self.path:
            if isinstance(found, Mapping):
                found = cast("Mapping[str, Any]", found).get(part)
            # Python refuses to parse very long numbers, and no list is that long.
            elif isinstance(found, list) and part.isdecimal() and len(part) < 10:
                items = cast("list[Any]", found)
                found = items[int(part)] if int(part) < len(items) else None
            else:
                return None
        return found


TextPieces = tuple[str | Slot, ...]


def parse_slots(text: str) -> TextPieces:
    """Return the text and its slots in order, without empty texts; raise `Invalid` for any other expression in braces."""
    pieces: list[str | Slot] = []
    for at, piece in enumerate(_SLOT.split(text)):
        if at % 2:
            pieces.append(Slot(tuple(piece.split("."))))
            continue
        # By hand: a pattern takes time with the square of the length if no braces are closed.
        start = piece.find("{{")
        end = piece.find("}}", start + 2) if start >= 0 else -1
        if end >= 0:
            raise Invalid(f"{piece[start : end + 2][:80]!r} is not a valid placeholder.", hint=_SLOT_HINT)
        if piece:
            pieces.append(piece)
    return tuple(pieces)


def compact_slots(text: str) -> str:
    """Return the text with white space removed inside its slots, so that each slot stays one word."""
    return _SLOT.sub(r"{{\1}}", text)


def find_slots(value: Any) -> list[Slot]:
    """Return every slot in the texts of a JSON value."""
    if isinstance(value, str):
        return [piece for piece in parse_slots(value) if isinstance(piece, Slot)]
    inner = value
    if isinstance(value, Mapping):
        inner = list(cast("Mapping[str, Any]", value).values())
    return [slot for item in cast("list[Any]", inner) for slot in find_slots(item)] if isinstance(inner, list) else []


HttpMethod = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
IDEMPOTENT_METHODS: frozenset[HttpMethod] = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that may be repeated when it is unknown whether the request arrived."""
MAX_REQUEST_SECONDS = 300.0
MAX_RESPONSE_BYTES = 16 * MIB
MAX_ATTEMPTS = 5
MAX_BODY_DEPTH = 32

_METHOD_AND_URL = re.compile(r"(?:([A-Za-z]++)\s++)?(\S.*)", re.DOTALL)
# The host ends before the first slot, so that no input can extend it. `@` would start another host, and some clients
# read a backslash as a slash.
_FIXED_HOST = re.compile(r"(?:https?)://[^\s/?#{}\\@]+(?=[/?]|$)", re.IGNORECASE)
_REQUEST_HINT = "Declare the request like this: GET https://api.example.com/items/{{ id }}"


def _check_status(value: int | str) -> int | str:
    if isinstance(value, int) and 200 <= value <= 599:
        return value
    if isinstance(value, str) and re.fullmatch(r"[2-5]xx", value.lower()):
        return value.lower()
    raise ValueError("a status must be a number such as 201, or a class such as 2xx")


def _as_list(value: Any) -> Any:
    return cast("Any", value) if isinstance(value, list | tuple) else (value,)


class DeclaredResponse(FrozenModel):
    """How a response is parsed. `select` is a dotted path, or a path for each field of the resulting object."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    read_as: Literal["", "json", "text"] = Field(default="", alias="as")
    """'' to follow the content type of the response."""
    select: str | dict[str, str] = ""
    status: Annotated[
        tuple[Annotated[int | str, AfterValidator(_check_status)], ...], BeforeValidator(_as_list), Field(min_length=1)
    ] = ("2xx",)

    def accepts(self, status: int) -> bool:
        """Return True if a response with this status counts as success."""
        return status in self.status or f"{status // 100}xx" in self.status


class DeclaredRequest(FrozenModel):
    """A request with slots for values. No slot can change the host."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    method: HttpMethod
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, Any] = Field(default_factory=dict)
    body: Any = None
    response: DeclaredResponse = Field(default_factory=DeclaredResponse)
    timeout_seconds: float = Field(default=30.0, gt=0, le=MAX_REQUEST_SECONDS)
    attempts: int = Field(default=3, ge=1, le=MAX_ATTEMPTS)
    max_bytes: int = Field(default=4 * MIB, ge=1, le=MAX_RESPONSE_BYTES)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The environment variables it uses."""
        slots = find_slots([list(self.headers.values()), list(self.query.values()), self.body])
        return tuple(dict.fromkeys(slot.secret for slot in slots if slot.secret))


REQUEST_FIELDS = tuple(name for name in DeclaredRequest.model_fields if name != "url")
"""The fields that the metadata of an `http_call`, or the implementation of a descriptor, can have."""


def parse_request(call: HttpCall) -> DeclaredRequest:
    """Return the request of an artifact; raise `Invalid` with the reason if it is not valid."""
    try:
        declared = DeclaredRequest.model_validate(_request_settings(call))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        details = "; ".join(f"{'.'.join(map(str, fault['loc'][:3]))}: {fault['msg']}" for fault in faults[:3])
        raise Invalid(f"The request {call.name!r} is not valid: {details}.", hint=_REQUEST_HINT) from None
    _check_url(declared.url)
    _check_field_names("header", declared.headers)
    _check_field_names("query", declared.query)
    for value in declared.query.values():
        _check_query_value(value)
    if measure_depth(declared.body, limit=MAX_BODY_DEPTH) > MAX_BODY_DEPTH:
        raise Invalid(f"The body of {call.name!r} is nested too deeply; the limit is {MAX_BODY_DEPTH} levels.")
    if any(slot.path == ("env",) for slot in find_slots([declared.body, *declared.headers.values()])):
        raise Invalid("{{ env }} is not a value.", hint="Name the variable: {{ env.NAME }}.")
    return declared


def request_url(call: HttpCall) -> str:
    """Return the URL of a request with its slots. The same text is sent and shown as the declared host."""
    found = _METHOD_AND_URL.fullmatch(call.handler.strip())
    return found[2] if found else ""


def _request_settings(call: HttpCall) -> JsonObject:
    """Return the settings of the artifact, with the method before the URL, or the one that a body implies."""
    for name in call.metadata:
        suggestions = [] if name in REQUEST_FIELDS else near_names(name, REQUEST_FIELDS, count=1)
        if suggestions:
            raise Invalid(
                f"The request {call.name!r} has an unknown field {name[:40]!r}.",
                hint=f"Did you mean {suggestions[0]!r}?",
            )
    found = _METHOD_AND_URL.fullmatch(call.handler.strip())
    before = found[1] if found else None
    stated = call.metadata.get("method")
    if before and isinstance(stated, str) and before.upper() != stated.upper():
        raise Invalid(
            f"The request {call.name!r} has two methods, {before!r} and {stated[:20]!r}.", hint="Remove one of them."
        )
    method = before or stated or ("GET" if call.metadata.get("body") is None else "POST")
    return {**call.metadata, "url": request_url(call), "method": method.upper() if isinstance(method, str) else method}


def _check_url(url: str) -> None:
    if _FIXED_HOST.match(url) is None:
        raise Invalid(
            "The request's URL must start with https:// and a literal host.",
            hint="Inputs can fill the path and the query, but not the host. " + _REQUEST_HINT,
        )
    if "#" in url:
        raise Invalid("The request's URL has a fragment (#…), which is never sent.", hint="Remove the fragment.")
    if any(slot.path[0] == "env" for slot in find_slots(url)):
        raise Invalid(
            "The request's URL contains an environment variable.",
            hint="Use {{ env.NAME }} only in headers, query or body.",
        )


def _check_field_names(what: str, fields: Mapping[str, Any]) -> None:
    for name in fields:
        if "{{" in name or not name.strip():
            raise Invalid(
                f"The request has a {what} field whose name is empty or contains a placeholder.",
                hint="Use placeholders only in values.",
            )


def _check_query_value(value: Any) -> None:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float | bool) for item in items):
        raise Invalid(
            "A query field of the request must be a string, a number, a boolean or a list of these.",
            hint="Replace nested objects with plain values.",
        )
    # Called for its checks: it raises for any other expression in braces.
    find_slots(items)


MAX_COMMAND_SECONDS = 3_600.0
ArgumentTemplate = str | tuple[str, ...]
"""One argument, or several that are omitted together if an input of one of them has no value."""


def split_command_line(line: str) -> tuple[str, ...]:
    """Split a command line by its quotes. Nothing else is special: no shell runs it."""
    try:
        return tuple(shlex.split(compact_slots(line)))
    except ValueError as error:
        raise Invalid(f"The command line is not valid: {error}.", hint="Close the quotes.") from None


def _split_text(value: Any) -> Any:
    return split_command_line(value) if isinstance(value, str) else value


class CommandSettings(FrozenModel):
    """The settings of a command in its metadata; other metadata is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    args: Annotated[tuple[ArgumentTemplate, ...], BeforeValidator(_split_text)] = ()
    stdin: str = ""
    output: Literal["text", "json", "lines"] = "text"
    timeout_seconds: Annotated[float, Field(gt=0, le=MAX_COMMAND_SECONDS)] = 30.0
    success_codes: tuple[int, ...] = (0,)


def parse_command(artifact: CliCommand) -> tuple[tuple[str, ...], CommandSettings]:
    """Return the program with its fixed arguments, and the settings; raise `Invalid` with the reason if they are not valid."""
    try:
        settings = CommandSettings.model_validate(artifact.metadata)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        details = "; ".join(f"{'.'.join(map(str, fault['loc'][:2]))}: {fault['msg']}" for fault in faults[:3])
        raise Invalid(
            f"The command {artifact.name!r} is not valid: {details}.", hint="Fix it in the manifest."
        ) from None
    words = split_command_line(artifact.handler)
    if not words or not words[0] or "{" in words[0] or "/" in words[0] or words[0].startswith("-"):
        raise Invalid(
            f"{artifact.handler[:80]!r} does not start with a program name.",
            hint="Start with a plain program name, without a path or a placeholder. Put arguments "
            "after it or in `args`.",
        )
    return words, settings
