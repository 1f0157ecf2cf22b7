"""A rubric of a registry: criteria by which a model judges, and how their verdicts become one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from prowess.skill.kinds import JsonObject

ScoringMode = Literal["binary", "weighted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing to judge, and what makes it pass or fail; `weight` counts in a weighted rubric."""

    id: str
    name: str
    description: str
    pass_condition: str
    fail_condition: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """One version of one rubric, which has at least one criterion, and no id of a criterion twice.

    `version` is '' for one that has none, `pass_threshold` None where the rubric says nothing, and `origin` says where it
    was found.
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
        """What it is called together with its version."""
        return f"{self.id}@{self.version}" if self.version else self.id

    def as_json(self) -> dict[str, Any]:
        """The rubric as a rubric file has it, and where it was found."""
        told = asdict(self)
        return {"rubric_id": told.pop("id"), **told, "criteria": [asdict(one) for one in self.criteria]}


def rubric_of(document: JsonObject, id: str, version: str, origin: str = "") -> Rubric:
    """The rubric that a document without errors holds, under this id and version."""
    criteria = [cast("JsonObject", one) for one in document["criteria"]]
    threshold, schema = document.get("pass_threshold"), document.get("output_schema")
    return Rubric(
        id=id,
        version=version,
        description=str(document.get("description") or "").strip(),
        scoring_mode=document["scoring_mode"],
        pass_threshold=None if threshold is None else float(threshold),
        criteria=tuple(_criterion(one) for one in criteria),
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
