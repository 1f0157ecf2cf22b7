"""The program of a request: a template with its signature, options and state."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import dspy
import orjson

from prowess_dspy.channel import JsonObject, Session
from prowess_dspy.signatures import Signature, build_signature
from prowess_dspy.state import load_state, read_state
from prowess_dspy.templates import Template, find_template

MAX_CACHED = 32
MAX_CACHED_BYTES = 64 << 10
FIELDS = ("template_id", "signature", "options", "state_blob")


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
        if len(key) <= MAX_CACHED_BYTES:
            with self._lock:
                self._known[key] = blueprint
                while len(self._known) > MAX_CACHED:
                    self._known.popitem(last=False)
        return blueprint


_blueprints = Blueprints()


def make_program(
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
        key = orjson.dumps([*(message.get(name) for name in FIELDS), sorted(inputs)], option=orjson.OPT_SORT_KEYS)
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
