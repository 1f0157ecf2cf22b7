"""Prompts and rubrics as values, and the choice of the variant that suits a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeVar, cast

from prowess.errors import Invalid, NotFound
from prowess.lazy_dataclass import dataclass
from prowess.skill.kinds import Artifact, JsonObject, PromptTemplate
from prowess.skill.model import Skill

AnyOf = TypeVar("AnyOf", bound=Artifact)
Syntax = Literal["jinja", "mustache"]
SYNTAXES: tuple[Syntax, ...] = ("jinja", "mustache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One version of a prompt. `version` may be empty; `origin` says where the prompt was found."""

    id: str
    version: str = ""
    template: str
    syntax: Syntax = "mustache"
    vars_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    description: str = ""
    origin: str = ""

    @property
    def label(self) -> str:
        """The id with the version."""
        return f"{self.id}@{self.version}" if self.version else self.id

    def as_json(self) -> dict[str, Any]:
        """Return the prompt as in a prompt file, with its origin."""
        data = asdict(self)
        return {"prompt_id": data.pop("id"), **data}


def prompt_from_artifact(artifact: PromptTemplate, origin: str = "") -> Prompt:
    """Return the prompt that an artifact holds. Older versions have their version in the artifact's name."""
    name = artifact.name
    # Several versions in one skill need different names, so older ones are called `name@version`.
    if artifact.version:
        name = name.removesuffix(f"@{artifact.version}")
    return Prompt(
        id=name,
        version=artifact.version or "",
        template=artifact.content,
        syntax=artifact.syntax,
        vars_schema=artifact.vars_schema,
        output_schema=artifact.output_schema,
        description=str(artifact.metadata.get("description") or ""),
        origin=origin,
    )


ScoringMode = Literal["binary", "weighted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing to judge, and when it passes or fails. `weight` counts in weighted rubrics only."""

    id: str
    name: str
    description: str
    pass_condition: str
    fail_condition: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """One version of a rubric. It has at least one criterion, and the ids of its criteria are unique.

    `version` may be empty, `pass_threshold` None, and `origin` says where the rubric was found.
    """

    id: str
    version: str = ""
    description: str = ""
    scoring_mode: ScoringMode
    pass_threshold: float | None = None
    criteria: tuple[Criterion, ...]
    output_schema: JsonObject | None = None
    origin: str = ""

    @property
    def label(self) -> str:
        """The id with the version."""
        return f"{self.id}@{self.version}" if self.version else self.id

    def as_json(self) -> dict[str, Any]:
        """Return the rubric as in a rubric file, with its origin."""
        data = asdict(self)
        return {"rubric_id": data.pop("id"), **data, "criteria": [asdict(criterion) for criterion in self.criteria]}


def rubric_from_document(document: JsonObject, id: str, version: str, origin: str = "") -> Rubric:
    """Return the rubric in a valid document, under this id and version."""
    criteria = [cast("JsonObject", row) for row in document["criteria"]]
    threshold, schema = document.get("pass_threshold"), document.get("output_schema")
    return Rubric(
        id=id,
        version=version,
        description=str(document.get("description") or "").strip(),
        scoring_mode=document["scoring_mode"],
        pass_threshold=None if threshold is None else float(threshold),
        criteria=tuple(_criterion(criterion) for criterion in criteria),
        output_schema=cast("JsonObject", schema) if isinstance(schema, dict) else None,
        origin=origin,
    )


def _criterion(document: JsonObject) -> Criterion:
    words = {field: str(document[field]).strip() for field in ("id", "name", "description")}
    return Criterion(
        **words,
        pass_condition=str(document["pass_condition"]).strip(),
        fail_condition=str(document["fail_condition"]).strip(),
        weight=float(document.get("weight", 1)),
    )


DEFAULT_VARIANT = "default"
"""The name of the variant for any family of models; a variant without a name is the same."""


def choose_variant(candidates: Sequence[AnyOf], family: str) -> AnyOf:
    """Return the candidate for the family, else the default one, else the first; ties go to the lowest ordinal."""
    if not candidates:
        raise NotFound(
            "The artifact has no variants.", hint="Run `prowess show SLUG` to list the artifacts of a skill."
        )
    ordered = sorted(candidates, key=lambda artifact: artifact.ordinal)
    exact = [artifact for artifact in ordered if _family(artifact) == family.casefold()]
    default = [artifact for artifact in ordered if _family(artifact) == DEFAULT_VARIANT]
    return (exact or default or ordered)[0]


def choose_own_variant(skill: Skill, artifact: Artifact, model: type[AnyOf], family: str) -> AnyOf:
    """Return the variant of an artifact of a skill for a family of models; raise `Invalid` if it is of another kind."""
    if not isinstance(artifact, model):
        raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a {model.__name__}.")
    variants = [other for other in skill.artifacts if isinstance(other, model) and other.name == artifact.name]
    return choose_variant(variants or [artifact], family)


def _family(artifact: Artifact) -> str:
    return (artifact.variant or DEFAULT_VARIANT).casefold()
