"""Read and write `agents/prowess.yaml`, the file for everything that SKILL.md has no field for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, ValidationError

from prowess.errors import Problem
from prowess.patterns import lazy_pattern
from prowess.skill.filenames import SIDECAR
from prowess.skill.forms.data import parse_yaml
from prowess.skill.forms.form import MAX_LISTED_FIELDS, error
from prowess.skill.forms.origin import Origin
from prowess.skill.kinds import FrozenModel, JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Provenance, SourceName
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.text.fields import as_list
from prowess.skill.text.yaml_writer import dump
from prowess.suggestions import did_you_mean

_ITEM = lazy_pattern(r"( *)- ")
RUN_FIELDS = ("observability", "produces_artifacts", *NEED_FIELDS)
"""Fields about running a skill that descriptors also have. A skill keeps them in `extra`."""


def _as_list(value: Any) -> Any:
    return as_list(value) if isinstance(value, str) else value


def _without_empty(value: Any) -> Any:
    """Return a mapping without empty values."""
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in cast("JsonObject", value).items() if part is not None}


_SCHEMA_NUMBERS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "default", "const"}
)
_DECIMAL = lazy_pattern(r"[-+]?\d{1,20}\.\d{1,20}\Z")


def _with_numbers(value: Any) -> Any:
    """Return a value in which the schemas of numbers have numbers.

    `0.50` without quotes is read as text, so that a version such as `1.10` keeps its zero.
    """
    if isinstance(value, list):
        return [_with_numbers(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = {name: _with_numbers(part) for name, part in cast("JsonObject", value).items()}
    if fields.get("type") in ("number", "integer"):
        for name in fields.keys() & _SCHEMA_NUMBERS:
            part = fields[name]
            fields[name] = float(part) if isinstance(part, str) and _DECIMAL.match(part) else part
    return fields


Schema = Annotated[JsonObject | None, BeforeValidator(_with_numbers)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


class Sidecar(FrozenModel):
    """The fields of `agents/prowess.yaml`, all optional.

    A field that is present takes precedence over SKILL.md, even if it is empty. `frontmatter` holds unknown fields from the
    frontmatter of the source. `not_artifacts` lists files, or folders with a trailing slash, that are not artifacts although
    they are in the place of artifacts. The needs, from `runtime` on, are kept as written.
    """

    id: str = ""
    title: str | None = None
    slug: str | None = None
    description: str | None = None
    version: str | None = None
    author: str | None = None
    license: str | None = None
    compatibility: str | None = None
    tags: Texts = ()
    triggers: Texts = ()
    intent_patterns: Texts = ()
    keywords: Texts = ()
    when_to_use: str | None = None
    allowed_tools: Texts = ()
    parameters: Schema = None
    output_schema: Schema = None
    policy: JsonObject = Field(default_factory=dict)
    observability: JsonObject = Field(default_factory=dict)
    produces_artifacts: tuple[Any, ...] = ()
    runtime: Any = None
    hosts: Any = None
    env: Any = None
    roots: Any = None
    requirements: Any = None
    binaries: Any = None
    source: SourceName | None = None
    provenance: Annotated[Provenance, BeforeValidator(_without_empty)] = Provenance.model_construct()
    metadata: JsonObject = Field(default_factory=dict)
    frontmatter: JsonObject = Field(default_factory=dict)
    artifacts: Annotated[tuple[JsonObject, ...], BeforeValidator(_with_numbers)] = ()
    not_artifacts: Texts = ()
    origin: Origin | None = None


SKILL_FIELDS = {
    **{name: name for name in ("title", "version", "author", "license", "compatibility", "tags", "intent_patterns")},
    **{name: name for name in ("keywords", "when_to_use", "allowed_tools", "parameters", "output_schema", "policy")},
    "metadata": "metadata",
    "triggers": "trigger_phrases",
}
"""The fields of the sidecar that correspond to one field of the skill each."""


def read_sidecar(data: bytes, problems: list[Problem], limits: Limits = DEFAULT_LIMITS) -> Sidecar:
    """Read the usable part of a sidecar. Everything else is reported and ignored."""
    parsed = parse_yaml(SIDECAR, data, limits)
    if parsed.problems:
        fault = parsed.problems[0]
        problems.append(error("sidecar-unreadable", fault.message, fault.hint, field=SIDECAR, line=fault.line))
        return Sidecar()
    if parsed.value is None:
        return Sidecar()
    fields = parsed.object
    if fields is None:
        hint = "Write it as `key: value` lines."
        problems.append(error("sidecar-unreadable", f"{SIDECAR} must be a mapping.", hint, field=SIDECAR))
        return Sidecar()
    return _validated(fields, parsed.lines or {}, problems)


def _validated(fields: JsonObject, lines: dict[str, int], problems: list[Problem]) -> Sidecar:
    """Return the sidecar without the invalid fields."""
    try:
        return Sidecar.model_validate(fields)
    except ValidationError as invalid:
        faults = invalid.errors(include_url=False, include_input=False)
        for fault in faults[:MAX_LISTED_FIELDS]:
            where = tuple(str(part) for part in fault["loc"])
            problems.append(
                _field_problem(where, str(fault["type"]), fault["msg"], Sidecar.model_fields, lines.get(where[0]))
            )
        bad = {str(fault["loc"][0]) for fault in faults}
        # One invalid field must not cost the others. Without the fields at fault the rest is known to be valid.
        return Sidecar.model_validate({key: value for key, value in fields.items() if key not in bad})


def _field_problem(where: tuple[str, ...], kind: str, message: str, known: Iterable[str], line: int | None) -> Problem:
    field = ".".join(where)
    if kind == "extra_forbidden":
        return unknown_field_problem(field, where[-1], known, line)
    hint = f"Correct it. Until then, {where[0]!r} is ignored."
    return error("sidecar-invalid", f"{SIDECAR}: {field}: {message}.", hint, field=field, line=line)


def unknown_field_problem(field: str, name: str, known: Iterable[str], line: int | None = None) -> Problem:
    """Return the problem for an unknown field, with the name that was probably meant."""
    names = list(known)
    hint = did_you_mean(name, names, count=1) or f"Use one of: {', '.join(sorted(names))}."
    return error("sidecar-unknown-field", f"{SIDECAR} has an unknown field {field!r}.", hint, field=field, line=line)


def dump_sidecar(fields: JsonObject) -> bytes:
    """Return the sidecar with these fields in their fixed order."""
    ordered = {name: fields[name] for name in Sidecar.model_fields if name in fields}
    return dump(ordered).encode()


def edit_sidecar(data: bytes, changes: JsonObject, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return a sidecar with some fields replaced, added, or removed (None). All other lines stay as the author wrote them.

    To a list that only grows, the new items are added. A file that is not written with one field after the other is returned unchanged. Callers read the result back.
    """
    if not changes:
        return data
    parsed = parse_yaml(SIDECAR, data, limits)
    starts = parsed.lines or {}
    if parsed.object is None or parsed.problems:
        return data
    # Not `splitlines`: it also splits at characters that are part of a line here.
    lines = data.decode(errors="replace").rstrip("\n").split("\n")
    if not all(line <= len(lines) and lines[line - 1].startswith(name) for name, line in starts.items()):
        return data
    new = {
        name: [] if value is None else dump({name: value}).rstrip("\n").split("\n") for name, value in changes.items()
    }
    # From the last field to the first, so that the lines of those that follow stay where they are.
    for name in sorted(starts.keys() & new, key=lambda name: -starts[name]):
        first = starts[name] - 1
        end = min([line - 1 for line in starts.values() if line - 1 > first], default=len(lines))
        # Comments before the next field belong to that field.
        while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
            end -= 1
        items = _new_items(lines[first:end], parsed.object[name], changes[name])
        lines[first:end] = [*lines[first:end], *items] if items else new[name]
        del new[name]
    return "\n".join([*lines, *(line for added in new.values() for line in added), ""]).encode()


def _new_items(lines: list[str], before: Any, after: Any) -> list[str]:
    """Return the lines to add to those of a list with one item after the other that only grows; [] for any other value."""
    indent = next((found[1] for line in lines[1:] if (found := _ITEM.match(line))), None)
    if indent is None or not isinstance(before, list) or not isinstance(after, list | tuple):
        return []
    old, items = cast("list[Any]", before), [*cast("list[Any]", after)]
    if len(items) <= len(old) or items[: len(old)] != old:
        return []
    return [indent + line for line in dump(items[len(old) :]).rstrip("\n").split("\n")]
