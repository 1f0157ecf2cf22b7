"""Select the artifacts that a run executes, and build the inputs of each."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from prowess.errors import Invalid, NotFound
from prowess.run.allowance import PREVIOUS
from prowess.skill.filenames import is_script_name
from prowess.skill.form_info import form_info
from prowess.skill.forms.descriptor import is_registered
from prowess.skill.kinds import Artifact, JsonGeneration, JsonObject, PromptTemplate, Review, kind_info
from prowess.skill.model import Skill

_ENCODER = json.JSONEncoder(allow_nan=False)  # made once: `json.dumps` makes one for each call with options

MAX_INPUT_BYTES = 4_000_000
"""Size of a run's inputs as JSON."""

_WORDS = re.compile(r"[^a-z0-9]+")


def select_artifacts(skill: Skill, names: Sequence[str] = ()) -> list[Artifact]:
    """Return the artifacts of these names by ordinal, each in its default variant; without names, all that run by themselves.

    Fallbacks, and prompts and rubrics that other artifacts use, do not run by themselves.
    """
    firsts = _default_variants(skill)
    if names:
        return _sorted([_named(skill, firsts, name) for name in dict.fromkeys(names)])
    # These run only through the artifacts that name them; otherwise a fallback would run twice.
    used = _helper_names(skill)
    found = _declared(
        skill,
        [
            artifact
            for artifact in firsts.values()
            if kind_info(artifact.kind).in_run == "work"
            and artifact.name not in used
            and not _is_registered(artifact, skill)
        ],
    )
    if not found:
        has = ", ".join(sorted({artifact.kind for artifact in firsts.values()})) or "nothing"
        scripts = [artifact.name for artifact in firsts.values() if artifact.kind == "script"]
        scripts += [path for path in skill.other_files if is_script_name(path) and "/" in path]
        raise Invalid(
            f"The skill {skill.slug!r} has nothing to run; it contains {has}.", hint=_hint_instead(skill, scripts)
        )
    return _sorted(
        [*(artifact for artifact in firsts.values() if kind_info(artifact.kind).in_run == "context"), *found]
    )


def _hint_instead(skill: Skill, scripts: Sequence[str]) -> str:
    if scripts:
        return f"Name the script to run: {', '.join(scripts[:20])}."
    # In a plain skill such a file is only a file; the sidecar makes it a function.
    executable = kind_info("function").root_files
    unused = next((file.path for file in skill.manifest if file.path in executable), "")
    if unused:
        return f"To run {unused} as a function, declare its parameters in agents/prowess.yaml."
    if not skill.artifacts:
        return "Add instructions, a prompt or an execute file to it."
    return f"Run `prowess enable {skill.slug}` to use it in a prompt, or name an artifact to print its text."


def _default_variants(skill: Skill) -> dict[str, Artifact]:
    """Return the default or first variant of each artifact, by name."""
    firsts: dict[str, Artifact] = {}
    for artifact in _sorted(skill.artifacts):
        before = firsts.get(artifact.name)
        if before is None or (artifact.variant is None and before.variant is not None):
            firsts[artifact.name] = artifact
    return firsts


def _sorted(artifacts: Collection[Artifact]) -> list[Artifact]:
    return sorted(artifacts, key=lambda one: one.ordinal)


def _named(skill: Skill, firsts: Mapping[str, Artifact], name: str) -> Artifact:
    if name in firsts:
        return firsts[name]
    near = [artifact for artifact in firsts.values() if to_input_name(artifact.name) == to_input_name(name)]
    if len(near) == 1:
        return near[0]
    at_path = next((artifact for artifact in firsts.values() if artifact.path == name), None) or skill.file_at(name)
    if at_path is not None:
        return at_path
    there = ", ".join(repr(known) for known in list(firsts)[:20]) or "none"
    raise NotFound(f"The skill {skill.slug!r} has no artifact {name[:80]!r}.", hint=f"Available: {there}.")


def _helper_names(skill: Skill) -> set[str]:
    """Return the names of artifacts that are fallbacks or prompts of others."""
    fallbacks = {artifact.fallback for artifact in skill.artifacts if artifact.fallback}
    return {*fallbacks, *(artifact.prompt_id for artifact in skill.artifacts if isinstance(artifact, JsonGeneration))}


def _declared(skill: Skill, found: list[Artifact]) -> list[Artifact]:
    """Of a descriptor, return its templates, or its implementation if it has none; the rest are prompts and rubrics for them."""
    if not form_info(skill.form).is_descriptor:
        return found
    reviews = [artifact for artifact in found if isinstance(artifact, Review) and not is_registered(artifact)]
    templates: list[Artifact] = [*(artifact for artifact in found if isinstance(artifact, JsonGeneration)), *reviews]
    return templates or [artifact for artifact in found if kind_info(artifact.kind).is_tool] or found


def _is_registered(artifact: Artifact, skill: Skill) -> bool:
    """Return True if the artifact is a prompt or rubric that only exists for a template to use."""
    uses = any(
        isinstance(one, JsonGeneration) or (isinstance(one, Review) and not one.content) for one in skill.artifacts
    )
    if isinstance(artifact, PromptTemplate):
        return uses and (artifact.version is not None or "@" in artifact.name)
    named = {one.rubric_id for one in skill.artifacts if isinstance(one, Review) and not one.content}
    return isinstance(artifact, Review) and bool(artifact.content) and artifact.rubric_id in named


def to_input_name(name: str) -> str:
    """Return the input name of an artifact's output: `Cross-Reference Script` becomes `cross_reference_script`."""
    return _WORDS.sub("_", name.lower()).strip("_")


def normalize_inputs(inputs: Mapping[str, Any]) -> JsonObject:
    """Return a copy of the inputs as plain JSON; raise `Invalid` if they are not JSON or too large."""
    if not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Invalid(
            f"The inputs are a {type(inputs).__name__}, not a mapping.", hint='Pass values by name: {"text": "…"}.'
        )
    try:
        text = _ENCODER.encode(dict(inputs))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"The inputs are not valid JSON: {error}.", hint="Use only strings, numbers, booleans, lists and objects."
        ) from error
    if len(text) > MAX_INPUT_BYTES:
        raise Invalid(
            f"The inputs have {len(text):,} bytes as JSON, more than the limit of {MAX_INPUT_BYTES:,}.",
            hint="Pass smaller inputs, or names of pages instead of their content.",
        )
    # A copy: the caller cannot change the inputs while the run continues.
    return cast("JsonObject", json.loads(text))


def add_outputs(inputs: JsonObject, outputs: Mapping[str, Any]) -> JsonObject:
    """Return the inputs of the next artifact: the given ones and the outputs so far.

    Each output appears under its artifact's name, and the fields of an object under theirs. Given inputs win.
    """
    known: JsonObject = {}
    for name, value in outputs.items():
        if isinstance(value, dict):
            known |= cast("JsonObject", value)
        known[to_input_name(name)] = value
    if not known:
        return inputs
    # Given inputs come last, so that the answer of a model cannot replace what the caller passed.
    return {**known, PREVIOUS: list(outputs.values())[-1], **inputs}
