"""The artifacts of an AgentLayerRules descriptor, the files that it refers to, and the rules that tie them to the registries next to it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.forms.artifact_builder import artifact_from
from prowess.skill.forms.data import ParsedFile, parse_file
from prowess.skill.forms.form import error, warning
from prowess.skill.forms.layout import EXECUTE, EXECUTE_FILES, LANGUAGES, decoded_text, is_path, settings_of
from prowess.skill.forms.prompt_files import is_data, plain_text
from prowess.skill.json_values import json_object
from prowess.skill.kinds import (
    Artifact,
    CliCommand,
    Function,
    HttpCall,
    JsonGeneration,
    JsonObject,
    Kind,
    PromptTemplate,
    Review,
)
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.semver import latest_version
from prowess.skill.slug import slugify

IMPLEMENTATIONS: dict[str, Kind] = {"ts_function": "function", "http_call": "http_call", "cli_command": "cli_command"}
TEMPLATES: dict[str, Kind] = {"LLM_JSON_GENERATION": "json_generation", "LLM_REVIEW": "review"}
CONFIG_FIELDS: dict[str, tuple[str, ...]] = {
    "LLM_JSON_GENERATION": (
        *("prompt_id", "prompt_version", "model", "temperature", "max_tokens", "retry_on_validation_failure"),
    ),
    "LLM_REVIEW": ("rubric_id", "rubric_version", "evaluation_model", "include_criteria_details"),
}
REVIEW_RESULT = ("pass", "issues", "suggested_fixes", "indeterminate")
"""The fields that the output of a review must have."""

_IDS = {"LLM_JSON_GENERATION": "prompt_id", "LLM_REVIEW": "rubric_id"}
_NAMES = {"LLM_JSON_GENERATION": "generate", "LLM_REVIEW": "review"}
_MISSING = {"prompt": "prompt-id-missing", "rubric": "rubric-id-missing"}
_UNKNOWN = {"prompt": "prompt-unknown", "rubric": "rubric-unknown"}


def registry_artifacts(package: Package, problems: list[Problem], limits: Limits) -> list[Artifact]:
    """Return the prompts and rubrics next to the descriptor. The latest version of each has the plain name."""
    found: list[PromptTemplate | Review] = []
    for file in package.files:
        folders = file.path.split("/")[:-1]
        if "prompts" in folders and (is_data(file.path) or file.path.endswith(".mustache")):
            settings = settings_of("prompt_template", file.path, package, problems, limits=limits)
            # Descriptors refer to a prompt by its id alone; the version is its own field.
            settings["name"] = str(settings["name"]).removesuffix(f"@{settings.get('version')}")
        elif "rubrics" in folders and is_data(file.path):
            settings = settings_of("review", file.path, package, problems, limits=limits)
            settings["name"] = settings["rubric_id"]
        else:
            continue
        artifact = artifact_from(settings, file.path, problems)
        if isinstance(artifact, PromptTemplate | Review):
            found.append(artifact)
    return _named_by_version(found)


def _named_by_version(artifacts: list[PromptTemplate | Review]) -> list[Artifact]:
    """Return the artifacts with unique names: older versions of a prompt or rubric carry their version."""
    versions: dict[tuple[str, str], list[str]] = {}
    stated = [_version_of(artifact) for artifact in artifacts]
    for artifact, version in zip(artifacts, stated, strict=True):
        versions.setdefault((artifact.kind, artifact.name), []).append(version)
    newest = {key: latest_version(found) for key, found in versions.items()}
    return [
        artifact
        if not version or version == newest[artifact.kind, artifact.name]
        else artifact.model_copy(update=_older(artifact, version))
        for artifact, version in zip(artifacts, stated, strict=True)
    ]


def _older(artifact: PromptTemplate | Review, version: str) -> JsonObject:
    """Return the settings that distinguish an older version of a prompt or rubric from the latest one."""
    pinned: JsonObject = {"rubric_version": version} if isinstance(artifact, Review) else {}
    return {"name": f"{artifact.name}@{version}", **pinned}


def _version_of(artifact: PromptTemplate | Review) -> str:
    """Return the version of a prompt, or the version stated in the text of a rubric."""
    if isinstance(artifact, PromptTemplate):
        return artifact.version or ""
    # A review has no field for its own version: `rubric_version` is the one that it asks for.
    stated = parse_file(artifact.path or "", artifact.content.encode()).object
    return plain_text((stated or {}).get("version"))


def _entries(what: str, artifact_kind: str, registry: list[Artifact]) -> dict[str, PromptTemplate | Review]:
    """Return the package's own prompts or rubrics with an id, by version. One without a version matches every version."""
    kind = PromptTemplate if what == "prompt" else Review
    own = [artifact for artifact in registry if isinstance(artifact, kind)]
    return {_version_of(artifact): artifact for artifact in own if _id_of(artifact) == artifact_kind}


def _id_of(artifact: PromptTemplate | Review) -> str:
    if isinstance(artifact, Review):
        return artifact.rubric_id
    return artifact.name.removesuffix(f"@{artifact.version}") if artifact.version else artifact.name


def read_template(
    document: JsonObject, parsed: ParsedFile, registry: list[Artifact], problems: list[Problem]
) -> Artifact | None:
    """Return the artifact of a descriptor that declares a template type."""
    template = document.get("template_type")
    if template is None:
        return None
    line = parsed.line("template_type")
    if not isinstance(template, str) or template not in TEMPLATES:
        message, hint = f"Unknown template type {template!r}.", f"Use one of: {', '.join(TEMPLATES)}."
        problems.append(error("template-type-unknown", message, hint, field="template_type", line=line))
        return None
    config = document.get("template_config")
    if not isinstance(config, dict):
        message = f"The template type {template} needs a template_config."
        hint = f"Add template_config with {_IDS[template]}."
        problems.append(error("template-config-missing", message, hint, field="template_config", line=line))
        config = {}
    settings = _template_settings(template, cast("JsonObject", config), document)
    if not _check_id(template, settings, parsed, registry, problems):
        return None
    _check_output(template, document, parsed, problems)
    if template == "LLM_REVIEW":
        _take_rubric(settings, registry)
    return artifact_from(settings, "template_config", problems)


def _template_settings(template: str, config: JsonObject, document: JsonObject) -> JsonObject:
    known = CONFIG_FIELDS[template]
    settings: JsonObject = {"kind": TEMPLATES[template], "name": _NAMES[template]}
    settings |= {key: value for key, value in config.items() if key in known and value is not None}
    settings["metadata"] = {key: value for key, value in config.items() if key not in known}
    if isinstance(document.get("output_schema"), dict):
        settings["output_schema"] = document["output_schema"]
    return settings


def _check_id(
    template: str, settings: JsonObject, parsed: ParsedFile, registry: list[Artifact], problems: list[Problem]
) -> bool:
    """Return True if the prompt or rubric is named. If it is not in the package, that is a warning: it may be registered elsewhere."""
    field = _IDS[template]
    what = field.removesuffix("_id")
    line = parsed.line("template_config")
    entry_id = settings.get(field)
    if not entry_id:
        message, hint = f"template_config has no {field}.", f"Set {field} to the id of a {what}."
        problems.append(error(_MISSING[what], message, hint, field=f"template_config.{field}", line=line))
        return False
    there = _entries(what, str(entry_id), registry)
    version = settings.get(f"{what}_version")
    if there and (version is None or str(version) in there or "" in there):
        return True
    known = sorted(
        {
            _id_of(artifact)
            for artifact in registry
            if isinstance(artifact, PromptTemplate if what == "prompt" else Review)
        }
    )
    message = f"The {what} {entry_id!r} is not in the package."
    hint = (
        f"The package has: {', '.join(known)}." if known else f"Add it to {what}s/, or make sure that it is registered."
    )
    if there:
        message = f"The package has the {what} {id!r}, but not version {str(version)[:80]!r}."
        hint = f"Available versions: {', '.join(there)}."
    problems.append(warning(_UNKNOWN[what], message, hint, field=f"template_config.{field}", line=line))
    return True


def _check_output(template: str, document: JsonObject, parsed: ParsedFile, problems: list[Problem]) -> None:
    schema = document.get("output_schema")
    line = parsed.line("output_schema")
    if template == "LLM_JSON_GENERATION" and not isinstance(schema, dict):
        message = "A generation needs an output_schema to check the answer against."
        hint = "Add an output_schema."
        problems.append(error("output-schema-missing", message, hint, field="output_schema", line=line))
    if template == "LLM_REVIEW" and isinstance(schema, dict):
        properties = json_object(cast("JsonObject", schema).get("properties"))
        lacking = [name for name in REVIEW_RESULT if name not in properties]
        if lacking:
            message = f"The output_schema is missing {', '.join(lacking)}, which every review returns."
            hint = "Add the missing fields."
            problems.append(warning("output-schema-not-review", message, hint, field="output_schema", line=line))


def _take_rubric(settings: JsonObject, registry: list[Artifact]) -> None:
    """Copy the rubric's text into the review, if the package has it in the requested version."""
    there = _entries("rubric", str(settings["rubric_id"]), registry)
    version = settings.get("rubric_version")
    rubric = there.get(latest_version(there) or "") if version is None else there.get(str(version), there.get(""))
    if rubric is not None:
        settings["content"] = rubric.content
        settings["path"] = rubric.path


def read_implementation(
    document: JsonObject, parsed: ParsedFile, path: str, package: Package, problems: list[Problem]
) -> Artifact | None:
    """Return the artifact of the descriptor at `path` that names a handler, with the handler's file."""
    section = document.get("implementation")
    if section is None:
        return None
    implementation = json_object(section)
    kind = IMPLEMENTATIONS.get(str(implementation.get("type")))
    if kind is None:
        message = f"Unknown implementation type {implementation.get('type')!r}."
        line, hint = parsed.line("implementation"), f"Use one of: {', '.join(IMPLEMENTATIONS)}."
        problems.append(error("implementation-unknown", message, hint, field="implementation", line=line))
        return None
    settings: JsonObject = {"kind": kind, "name": "handler", "handler": implementation.get("handler")}
    settings["metadata"] = {key: value for key, value in implementation.items() if key not in ("type", "handler")}
    if kind == "function":
        settings |= {"language": "typescript", **_function_file(settings["handler"], path, package, problems)}
    return artifact_from(settings, "implementation", problems)


def split_handler(handler: str) -> tuple[str, str]:
    """Split a handler into file and function. The file is '' if the handler does not name one."""
    path, _, function = handler.partition("#")
    if path.endswith(tuple(LANGUAGES)):
        # Normalised only for the lookup by exact path: one that leads outside, such as `../x.ts`, is in no package.
        return posixpath.normpath(path), function or EXECUTE
    return "", handler


def _function_file(handler: Any, descriptor: str, package: Package, problems: list[Problem]) -> JsonObject:
    """Return the settings from the handler's file: the file it names, or the execute file next to the descriptor."""
    if not isinstance(handler, str):
        return {}
    named, function = split_handler(handler)
    beside = [posixpath.join(posixpath.dirname(descriptor), name) for name in ([named] if named else EXECUTE_FILES)]
    # A handler that is not an identifier, such as `tools.search`, is registered elsewhere and names no file.
    candidates = [*beside, named] if named else beside if function.isidentifier() else []
    file = next((file for path in candidates if (file := package.get(path)) is not None), None)
    if file is None:
        if named:
            message = f"The handler {handler[:80]!r} refers to a file that is not in the package."
            hint = f"Add {named[:80]} next to the descriptor."
            problems.append(warning("function-missing", message, hint, field="implementation"))
        return {}
    language = next(language for suffix, language in LANGUAGES.items() if file.path.endswith(suffix))
    content = decoded_text(file.path, file.content, problems)
    return {"handler": function, "path": file.path, "content": content, "language": language}


def dump_implementation(skill: Skill) -> JsonObject:
    """Return the implementation section of a descriptor."""
    artifact = implementation_artifact(skill)
    if artifact is None:
        return {}
    kind = next(name for name, kind in IMPLEMENTATIONS.items() if kind == artifact.kind)
    handler = artifact.handler
    if isinstance(artifact, Function) and artifact.content:
        path = function_path(artifact)
        handler = path if handler == EXECUTE else f"{path}#{handler}"
    return {"implementation": {"type": kind, "handler": handler, **artifact.metadata}}


def implementation_artifact(skill: Skill) -> Function | HttpCall | CliCommand | None:
    """Return the artifact that implements the skill, or None. A function that is not TypeScript needs its own file."""
    for artifact in skill.artifacts:
        if isinstance(artifact, HttpCall | CliCommand):
            return artifact
        if isinstance(artifact, Function) and (artifact.content or artifact.language == "typescript"):
            return artifact
    return None


def function_path(function: Function) -> str:
    """Return the path of a function's file: its own if the suffix fits the language, else the execute file."""
    suffix = next(suffix for suffix, language in LANGUAGES.items() if language == function.language)
    path = function.path or ""
    return path if path.endswith(suffix) and is_path(path) else f"{EXECUTE}{suffix}"


def dump_template(skill: Skill) -> JsonObject:
    """Return the template type and configuration of a descriptor."""
    for artifact in skill.artifacts:
        if isinstance(artifact, JsonGeneration) or (isinstance(artifact, Review) and not is_registered(artifact)):
            template = next(name for name, kind in TEMPLATES.items() if kind == artifact.kind)
            stated = artifact.model_dump(exclude_defaults=True, include=set(CONFIG_FIELDS[template]))
            config: dict[str, Any] = {key: stated[key] for key in CONFIG_FIELDS[template] if key in stated}
            # A descriptor has one schema; without any, a generation could not be read back.
            own = artifact.output_schema if skill.output_schema is None else None
            schema: JsonObject = {"output_schema": own} if own and isinstance(artifact, JsonGeneration) else {}
            return {"template_type": template, "template_config": {**config, **artifact.metadata}, **schema}
    return {}


def is_registered(review: Review) -> bool:
    """Return True if a review is only a registered rubric: named by its id, plus the version if it is an older one."""
    return review.name in (review.rubric_id, f"{review.rubric_id}@{review.rubric_version}")


def with_unique_name(artifact: Artifact | None, names: set[str]) -> list[Artifact]:
    """Return the artifact with a name that is unique in the skill."""
    if artifact is None:
        return []
    name = artifact.name
    while name in names:
        name += "-skill"
    return [artifact.model_copy(update={"name": name})]


COMPANION_FOLDERS = {"prompts": "prompt_id", "rubrics": "rubric_id"}
"""Companion folders, with the field through which a descriptor and a companion refer to each other."""

_SUFFIXES = (".json", ".yaml", ".yml", ".mustache")


def find_companion_ids(name: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    """Return the id that a descriptor names in each registry."""
    if not name.endswith((".yaml", ".yml")):
        return {}
    settings = json_object((parse_file(name, data, limits).object or {}).get("template_config"))
    named = {folder: settings.get(field) for folder, field in COMPANION_FOLDERS.items()}
    return {folder: entry_id for folder, entry_id in named.items() if isinstance(entry_id, str) and entry_id.strip()}


def find_function_files(name: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Return the paths where a descriptor's function may be, relative to the descriptor's folder; the first existing file wins."""
    if not name.endswith((".yaml", ".yml")) or b"ts_function" not in data:
        return ()
    implementation = json_object((parse_file(name, data, limits).object or {}).get("implementation"))
    handler = implementation.get("handler")
    if implementation.get("type") != "ts_function" or not isinstance(handler, str):
        return ()
    path, function = split_handler(handler)
    if path:
        return (path,) if is_path(path) else ()
    return EXECUTE_FILES if function.isidentifier() else ()


def choose_companions(folder: str, entry_id: str, names: Iterable[str], read: Callable[[str], bytes]) -> list[str]:
    """Return the files of a registry that hold an entry: files named after it, or else files whose content names it."""
    known = sorted(name for name in names if name.endswith(_SUFFIXES))
    stems = {entry_id, slugify(entry_id)}
    named = [name for name in known if any(_is_named(name, stem) for stem in stems)]
    if named:
        return named
    says = re.compile(
        rb"[\"']?%s[\"']?\s*:\s*[\"']?%s[\"']?\s*(?:[,}#\n]|$)"
        % (COMPANION_FOLDERS[folder].encode(), re.escape(entry_id.encode()))
    )
    return [name for name in known if says.search(read(name))]


def _is_named(name: str, stem: str) -> bool:
    """Return True if a file is called `stem.json`, or has a version in between, as in `stem.v2.json`."""
    return bool(stem) and name.startswith(stem) and name[len(stem) :][:1] in (".", "@")
