"""Look for parts of a skill that fail or have no effect when they are used: schemas, settings, trigger queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from prowess.errors import Invalid, Problem
from prowess.skill.assertion_specs import ASSERTION_CHECKS, list_assertions
from prowess.skill.declarations import REQUEST_FIELDS, CommandSettings
from prowess.skill.evals import find_eval_paths, read_trigger_set
from prowess.skill.forms.form import Reading, warning
from prowess.skill.json_values import json_object
from prowess.skill.kinds import Artifact, JsonObject, kind_info
from prowess.skill.schema import compile_schema
from prowess.suggestions import did_you_mean, near_names

SCHEMA_CODE = "schema-invalid"
MISSPELT_CODE = "setting-misspelt"
UNUSED_CODE = "setting-unused"
_KEYWORDS = (
    "additionalProperties", "allOf", "anyOf", "const", "default", "description", "enum", "examples", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum",
    "oneOf", "pattern", "properties", "required", "title", "type", "uniqueItems",
)  # fmt: skip
"""The keywords of JSON Schema that inputs and outputs commonly have, to recognize misspelt ones."""
_ASSERTION_SETTINGS = (
    "type", "check", "severity", "description", "schema", "fields", "format", "min", "max", "pattern", "prompt",
    "expected",
)  # fmt: skip
_POLICY = ("timeout_seconds", "max_cost_usd", "requires_approval")
_OBSERVABILITY = ("log_input", "log_output", "redact_fields")
_IN_METADATA: Mapping[str, Sequence[str]] = {
    "http_call": REQUEST_FIELDS,
    "cli_command": tuple(CommandSettings.model_fields),
    "review": ("per_criterion",),
}
"""The settings that a kind reads from its `metadata`."""
_RUN_SETTINGS = frozenset({
    "attempts", "max_bytes", "max_tokens", "model", "output_schema", "per_criterion", "success_codes", "temperature",
    "timeout_seconds",
})  # fmt: skip
"""Settings of some kind that mean the same in any other. In `metadata`, most other names are free."""
_SHOWN = 10


def check_schemas(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each schema that makes every run fail, or that has a name or keyword without effect."""
    skill = reading.skill
    if skill is None:
        return
    for field in ("parameters", "output_schema"):
        yield from _check_schema(field, getattr(skill, field))
    for artifact in skill.artifacts:
        for field in ("vars_schema", "output_schema"):
            yield from _check_schema(f"{artifact.name}.{field}", getattr(artifact, field, None))


def _check_schema(field: str, schema: JsonObject | None) -> Iterator[Problem]:
    if not schema:
        return
    try:
        compile_schema(schema)
    except Invalid as fault:
        yield warning(SCHEMA_CODE, fault.message, fault.hint, field=field)
        return
    properties = json_object(schema.get("properties"))
    yield from _misspelt(field, schema, _KEYWORDS)
    for name, about in [*properties.items()][:_SHOWN]:
        yield from _misspelt(f"{field}.properties.{name}", json_object(about), _KEYWORDS)
    required = schema.get("required")
    for name in cast("list[str]", required)[:_SHOWN] if isinstance(required, list) and properties else ():
        if name not in properties and near_names(name, properties):
            message = f"{name!r} is required, but not one of the properties."
            yield warning(MISSPELT_CODE, message, did_you_mean(name, properties, count=1), field=f"{field}.required")


def check_assertion_settings(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each setting of a built-in assertion that is probably misspelt."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        for position, written in enumerate(list_assertions(artifact)[:_SHOWN]):
            settings = json_object(written)
            kind = settings.get("type")
            if isinstance(kind, str) and kind in ASSERTION_CHECKS and "." not in kind:
                yield from _misspelt(f"{artifact.name}.assertions[{position}]", settings, _ASSERTION_SETTINGS)


def check_run_settings(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each unknown limit of a run, and for each setting that artifacts of its kind do not have."""
    skill = reading.skill
    if skill is None:
        return
    for field, written, known in (
        ("policy", skill.policy, _POLICY),
        ("observability", skill.extra.get("observability"), _OBSERVABILITY),
    ):
        for name in [name for name in json_object(written) if name not in known][:_SHOWN]:
            meant = did_you_mean(name, known, count=1)
            hint = meant or f"The settings are {', '.join(known)}."
            code = MISSPELT_CODE if meant else UNUSED_CODE
            yield warning(code, f"{name!r} has no effect.", hint, field=f"{field}.{name}")
    for artifact in skill.artifacts:
        yield from _check_metadata(artifact)


def _check_metadata(artifact: Artifact) -> Iterator[Problem]:
    field, read = f"{artifact.name}.metadata", _IN_METADATA.get(artifact.kind, ())
    own = kind_info(artifact.kind).model.model_fields
    for name in [name for name in artifact.metadata if name in _RUN_SETTINGS and name not in read][:_SHOWN]:
        message = f"{name!r} has no effect in the metadata of the kind {artifact.kind}."
        if name in own:
            hint = f"Write `{name}` beside `metadata`."
        elif name in _POLICY:
            hint = f"Set the limit of the whole skill: `policy: {{{name}: …}}`."
        else:
            hint = "Remove it."
        yield warning(UNUSED_CODE, message, hint, field=f"{field}.{name}")
    # A request with a misspelt setting is an error of its own.
    if artifact.kind != "http_call":
        yield from _misspelt(field, artifact.metadata, read)


def check_trigger_queries(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each problem with the queries that come with a skill."""
    files = {
        path: file.content for path in find_eval_paths(reading.package.paths) if (file := reading.package.get(path))
    }
    for problem in read_trigger_set(files).problems[:_SHOWN]:
        yield replace(problem, severity="warning")


def _misspelt(field: str, settings: Mapping[str, Any], known: Iterable[str]) -> Iterator[Problem]:
    """Yield a warning for each name that is not known, but nearly so. Others may have a meaning for other programs."""
    names = frozenset(known)
    for name in [*settings][:_SHOWN]:
        if name not in names and (meant := did_you_mean(name, names, count=1)):
            yield warning(MISSPELT_CODE, f"{name!r} has no effect.", meant, field=field)
