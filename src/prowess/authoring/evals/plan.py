"""The plan of an evaluation: a target, models, versions to compare, and limits. Plain JSON, so that it can be a job."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from prowess.authoring.evals.case import Split
from prowess.errors import Invalid
from prowess.storage.driver_errors import reading

MAX_REPEATS = 100
MAX_MODELS = 20
MAX_CONCURRENCY = 64


class EvalPlan(BaseModel):
    """One evaluation of one skill."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str
    """A skill by its slug, or the path of a skill or an eval file."""
    skill: str = ""
    """The skill that an eval file is about, by its slug; '' for the one around it, or the one that it names."""
    models: tuple[str, ...] = Field(default=(), max_length=MAX_MODELS)
    """Names of models; empty for the default model."""
    evaluation_model: str = ""
    repeats: int | None = Field(default=None, ge=1, le=MAX_REPEATS)
    """How often each case is asked; None for what the eval file says."""
    without: bool = False
    """Compare with the same model without the skill."""
    against: str = ""
    """Compare with an older version of the skill, by its number or its digest."""
    split: Split | None = None
    """Only the cases of this set."""
    cases: tuple[str, ...] = ()
    """Only the cases with these ids."""
    timeout: float | None = Field(default=None, gt=0, le=3_600)
    concurrency: int | None = Field(default=None, ge=1, le=MAX_CONCURRENCY)
    max_spend: float | None = Field(default=None, gt=0)
    """US dollars for the whole run, judges included."""
    cache: bool = True
    """Reuse results of earlier runs."""

    @model_validator(mode="wrap")
    @classmethod
    def _raise_invalid(cls, values: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return read(values)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False, include_context=False)[:3]
            details = "; ".join(f"`{'.'.join(map(str, fault['loc']))}`: {fault['msg']}" for fault in faults)
            raise Invalid(
                f"The plan of the evaluation is not valid: {details}.",
                hint=f"Its fields are {', '.join(cls.model_fields)}.",
            ) from error


def stored_plan(row: str, values: object) -> EvalPlan:
    """Return a plan that was stored. Raise `Unavailable`, which names the row, if another program changed it."""
    with reading(row):
        try:
            return EvalPlan.model_validate(values)
        except Invalid as error:
            raise ValueError(error.message) from error
