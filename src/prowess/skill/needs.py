"""The needs of a skill outside itself: hosts, environment variables, folders, programs, packages, a native runtime.

A skill that only computes has no needs. Declared needs are requests: they are shown to the person who approves the run, and
a run never reaches more than that. Values come from untrusted authors, so a value is rejected if it is ambiguous, could be
displayed as something else, or could be taken for an option or an address.
"""

from __future__ import annotations

import ipaddress
import posixpath
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.form_info import form_info
from prowess.skill.json_values import json_list, json_object
from prowess.skill.kinds import Artifact, CliCommand, Function, HttpCall, JsonObject, Kind, kind_info
from prowess.skill.model import Skill

MAX_NEED_VALUES = 50
"""The maximum number of values read for one need."""

_MAX_VALUE_CHARS = 300
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = lazy_pattern(rf"(\*\.)?({_LABEL}(?:\.{_LABEL})*)(?::([0-9]{{1,5}}))?")
_ENV = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_BINARY = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")
_PACKAGE = lazy_pattern(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(\[[A-Za-z0-9._, \t-]*\])?")
_SPECIFIER = lazy_pattern(r"(?:~=|===?|!=|<=?|>=?)[ \t]*[A-Za-z0-9.*+!_-]+")
_MARKER = lazy_pattern(r"[A-Za-z0-9_.'\"<>=!~() \t-]+")
_READ_ONLY, _WRITABLE = "ro:", "rw:"
_HTTPS_PORT = 443


def parse_host(text: str) -> str | None:
    """Return `name`, `name:port` or `*.name` in lower case and ASCII; None for anything else, including a URL with a path."""
    try:
        # As the resolver will see it, so that letters of another script that look like ASCII are shown for what they
        # are.
        plain = text if text.isascii() else text.encode("idna").decode()
    except UnicodeError:
        return None
    found = _HOST.fullmatch(plain.lower().removesuffix("."))
    if found is None:
        return None
    below, name, port = found[1] or "", found[2], int(found[3] or _HTTPS_PORT)
    if len(name) > 253 or not 0 < port < 65_536 or not _is_host_name(name, below=bool(below)):
        return None
    return f"{below}{name}" if port == _HTTPS_PORT else f"{below}{name}:{port}"


def _is_host_name(name: str, *, below: bool) -> bool:
    """Return False for a name that could be another spelling of an IP address, and for `*.` before a single label."""
    # Resolvers read a name that ends in a number (0x7f.1, 2130706433, 127.1) as an address, so only the usual notation passes.
    last = name.rpartition(".")[2]
    if not (last.isdigit() or last.startswith("0x")):
        return not below or "." in name
    try:
        return not below and str(ipaddress.IPv4Address(name)) == name
    except ValueError:
        return False


def parse_env_name(text: str) -> str | None:
    """Return a valid name of an environment variable, or None."""
    return text if _ENV.fullmatch(text) else None


def parse_root(text: str) -> str | None:
    """Return a folder, with `rw:` before it if it is writable; None for paths with `..` or `~`, which can point elsewhere than they seem to."""
    path, writable = split_root(text)
    tidy = posixpath.normpath(path) if path else ""
    if not tidy or not tidy.isprintable() or "\\" in tidy or tidy.startswith(("~", "//")) or ".." in tidy.split("/"):
        return None
    return f"{_WRITABLE}{tidy}" if writable else tidy


def split_root(text: str) -> tuple[str, bool]:
    """Return the folder of a root, and True if it is writable."""
    if text.startswith(_WRITABLE):
        return text.removeprefix(_WRITABLE).strip(), True
    return text.removeprefix(_READ_ONLY).strip(), False


def parse_requirement(text: str) -> str | None:
    """Return a package by name, with extras, versions and a marker; None for a URL, a path or an option."""
    named, mark, marker = text.partition(";")
    found = _PACKAGE.match(named)
    if found is None or (mark and not _MARKER.fullmatch(marker)):
        return None
    rest = named[found.end() :].strip().removeprefix("(").removesuffix(")")
    if rest and not all(_SPECIFIER.fullmatch(specifier.strip()) for specifier in rest.split(",")):
        return None
    return " ".join(text.split())


def parse_binary(text: str) -> str | None:
    """Return the bare name of a program, or None."""
    return text if _BINARY.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedFormat:
    """How one value of a need is parsed, and a description of what it accepts. A string may hold several values, separated by `between`."""

    read: Callable[[str], str | None]
    takes: str
    between: str = ",\n"


NEED_FORMATS: Mapping[str, NeedFormat] = {
    "hosts": NeedFormat(
        read=parse_host, takes="hosts such as api.example.com, api.example.com:8443 or *.example.com, without https://"
    ),
    "env": NeedFormat(read=parse_env_name, takes="environment variable names such as EXAMPLE_API_KEY, without values"),
    "roots": NeedFormat(read=parse_root, takes="folders such as notes or rw:out, without .. and ~", between="\n"),
    "requirements": NeedFormat(
        read=parse_requirement, takes="package names such as numpy or 'numpy>=2,<3', without URLs", between="\n"
    ),
    "binaries": NeedFormat(read=parse_binary, takes="program names such as git, without folders"),
}
"""The needs that are lists of values."""


def parse_need(name: str, value: Any) -> tuple[tuple[str, ...], list[Any]]:
    """Return the values that a list or a text of a manifest gives for a need, and the values that cannot be read."""
    form = NEED_FORMATS[name]
    if value is None:
        return (), []
    if isinstance(value, str):
        listed: list[Any] = [part for part in _split_values(value, form.between) if part.strip()]
    else:
        listed = [*cast("list[Any]", value)] if isinstance(value, list | tuple) else [value]
    read: dict[str, None] = {}
    unread: list[Any] = listed[MAX_NEED_VALUES:]
    for item in listed[:MAX_NEED_VALUES]:
        found = form.read(item.strip()) if isinstance(item, str) and len(item) <= _MAX_VALUE_CHARS else None
        if found is None:
            unread.append(item)
        else:
            read[found] = None
    return tuple(read), unread


def _split_values(text: str, between: str) -> list[str]:
    for mark in between:
        text = text.replace(mark, "\n")
    # One value more than is read: it is the rest of the text, and is reported as unreadable.
    return text.split("\n", MAX_NEED_VALUES)


_BLOCK_START, _BLOCK_END = "# /// script", "# ///"
_MAX_BLOCK_CHARS = 16_384


def read_inline_requirements(code: str) -> Any:
    """Return the `dependencies` of a PEP 723 block, unchecked; None if there is no readable block."""
    block = _script_block(code)
    if block is None or len(block) > _MAX_BLOCK_CHARS:
        return None
    import tomllib  # few functions have such a block, and every command imports this module

    try:
        return tomllib.loads(block).get("dependencies")
    # `ValueError` has both what is not TOML and a number of thousands of digits.
    except (ValueError, RecursionError):
        return None


def _script_block(code: str) -> str | None:
    """Return the text of the only block: from its first line to the last `# ///` of that comment."""
    if _BLOCK_START not in code:
        return None
    lines = code.splitlines()
    starts = [index for index, line in enumerate(lines) if line.rstrip() == _BLOCK_START]
    # PEP 723 makes several blocks an error; guessing which one counts is not safe.
    if len(starts) != 1:
        return None
    inside: list[str] = []
    end: int | None = None
    for line in lines[starts[0] + 1 :]:
        # The last end line of the comment counts, as in PEP 723: the block itself may hold such a line.
        if line.rstrip() == _BLOCK_END:
            end = len(inside)
        if not (line.rstrip() == "#" or line.startswith("# ")):
            break
        inside.append(line[2:])
    return None if end is None else "\n".join(inside[:end])


NEED_FIELDS = ("runtime", "hosts", "env", "roots", "requirements", "binaries")
"""The manifest fields about needs, the same in `skill.json`, descriptors and `agents/prowess.yaml`."""

Runtime = Literal["wasm", "native"]
RUNTIMES: tuple[Runtime, ...] = ("wasm", "native")
Reach = Literal["", "outside", "machine"]
"""What a run can reach: nothing; declared hosts, variables and folders; or a process on this machine."""

RUN_ANY_SKILL = ("run_skill", "skill_*")
"""Either of these in `allowed-tools` lets a skill's code run any other skill."""
SKILL_TOOL_PREFIX = "skill_"
"""The prefix of a tool that stands for one skill."""

_NOT_WORD = lazy_pattern(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of a skill. Unreadable values are left out; `skill/profiles/declarations.py` reports them.

    A host is `name`, `name:port` or `*.name`. A root is a folder, absolute or relative to the workspace, with `rw:` before it if
    it is writable. The host of a declared request, the program of a declared command and the packages that a function lists in
    its first lines are included.
    """

    runtime: Runtime = "wasm"
    hosts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        """Return the needs without empty values."""
        result: JsonObject = {"runtime": self.runtime} if self.runtime != "wasm" else {}
        for name in (*NEED_FORMATS, "allowed_tools"):
            if getattr(self, name):
                result[name] = list(getattr(self, name))
        return result


def read_needs(skill: Skill) -> Needs:
    """Return the needs of a skill."""
    # Other forms may have keys such as `env` or `runtime` that other clients understand in their own way.
    stated: Mapping[str, Any] = skill.extra if form_info(skill.form).has_needs else {}
    read = {name: dict.fromkeys(parse_need(name, stated.get(name))[0]) for name in NEED_FORMATS}
    for name, value in (*_client_needs(skill), *_implied_needs(skill.artifacts)):
        read[name] |= dict.fromkeys(parse_need(name, value)[0])
    return Needs(
        # Only this exact word leaves the sandbox. Anything else, also a misspelling, stays in it.
        runtime="native" if stated.get("runtime") == "native" else "wasm",
        allowed_tools=skill.allowed_tools,
        **{name: tuple(values)[:MAX_NEED_VALUES] for name, values in read.items()},
    )


def can_send_out(needs: Needs, kinds: Collection[Kind]) -> bool:
    """Return True if a run of a skill with artifacts of these kinds reaches hosts together with something worth sending.

    That is a folder, a variable, or the pages of the workspace, which all code can read.
    """
    return bool(needs.hosts) and bool(needs.roots or needs.env or any(kind_info(kind).runs_code for kind in kinds))


def measure_reach(skill: Skill, artifacts: Sequence[str] = (), *, needs: Needs | None = None) -> Reach:
    """Return how far a run of the skill, or of the named artifacts and their fallbacks, reaches.

    A name that matches no artifact, or several, counts as all of them.
    """
    needs, ran = needs or read_needs(skill), list_reached_artifacts(skill, artifacts)
    reaches = {kind_info(artifact.kind).reaches for artifact in ran}
    # Fail closed: the gate must never be asked about less than the run can do.
    native = needs.runtime == "native" and any(isinstance(artifact, Function) for artifact in ran)
    if native or "machine" in reaches:
        return "machine"
    declared = bool(needs.hosts or needs.env or needs.roots)
    return "outside" if "network" in reaches or (declared and "declared" in reaches) else ""


def list_reached_artifacts(skill: Skill, names: Sequence[str] = ()) -> list[Artifact]:
    """Return the artifacts that can run if these are named, or if none are; never fewer than will run."""
    normalized = {_normalize_name(name) for name in names}
    known = {_normalize_name(artifact.name) for artifact in skill.artifacts}
    if not normalized:
        rows = [(artifact, kind_info(artifact.kind)) for artifact in skill.artifacts]
        found = [artifact for artifact, kind in rows if not kind.is_file or kind.in_run == "work"]
    elif normalized <= known:
        found = [artifact for artifact in skill.artifacts if _normalize_name(artifact.name) in normalized]
    else:
        found = list(skill.artifacts)
    return _add_named(skill, found, names)


def _add_named(skill: Skill, found: Sequence[Artifact], names: Sequence[str]) -> list[Artifact]:
    """Return what was found, with all that can run by these names or as a fallback: a name may be another spelling, or a path."""
    reached = {id(artifact): artifact for artifact in found}
    seen: set[str] = set()  # fallbacks may refer to each other in a circle
    pending = [*names, *(artifact.fallback for artifact in found)]
    while pending:
        name = pending.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        key, file = _normalize_name(name), skill.file_at(name)
        more = [one for one in skill.artifacts if one.path == name or _normalize_name(one.name) == key]
        more += [file] if file else []
        reached |= {id(artifact): artifact for artifact in more}
        pending += [artifact.fallback for artifact in more]
    return list(reached.values())


def _normalize_name(name: str) -> str:
    """Return a key that is the same for every spelling of an artifact name that a run accepts."""
    return _NOT_WORD.sub("_", name.lower()).strip("_")


_OPENCLAW_NAMES = ("openclaw", "clawdbot", "moltbot", "clawdis")
"""The key of OpenClaw in `metadata`, and those of its earlier names."""


def _client_needs(skill: Skill) -> Iterator[tuple[str, Any]]:
    """Yield the variables and programs that the frontmatter declares for OpenClaw or Hermes."""
    for name in _OPENCLAW_NAMES:
        openclaw = json_object(skill.metadata.get(name))
        requires = json_object(openclaw.get("requires"))
        yield "env", _names(requires.get("env"))
        yield "env", _names(openclaw.get("primaryEnv"))
        yield "binaries", _names(requires.get("bins"))
    before = json_object(skill.extra.get("prerequisites"))  # as Hermes had it first
    yield "env", _names(skill.extra.get("required_environment_variables"))
    yield "env", _names(before.get("env_vars"))
    yield "binaries", _names(before.get("commands"))


def _names(value: Any) -> list[Any]:
    """Return the names of a list of texts and of objects with a `name`, or of a single text."""
    listed = [value] if isinstance(value, str) else json_list(value)
    return [json_object(item).get("name", item) for item in listed]


def _implied_needs(artifacts: Sequence[Artifact]) -> Iterator[tuple[str, Any]]:
    """Yield the needs that artifacts have because of their kind."""
    for artifact in artifacts:
        if isinstance(artifact, HttpCall):
            yield "hosts", [_request_host(artifact)]
        elif isinstance(artifact, CliCommand):
            yield "binaries", [_command_program(artifact)]
        elif isinstance(artifact, Function) and artifact.language == "python":
            yield "requirements", read_inline_requirements(artifact.content)


def _request_host(artifact: HttpCall) -> str:
    """Return the host of a request, which no input can change; '' if it cannot be determined."""
    from prowess.skill.declarations import request_url  # imports the schemas, which most commands do not need

    try:
        parts = urlsplit(request_url(artifact))
    except ValueError:
        return ""
    # `https://good.example@evil.example` names one host and asks another.
    return "" if parts.username or "{" in parts.netloc else parts.netloc


def _command_program(artifact: CliCommand) -> str:
    try:
        stated = shlex.split(artifact.handler)
    except ValueError:
        return ""
    return stated[0] if stated else ""
