"""The files of a draft: of a new skill, or of an existing one in which only what the draft changes is changed."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from prowess.authoring.compose.draft import PYTHON_TYPES, Draft, DraftEval, DraftInput, DraftQuery, InputType
from prowess.errors import Invalid
from prowess.skill.edit import rewrite_package
from prowess.skill.evals import find_eval_paths, read_trigger_set
from prowess.skill.json_values import json_list, json_object, json_value
from prowess.skill.kinds import Artifact, CodeTemplate, DspyModule, Instructions, JsonObject, Kind, PromptTemplate
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.template import find_variables

TRIGGERS = "evals/triggers.json"
EVALS = "evals/evals.json"
ANSWER = "answer"
"""The output field of a dspy_module that was made from a prompt."""

_PLAIN_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_NAMES: dict[Kind, str] = {"prompt_template": "prompt", "code_template": "code", "dspy_module": "module"}


def build_package(draft: Draft, base: tuple[Skill, Package] | None = None, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Return the files of a draft. With `base`, those of an existing skill, in which only what the draft changes is changed."""
    if base is None:
        skill = Skill(
            slug=draft.slug,
            title=draft.title,
            description=draft.description,
            trigger_phrases=draft.trigger_phrases,
            parameters=make_parameters(draft),
            artifacts=_make_artifacts(draft),
        )
        return rewrite_package(skill, limits=limits).with_files(_eval_files(draft, skill.slug))
    skill, package = base
    before = read_draft(skill, package)
    changed = {name for name in Draft.model_fields if getattr(draft, name) != getattr(before, name)}
    update: dict[str, Any] = {
        name: getattr(draft, name) for name in ("title", "description", "trigger_phrases") if name in changed
    }
    if "inputs" in changed:
        update["parameters"] = make_parameters(draft)
    new = skill.model_copy(update={**update, "artifacts": _change_artifacts(skill, draft, before)})
    files = [
        file for file in _eval_files(draft, skill.slug) if {TRIGGERS: "queries", EVALS: "evals"}[file.path] in changed
    ]
    return rewrite_package(new, package, limits).with_files(files)


def read_draft(skill: Skill, package: Package) -> Draft:
    """Return an existing skill as a draft: the parts that the composer can change."""
    prompt, code = _first(skill, PromptTemplate), _first(skill, CodeTemplate)
    module = _first(skill, DspyModule)
    template_id = module.settings.get("template_id") if isinstance(module, DspyModule) else ""
    paths = [path for path in find_eval_paths(package.paths) if path != EVALS]
    cases = read_trigger_set({path: _bytes_of(package, path) for path in paths}).cases
    return Draft(
        slug=skill.slug,
        title=skill.title,
        description=skill.description,
        instructions=skill.body,
        trigger_phrases=skill.trigger_phrases,
        inputs=_read_inputs(skill.parameters or {}),
        prompt_template=prompt.content if prompt else "",
        code_template=code.content if code else "",
        dspy_template=template_id if isinstance(template_id, str) else "",
        assertions=prompt.assertions if prompt else (),
        queries=tuple(DraftQuery(query=case.query, should_trigger=case.should_trigger) for case in cases),
        evals=_read_evals(package),
    )


def make_parameters(draft: Draft) -> JsonObject | None:
    """Return the JSON Schema of a draft's inputs; None if it has none."""
    if not draft.inputs:
        return None
    properties = {field.name: {"type": field.type, "description": field.description} for field in draft.inputs}
    required = [field.name for field in draft.inputs if field.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def make_module(draft: Draft) -> JsonObject:
    """Return the content of the dspy_module of a draft: a template id, and a signature of the prompt's variables."""
    try:
        variables = find_variables(draft.prompt_template)
    except Invalid:  # reported as a problem of the template itself
        variables = frozenset[str]()
    declared = {field.name: field for field in draft.inputs}
    names = [*(name for name in declared if name in variables), *sorted(variables - declared.keys())]
    inputs = [
        {
            "name": name,
            "type": PYTHON_TYPES[declared[name].type] if name in declared else "str",
            "description": declared[name].description if name in declared else "",
        }
        for name in names
    ]
    # The variables are their own fields in a signature, so the instructions only name them.
    text = _PLAIN_VARIABLE.sub(r"(see \1)", draft.prompt_template)
    signature = {
        "instructions": draft.description if "{%" in text or "{{" in text else text.strip(),
        "inputs": inputs,
        "outputs": [{"name": ANSWER, "type": "str", "description": "The answer."}],
    }
    return {"template_id": draft.dspy_template, "signature": signature}


def _make_artifacts(draft: Draft) -> tuple[Artifact, ...]:
    found: list[Artifact] = []
    if draft.instructions:
        found.append(Instructions(name="instructions", content=_with_end(draft.instructions)))
    found += filter(None, (_make(kind, draft, None) for kind in _NAMES))
    return tuple(found)


def _make(kind: Kind, draft: Draft, name: str | None, prompt: str = "") -> Artifact | None:
    """Return an artifact of a draft, under its old name if it had one; None if the draft does not have it."""
    name = name or _NAMES[kind]
    if kind == "prompt_template" and draft.prompt_template:
        content = _with_end(draft.prompt_template)
        return PromptTemplate(name=name, ordinal=1, content=content, assertions=draft.assertions)
    if kind == "code_template" and draft.code_template:
        return CodeTemplate(name=name, ordinal=2, content=_with_end(draft.code_template))
    if kind == "dspy_module" and draft.dspy_template:
        content = json.dumps(make_module(draft), ensure_ascii=False, indent=2) + "\n"
        return DspyModule(name=name, ordinal=3, content=content, fallback=prompt or _NAMES["prompt_template"])
    return None


_MODELS: dict[Kind, type[Artifact]] = {
    "prompt_template": PromptTemplate,
    "code_template": CodeTemplate,
    "dspy_module": DspyModule,
}
_KEPT: dict[Kind, tuple[str, ...]] = {
    "prompt_template": ("content", "assertions"),
    "code_template": ("content",),
    # A saved state belongs to the module that it was made for.
    "dspy_module": ("content", "state"),
}
"""What a draft decides about an artifact that exists. Its name, path, ordinal and everything else stay."""


def _change_artifacts(skill: Skill, draft: Draft, before: Draft) -> tuple[Artifact, ...]:
    """Return the artifacts of a skill with those replaced, added or removed that the draft changes."""
    artifacts = list(skill.artifacts)
    if draft.instructions != before.instructions:
        artifacts = [artifact for artifact in artifacts if artifact.kind != "instructions"]
        artifacts.insert(0, Instructions(name="instructions", content=_with_end(draft.instructions)))
    prompt = _first(skill, PromptTemplate)
    for kind, model in _MODELS.items():
        old = _first(skill, model)
        if not _is_changed(kind, draft, before, old):
            continue
        new = _make(kind, draft, old.name if old else None, prompt.name if prompt else "")
        if old is not None and new is not None:
            new = old.model_copy(update={name: getattr(new, name) for name in _KEPT[kind]})
        changed = [new if artifact is old else artifact for artifact in artifacts]
        artifacts = [one for one in [*changed, *([] if old else [new])] if one is not None]
    return tuple(artifacts)


def _is_changed(kind: Kind, draft: Draft, before: Draft, old: Artifact | None) -> bool:
    if kind == "prompt_template":
        return (draft.prompt_template, draft.assertions) != (before.prompt_template, before.assertions)
    if kind == "code_template":
        return draft.code_template != before.code_template
    if draft.dspy_template != before.dspy_template:
        return True
    # A module that was made from the prompt follows it. One that someone wrote otherwise stays as it is.
    is_ours = isinstance(old, DspyModule) and old.settings == make_module(before)
    return is_ours and make_module(draft) != make_module(before)


def _first(skill: Skill, model: type[Artifact]) -> Artifact | None:
    """Return the first artifact of a kind in its default variant."""
    return next(
        (artifact for artifact in skill.artifacts if isinstance(artifact, model) and artifact.variant is None), None
    )


def _read_inputs(parameters: JsonObject) -> tuple[DraftInput, ...]:
    names = json_list(parameters.get("required"))
    found: list[DraftInput] = []
    for name, given in json_object(parameters.get("properties")).items():
        schema = json_object(given)
        kind = schema.get("type")
        found.append(
            DraftInput(
                name=name,
                type=cast("InputType", kind) if kind in PYTHON_TYPES else "string",
                description=str(schema.get("description") or ""),
                required=name in names,
            )
        )
    return tuple(found)


def _read_evals(package: Package) -> tuple[DraftEval, ...]:
    """Return the evals that the composer wrote, or anyone in the same form."""
    listed = json_list(json_object(json_value(_bytes_of(package, EVALS))).get("evals"))
    rows = [cast("JsonObject", row) for row in listed if isinstance(row, dict)]
    return tuple(
        DraftEval(prompt=str(row.get("prompt") or ""), expected=str(row.get("expected_output") or "")) for row in rows
    )


def _eval_files(draft: Draft, slug: str) -> list[File]:
    """Return the queries and evals of a draft, in the formats that `prowess eval` reads."""
    queries = [query.model_dump() for query in draft.queries]
    evals = [
        {"id": number, "prompt": one.prompt, "expected_output": one.expected, "expectations": [one.expected]}
        for number, one in enumerate(draft.evals, start=1)
    ]
    found = {TRIGGERS: queries, EVALS: {"skill_name": slug, "evals": evals} if evals else None}
    return [
        File(path=path, content=(json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())
        for path, value in found.items()
        if value
    ]


def _bytes_of(package: Package, path: str) -> bytes:
    file = package.get(path)
    return file.content if file else b""


def _with_end(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
