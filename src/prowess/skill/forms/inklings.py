"""Inklings packages: one JSON object with the skill's columns and its artifacts."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast, get_args

from prowess.errors import Problem
from prowess.skill.forms.artifact_builder import artifact_from, check_artifacts, json_object, limit_entries
from prowess.skill.forms.data import ParsedFile, json_text, parse_json
from prowess.skill.forms.form import Candidate, Reading, error, unknown_fields, warning
from prowess.skill.forms.frontmatter_fields import folder_name, title_from_slug
from prowess.skill.forms.origin import Origin, Original, apply_changes, diff_values
from prowess.skill.kinds import Artifact, DspyModule, Instructions, JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill, SourceName
from prowess.skill.package import File, Package
from prowess.skill.slug import slugify
from prowess.skill.text.fields import as_list, as_text

KINDS = ("description", "prompt_template", "code_template", "dspy_module", "approach", "example")
TEXT_FIELDS = ("version", "author")
LIST_FIELDS = ("tags", "intent_patterns", "trigger_phrases")
SOURCE_FIELDS = ("source", "marketplace_id", "sync_etag")
COLUMNS = frozenset(
    {
        "id",
        "name",
        "slug",
        "description",
        *TEXT_FIELDS,
        *LIST_FIELDS,
        *SOURCE_FIELDS,
        "created_at",
        "updated_at",
        "artifacts",
    }
)
ARTIFACT_COLUMNS = frozenset(
    {"id", "skill_id", "kind", "name", "ordinal", "content", "model_variant", "metadata", "state_blob"}
    | {"created_at", "updated_at"}
)
_KIND_MARK = "prowess_kind"
"""Metadata key with the real kind of an artifact for which Inklings only has a similar one."""


def find(package: Package, limits: Limits = DEFAULT_LIMITS) -> tuple[str, ParsedFile] | None:
    """Return the JSON file that is a package: an object with `artifacts`, or the only file."""
    for file in package.files:
        if file.path.endswith(".json") and "/" not in file.path:
            # Parsing large JSON files only to see that they are something else is slow; the bytes tell first.
            if len(package.files) > 1 and b'"artifacts"' not in file.content:
                continue
            parsed = parse_json(file.path, file.content, limits.file_bytes)
            if "artifacts" in (parsed.object or {}) or (parsed.value is None and len(package.files) == 1):
                return file.path, parsed
    return None


def recognises(candidate: Candidate) -> bool:
    """Return True if there is a JSON object with artifacts."""
    package, limits = candidate.package, candidate.limits
    return find(package, limits) is not None


def controls(package: Package, limits: Limits) -> frozenset[str]:
    """Return the path of the package file."""
    found = find(package, limits)
    return frozenset({found[0]} if found else ())


def read(candidate: Candidate) -> Reading:
    """Read the package. An invalid artifact does not affect the others."""
    package, limits = candidate.package, candidate.limits
    found = find(package, limits)
    problems = list(found[1].problems) if found else []
    document = found[1].object if found else None
    if document is None:
        if not problems:
            problems.append(
                error("no-skill", "No JSON file contains an object with artifacts.", 'Add "artifacts" to the object.')
            )
        return Reading(form="inklings", package=package, skill=None, problems=tuple(problems))
    values = _values(document, package, problems)
    if values is None:
        return Reading(form="inklings", package=package, skill=None, problems=tuple(problems))
    artifacts = check_artifacts(_artifacts(document, problems), problems)
    values |= {"artifacts": artifacts, "form": "inklings", "manifest": package.manifest, "digest": package.digest}
    return Reading(form="inklings", package=package, skill=Skill.model_validate(values), problems=tuple(problems))


def _values(document: JsonObject, package: Package, problems: list[Problem]) -> dict[str, Any] | None:
    name = as_text(document.get("name")).strip()
    slug = slugify(as_text(document.get("slug"))) or slugify(name) or slugify(folder_name(package))
    if not slug:
        problems.append(error("no-slug", "The package has no name.", 'Add "name".', field="name"))
        return None
    if not name:
        message = f"The package has no name; {slug!r} is used."
        problems.append(warning("name-missing", message, 'Add "name".', field="name"))
    description = as_text(document.get("description")).strip()
    if not description:
        hint = 'Add "description" with one sentence for the catalog.'
        problems.append(error("description-missing", "The package has no description.", hint, field="description"))
    values: dict[str, Any] = {"slug": slug, "title": name or title_from_slug(slug), "description": description}
    values["id"] = as_text(document.get("id"))
    for field in TEXT_FIELDS:
        if document.get(field) is not None:
            values[field] = as_text(document[field])
    for field in LIST_FIELDS:
        if document.get(field) is not None:
            values[field] = _texts(document[field])
    values["provenance"] = _provenance(document, problems)
    values["extra"] = {key: value for key, value in document.items() if key not in COLUMNS}
    problems += unknown_fields(list(values["extra"]))
    return values


def _texts(value: Any) -> tuple[str, ...]:
    """Return a list of strings. Database columns hold it as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        items = parse_json("", value.encode("utf-8", "surrogatepass")).value
        value = value if items is None else items
    return as_list(value)


def _provenance(document: JsonObject, problems: list[Problem]) -> JsonObject:
    provenance = {field: as_text(document[field]) for field in SOURCE_FIELDS if document.get(field) is not None}
    if provenance.get("source", "user") not in get_args(SourceName):
        message = f"Unknown source {provenance['source']!r}. Known sources: {', '.join(get_args(SourceName))}."
        problems.append(warning("wrong-type", message, "The source 'user' is used.", field="source"))
        del provenance["source"]
    return cast("JsonObject", provenance)


def _artifacts(document: JsonObject, problems: list[Problem]) -> list[Artifact]:
    listed = document.get("artifacts")
    if not isinstance(listed, list):
        problems.append(error("wrong-type", "'artifacts' must be a list.", "Write it as a list.", field="artifacts"))
        return []
    rows = limit_entries(cast("list[Any]", listed), problems)
    found = [_artifact(f"artifacts[{index}]", row, problems) for index, row in enumerate(rows)]
    return [artifact for artifact in found if artifact is not None]


def _artifact(where: str, item: Any, problems: list[Problem]) -> Artifact | None:
    row = cast("JsonObject", item) if isinstance(item, dict) else {}
    kind = row.get("kind")
    if kind not in KINDS:
        message = f"{where} has no kind." if kind is None else f"{where} has the unknown kind {kind!r}."
        problems.append(error("unknown-kind", message, f"Use one of: {', '.join(KINDS)}.", field=f"{where}.kind"))
        return None
    metadata = _metadata(row, where, problems)
    settings: JsonObject = {"kind": kind, "name": row.get("name"), "ordinal": row.get("ordinal", 0)}
    settings["content"] = row.get("content", "")
    settings["variant"] = row.get("model_variant")
    if isinstance(metadata.get("fallback_artifact"), str):
        settings["fallback"] = metadata.pop("fallback_artifact")
    assertions = metadata.get("assertions")
    if isinstance(assertions, list) and all(isinstance(assertion, dict) for assertion in cast("list[Any]", assertions)):
        settings["assertions"] = metadata.pop("assertions")
    # The only kind that `_row` writes as another one.
    if metadata.get(_KIND_MARK) == "instructions":
        settings["kind"] = metadata.pop(_KIND_MARK)
    if row.get("state_blob") is not None:
        _state(row, where, settings, metadata, problems)
    settings["metadata"] = {**{key: value for key, value in row.items() if key not in ARTIFACT_COLUMNS}, **metadata}
    return artifact_from(settings, where, problems)


def _metadata(row: JsonObject, where: str, problems: list[Problem]) -> JsonObject:
    metadata = row.get("metadata")
    if isinstance(metadata, str):
        metadata = json_object(metadata)
    if metadata is None and row.get("metadata") is None:
        return {}
    if isinstance(metadata, dict):
        return dict(cast("JsonObject", metadata))
    message = f"{where}.metadata must be an object; it is kept unchanged."
    problems.append(warning("wrong-type", message, "Write it as an object.", field=f"{where}.metadata"))
    return {"metadata": row["metadata"]}


def _state(row: JsonObject, where: str, settings: JsonObject, metadata: JsonObject, problems: list[Problem]) -> None:
    """Decode the saved state of a dspy_module. A state that cannot be decoded is kept unchanged."""
    state = decode_state(row["state_blob"]) if settings["kind"] == "dspy_module" else None
    if state is not None:
        settings["state"] = state
        return
    metadata["state_blob"] = row["state_blob"]
    message = f"{where}.state_blob is not base64-encoded JSON; it is kept, but the module has no saved state."
    hint = "Set it to the output of module.save(path, save_program=False), encoded as base64."
    problems.append(warning("state-blob-unreadable", message, hint, field=f"{where}.state_blob"))


def decode_state(blob: Any) -> str | None:
    """Return the JSON text in a base64 blob, or None."""
    if not isinstance(blob, str):
        return None
    try:
        # White space is removed because encoders wrap lines. `validate`, or Python would silently skip other foreign
        # characters.
        data = base64.b64decode("".join(blob.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return data.decode() if parse_json("state_blob", data).value is not None else None


def dump_package(skill: Skill) -> JsonObject:
    """Return the package of a skill, as far as Inklings has columns for it."""
    package: JsonObject = {"id": skill.id} if skill.id else {}
    package |= {"name": skill.title, "description": skill.description, "version": skill.version}
    if skill.slug != slugify(skill.title):
        package["slug"] = skill.slug
    package["tags"] = list(skill.tags)
    provenance = skill.provenance.model_dump(include=set(SOURCE_FIELDS), exclude_none=True)
    package |= {field: provenance[field] for field in SOURCE_FIELDS if field in provenance}
    if skill.author is not None:
        package["author"] = skill.author
    for field, values in (("intent_patterns", skill.intent_patterns), ("trigger_phrases", skill.trigger_phrases)):
        if values:
            package[field] = list(values)
    rows = [_row(artifact) for artifact in skill.artifacts]
    return package | {"artifacts": [row for row in rows if row is not None]}


def _row(artifact: Artifact) -> JsonObject | None:
    metadata = dict(artifact.metadata)
    kind = artifact.kind
    if isinstance(artifact, Instructions):
        kind, metadata[_KIND_MARK] = "approach", "instructions"
    if kind not in KINDS:
        return None
    row: JsonObject = {"kind": kind, "name": artifact.name, "ordinal": artifact.ordinal, "content": artifact.content}
    if artifact.variant is not None:
        row["model_variant"] = artifact.variant
    if isinstance(artifact, DspyModule):
        if artifact.state is not None:
            row["state_blob"] = base64.b64encode(artifact.state.encode()).decode()
        elif "state_blob" in metadata:
            row["state_blob"] = metadata.pop("state_blob")
    if artifact.fallback is not None:
        metadata["fallback_artifact"] = artifact.fallback
    if artifact.assertions:
        metadata["assertions"] = list(artifact.assertions)
    return row | ({"metadata": metadata} if metadata else {})


def origin(reading: Reading, limits: Limits) -> Origin:
    """Return the data that only this form needs: the differences between the source and the output of `dump_package`."""
    found = find(reading.package, limits)
    path, document = (found[0], found[1].object) if found else (None, None)
    changes = diff_values(dump_package(reading.skill), document) if reading.skill and document is not None else []
    return Origin(form="inklings", path=path, changes=tuple(changes))


def render(skill: Skill, original: Original) -> list[File]:
    """Write the package as one JSON file."""
    package = dump_package(skill)
    if original.origin is not None and original.origin.form == "inklings":
        package = apply_changes(package, original.origin.changes)
    path = original.path_in("inklings", f"{skill.slug}.json")
    return [File(path=path, content=json_text(package).encode())]
