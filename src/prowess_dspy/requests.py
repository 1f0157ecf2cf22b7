"""The requests: execute, optimize and manifest."""

from __future__ import annotations

import platform
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dspy
import orjson
from dspy.utils.exceptions import AdapterParseError

from prowess_dspy.channel import JsonObject, Session
from prowess_dspy.engine import Metric, language_model
from prowess_dspy.errors import (
    CallFailed,
    InvalidData,
    InvalidOptions,
    InvalidOutput,
    InvalidParams,
    SidecarError,
    TemplateFailed,
)
from prowess_dspy.isolation import secret_names
from prowess_dspy.optimizers import OPTIMIZERS, Optimization, find_optimizer, optimize
from prowess_dspy.options import check_options
from prowess_dspy.signatures import TYPES, Signature, build_signature
from prowess_dspy.state import load_state, read_state
from prowess_dspy.templates import TEMPLATES, Template, find_template

PROTOCOL_VERSION = 1
MAX_MESSAGE = 2_000
MAX_ROWS = 10_000
_MAX_CACHED = 32
_MAX_CACHED_BYTES = 64 << 10
_FIELDS = ("template_id", "signature", "options", "state_blob")


def run_execute(session: Session, message: JsonObject) -> JsonObject:
    """Run a program with the parameters of the message. Returns its outputs, notes such as reasoning, and usage."""
    params = message.get("params")
    if not isinstance(params, dict):
        raise InvalidParams("The params are not a JSON object.")
    model = language_model(session)
    program, signature = _make_program(session, message, model, set(params))
    missing = [name for name in signature.input_fields if name not in params]
    if missing:
        raise InvalidParams(f"The params lack {', '.join(missing)}.")
    inputs = {name: params[name] for name in signature.input_fields}
    # Fresh lists: DSPy keeps traces and histories for the life of the process otherwise.
    with dspy.context(lm=model, trace=[], disable_history=True):
        prediction = _translate_errors(session, lambda: program(**inputs))
    if not isinstance(prediction, dspy.Prediction):
        raise session.last_error or TemplateFailed("Every attempt failed.")
    values = dict(prediction.items())
    outputs = {name: values.pop(name, None) for name in signature.output_fields}
    return {"outputs": outputs, "notes": values, "usage": dict(session.usage)}


def run_optimize(session: Session, message: JsonObject) -> JsonObject:
    """Optimize a program with the rows of the message. Returns its state."""
    optimizer = find_optimizer(message.get("optimizer") or "bootstrap_few_shot")
    options = check_options(optimizer.options, message.get("optimizer_options"))
    seed = message.get("seed") or 0
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InvalidOptions("The seed is not a whole number from 0 to 4294967295.")
    metric = message.get("metric") or "exact"
    if metric not in {"exact", "parent"}:
        raise InvalidOptions("The metric is not 'exact' or 'parent'.")
    model = language_model(session)
    program, signature = _make_program(session, message, model, set())
    training = _rows(message.get("training_data"), signature, "training_data", exact=metric == "exact")
    if not training:
        raise InvalidData("There are no rows in training_data.")
    validation = message.get("validation_data") or []
    run = Optimization(
        session=session,
        program=program.deepcopy(),
        model=_shared_model(program) or model,
        metric=Metric(session, tuple(signature.output_fields), remote=metric == "parent"),
        training=training,
        validation=_rows(validation, signature, "validation_data", exact=metric == "exact"),
        options=options,
        seed=seed,
    )
    return _translate_errors(session, lambda: optimize(run, optimizer))


def _shared_model(program: dspy.Module) -> dspy.LM | None:
    try:
        return program.get_lm()
    except ValueError:  # predictors with different sampling settings
        return None


def _rows(value: Any, signature: Signature, where: str, *, exact: bool) -> list[dspy.Example]:
    if not isinstance(value, list) or len(value) > MAX_ROWS:
        raise InvalidData(f"{where} is not a list of at most {MAX_ROWS} rows.")
    inputs = list(signature.input_fields)
    needed = set(signature.fields) if exact else set(inputs)
    rows: list[dspy.Example] = []
    for number, row in enumerate(value):
        if not isinstance(row, dict) or not needed <= set(row):
            raise InvalidData(
                f"Row {number} of {where} lacks one of {', '.join(sorted(needed))}, the fields of the signature."
            )
        known = {name: row[name] for name in signature.fields if name in row}
        rows.append(dspy.Example(**known).with_inputs(*inputs))
    return rows


def _translate_errors(session: Session, function: Any) -> Any:
    try:
        return function()
    except SidecarError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, CallFailed):
                raise cause from None
            cause = cause.__cause__
        if isinstance(error, AdapterParseError):
            raise InvalidOutput(str(error)[:MAX_MESSAGE]) from error
        # DSPy's evaluation ends with "cancelled due to errors" where calls failed too often.
        raise (session.last_error or TemplateFailed(f"{type(error).__name__}: {error}"[:MAX_MESSAGE])) from error


def _describe_template(session: Session, template: Template) -> JsonObject:
    program = template.program(session, build_signature(template.signature), None)
    options = {name: option.describe() for name, option in template.options.items()}
    if template.tools:
        options["tools"] = {"default": [], "description": "Tools: a list of {name, description, parameters}."}
    return {
        "description": template.description,
        "signature": template.signature,
        "options": options,
        "predictors": [name for name, _ in program.named_predictors()],
    }


def run_manifest(session: Session, _message: JsonObject) -> JsonObject:
    """Return what this sidecar offers."""
    return {
        "protocol": PROTOCOL_VERSION,
        "dspy": dspy.__version__,
        "python": platform.python_version(),
        "templates": {name: _describe_template(session, template) for name, template in TEMPLATES.items()},
        "optimizers": {
            name: {
                "description": optimizer.description,
                "options": {key: option.describe() for key, option in optimizer.options.items()},
            }
            for name, optimizer in OPTIMIZERS.items()
        },
        "types": list(TYPES),
        "secrets_in_environment": secret_names(),
    }


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A program without its language models, and the sampling settings that they will have by predictor."""

    program: dspy.Module
    signature: Signature
    sampling: dict[str, JsonObject]


class Blueprints:
    """The blueprints that were used last. Making one takes 2 to 5 ms, most of it in pydantic."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Blueprint] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes, make: Callable[[], Blueprint]) -> Blueprint:
        """Return the blueprint with this key, which is made if it is not known."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        blueprint = make()
        if len(key) <= _MAX_CACHED_BYTES:
            with self._lock:
                self._known[key] = blueprint
                while len(self._known) > _MAX_CACHED:
                    self._known.popitem(last=False)
        return blueprint


_blueprints = Blueprints()


def _make_program(
    session: Session, message: JsonObject, model: dspy.LM, inputs: set[str]
) -> tuple[dspy.Module, Signature]:
    """Return the program that a message describes, and its signature. Several threads may run it, none may change it.

    `inputs` has the names of the parameters: they are the inputs where the message has a state but no signature.
    """
    template = find_template(message.get("template_id"))

    def make() -> Blueprint:
        return _make_blueprint(session, template, message, inputs)

    if template.bound:
        blueprint = make()
    else:
        key = orjson.dumps([*(message.get(name) for name in _FIELDS), sorted(inputs)], option=orjson.OPT_SORT_KEYS)
        blueprint = _blueprints.get(key, make)
    if not blueprint.sampling:
        return blueprint.program, blueprint.signature
    program = blueprint.program.deepcopy()
    models: dict[bytes, dspy.LM] = {}
    for name, predictor in program.named_predictors():
        if settings := blueprint.sampling.get(name):
            # Predictors with the same settings share a model: DSPy asks a program for the one that it uses.
            key = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)
            predictor.lm = models.setdefault(key, model.copy(**settings))
    return program, blueprint.signature


def _make_blueprint(session: Session, template: Template, message: JsonObject, inputs: set[str]) -> Blueprint:
    state = read_state(message.get("state_blob"))
    specification = message.get("signature")
    if specification is not None:
        signature = build_signature(specification)
    elif state is not None and inputs:
        signature = template.infer(state, inputs)
    else:
        signature = build_signature(template.signature)
    program = template.program(session, signature, message.get("options"))
    return Blueprint(program, signature, load_state(program, state) if state else {})
