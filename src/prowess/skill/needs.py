"""What a skill says it needs of the world outside it: hosts, environment, folders, programs, packages, a native runtime.

A skill that computes needs nothing of this. What it says here is a request: the gate shows it to whoever decides, and what a
run reaches is never more than that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from prowess.skill.declared_request import url_of
from prowess.skill.inline_metadata import inline_requirements
from prowess.skill.kinds import FILE_KINDS, Artifact, CliCommand, Function, HttpCall, JsonObject, Kind
from prowess.skill.model import FormName, Skill
from prowess.skill.need_values import FORMS, MOST, read_values

NEED_FIELDS = ("runtime", "hosts", "env", "roots", "requirements", "binaries")
"""The fields of a manifest that are about this, the same in `skill.json`, descriptors and `agents/prowess.yaml`."""

NEED_FORMS: frozenset[FormName] = frozenset({"native", "devai", "agentlayerrules"})
"""The forms that have these fields. In the others such a key is one without a meaning."""

Runtime = Literal["wasm", "native"]
RUNTIMES: tuple[Runtime, ...] = ("wasm", "native")
Reach = Literal["", "outside", "machine"]
"""How far a skill reaches: nowhere; to named hosts, values and folders; or to a process on this machine."""

PROGRAM_KINDS: frozenset[Kind] = frozenset({"cli_command", "script"})
"""The kinds whose runs are programs of the machine: they open files themselves."""

CODE_KINDS: frozenset[Kind] = frozenset({"code_template", "function"})
"""The kinds whose code calls Prowess: for the pages of the workspace, models and other skills."""

RUN_ANY = ("run_skill", "skill_*")
"""Either of these among the tools of a skill lets its code run any other skill."""
SKILL_TOOL = "skill_"
"""How a tool begins that stands for one skill."""

_REACHING: frozenset[Kind] = frozenset({"function", "http_call"})
_WORDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a skill asks for. Whatever cannot be read is not among it: `skill/profiles/needs.py` reports that.

    A host is `name`, `name:port` or `*.name`. A root is a folder relative to the workspace, or an absolute one, with `rw:`
    before it where it is written to. The host that a request is declared for and the program of a declared command are among
    them as well, and so are the packages that a function names in its own first lines.
    """

    runtime: Runtime = "wasm"
    hosts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        """What is asked for, without what is not."""
        told: JsonObject = {"runtime": self.runtime} if self.runtime != "wasm" else {}
        for name in (*FORMS, "allowed_tools"):
            if getattr(self, name):
                told[name] = list(getattr(self, name))
        return told


def needs_of(skill: Skill) -> Needs:
    """What a skill asks for."""
    said: Mapping[str, Any] = skill.extra if skill.form in NEED_FORMS else {}
    return needs_said(said, skill.artifacts, skill.allowed_tools)


def needs_said(
    said: Mapping[str, Any], artifacts: Sequence[Artifact] = (), allowed_tools: tuple[str, ...] = ()
) -> Needs:
    """What these fields of a manifest, and these artifacts, ask for."""
    read = {name: dict.fromkeys(read_values(name, said.get(name))[0]) for name in FORMS}
    for name, value in _implied(artifacts):
        read[name] |= dict.fromkeys(read_values(name, value)[0])
    return Needs(
        runtime="native" if said.get("runtime") == "native" else "wasm",
        allowed_tools=allowed_tools,
        **{name: tuple(values)[:MOST] for name, values in read.items()},
    )


def reach_of(skill: Skill, artifacts: Sequence[str] = ()) -> Reach:
    """How far a run of the skill reaches, or of these artifacts of it, with all that may stand in for them.

    A name that no artifact has, or that several could be meant by, stands for all of them.
    """
    needs, ran = needs_of(skill), reached(skill, artifacts)
    kinds = {one.kind for one in ran}
    native = needs.runtime == "native" and any(isinstance(one, Function) for one in ran)
    if native or kinds & PROGRAM_KINDS:
        return "machine"
    declared = bool(needs.hosts or needs.env or needs.roots)
    return "outside" if "http_call" in kinds or (declared and kinds & _REACHING) else ""


def reached(skill: Skill, names: Sequence[str] = ()) -> list[Artifact]:
    """The artifacts that can run where these are named, or none is; never fewer than will."""
    wanted = {_alike(name) for name in names}
    known = {_alike(one.name) for one in skill.artifacts}
    if not wanted:
        found = [one for one in skill.artifacts if one.kind not in FILE_KINDS]
    elif wanted <= known:
        found = [one for one in skill.artifacts if _alike(one.name) in wanted]
    else:
        return list(skill.artifacts)
    return _with_fallbacks(skill, found)


def _with_fallbacks(skill: Skill, found: list[Artifact]) -> list[Artifact]:
    names = {one.name for one in found}
    waiting = [one.fallback for one in found if one.fallback]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += [one.fallback for one in skill.artifacts if one.name == name and one.fallback]
    return [one for one in skill.artifacts if one.name in names]


def _alike(name: str) -> str:
    """What a name has in common with every name that a run takes for it."""
    return _WORDS.sub("_", name.lower()).strip("_")


def _implied(artifacts: Sequence[Artifact]) -> Iterator[tuple[str, Any]]:
    """What artifacts ask for by what they are."""
    for artifact in artifacts:
        if isinstance(artifact, HttpCall):
            yield "hosts", [_host_of(artifact)]
        elif isinstance(artifact, CliCommand):
            yield "binaries", [_program_of(artifact)]
        elif isinstance(artifact, Function) and artifact.language == "python":
            yield "requirements", inline_requirements(artifact.content)


def _host_of(artifact: HttpCall) -> str:
    """The host of a request, which no input decides; '' where it cannot be told."""
    try:
        parts = urlsplit(url_of(artifact))
    except ValueError:
        return ""
    return "" if parts.username or "{" in parts.netloc else parts.netloc


def _program_of(artifact: CliCommand) -> str:
    try:
        said = shlex.split(artifact.handler)
    except ValueError:
        return ""
    return said[0] if said else ""
