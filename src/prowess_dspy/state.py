"""Saved state, checked on its way in and cleaned on its way out.

State is the JSON of `module.save(path, save_program=False)`. `Predict.load_state` sets an attribute for every key that it
finds and makes a language model from the one it finds, so nothing is handed to it that is not allowed here: the
instructions, the prefix and description of each field, the demos, and of the language model its sampling settings.
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
import math
from dataclasses import dataclass
from typing import Any

import dspy
import orjson
from dspy.utils.saving import get_dependency_versions

from prowess_dspy.channel import JsonObject, encode
from prowess_dspy.engine import SAMPLING
from prowess_dspy.errors import InvalidState

MAX_BYTES = 4 << 20
MAX_DEPTH = 24
MAX_DEMOS = 200
MAX_TEXT = 200_000
PREDICTOR_KEYS = frozenset({"traces", "train", "demos", "signature", "lm"})
NUMBERS = {  # the least and the greatest value of each setting
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "max_tokens": (1, 1_000_000),
    "top_k": (1, 100_000),
    "seed": (-(2**63), 2**63 - 1),
}
WHOLE_NUMBERS = frozenset({"max_tokens", "top_k", "seed"})


@dataclass(frozen=True, slots=True)
class PredictorState:
    """The state of one predictor."""

    instructions: str
    fields: list[dict[str, str]]
    demos: list[JsonObject]
    sampling: JsonObject


@dataclass(frozen=True, slots=True)
class State:
    """The checked state of a program, by predictor. A program that is one predictor has the name `self`."""

    predictors: dict[str, PredictorState]


def read_state(blob: Any) -> State | None:
    """Return the state in a blob: a JSON object, its text, or the base64 of that. Raises `InvalidState`."""
    if blob is None or blob == "":
        return None
    if isinstance(blob, str):
        blob = _decode(blob)
    if not isinstance(blob, dict):
        raise InvalidState("The state is not a JSON object.")
    _check_size(blob)
    predictors = {name: value for name, value in blob.items() if name != "metadata"}
    _check_metadata(blob.get("metadata"))
    if "signature" in predictors:
        return State({"self": _predictor(predictors, "self")})
    if not predictors:
        raise InvalidState("The state has no predictors.")
    return State({name: _predictor(value, name) for name, value in predictors.items()})


def _decode(text: str) -> Any:
    if len(text) > 2 * MAX_BYTES:
        raise InvalidState(f"The state is larger than {MAX_BYTES} bytes.")
    try:
        raw = text.encode() if text.lstrip().startswith("{") else base64.b64decode(text, validate=True)
        return orjson.loads(raw)
    except (binascii.Error, ValueError) as error:
        raise InvalidState(
            "The state is neither JSON nor the base64 of JSON. Pickled state is not accepted."
        ) from error


def _check_size(blob: JsonObject) -> None:
    level: list[Any] = [blob]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            break
    else:
        raise InvalidState(f"The state is nested deeper than {MAX_DEPTH} levels.")
    if len(orjson.dumps(blob)) > MAX_BYTES:
        raise InvalidState(f"The state is larger than {MAX_BYTES} bytes.")


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    versions = metadata.get("dependency_versions", {}) if isinstance(metadata, dict) else None
    if not isinstance(versions, dict) or not all(isinstance(version, str) for version in versions.values()):
        raise InvalidState("The metadata of the state has no dependency_versions.")


def _predictor(value: Any, name: str) -> PredictorState:
    if not isinstance(value, dict):
        raise InvalidState(f"The state of {name[:80]} is not a JSON object.")
    if unknown := set(value) - PREDICTOR_KEYS:
        raise InvalidState(f"The state of {name[:80]} has unknown keys: {', '.join(sorted(unknown))[:200]}.")
    for key in ("traces", "train"):  # working data of optimizers, without effect on a run
        if not isinstance(value.get(key, []), list):
            raise InvalidState(f"{key} in the state of {name} is not a list.")
    instructions, fields = _signature(value.get("signature"), name)
    return PredictorState(instructions, fields, _demos(value.get("demos", []), name), read_sampling(value.get("lm")))


def _signature(value: Any, name: str) -> tuple[str, list[dict[str, str]]]:
    if not isinstance(value, dict) or set(value) != {"instructions", "fields"}:
        raise InvalidState(f"The signature in the state of {name} does not have instructions and fields.")
    instructions, fields = value["instructions"], value["fields"]
    if not isinstance(instructions, str) or len(instructions) > MAX_TEXT:
        raise InvalidState(f"The instructions in the state of {name} are not text of at most {MAX_TEXT} characters.")
    if not isinstance(fields, list) or not all(
        isinstance(field, dict)
        and set(field) == {"prefix", "description"}
        and all(isinstance(text, str) and len(text) <= MAX_TEXT for text in field.values())
        for field in fields
    ):
        raise InvalidState(f"A field in the state of {name} does not have a prefix and a description.")
    return instructions, fields


def _demos(value: Any, name: str) -> list[JsonObject]:
    if not isinstance(value, list) or len(value) > MAX_DEMOS or not all(isinstance(demo, dict) for demo in value):
        raise InvalidState(f"The demos in the state of {name} are not a list of at most {MAX_DEMOS} objects.")
    return value


def read_sampling(value: Any) -> JsonObject:
    """Return the sampling settings of a language model's state. Its model, address, keys and class are dropped."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidState("The language model in the state is not a JSON object.")
    settings = dict(value)
    if settings.get("max_tokens") is None:
        settings["max_tokens"] = settings.get("max_completion_tokens")
    return {name: _setting(name, settings[name]) for name in SAMPLING if settings.get(name) is not None}


def _setting(name: str, value: Any) -> Any:
    if name == "stop":
        stops = [value] if isinstance(value, str) else value
        if isinstance(stops, list) and len(stops) <= 16 and all(isinstance(stop, str) for stop in stops):
            return stops
        raise InvalidState("stop in the state is not a list of at most 16 texts.")
    least, greatest = NUMBERS[name]
    kinds = int if name in WHOLE_NUMBERS else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        raise InvalidState(f"{name} in the state is not a number.")
    if not least <= value <= greatest:
        raise InvalidState(f"{name} in the state is not between {least} and {greatest}.")
    return value


def load_state(program: dspy.Module, state: State) -> dict[str, JsonObject]:
    """Load checked state into a program, and return the sampling settings by predictor.

    Raises `InvalidState` if it was made for other predictors or fields.
    """
    predictors = dict(program.named_predictors())
    if set(predictors) != set(state.predictors):
        raise InvalidState(
            f"The state has the predictors {', '.join(sorted(state.predictors))[:200]}; "
            f"this template has {', '.join(sorted(predictors))}."
        )
    for name, predictor in predictors.items():
        saved = state.predictors[name]
        names = set(predictor.signature.fields)
        if len(saved.fields) != len(names):
            raise InvalidState(
                f"The state of {name} has {len(saved.fields)} fields; the signature has {len(names)}. "
                "It was made for another signature."
            )
        predictor.load_state(
            {
                "demos": [_known_fields(demo, names) for demo in saved.demos],
                "signature": {"instructions": saved.instructions, "fields": saved.fields},
                "lm": None,
            }
        )
    return {name: saved.sampling for name, saved in state.predictors.items() if saved.sampling}


def _known_fields(demo: JsonObject, names: set[str]) -> JsonObject:
    return {name: value for name, value in demo.items() if name in names or name == "augmented"}


def dump_state(program: dspy.Module, original: dspy.Module) -> JsonObject:
    """Return the state of a program, as `module.save` writes it.

    The sampling settings are those of the program that it was made from: optimizers change or drop them to explore.
    """
    models = {name: predictor.lm for name, predictor in original.named_predictors()}
    states = {name: _dump_predictor(predictor, models[name]) for name, predictor in program.named_predictors()}
    state: JsonObject = states["self"] if isinstance(program, dspy.Predict) else dict(states)
    return state | {"metadata": {"dependency_versions": get_dependency_versions()}}


def _dump_predictor(predictor: dspy.Predict, model: dspy.LM | None) -> JsonObject:
    # The language model is replaced on a copy: other threads may be running the program.
    bare = copy.copy(predictor)
    bare.lm = None
    names = set(predictor.signature.fields)
    state: JsonObject = bare.dump_state()
    state["demos"] = [_known_fields(dict(demo), names) for demo in state["demos"]]
    state["lm"] = (read_sampling(model.kwargs) if model else None) or None
    # Outputs in demos may be objects of pydantic; the state is plain JSON.
    return json.loads(encode(state))
