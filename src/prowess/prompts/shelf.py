"""Entries of the prompt and rubric registries: where they are kept, and how one is read from a file.

Bad content never raises: it becomes an entry with problems and no value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol, cast

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.prompts.prompt import SYNTAXES, Prompt, Rubric, Syntax, rubric_from_document
from prowess.skill.forms.data import parse_file
from prowess.skill.forms.form import error, too_large_problem, warning
from prowess.skill.forms.prompt_files import DATA_SUFFIXES, check_rubric, file_stem, plain_text, prompt_settings
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.profiles.hidden_text import find_hidden_in_values
from prowess.skill.schema import compile_schema
from prowess.skill.semver import is_semver
from prowess.skill.template import find_variables

REGISTRY_CODES = {
    "registry-id": "The id of an entry is not valid.",
    "registry-version": "An entry has no semantic version.",
    "registry-duplicate": "Two files in the same place define the same version of an entry; the first one is used.",
    "registry-schema": "The schema of an entry is not valid.",
    "registry-changed": "The database row of an entry was modified outside Prowess; it is not used.",
    "registry-unreadable": "A file or folder of a registry is unreadable or a link, so it is skipped.",
}


EntryKind = Literal["prompt", "rubric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """One version of a prompt or rubric on a shelf; `value` is None if a problem makes it unusable.

    `origin` names the shelf, such as `workspace` or `skill:SLUG`; `location` is the file or database.
    """

    kind: EntryKind
    id: str
    version: str = ""
    origin: str
    location: str = ""
    value: Prompt | Rubric | None
    problems: tuple[Problem, ...] = ()

    @property
    def label(self) -> str:
        """The id with the version."""
        return f"{self.id}@{self.version}" if self.version else self.id


class Shelf(Protocol):
    """A place that keeps prompts and rubrics. Blocking. Bad content raises nothing: it becomes an entry with problems."""

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[RegistryEntry]:
        """Return the entries that an organization sees here, or those with one id, in no particular order."""
        ...


class MemoryShelf:
    """Prompts and rubrics in memory, for tests and for embedding Prowess."""

    def __init__(self, *values: Prompt | Rubric, origin: str = "memory") -> None:
        self._entries = [
            RegistryEntry(
                kind="prompt" if isinstance(value, Prompt) else "rubric",
                id=value.id,
                version=value.version,
                origin=origin,
                value=value,
            )
            for value in values
        ]

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[RegistryEntry]:  # noqa: ARG002
        """Return the entries of the kind, for every organization."""
        return [entry for entry in self._entries if entry.kind == kind and id in (None, entry.id)]


TEMPLATE_SUFFIXES: dict[str, Syntax] = {".mustache": "mustache", ".j2": "jinja", ".jinja": "jinja"}
"""Files that hold nothing but a template; their names hold id and version, as in `outline@1.2.0.mustache`."""

_ENDINGS = {"prompt": (*DATA_SUFFIXES, *TEMPLATE_SUFFIXES), "rubric": DATA_SUFFIXES}
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")
_LONGEST_VERSION = 100
_SHOWN = 20


def is_entry_name(kind: EntryKind, name: str) -> bool:
    """Return True if a file of this name may hold an entry of the kind."""
    return name.endswith(_ENDINGS[kind]) and not name.startswith(".")


def read_entry(
    kind: EntryKind, name: str, data: bytes, *, origin: str = "", location: str = "", limits: Limits = DEFAULT_LIMITS
) -> RegistryEntry:
    """Return the entry in a file; if it breaks a rule, the entry has no value and every problem."""
    problems: list[Problem] = []
    document = _document(kind, name, data, problems, limits)
    if document is None:
        return failed_entry(kind, name, problems, origin=origin, location=location)
    entry_id, version = _identity(kind, name, document, problems)
    check = check_prompt if kind == "prompt" else check_rubric
    check(name, document, problems)
    _check_schema(name, document, "output_schema", problems)
    problems += find_hidden_in_values(name, document)
    entry = RegistryEntry(kind=kind, id=entry_id, version=version, origin=origin, location=location, value=None)
    if any(problem.severity == "error" for problem in problems):
        return replace(entry, problems=tuple(problems))
    value = _prompt(document, entry) if kind == "prompt" else rubric_from_document(document, entry_id, version, origin)
    return replace(entry, value=value, problems=tuple(problems))


def failed_entry(
    kind: EntryKind, name: str, problems: Sequence[Problem], *, origin: str, location: str
) -> RegistryEntry:
    """Return an entry for a file that could not be read, with the id in its name."""
    entry_id, version = parse_entry_name(name)
    return RegistryEntry(
        kind=kind, id=entry_id, version=version, origin=origin, location=location, value=None, problems=tuple(problems)
    )


def parse_entry_name(name: str) -> tuple[str, str]:
    """Return the id and version in a file name: `outline@1.2.0.json` has both, `outline.v2.json` only an id."""
    bare = next((name[: -len(ending)] for ending in _ENDINGS["prompt"] if name.endswith(ending)), name)
    entry_id, mark, version = bare.partition("@")
    return (entry_id, version) if mark and entry_id else (file_stem(name), "")


def check_prompt(path: str, document: JsonObject, problems: list[Problem]) -> None:
    """Add a problem for every rule that a prompt's document breaks."""
    settings = prompt_settings(path, document, problems)
    syntax = document.get("syntax", "mustache")
    if syntax not in SYNTAXES:
        message = f"{path} has the unknown syntax {str(syntax)[:40]!r}."
        problems.append(
            error(
                "prompt-invalid",
                message,
                f"Set `syntax` to one of {', '.join(SYNTAXES)}, or remove it to use mustache.",
                field=path,
            )
        )
    elif settings:
        _check_template(path, document, syntax, problems)
    _check_schema(path, document, "vars_schema", problems)


def _check_template(path: str, document: JsonObject, syntax: Syntax, problems: list[Problem]) -> None:
    """Report a template that cannot be parsed, and names that its vars_schema does not declare."""
    try:
        used = find_variables(document["template"], syntax)
    except Invalid as fault:
        problems += [replace(problem, field=path) for problem in fault.problems]
        return
    schema = document.get("vars_schema")
    declared = json_object(schema).get("properties")
    if isinstance(declared, dict):
        for name in sorted(used - cast("JsonObject", declared).keys())[:_SHOWN]:
            message = f"{path} uses {name!r}, which its vars_schema does not declare."
            problems.append(
                warning("template-undeclared", message, "Add it to vars_schema, or fix its name.", field=path)
            )


def _check_schema(path: str, document: JsonObject, field: str, problems: list[Problem]) -> None:
    schema = document.get(field)
    if schema is None:
        return
    try:
        compile_schema(schema)
    except Invalid as fault:
        message = f"{path} has an invalid {field}: {fault.message}"
        problems.append(error("registry-schema", message, fault.hint, field=path))
        return
    if not isinstance(schema, dict):
        message = f"{path} has a {field} that is not a mapping."
        problems.append(error("registry-schema", message, "Write it as a JSON Schema.", field=path))


def _document(kind: EntryKind, name: str, data: bytes, problems: list[Problem], limits: Limits) -> JsonObject | None:
    """Return the document in a file; a bare template becomes its own document."""
    if len(data) > limits.file_bytes:
        problems.append(too_large_problem(name, len(data), limits.file_bytes))
        return None
    suffix = next((ending for ending in TEMPLATE_SUFFIXES if name.endswith(ending)), None) if kind == "prompt" else None
    if suffix is not None:
        return _template(name, data, TEMPLATE_SUFFIXES[suffix], problems)
    parsed = parse_file(name, data, limits)
    problems += parsed.problems
    if parsed.object is None and not parsed.problems:
        hint = (
            "Write a mapping with the fields of one prompt."
            if kind == "prompt"
            else "Write a mapping with rubric_id and criteria."
        )
        problems.append(error(f"{kind}-invalid", f"{name} is not a mapping.", hint, field=name))
    return parsed.object


def _template(name: str, data: bytes, syntax: Syntax, problems: list[Problem]) -> JsonObject | None:
    try:
        return {"template": data.decode("utf-8-sig"), "syntax": syntax}
    except UnicodeDecodeError as fault:
        message = f"{name} is not UTF-8 text (byte {fault.start + 1})."
        problems.append(error("prompt-invalid", message, "Save the file as UTF-8.", field=name))
        return None


def _identity(kind: EntryKind, name: str, document: JsonObject, problems: list[Problem]) -> tuple[str, str]:
    by_name, version_by_name = parse_entry_name(name)
    stated, version = document.get(f"{kind}_id"), document.get("version")
    entry_id = plain_text(stated) or by_name
    # `@` separates the version and `/` the skill, so an id has neither.
    if not _ID.fullmatch(entry_id):
        message = f"{name} has the invalid id {entry_id[:80]!r}."
        hint = "Use up to 128 letters, digits, '_', '-', '.' and ':'."
        problems.append(error("registry-id", message, hint, field=name))
    # YAML reads an unquoted 1.10 as the number 1.1.
    if version is not None and not isinstance(version, str):
        message = f"{name} has a version that is not a string ({str(version)[:40]}), so trailing zeros may be lost."
        problems.append(warning("registry-version", message, "Put the version in quotes.", field=name))
    text = plain_text(version) or version_by_name
    if len(text) > _LONGEST_VERSION or not text.isprintable() or " " in text:
        message = f"{name} has the invalid version {text[:40]!r}."
        problems.append(error("registry-version", message, "Use a version such as 1.2.0.", field=name))
    elif not is_semver(text):
        fault = f"has the version {text!r}, which is not a semantic version" if text else "has no version"
        message = f"{name} {fault}."
        problems.append(warning("registry-version", message, "Use a semantic version such as 1.2.0.", field=name))
    return entry_id[:200], text[:200]


def _prompt(document: JsonObject, entry: RegistryEntry) -> Prompt:
    return Prompt(
        id=entry.id,
        version=entry.version,
        template=document["template"],
        syntax=document.get("syntax", "mustache"),
        vars_schema=document.get("vars_schema"),
        output_schema=document.get("output_schema"),
        description=plain_text(document.get("description")),
        origin=entry.origin,
    )
