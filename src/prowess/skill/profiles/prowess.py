"""The profile of Prowess itself: which skills it stores and serves, including checks for hidden text and template variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from prowess.errors import Invalid, Problem
from prowess.skill.declarations import find_slots
from prowess.skill.filenames import SIDECAR
from prowess.skill.forms.form import Reading, info, warning
from prowess.skill.json_values import json_object
from prowess.skill.kinds import Artifact, CliCommand, CodeTemplate, HttpCall, JsonObject, PromptTemplate, kind_info
from prowess.skill.limits import MIB, Limits
from prowess.skill.model import Skill
from prowess.skill.profiles import checks
from prowess.skill.profiles.declarations import (
    check_artifact_assertions,
    check_code_templates,
    check_commands,
    check_functions,
    check_needs,
    check_patterns,
    check_policies,
    check_requests,
    check_requirements,
)
from prowess.skill.profiles.hidden_text import check_hidden_text, check_look_alikes
from prowess.skill.profiles.permissions import list_permissions
from prowess.skill.profiles.profile import Profile
from prowess.skill.profiles.settings import (
    check_assertion_settings,
    check_run_settings,
    check_schemas,
    check_trigger_queries,
)
from prowess.skill.python_source import PLACEHOLDER
from prowess.skill.template import TEMPLATE_NAMES, find_unknown_names, find_variables
from prowess.skill.text.fields import as_text
from prowess.skill.text.hidden import quote_source
from prowess.suggestions import did_you_mean

MAX_TEMPLATE_CHARACTERS = 2 * MIB
"""The limit for all templates of a skill together."""

_WORDS = re.compile(r"[^a-z0-9]+")
_SLOTTED_SETTINGS = ("query", "headers", "body", "args", "stdin")
_SINGLE_BRACES = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


def check_templates(reading: Reading) -> Iterator[Problem]:
    """Yield an error for each unreadable template, and a warning for each undeclared name, unknown filter and unknown test in one.

    Declarations are required only if the skill or the artifact declares inputs at all, and only as far as the outputs of
    earlier artifacts are known.
    """
    skill, room = reading.skill, MAX_TEMPLATE_CHARACTERS
    for artifact in skill.artifacts if skill else ():
        if not isinstance(artifact, PromptTemplate) or not skill:
            continue
        room -= len(artifact.content)
        if room < 0:
            message = f"The templates of this skill have more than {MAX_TEMPLATE_CHARACTERS:,} characters in total."
            yield checks.error("template-long", message, "Shorten them, or split the skill in two.")
            return
        yield from _check_template(reading, skill, artifact)


def _check_template(reading: Reading, skill: Skill, template: PromptTemplate) -> Iterator[Problem]:
    if not template.content.strip():
        message, hint = (
            f"The template {_template_field(template)} is empty.",
            "Write the prompt, or remove the artifact.",
        )
        yield warning("template-empty", message, hint, field=_template_field(template))
        return
    own_file = checks.is_whole_file(reading.package, template)
    try:
        used = find_variables(template.content, template.syntax)
    except Invalid as fault:
        for problem in fault.problems:
            yield replace(problem, field=_template_field(template), line=problem.line if own_file else None)
        return
    unknown = find_unknown_names(template.content) if template.syntax == "jinja" else {}
    for (what, name), line in unknown.items():
        message = f"The template uses the {what} {quote_source(name)}, which does not exist."
        names = f"Use one of: {', '.join(sorted(TEMPLATE_NAMES[what]))}."
        if what == "method":
            names = "Use a filter, or a method of a Python list or dict."
        hint = did_you_mean(name, TEMPLATE_NAMES[what]) or names
        if what == "method" and name in TEMPLATE_NAMES["filter"]:
            hint = f"Use the filter: `| {name}`."
        where = line if own_file else None
        yield warning(f"template-unknown-{what}", message, hint, field=_template_field(template), line=where)
    declared = _declared_names(skill, template)
    used -= {name for what, name in unknown if what == "function"}
    for name in sorted(used - declared) if declared is not None else ():
        message = f"The template uses {quote_source(name)}, which is not a declared input."
        hint = "Declare it in the parameters of the skill or in the template's vars_schema, or fix its name."
        yield warning("template-undeclared", message, hint, field=_template_field(template))


def check_slots(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each placeholder of code, a request or a command that is no declared input, or has single braces."""
    skill = reading.skill
    for artifact in skill.artifacts if skill else ():
        used = _find_slot_names(artifact)
        declared = _declared_names(skill, artifact) if skill and used is not None else None
        if used is None or declared is None:
            continue
        where = artifact.path or artifact.name
        for name in sorted(used - declared):
            message = f"{where} uses {{{{ {name} }}}}, which is not a declared input."
            yield warning("template-undeclared", message, "Declare it in the parameters, or fix its name.", field=where)
        handler = artifact.handler if isinstance(artifact, HttpCall | CliCommand) else ""
        for name in sorted(declared.intersection(_SINGLE_BRACES.findall(handler))):
            message = f"{where} has {{{name}}}, which is sent as it is written."
            yield warning("single-braces", message, f"To insert the input, write {{{{ {name} }}}}.", field=where)


def _find_slot_names(artifact: Artifact) -> set[str] | None:
    """Return the names in the placeholders of code, a request or a command; None for other kinds, and for invalid ones."""
    if isinstance(artifact, CodeTemplate):
        return {path.partition(".")[0] for path in PLACEHOLDER.findall(artifact.content)}
    if not isinstance(artifact, HttpCall | CliCommand):
        return None
    try:
        slots = find_slots([artifact.handler, *(artifact.metadata.get(name) for name in _SLOTTED_SETTINGS)])
    except Invalid:
        return None  # reported as an invalid request or command
    return {slot.path[0] for slot in slots if not slot.secret}


def _declared_names(skill: Skill, template: Artifact) -> frozenset[str] | None:
    """Return the names that a template can rely on, or None if nothing is declared or the names cannot be known."""
    own: JsonObject | None = getattr(template, "vars_schema", None)
    schemas = [schema for schema in (skill.parameters, own) if schema is not None]
    if not schemas:
        return None
    earlier = [artifact for artifact in skill.artifacts if artifact.ordinal < template.ordinal]
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
    return frozenset(json_object(schema.get("properties")))


def _template_field(template: PromptTemplate) -> str:
    return template.path or template.name


MAX_BODY_LINES = 500
_TEMPLATE_SUFFIXES = (".j2", ".jinja", ".mustache")


def check(reading: Reading, _limits: Limits) -> Iterator[Problem]:
    """Yield errors for skills that Prowess does not store, and warnings for problems in other clients."""
    if any(problem.code == "nul-character" for problem in reading.problems):
        yield checks.error("binary", "The file is not text: it contains NUL characters.", "Save it as UTF-8 text.")
    if reading.skill is None and not any(problem.severity == "error" for problem in reading.problems):
        yield checks.error(
            "unusable", "The package does not contain a usable skill.", "Add a SKILL.md with a description."
        )
    yield from check_hidden_text(reading)
    yield from check_look_alikes(reading)
    yield from check_patterns(reading)
    yield from check_artifact_assertions(reading)
    yield from check_templates(reading)
    yield from check_policies(reading)
    yield from check_needs(reading)
    yield from check_requirements(reading)
    yield from check_functions(reading)
    yield from check_code_templates(reading)
    yield from check_requests(reading)
    yield from check_commands(reading)
    yield from check_slots(reading)


def remark(reading: Reading, _limits: Limits) -> Iterator[Problem]:
    """Yield what does not keep a skill from being stored: broken settings, requested permissions, and lengths that other clients reject."""
    yield from check_schemas(reading)
    yield from check_assertion_settings(reading)
    yield from check_run_settings(reading)
    yield from check_trigger_queries(reading)
    yield from _check_native_files(reading)
    yield from _check_length(reading)
    yield from list_permissions(reading)
    yield from _check_body(reading)


def _check_native_files(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each file that would run in the native form. In a plain skill it is only a file."""
    functions = kind_info("function").root_files
    for path in reading.package.paths if reading.form == "agentskills" else ():
        if path in functions or (path.startswith("prompts/") and path.endswith(_TEMPLATE_SUFFIXES)):
            what = "a function" if path in functions else "a prompt template"
            message = f"{path} is not {what}, because there is no {SIDECAR}."
            yield warning("native-file-unused", message, f"Add {SIDECAR}; it may be empty.", field=path)


def _check_length(reading: Reading) -> Iterator[Problem]:
    if reading.skill is None:
        return
    lines: checks.Lines = reading.document.lines if reading.document else {}
    # Other clients read the document, and not a longer description in the sidecar.
    written = reading.document.fields.get("description") if reading.document else None
    description = as_text(written) or reading.skill.description
    for problem in checks.check_description({"description": description}, lines):
        if problem.code == "description-long":
            yield replace(
                problem, severity="warning", message=problem.message + " Other clients truncate or reject it."
            )


def _check_body(reading: Reading) -> Iterator[Problem]:
    count = reading.document.body.count("\n") + 1 if reading.document else 0
    if count > MAX_BODY_LINES and reading.document:
        message = f"The text has {count:,} lines; the open standard recommends fewer than {MAX_BODY_LINES}."
        yield info("body-long", message, "Move details into files under references/.", line=reading.document.body_line)


PROWESS = Profile(
    name="prowess",
    summary="What Prowess stores and serves: a valid slug, a description, no hidden text, nothing broken.",
    check=check,
    remark=remark,
    severities={"frontmatter-too-large": "error"},
    ceiling="error",
)
