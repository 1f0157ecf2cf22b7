"""AgentLayerRules descriptors: a YAML file per skill, with its prompts and rubrics in registries next to it."""

from __future__ import annotations

from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.forms.artifact_builder import check_artifacts
from prowess.skill.forms.data import ParsedFile, parse_yaml
from prowess.skill.forms.descriptor import (
    dump_implementation,
    dump_template,
    function_path,
    implementation_artifact,
    read_implementation,
    read_template,
    registry_artifacts,
    with_unique_name,
)
from prowess.skill.forms.form import Candidate, Reading, error, info, unknown_fields
from prowess.skill.forms.frontmatter_fields import folder_name, title_from_slug
from prowess.skill.forms.layout import files_of
from prowess.skill.forms.origin import Origin, Original, apply_changes, diff_values
from prowess.skill.forms.prompt_files import is_data, write_prompt
from prowess.skill.kinds import Artifact, Function, JsonObject, PromptTemplate, Review
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.package import File, Package
from prowess.skill.slug import slugify
from prowess.skill.text.fields import as_list, as_text
from prowess.skill.text.yaml_writer import dump

FIELDS = (
    *("skill_id", "version", "title", "description", "tags", "input_schema", "output_schema"),
    *("implementation", "template_type", "template_config", "produces_artifacts", "policy", "observability"),
)
KEPT = ("produces_artifacts", "observability", *NEED_FIELDS)
"""Fields that are stored unchanged and read by a run."""


def find(package: Package, limits: Limits = DEFAULT_LIMITS) -> list[tuple[str, ParsedFile]]:
    """Return the descriptors in the package (YAML with a `skill_id`), topmost first."""
    found: list[tuple[str, ParsedFile]] = []
    for file in sorted(package.files, key=lambda file: (file.path.count("/"), file.path)):
        # A look at the bytes first: parsing every YAML file of every package would make recognising a form slow.
        if file.path.endswith((".yaml", ".yml")) and b"skill_id" in file.content:
            parsed = parse_yaml(file.path, file.content, limits)
            if "skill_id" in (parsed.object or {}) or parsed.problems:
                found.append((file.path, parsed))
    # Readable ones first. An unreadable file is kept because it may be the descriptor, and its problem is the answer
    # then.
    return sorted(found, key=lambda item: item[1].value is None)


def recognises(candidate: Candidate) -> bool:
    """Return True if there is YAML with a skill_id."""
    package, limits = candidate.package, candidate.limits
    return bool(find(package, limits))


def controls(package: Package, limits: Limits) -> frozenset[str]:
    """Return the path of the descriptor."""
    found = find(package, limits)
    return frozenset({found[0][0]} if found else ())


def read(candidate: Candidate) -> Reading:
    """Read the descriptor and the registries next to it, and check them against each other."""
    package, limits = candidate.package, candidate.limits
    found = find(package, limits)
    path, parsed = found[0] if found else ("", ParsedFile(None))
    problems = list(parsed.problems)
    document = parsed.object
    values = _values(document, parsed, package, problems) if document is not None else None
    if document is None or values is None:
        if not problems:
            problems.append(error("no-skill", "No YAML file has a skill_id.", "Add `skill_id: …` to the descriptor."))
        return Reading(form="agentlayerrules", package=package, skill=None, problems=tuple(problems))
    for other, _ in found[1:]:
        message = f"{other} is also a descriptor; only {path} is read."
        problems.append(error("several-descriptors", message, "Keep one descriptor per package.", field=other))
    artifacts = check_artifacts(_artifacts(document, parsed, path, package, problems, limits), problems)
    values |= {"artifacts": artifacts, "form": "agentlayerrules"}
    values |= {"manifest": package.manifest, "digest": package.digest}
    skill = Skill.model_validate(values)
    return Reading(form="agentlayerrules", package=package, skill=skill, problems=tuple(problems))


def _values(
    document: JsonObject, parsed: ParsedFile, package: Package, problems: list[Problem]
) -> dict[str, Any] | None:
    skill_id = as_text(document.get("skill_id")).strip()
    slug = slugify(skill_id) or slugify(folder_name(package))
    if not slug:
        line, hint = parsed.line("skill_id"), "Set it to the name of the skill, for example `skill_id: release-notes`."
        problems.append(error("no-slug", "The skill_id is empty.", hint, field="skill_id", line=line))
        return None
    if slug != skill_id:
        message = f"The skill_id {skill_id[:80]!r} is not a valid slug; {slug!r} is used instead."
        problems.append(info("slug-invalid", message, field="skill_id", line=parsed.line("skill_id")))
    title = as_text(document.get("title")).strip()
    description = as_text(document.get("description")).strip()
    if not description:
        hint = "Add `description: …`."
        problems.append(error("description-missing", "The descriptor has no description.", hint, field="description"))
    values: dict[str, Any] = {"slug": slug, "title": title or title_from_slug(slug), "description": description}
    if document.get("version") is not None:
        values["version"] = as_text(document["version"])
    values["tags"] = as_list(document.get("tags"))
    for field, key in (("parameters", "input_schema"), ("output_schema", "output_schema"), ("policy", "policy")):
        values[field] = _object(key, document, parsed, problems)
    values["policy"] = values["policy"] or {}
    values["extra"] = {key: value for key, value in document.items() if key not in FIELDS or key in KEPT}
    problems += unknown_fields([key for key in values["extra"] if key not in KEPT], parsed.line)
    return values


def _object(key: str, document: JsonObject, parsed: ParsedFile, problems: list[Problem]) -> JsonObject | None:
    value = document.get(key)
    if value is None or isinstance(value, dict):
        return cast("JsonObject | None", value)
    message = f"The field {key!r} must be a mapping; it is ignored."
    problems.append(error("wrong-type", message, "Write it as a mapping.", field=key, line=parsed.line(key)))
    return None


def _artifacts(
    document: JsonObject, parsed: ParsedFile, path: str, package: Package, problems: list[Problem], limits: Limits
) -> list[Artifact]:
    registry = registry_artifacts(package, problems, limits)
    template = read_template(document, parsed, registry, problems)
    implementation = read_implementation(document, parsed, path, package, problems)
    # The rubric that the review uses became part of it; otherwise one file would be two artifacts.
    if isinstance(template, Review):
        registry = [artifact for artifact in registry if artifact.path != template.path]
    names = {artifact.name for artifact in registry}
    return [*with_unique_name(template, names), *with_unique_name(implementation, names), *registry]


def dump_descriptor(skill: Skill) -> JsonObject:
    """Return the descriptor of a skill."""
    document: JsonObject = {"skill_id": skill.slug, "version": skill.version, "title": skill.title}
    document |= {"description": skill.description, "tags": list(skill.tags)}
    if skill.parameters is not None:
        document["input_schema"] = skill.parameters
    if skill.output_schema is not None:
        document["output_schema"] = skill.output_schema
    document |= dump_implementation(skill) | dump_template(skill)
    document |= {key: skill.extra[key] for key in KEPT if key in skill.extra}
    return document | ({"policy": skill.policy} if skill.policy else {})


def origin(reading: Reading, limits: Limits) -> Origin:
    """Return the data that only this form needs: the differences between the source and the output of `dump_descriptor`."""
    found = find(reading.package, limits)
    path, document = (found[0][0], found[0][1].object) if found else (None, None)
    changes = diff_values(dump_descriptor(reading.skill), document) if reading.skill and document is not None else []
    return Origin(form="agentlayerrules", path=path, changes=tuple(changes))


def render(skill: Skill, original: Original) -> list[File]:
    """Write the descriptor, its function, the Mustache prompts and the rubrics. Other files of the package are kept."""
    document = dump_descriptor(skill)
    if original.origin is not None and original.origin.form == "agentlayerrules":
        document = apply_changes(document, original.origin.changes)
    path = original.path_in("agentlayerrules", f"{skill.slug}.yaml")
    files = [File(path=path, content=dump(document).encode())]
    function = implementation_artifact(skill)
    if isinstance(function, Function) and function.content:
        file_path, before = function_path(function), original.before(function)
        files += files_of(function, file_path, original.package, before, original.limits)
    for artifact in skill.artifacts:
        files += _registry_files(artifact, original)
    used_paths = {file.path for file in files}
    return files + [file for file in original.others if file.path not in used_paths]


def _registry_files(artifact: Artifact, original: Original) -> list[File]:
    if isinstance(artifact, PromptTemplate) and artifact.syntax == "mustache":
        path = artifact.path if artifact.path and "prompts/" in artifact.path else None
        if path is not None:
            return files_of(artifact, path, original.package, original.before(artifact), original.limits)
        path = f"prompts/{slugify(artifact.name) or 'prompt'}.json"
        return [File(path=path, content=write_prompt(path, artifact.model_dump(), None))]
    if isinstance(artifact, Review) and artifact.content:
        ending = ".json" if artifact.content.lstrip().startswith("{") else ".yaml"
        path = artifact.path if artifact.path and "rubrics/" in artifact.path and is_data(artifact.path) else None
        path = path or f"rubrics/{slugify(artifact.rubric_id) or 'rubric'}{ending}"
        return files_of(artifact, path, original.package, original.before(artifact), original.limits)
    return []
