"""The change that a candidate makes to a skill, as it is stored, applied and shown.

A candidate is stored as the change and the digest of the whole result. Applying it to the same files gives the same
bytes again, so that a person who approves the digest approves exactly these.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from prowess.errors import Invalid
from prowess.skill.edit import rewrite_package
from prowess.skill.json_values import json_object, json_value
from prowess.skill.kinds import AnyArtifact, DspyModule, FrozenModel, JsonObject, PromptTemplate
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.storage.driver_errors import reading
from prowess.storage.proposals import ProposalRow

MAX_DEMOS_SHOWN = 50


class Change(FrozenModel):
    """The change of a candidate: the text of a prompt, the state of a module, or a skill's description or trigger phrases."""

    kind: Literal["prompt", "module", "triggers"]
    artifact: str = ""
    variant: str | None = None
    content: str = ""
    """The new text of the prompt, or the content of the module."""
    state: str = ""
    """The saved state of the module, as JSON."""
    fallback: str = ""
    """The prompt that a new module is made around."""
    description: str | None = None
    trigger_phrases: tuple[str, ...] = ()
    """Phrases to add."""


def read_change(row: ProposalRow) -> Change:
    """Return the change of a stored candidate; raise `Unavailable` if another program changed it."""
    with reading(f"The optimization {row.id}"):
        return Change.model_validate(row.change)


def apply_change(skill: Skill, change: Change) -> Skill:
    """Return the skill with the change; raise `Invalid` if the artifact is not there."""
    if change.kind == "triggers":
        added = tuple(phrase for phrase in change.trigger_phrases if phrase not in skill.trigger_phrases)
        update: JsonObject = {"trigger_phrases": (*skill.trigger_phrases, *added)}
        if change.description is not None:
            update["description"] = change.description
        return skill.model_copy(update=update)
    artifacts: list[AnyArtifact] = []
    found = False
    for artifact in skill.artifacts:
        if artifact.name == change.artifact and artifact.variant == change.variant:
            found = True
            artifacts.append(artifact.model_copy(update=_new_fields(change)))
        else:
            artifacts.append(artifact)
        if change.fallback and artifact.name == change.fallback and not _has(skill, change.artifact):
            found = True
            artifacts.append(_make_module(cast("PromptTemplate", artifact), change))
    if not found:
        raise Invalid(f"{skill.slug!r} has no artifact {change.artifact!r}.", hint="Optimize the skill again.")
    return skill.model_copy(update={"artifacts": tuple(artifacts)})


def build_candidate(skill: Skill, package: Package, change: Change, limits: Limits) -> tuple[Skill, Package]:
    """Return the changed skill and its files; raise `Invalid` if they do not pass the checks of every skill."""
    changed = rewrite_package(apply_change(skill, change), package, limits)
    found = accept(changed, limits).skill
    assert found is not None  # noqa: S101  (`accept` raises otherwise)
    kept = found.kept_as(id=skill.id, scope=skill.scope, location=skill.location, provenance=skill.provenance)
    return kept, changed


def show_change(skill: Skill, change: Change) -> JsonObject:
    """Return what a person compares: instructions, demos, descriptions and phrases, each before and after."""
    if change.kind == "triggers":
        after = apply_change(skill, change)
        return {
            "description": {"before": skill.description, "after": after.description},
            "trigger_phrases": {"before": list(skill.trigger_phrases), "after": list(after.trigger_phrases)},
        }
    before = skill.artifact(change.artifact, change.variant)
    if change.kind == "prompt":
        return {"text": {"before": before.content if before else "", "after": change.content}}
    old: dict[str, JsonObject] = read_parts(before.state) if isinstance(before, DspyModule) else {}
    if before is None and change.fallback:
        prompt = skill.artifact(change.fallback)
        old = {"": {"instructions": prompt.content if prompt else "", "demos": []}}
    new = read_parts(change.state)
    return {
        name or "module": {
            "instructions": {
                "before": (old.get(name) or old.get("") or {}).get("instructions", ""),
                "after": part["instructions"],
            },
            "demos": {"before": (old.get(name) or {}).get("demos", []), "after": part["demos"]},
        }
        for name, part in new.items()
    }


def read_parts(state: str | None) -> dict[str, JsonObject]:
    """Return the instructions and demos of each predictor in a saved state; '' is the name of the only one of a flat state."""
    data = json_object(json_value(state or "{}"))
    parts: JsonObject = {"": data} if "signature" in data else {k: v for k, v in data.items() if k != "metadata"}
    return {name: _read_part(cast("JsonObject", part)) for name, part in parts.items() if isinstance(part, dict)}


def _read_part(part: JsonObject) -> JsonObject:
    signature = cast("JsonObject", part.get("signature") or {})
    demos = cast("list[Any]", part.get("demos") or [])
    return {"instructions": signature.get("instructions", ""), "demos": demos[:MAX_DEMOS_SHOWN]}


def _new_fields(change: Change) -> JsonObject:
    if change.kind == "prompt":
        return {"content": change.content}
    return {"content": change.content, "state": change.state}


def _has(skill: Skill, name: str) -> bool:
    return any(artifact.name == name for artifact in skill.artifacts)


def _make_module(prompt: PromptTemplate, change: Change) -> DspyModule:
    """Return the module that takes the place of a prompt, with its assertions, so that live runs stay comparable."""
    return DspyModule(
        name=change.artifact,
        ordinal=prompt.ordinal,
        content=change.content,
        state=change.state,
        fallback=prompt.name,
        assertions=prompt.assertions,
    )
