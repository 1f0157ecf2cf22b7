"""The saved state of a dspy_module, as `module.save(path, save_program=False)` writes it, checked against our own schema.

DSPy sets every key of a state as an attribute and can build a model client from one, with an address and a key. So only the
keys that are listed here pass; of the settings of a model, only those that shape an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue, ValidationError, field_validator

from prowess.lazy_dataclass import dataclass
from prowess.skill.json_values import parse_json
from prowess.skill.kinds import DspyModule, JsonObject
from prowess.skill.limits import MIB
from prowess.skill.model import Skill

MAX_STATE_BYTES = 2 * MIB
MAX_PREDICTORS = 64
MAX_DEMOS = 200

_SAMPLING = (
    *("temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "frequency_penalty", "presence_penalty"),
    *("seed", "stop"),
)
"""The settings of a model that are kept."""
_METADATA = "metadata"
# The path of a predictor in its module: `predict`, `extract.predict`, `steps[0]`.
_PREDICTOR = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*|\[\d{1,3}\])*", re.ASCII)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _SavedField(_Strict):
    prefix: str
    description: str


class _SavedSignature(_Strict):
    instructions: str
    # A state is read from skills that nobody has accepted: a million wrong fields would take seconds, and a gigabyte.
    fields: Annotated[list[_SavedField], FailFast()]


class _SavedPredictor(_Strict):
    # Leftovers of an optimization that a run does not use: they may be there, and are not kept.
    traces: list[JsonValue] = []
    train: list[JsonValue] = []
    demos: list[dict[str, JsonValue]] = Field(default=[], max_length=MAX_DEMOS)
    signature: _SavedSignature
    lm: dict[str, JsonValue] | None = None

    @field_validator("demos")
    @classmethod
    def _check_names(cls, demos: list[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
        for demo in demos:
            if not all(name.isidentifier() and not name.startswith("_") for name in demo):
                raise ValueError("the names in a demo must be names of fields")
        return demos


class _SavedMetadata(_Strict):
    dependency_versions: dict[str, str] = {}


def read_state(text: str) -> JsonObject:
    """Return a saved state with nothing in it but what a run may use; raise `ValueError`, which says what is wrong."""
    if len(text) > MAX_STATE_BYTES:
        raise ValueError(f"it has {len(text):,} characters, more than the limit of {MAX_STATE_BYTES:,}")
    try:
        parsed: Any = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    return clean_state(parsed)


def clean_state(parsed: Any) -> JsonObject:
    """Return a parsed state with nothing in it but what a run may use; raise `ValueError`, which says what is wrong."""
    if not isinstance(parsed, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  (the same error for everything that is wrong)
    state = dict(cast("JsonObject", parsed))
    metadata: Any = state.pop(_METADATA, {})
    # The state of a bare `Predict` is flat; those of all other modules are by predictor.
    flat = "signature" in state and "demos" in state
    predictors: JsonObject = {"": state} if flat else state
    if not 1 <= len(predictors) <= MAX_PREDICTORS:
        raise ValueError(f"it must have 1 to {MAX_PREDICTORS} predictors")
    for name in predictors:
        if name and not _PREDICTOR.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is not the name of a predictor")
    try:
        cleaned = {name: _clean_predictor(saved) for name, saved in predictors.items()}
        saved_metadata = _SavedMetadata.model_validate(metadata).model_dump()
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc'])) or 'an entry'}: {fault['msg']}") from None
    return {**(cleaned[""] if flat else cleaned), _METADATA: saved_metadata}


def dspy_version(state: JsonObject) -> str:
    """Return the version of DSPy that a state was made with; '' if it does not say."""
    return str(state.get(_METADATA, {}).get("dependency_versions", {}).get("dspy", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedState:
    """A saved state that another version of DSPy made; `made_with` is '' if the state does not say."""

    skill: Skill
    artifact: DspyModule
    made_with: str


def find_outdated_states(skills: Iterable[Skill], dspy: str) -> list[OutdatedState]:
    """Return the saved states that were not made with this version of DSPy, also those that cannot be read."""
    found: list[OutdatedState] = []
    for skill in skills:
        for artifact in skill.artifacts:
            if not isinstance(artifact, DspyModule) or artifact.state is None:
                continue
            try:
                made_with = dspy_version(read_state(artifact.state))
            except ValueError:
                made_with = ""
            if made_with != dspy:
                found.append(OutdatedState(skill=skill, artifact=artifact, made_with=made_with))
    return found


def _clean_predictor(saved: Any) -> JsonObject:
    predictor = _SavedPredictor.model_validate(saved)
    lm = {name: value for name, value in (predictor.lm or {}).items() if name in _SAMPLING and _is_plain(value)}
    return {**predictor.model_dump(exclude={"lm"}), "traces": [], "train": [], "lm": lm or None}


def _is_plain(value: JsonValue) -> bool:
    """Return True for a number, a text, or a short list of texts."""
    if isinstance(value, list):
        return len(value) <= 16 and all(isinstance(item, str) for item in value)
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)
