"""Devai skills: a manifest `skill.json` and a function in `execute.ts`, `.js` or `.py`."""

from __future__ import annotations

from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.forms.data import ParsedFile, json_text, parse_json
from prowess.skill.forms.form import Candidate, Reading, error, unknown_fields, warning
from prowess.skill.forms.frontmatter_fields import folder_name, title_from_slug
from prowess.skill.forms.layout import EXECUTE_FILES, LANGUAGES, decoded_text
from prowess.skill.forms.origin import Origin, Original, apply_changes, diff_values
from prowess.skill.kinds import Function, JsonObject
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.package import File, Package
from prowess.skill.slug import is_slug, slugify
from prowess.skill.text.fields import as_list, as_text

MANIFEST = "skill.json"
FIELDS = (
    *("id", "name", "description", "version", "parameters", "createdBy", "tags"),
    *("output_schema", "timeout_seconds"),
)
REMOVED = ("toolAllowList", "systemPrompt")
CODE = EXECUTE_FILES


def recognises(candidate: Candidate) -> bool:
    """Return True for a manifest with a function, or a manifest that is not a package of another form."""
    package, limits = candidate.package, candidate.limits
    manifest = package.get(MANIFEST)
    if manifest is None:
        return False
    if any(package.get(path) is not None for path in CODE):
        return True
    return "artifacts" not in (_manifest(package, limits).object or {})


def controls(package: Package, limits: Limits) -> frozenset[str]:  # noqa: ARG001  the signature of all forms
    """Return the path of the manifest."""
    return frozenset({MANIFEST} if package.get(MANIFEST) is not None else ())


def read(candidate: Candidate) -> Reading:
    """Read the manifest and the function."""
    package, limits = candidate.package, candidate.limits
    parsed = _manifest(package, limits)
    problems = list(parsed.problems)
    manifest = parsed.object
    if manifest is None:
        if not problems:
            problems.append(
                error("wrong-type", f"{MANIFEST} must contain a JSON object.", "Fix the file.", field=MANIFEST)
            )
        return Reading(form="devai", package=package, skill=None, problems=tuple(problems))
    values = _values(manifest, package, problems)
    if values is None:
        return Reading(form="devai", package=package, skill=None, problems=tuple(problems))
    values["artifacts"] = _functions(package, _timeout(manifest, problems), problems)
    values |= {"form": "devai", "manifest": package.manifest, "digest": package.digest}
    return Reading(form="devai", package=package, skill=Skill.model_validate(values), problems=tuple(problems))


def _manifest(package: Package, limits: Limits) -> ParsedFile:
    file = package.get(MANIFEST)
    return parse_json(MANIFEST, file.content if file else b"", limits.skill_md_bytes)


def _values(manifest: JsonObject, package: Package, problems: list[Problem]) -> dict[str, Any] | None:
    declared_id = as_text(manifest.get("id")).strip()
    name = as_text(manifest.get("name")).strip()
    slug = slugify(declared_id) or slugify(name) or slugify(folder_name(package))
    if not slug:
        problems.append(error("no-slug", f"{MANIFEST} has no id.", 'Add "id".', field="id"))
        return None
    if not is_slug(declared_id):
        what = f"The id {declared_id[:80]!r} is not a valid slug" if declared_id else f"{MANIFEST} has no id"
        message = f"{what}; {slug!r} is used instead."
        problems.append(warning("slug-invalid", message, f'Set "id": "{slug}".', field="id"))
    description = as_text(manifest.get("description")).strip()
    if not description:
        hint = 'Add "description" with what the skill does.'
        problems.append(error("description-missing", f"{MANIFEST} has no description.", hint, field="description"))
    values: dict[str, Any] = {"slug": slug, "title": name or title_from_slug(slug), "description": description}
    if manifest.get("version") is not None:
        values["version"] = as_text(manifest["version"])
    if manifest.get("createdBy") is not None:
        values["author"] = as_text(manifest["createdBy"])
    values["tags"] = as_list(manifest.get("tags"))
    values["parameters"] = schema_of(manifest.get("parameters"), problems)
    values["output_schema"] = _output_schema(manifest, problems)
    values["extra"] = {key: value for key, value in manifest.items() if key not in FIELDS}
    problems += [_removed(key) for key in REMOVED if key in values["extra"]]
    problems += unknown_fields([key for key in values["extra"] if key not in (*REMOVED, *NEED_FIELDS)])
    return values


def _output_schema(manifest: JsonObject, problems: list[Problem]) -> JsonObject | None:
    """Return the schema for the result of the function, or None."""
    schema = manifest.get("output_schema")
    if schema is None or isinstance(schema, dict):
        return cast("JsonObject | None", schema)
    message = "The field 'output_schema' must be an object; it is ignored."
    problems.append(warning("wrong-type", message, "Set it to a JSON Schema.", field="output_schema"))
    return None


def _timeout(manifest: JsonObject, problems: list[Problem]) -> JsonObject:
    """Return the timeout of the function as a setting, or {} if the manifest has none."""
    seconds = manifest.get("timeout_seconds")
    if seconds is None:
        return {}
    # In Python True is an int. The upper bound also refuses infinity.
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < 1e9:
        return {"timeout_seconds": float(seconds)}
    message = "The field 'timeout_seconds' must be a number greater than 0; it is ignored."
    problems.append(warning("wrong-type", message, "Set it to a number of seconds.", field="timeout_seconds"))
    return {}


def _removed(key: str) -> Problem:
    message = (
        f"The field {key!r} is no longer part of the format, where a skill is a function, not a prompt. It is kept."
    )
    return warning("removed-field", message, "Remove it, and put instructions in a SKILL.md.", field=key)


def schema_of(parameters: Any, problems: list[Problem]) -> JsonObject | None:
    """Return the parameters as a JSON Schema. The manifest lists them by name, with a flag for required ones."""
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        message = "The field 'parameters' must be an object; it is ignored."
        problems.append(warning("wrong-type", message, "Write one entry per parameter.", field="parameters"))
        return None
    declared = cast("JsonObject", parameters)
    if is_schema(declared):
        return declared
    properties: JsonObject = {}
    required: list[str] = []
    for name, value in declared.items():
        parameter = dict(cast("JsonObject", value)) if isinstance(value, dict) else {"type": value}
        if isinstance(parameter.get("required"), bool) and parameter.pop("required"):
            required.append(name)
        properties[name] = parameter
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def is_schema(parameters: JsonObject) -> bool:
    """Return True if the parameters are a JSON Schema already."""
    return parameters.get("type") == "object" and isinstance(parameters.get("properties"), dict)


def shorten_schema(schema: JsonObject) -> JsonObject:
    """Return the parameters in the notation of a manifest, or the schema itself if the notation cannot express it."""
    required = schema.get("required", [])
    properties = schema.get("properties")
    plain_only = set(schema) <= {"type", "properties", "required"}
    if not plain_only or not isinstance(properties, dict) or not isinstance(required, list):
        return schema
    short: JsonObject = {}
    for name, value in cast("JsonObject", properties).items():
        if not isinstance(value, dict) or "required" in value:
            return schema
        short[name] = {**cast("JsonObject", value), **({"required": True} if name in required else {})}
    # Read back to be sure: the short notation loses the order of `required`, for example.
    return short if schema_of(short, []) == schema else schema


def _functions(package: Package, settings: JsonObject, problems: list[Problem]) -> list[Function]:
    paths = [path for path in CODE if package.get(path) is not None]
    if not paths:
        message = f"There is no execute file next to {MANIFEST}."
        problems.append(warning("function-missing", message, f"Add one of: {', '.join(CODE)}.", field=MANIFEST))
        return []
    if len(paths) > 1:
        message = f"There are several execute files ({', '.join(paths)}); {paths[0]} is used."
        problems.append(warning("several-functions", message, "Keep one of them.", field=paths[0]))
    file = package.get(paths[0])
    content = decoded_text(paths[0], file.content if file else b"", problems)
    language = cast("Any", LANGUAGES[paths[0][7:]])
    return [Function(name="execute", ordinal=1, path=paths[0], content=content, language=language, **settings)]


def dump_manifest(skill: Skill) -> JsonObject:
    """Return the manifest of a skill."""
    manifest: JsonObject = {"id": skill.slug, "name": skill.title, "description": skill.description}
    manifest["version"] = skill.version
    if skill.parameters is not None:
        manifest["parameters"] = shorten_schema(skill.parameters)
    if skill.author is not None:
        manifest["createdBy"] = skill.author
    if skill.tags:
        manifest["tags"] = list(skill.tags)
    if skill.output_schema is not None:
        manifest["output_schema"] = skill.output_schema
    function = _function_of(skill)
    if function is not None and function.timeout_seconds != Function.model_fields["timeout_seconds"].default:
        seconds = function.timeout_seconds
        manifest["timeout_seconds"] = int(seconds) if seconds.is_integer() else seconds
    return manifest | {key: skill.extra[key] for key in NEED_FIELDS if key in skill.extra}


def _function_of(skill: Skill) -> Function | None:
    return next((artifact for artifact in skill.artifacts if isinstance(artifact, Function)), None)


def origin(reading: Reading, limits: Limits) -> Origin:
    """Return the data that only this form needs: the differences between the source and the output of `dump_manifest`."""
    manifest = _manifest(reading.package, limits).object
    changes = diff_values(dump_manifest(reading.skill), manifest) if reading.skill and manifest is not None else []
    return Origin(form="devai", changes=tuple(changes))


def render(skill: Skill, original: Original) -> list[File]:
    """Write the manifest and the first function. Other files of the package are kept."""
    manifest = dump_manifest(skill)
    if original.origin is not None and original.origin.form == "devai":
        manifest = apply_changes(manifest, original.origin.changes)
    files = [File(path=MANIFEST, content=json_text(manifest).encode())]
    function = _function_of(skill)
    if function is not None and function.content:
        suffix = next(suffix for suffix, language in LANGUAGES.items() if language == function.language)
        before = original.before(function)
        unchanged = original.package.get(function.path or "") if before and before.content == function.content else None
        content = unchanged.content if unchanged else function.content.encode()
        files.append(File(path=f"execute{suffix}", content=content, mode=unchanged.mode if unchanged else "0644"))
    used_paths = {file.path for file in files}
    return files + [file for file in original.others if file.path not in used_paths]
