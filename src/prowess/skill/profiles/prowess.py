"""The profile of Prowess itself: what it stores and serves, including checks for hidden text and template variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from prowess.errors import Invalid, Problem
from prowess.skill.filenames import is_skill_md
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Artifact, JsonObject, PromptTemplate, kind_info
from prowess.skill.limits import MIB, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.profiles import checks
from prowess.skill.profiles.declarations import (
    check_artifact_assertions,
    check_commands,
    check_functions,
    check_needs,
    check_patterns,
    check_policies,
    check_requests,
    check_requirements,
)
from prowess.skill.profiles.permissions import list_permissions
from prowess.skill.profiles.profile import Profile
from prowess.skill.template import find_variables
from prowess.skill.text.hidden import HiddenText, find_hidden, quote_source, show_hidden

_MAX_PER_FILE = 20
_MAX_SHOWN = 30
_HIDDEN_HINT = "Delete these characters; if something is meant by them, write it visibly."
_CLASS_NAMES: dict[str, str] = {
    "bidi-control": "direction control",
    "control": "control",
    "invisible": "invisible",
    "tag": "tag",
    "variation-selector": "variation selector",
    "zero-width": "zero-width",
}


def check_hidden_text(reading: Reading) -> Iterator[Problem]:
    """Yield each run of hidden characters, in a file or in the field that an escape sequence puts it into."""
    seen: set[str] = set()
    for file in reading.package.files:
        yield from _in_path(file.path)
        text = _text_of(file)
        for found in find_hidden(text)[:_MAX_PER_FILE]:
            run = _hidden_run(text, found)
            seen.add(run)
            yield _hidden_problem(found, run, file.path, found.line)
    # Walking through all fields is slow. Without escapes, a hidden character in a field is in the file as well.
    if not _has_escapes(reading):
        return
    lines: Mapping[str, int] = reading.document.lines if reading.document else {}
    for field, text in _iter_fields(reading):
        for found in find_hidden(text):
            run = _hidden_run(text, found)
            if run not in seen:
                seen.add(run)
                yield _hidden_problem(found, run, field, lines.get(field))


def _has_escapes(reading: Reading) -> bool:
    """Return True if fields can contain characters that the files do not show. Markdown without a backslash cannot."""
    raw = reading.document.raw if reading.document else None
    return reading.form not in _PLAIN_FORMS or "\\" in (raw or "")


_PLAIN_FORMS = ("agentskills", "agentcy", "bernstein")


def _in_path(path: str) -> Iterator[Problem]:
    for found in find_hidden(path):
        yield _hidden_problem(found, _hidden_run(path, found), show_hidden(path), None)


def _text_of(file: File) -> str:
    """Return the text of a file, or '' for a binary file."""
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    # A NUL marks a binary file, but must not exempt SKILL.md from the check.
    return text if "\x00" not in text or is_skill_md(file.path) else ""


def _hidden_run(text: str, found: HiddenText) -> str:
    """Return the hidden characters themselves."""
    line = text.split("\n")[found.line - 1] if found.line > 1 or "\n" in text else text
    return line[found.column - 1 : found.column - 1 + found.count]


def _iter_fields(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield every text that was read from the files, with its field."""
    if reading.document is not None:
        yield from _iter_texts(dict(reading.document.fields))
    if reading.skill is not None:
        yield from _iter_skill_fields(reading.skill)


def _iter_skill_fields(skill: Skill) -> Iterator[tuple[str, str]]:
    values = skill.model_dump(exclude={"artifacts", "frontmatter", "manifest", "provenance"}, exclude_defaults=True)
    yield from _iter_texts(values)
    for artifact in skill.artifacts:
        for _, text in _iter_texts(artifact.model_dump(exclude_defaults=True)):
            yield artifact.name, text


def _iter_texts(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield all texts in a value, each with its top-level key."""
    pending: list[tuple[str, Any]] = [(str(key), value) for key, value in values.items()]
    pending += [(str(key), str(key)) for key in values]
    while pending:
        key, value = pending.pop()
        if isinstance(value, str):
            # Hidden characters that are refused are all outside ASCII; control characters only give a warning.
            if not value.isascii():
                yield key, value
        elif isinstance(value, dict):
            pending += [(key, part) for pair in cast("dict[str, Any]", value).items() for part in pair]
        elif isinstance(value, (list, tuple)):
            pending += [(key, part) for part in cast("list[Any]", value)]


def _hidden_problem(found: HiddenText, run: str, field: str, line: int | None) -> Problem:
    escaped = "".join(f"\\u{{{ord(char):04X}}}" for char in run[:_MAX_SHOWN]) + ("…" if len(run) > _MAX_SHOWN else "")
    name = _CLASS_NAMES[found.char_class]
    count = f"{found.count} hidden {name} characters" if found.count > 1 else f"a hidden {name} character"
    message = f"There is {count} in column {found.column}: {escaped}"
    if found.count > 1:
        message = message.replace("There is", "There are", 1)
    if found.char_class == "control":
        # Mostly text that was decoded wrongly once; it smuggles nothing, and terminals never see it.
        return Problem(
            code="control-characters", severity="warning", message=message, hint=_HIDDEN_HINT, field=field, line=line
        )
    return Problem(code="hidden-text", severity="error", message=message, hint=_HIDDEN_HINT, field=field, line=line)


MAX_TEMPLATE_CHARACTERS = 2 * MIB
"""The limit for all templates of a skill together."""

_WORDS = re.compile(r"[^a-z0-9]+")


def check_templates(reading: Reading) -> Iterator[Problem]:
    """Yield an error for each unreadable template, and a warning for each undeclared name that a template uses.

    Declarations are required only if the skill or the artifact declares inputs at all, and only as far as the outputs of
    earlier artifacts are known.
    """
    skill, room = reading.skill, MAX_TEMPLATE_CHARACTERS
    for artifact in skill.artifacts if skill else ():
        if not isinstance(artifact, PromptTemplate) or not skill:
            continue
        room -= len(artifact.content)
        if room < 0:
            message = f"The templates have more than {MAX_TEMPLATE_CHARACTERS:,} characters together."
            yield checks.error("template-long", message, "Shorten them, or make two skills of this one.")
            return
        yield from _check_template(reading, skill, artifact)


def _check_template(reading: Reading, skill: Skill, template: PromptTemplate) -> Iterator[Problem]:
    try:
        used = find_variables(template.content, template.syntax)
    except Invalid as fault:
        own_file = _is_whole_file(reading, template)
        for problem in fault.problems:
            yield replace(problem, field=_template_field(template), line=problem.line if own_file else None)
        return
    declared = _declared_names(skill, template)
    for name in sorted(used - declared) if declared is not None else ():
        yield Problem(
            code="template-undeclared",
            severity="warning",
            message=f"The template uses {quote_source(name)}, which is not among the declared inputs.",
            hint="Declare it under the parameters of the skill or in the template's vars_schema, or correct its name.",
            field=_template_field(template),
        )


def _declared_names(skill: Skill, template: PromptTemplate) -> frozenset[str] | None:
    """Return the names that a template can rely on, or None if nothing is declared or the names cannot be known."""
    schemas = [schema for schema in (skill.parameters, template.vars_schema) if schema is not None]
    if not schemas:
        return None
    earlier = [one for one in skill.artifacts if one.ordinal < template.ordinal]
    # Data of an earlier artifact may hold any name unless a schema says which.
    if any(kind_info(one.kind).gives != "text" and _output_schema(one) is None for one in earlier):
        return None
    schemas += [schema for schema in map(_output_schema, earlier) if schema is not None]
    named = [_property_names(schema) for schema in schemas]
    if None in named:
        return None
    # The names under which a run passes on the outputs of earlier artifacts.
    outputs = {"previous", *(_WORDS.sub("_", one.name.lower()).strip("_") for one in earlier)}
    return frozenset(outputs).union(*(names for names in named if names))


def _output_schema(artifact: Artifact) -> JsonObject | None:
    """Return the output schema of an artifact, or None."""
    return getattr(artifact, "output_schema", None)


def _property_names(schema: JsonObject) -> frozenset[str] | None:
    """Return the properties that a schema declares, or None if they may be declared elsewhere."""
    if schema.keys() & {"$dynamicRef", "$ref", "allOf", "anyOf", "if", "oneOf", "patternProperties"}:
        return None
    properties = schema.get("properties")
    return frozenset(cast("JsonObject", properties)) if isinstance(properties, dict) else frozenset()


def _template_field(template: PromptTemplate) -> str:
    return template.path or template.name


def _is_whole_file(reading: Reading, template: PromptTemplate) -> bool:
    """Return True if line numbers of the template are line numbers of its file."""
    file = reading.package.get(template.path) if template.path else None
    return file is not None and file.content == template.content.encode(errors="replace")


MAX_BODY_LINES = 500


def check(reading: Reading, _limits: Limits) -> Iterator[Problem]:
    """Yield errors for what Prowess does not store, and warnings for what other clients have trouble with."""
    if any(problem.code == "nul-character" for problem in reading.problems):
        yield checks.error("binary", "The file is not text: it has NUL characters in it.", "Write it as UTF-8 text.")
    if reading.skill is None and not any(problem.severity == "error" for problem in reading.problems):
        yield checks.error("unusable", "Nothing in the package makes a skill.", "Add a SKILL.md with a description.")
    yield from check_hidden_text(reading)
    yield from check_patterns(reading)
    yield from check_artifact_assertions(reading)
    yield from check_templates(reading)
    yield from check_policies(reading)
    yield from check_needs(reading)
    yield from check_requirements(reading)
    yield from check_functions(reading)
    yield from check_requests(reading)
    yield from check_commands(reading)
    yield from _check_length(reading)
    yield from list_permissions(reading)
    yield from _check_body(reading)


def _check_length(reading: Reading) -> Iterator[Problem]:
    if reading.skill is None:
        return
    lines: checks.Lines = reading.document.lines if reading.document else {}
    for problem in checks.check_description({"description": reading.skill.description}, lines):
        if problem.code == "description-long":
            yield replace(problem, severity="warning", message=problem.message + " Other clients cut or refuse it.")


def _check_body(reading: Reading) -> Iterator[Problem]:
    count = reading.document.body.count("\n") + 1 if reading.document else 0
    if count > MAX_BODY_LINES and reading.document:
        yield Problem(
            code="body-long",
            severity="info",
            message=f"The text has {count:,} lines; the open standard recommends fewer than {MAX_BODY_LINES}.",
            hint="Move details into files under references/.",
            line=reading.document.body_line,
        )


PROWESS = Profile(
    name="prowess",
    summary="What Prowess keeps and serves: a slug, a description, nothing hidden, nothing broken.",
    check=check,
    severities={"frontmatter-too-large": "error"},
    ceiling="error",
)
