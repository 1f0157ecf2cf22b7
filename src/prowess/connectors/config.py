"""The configuration of one connector: a command or a URL, with secrets named and never written down."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from prowess.errors import Invalid, Problem, ProwessError, Refused, Unavailable
from prowess.net.request import normalize_headers
from prowess.net.target import parse_target
from prowess.policy.text import clean_text, has_control_chars
from prowess.redaction.redactor import Redactor
from prowess.skill.json_values import json_object

MAX_SECONDS = 600
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,127})\}", re.ASCII)
# These make the dynamic linker, an interpreter or a shell run other code than the command that a person accepted.
_FORBIDDEN_VARIABLES = re.compile(
    r"LD_.*|DYLD_.*|PYTHON(PATH|HOME|STARTUP|INSPECT)|NODE_OPTIONS|BASH_ENV|ENV|PERL5(LIB|OPT)|RUBY(LIB|OPT)|PATH|HOME"
)
_EXAMPLE = "Use a reference to an environment variable, such as `${GITHUB_TOKEN}`."

Text = Annotated[str, Field(max_length=4_096)]


class ConnectorConfig(BaseModel):
    """One MCP server. It has either a `command` or a `url`.

    Values of `env` are references to variables, `${NAME}`; those of `headers` contain at least one. With `private`, the
    URL may lead to an address that is not public.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    command: Text = ""
    args: Annotated[list[Text], Field(max_length=100)] = []
    env: Annotated[dict[str, Text], Field(max_length=50)] = {}
    url: Text = ""
    headers: Annotated[dict[str, Text], Field(max_length=20)] = {}
    private: bool = False
    seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] = 60
    description: Annotated[str, Field(max_length=500)] = ""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """How the server is reached."""
        return "stdio" if self.command else "http"

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the environment variables that it refers to, sorted."""
        values = (*self.env.values(), *self.headers.values())
        return tuple(sorted({name for value in values for name in _REFERENCE.findall(value)}))

    @property
    def where(self) -> str:
        """The command line or the URL, for people. A query of a URL is left out."""
        return " ".join([self.command, *self.args]) if self.command else self.url.partition("?")[0]

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return self.model_dump(exclude_defaults=True)

    def digest(self, files: Mapping[str, str] | None = None) -> str:
        """Return the digest that an approval is bound to, with the digests of program files by name."""
        # Canonical JSON: no two configurations have the same text.
        content = {"config": self.model_dump(), "files": dict(sorted((files or {}).items()))}
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @field_validator("command", "args", "url", "description")
    @classmethod
    def _check_text(cls, value: str | list[str]) -> str | list[str]:
        for text in [value] if isinstance(value, str) else value:
            if has_control_chars(text):
                raise ValueError("contains control characters")
        return value

    @field_validator("env")
    @classmethod
    def _check_env(cls, env: dict[str, str]) -> dict[str, str]:
        for name, value in env.items():
            if not _VARIABLE.fullmatch(name) or _FORBIDDEN_VARIABLES.fullmatch(name):
                raise ValueError(f"the variable {clean_text(name, limit=80)!r} cannot be set")
            if not _REFERENCE.fullmatch(value):
                raise ValueError(f"the value of {name} is not a reference. {_EXAMPLE}")
        return env

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        try:
            normalize_headers(headers)
        except Invalid as error:
            raise ValueError(error.message) from None
        for name, value in headers.items():
            if not _REFERENCE.search(value):
                raise ValueError(f"the value of the header {name!r} contains no reference. {_EXAMPLE}")
        return headers

    @model_validator(mode="after")
    def _check_kind(self) -> ConnectorConfig:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either a command or a URL")
        wrong = [name for name in ("args", "env") if self.url and getattr(self, name)]
        wrong += [name for name in ("headers", "private") if self.command and getattr(self, name)]
        if wrong:
            raise ValueError(f"{' and '.join(wrong)} cannot be used with a {'URL' if self.url else 'command'}")
        if self.url:
            try:
                parse_target(self.url)
            except ProwessError as error:
                raise ValueError(error.message) from None
        if not Redactor().is_clean(json.dumps([self.command, *self.args, self.url])):
            redacted = Redactor().text(json.dumps([self.command, *self.args, self.url]))
            if "[redacted" in redacted:
                raise ValueError("the command line or the URL contains a secret; pass it in `env` or `headers` by name")
        return self


def check_name(name: str) -> str:
    """Return the name of a connector; raise `Invalid` if it is not one."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"Invalid name {clean_text(name, limit=80)!r} for a connector.",
            hint="Use lower-case letters, digits, `-` and `_`, for example `github`.",
        )
    return name


def parse_config(name: str, value: object) -> ConnectorConfig:
    """Return a configuration from JSON; raise `Invalid` with everything that is wrong with it."""
    check_name(name)
    try:
        return ConnectorConfig.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)[:20]
        problems = [
            Problem(
                code="connector",
                severity="error",
                message=f"{_place(fault['loc'])}{fault['msg'].removeprefix('Value error, ').rstrip('.')}.",
                field=name,
            )
            for fault in faults
        ]
        raise Invalid(
            f"The connector {name!r} is not valid: {' '.join(problem.message for problem in problems)}",
            hint=f"The fields of a connector are {', '.join(ConnectorConfig.model_fields)}.",
            problems=problems,
        ) from None


def _place(place: tuple[int | str, ...]) -> str:
    return f"{'.'.join(clean_text(str(part), limit=80) for part in place)}: " if place else ""


def resolve_references(values: Mapping[str, str], environment: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the values with every reference replaced; raise `Unavailable` if a variable is not set."""
    missing = [one for value in values.values() for one in _REFERENCE.findall(value) if not environment.get(one)]
    if missing:
        raise Unavailable(
            f"The connector {name!r} needs the environment variable {missing[0]}, which is not set.",
            hint=f"Set it and try again: export {missing[0]}=…",
        )
    return {key: _REFERENCE.sub(lambda found: environment[found[1]], value) for key, value in values.items()}


class ImportedConnector(BaseModel):
    """One entry of another product's file, as a connector, with what had to be changed."""

    name: str
    config: ConnectorConfig
    notes: list[str] = []


def read_import(text: str) -> list[ImportedConnector]:
    """Return the servers of a file such as `.mcp.json` of Claude Code or `mcp.json` of Cursor and VS Code.

    Values of variables and headers are not taken over, because they are secrets: each becomes a reference.
    Raise `Invalid` if the file has another shape.
    """
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid("The file is not valid JSON.", hint='It should have the member "mcpServers".') from None
    members = json_object(whole)
    servers: Any = members.get("mcpServers") or members.get("servers")
    if not isinstance(servers, dict) or not servers:
        raise Invalid("The file lists no MCP servers.", hint='It should have the member "mcpServers".')
    found: dict[str, ImportedConnector] = {}
    for name, entry in cast("dict[str, Any]", servers).items():
        imported = _import_entry(str(name), entry)
        if imported.name in found:
            raise Invalid(f"Two servers of the file would have the name {imported.name!r}.", hint="Rename one of them.")
        found[imported.name] = imported
    return list(found.values())


def _import_entry(raw_name: str, entry: Any) -> ImportedConnector:
    name = re.sub(r"[^a-z0-9_-]+", "-", raw_name.lower()).strip("-_")[:64]
    if not isinstance(entry, dict):
        raise Invalid(f"The entry {clean_text(raw_name, limit=80)!r} is not an object.")
    fields = cast("dict[str, Any]", entry)
    kind = fields.get("type", "stdio" if "command" in fields else "http")
    if kind not in ("stdio", "http", "streamable-http", "streamableHttp"):
        raise Refused(
            f"The server {clean_text(raw_name, limit=80)!r} uses the transport {clean_text(str(kind), limit=40)!r}.",
            hint="Connectors support stdio and streamable HTTP.",
        )
    notes: list[str] = []
    known = {"type", "command", "args", "env", "url", "headers"}
    notes += [f"`{clean_text(key, limit=40)}` was left out." for key in fields if key not in known]
    config: dict[str, Any] = {key: fields[key] for key in ("command", "args", "url") if fields.get(key)}
    for key in ("env", "headers"):
        values: Any = fields.get(key)
        if isinstance(values, dict) and values:
            config[key] = _refer(cast("dict[str, Any]", values), key, notes)
    return ImportedConnector(name=name, config=parse_config(name, config), notes=notes)


def _refer(values: dict[str, Any], key: str, notes: list[str]) -> dict[str, str]:
    """Return references instead of values. A value that refers to a variable already stays."""
    imported: dict[str, str] = {}
    for name, value in values.items():
        text = str(value)
        if _REFERENCE.fullmatch(text) or (key == "headers" and _REFERENCE.search(text)):
            imported[name] = text
            continue
        variable = re.sub(r"[^A-Za-z0-9_]", "_", name).upper() if key == "headers" else name
        prefix = "Bearer " if key == "headers" and text.lower().startswith("bearer ") else ""
        imported[name] = f"{prefix}${{{variable}}}"
        notes.append(f"The value of {clean_text(name, limit=80)} was not copied. Set the variable {variable}.")
    return imported
