"""Optimise a program of DSPy through the sidecar: the state of a dspy_module, or a new module around a prompt.

Every model request and every score of the optimiser comes back here, where it is limited, counted and graded. Tools and
code do not run for candidates.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, cast

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.optimize.change import Change
from prowess.authoring.optimize.search import Search
from prowess.engine.context import Context
from prowess.errors import Invalid, Refused
from prowess.handlers.dspy_module import input_names, make_output, read_model_request, read_program, returned_field
from prowess.run.call import Call
from prowess.run.selection import to_input_name
from prowess.sidecar.protocol import OptimizeRequest, OptimizerName, Program
from prowess.skill.dspy_state import read_state
from prowess.skill.kinds import DspyModule, JsonObject, PromptTemplate
from prowess.skill.model import Skill
from prowess.skill.template import find_variables

SUFFIX = "-optimized"
"""The end of the name of a module that was made around a prompt."""
OUTPUT = "output"
"""The output of a prompt without a schema."""

_TAG = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_VALUE = re.compile(r"\{\{\{?\s*[&=]?\s*([A-Za-z_]\w*)[^{}]*\}?\}\}")
_SCHEMA_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The module to optimise: its name, its content, and the prompt that it is made around ('' for one that exists)."""

    name: str
    content: str
    program: Program
    returns: str
    """The output field that alone is the output; '' if all fields are."""
    fallback: str = ""

    def change(self, state: JsonObject) -> Change:
        """Return the change that gives the module this state; raise `ValueError` if the state is not valid."""
        text = json.dumps(read_state(json.dumps(state)), ensure_ascii=False, indent=2)
        return Change(kind="module", artifact=self.name, content=self.content, state=text, fallback=self.fallback)


def plan_module(skill: Skill, artifact: str, template_id: str) -> Module:
    """Return the module that is optimised for an artifact: itself, or a new one around a prompt."""
    found = skill.find_artifact(artifact)
    if isinstance(found, DspyModule):
        program, _ = read_program(found)
        return Module(name=found.name, content=found.content, program=program, returns=returned_field(found))
    if not isinstance(found, PromptTemplate):
        raise Invalid(f"{artifact!r} is a {found.kind}, which cannot be optimised.")
    user = next((one.name for one in skill.artifacts if one is not found and _uses_output(one.content, found)), "")
    if user:
        raise Invalid(
            f"{user!r} uses the output of {found.name!r} by its name, which a module around it would change.",
            hint="Optimise the text of the prompt instead: `--method rewrite`.",
        )
    signature = make_signature(found)
    told: JsonObject = {"template_id": template_id, "signature": signature}
    if found.output_schema is None:
        told["returns"] = OUTPUT
    content = json.dumps(told, ensure_ascii=False, indent=2)
    program = Program(template_id=template_id, signature=signature)
    name = f"{found.name}{SUFFIX}"
    return Module(
        name=name, content=content, program=program, returns=str(told.get("returns", "")), fallback=found.name
    )


def make_signature(prompt: PromptTemplate) -> JsonObject:
    """Return the signature of a prompt: inputs from its variables, outputs from its schema, its text as instructions."""
    described = cast("JsonObject", (prompt.vars_schema or {}).get("properties") or {})
    names = [*described, *sorted(find_variables(prompt.content, prompt.syntax) - described.keys())]
    outputs = cast("JsonObject", (prompt.output_schema or {}).get("properties") or {})
    return {
        "instructions": _as_instructions(prompt.content),
        "inputs": [_field(name, described.get(name)) for name in names] or [{"name": "input"}],
        "outputs": [_field(name, one) for name, one in outputs.items()] or [{"name": OUTPUT}],
    }


def _as_instructions(template: str) -> str:
    """Return the text of a template with the names of its variables in place of their values, without its logic."""
    return _TAG.sub("", _VALUE.sub(r"`\1`", template)).strip()


def _field(name: str, schema: Any) -> JsonObject:
    told = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    made: JsonObject = {"name": name}
    if told.get("type") in _SCHEMA_TYPES:
        made["type"] = told["type"]
    if isinstance(told.get("description"), str):
        made["description"] = told["description"]
    if isinstance(told.get("enum"), list):
        made["enum"] = told["enum"]
    return made


def _uses_output(text: str, prompt: PromptTemplate) -> bool:
    return re.search(rf"\b{re.escape(to_input_name(prompt.name))}\b", text) is not None and "{{" in text


def make_row(case: EvalCase, program: Program) -> JsonObject:
    """Return a case as a row of data: its inputs, and its expected output under the names of the signature's outputs."""
    row = _inputs_of(case.inputs or {}, program)
    if isinstance(case.expected, dict):
        return {**row, **cast("JsonObject", case.expected)}
    signature = program.signature
    if case.expected is None:
        return row
    if isinstance(signature, str):
        name = signature.partition("->")[2].split(",")[0].partition(":")[0].strip()
    else:
        name = str(cast("list[JsonObject]", signature.get("outputs") or [{"name": OUTPUT}])[0].get("name", OUTPUT))
    return {**row, name: case.expected}


def _inputs_of(inputs: JsonObject, program: Program) -> JsonObject:
    """Return the inputs that the signature names; all of them if it names none."""
    names = input_names(program.signature)
    return {name: value for name, value in inputs.items() if name in names} if names else dict(inputs)


async def optimize_module(search: Search, module: Module, method: str, context: Context) -> None:
    """Let an optimiser of DSPy search for a better state. The best that it reports is kept even if it is stopped."""
    answers = _Answers(search, module, context)
    stopped = asyncio.Event()
    answers.on_spent = stopped.set
    meter = search.bench.meter
    request = OptimizeRequest(
        program=module.program,
        optimizer=cast("OptimizerName", method),
        training=[make_row(case, module.program) for case in search.data.train],
        validation=[make_row(case, module.program) for case in search.data.validation],
        options={"max_llm_calls": max(meter.calls_left, 1)},
    )

    def on_progress(told: JsonObject) -> None:
        state, score = told.get("best_state"), told.get("best_score")
        if isinstance(state, dict) and isinstance(score, float | int):
            _offer(search, module, cast("JsonObject", state), float(score))
        search.on_step()

    work = asyncio.create_task(context.resources.sidecar().optimize(request, answers, on_progress))
    ending = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({work, ending}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            done = work.result()
            if done.state is not None:
                if done.complete and done.score is not None:
                    # Scores on the way may be those of a few training rows; this one is of all validation rows.
                    search.best = None
                _offer(search, module, done.state, done.score)
    finally:
        for task in (work, ending):
            task.cancel()
        await asyncio.gather(work, ending, return_exceptions=True)


def _offer(search: Search, module: Module, state: JsonObject, score: float | None) -> None:
    try:
        change = module.change(state)
    except ValueError as error:
        raise Invalid(f"The sidecar returned a state that cannot be used: {error}.") from None
    # Without a score it is better than nothing: the held-out test decides.
    search.offer(change, score if score is not None else search.best_score + 1e-9)


def _key(inputs: JsonObject, program: Program) -> str:
    return json.dumps(_inputs_of(inputs, program), sort_keys=True)


class _Answers:
    """Answers an optimiser: requests go to the model of the optimisation, outputs are graded as every measurement is."""

    def __init__(self, search: Search, module: Module, context: Context) -> None:
        self._search = search
        self._module = module
        self._models = context.resources.model_client()
        self._cases = {
            _key(case.inputs or {}, module.program): case for case in (*search.data.train, *search.data.validation)
        }
        self.on_spent = lambda: None

    async def llm(self, payload: JsonObject) -> JsonObject:
        """Ask the model, if the budget allows it."""
        meter = self._search.bench.meter
        if meter.spent:
            self.on_spent()
            raise Refused(f"The search has to end: {meter.spent}.")
        call = await self._call({})
        try:
            reply = await self._models.ask(call, read_model_request(payload))
        finally:
            # A request that failed counts as well: otherwise a model that always fails would be asked for ever.
            meter.count(max(call.notes.usage.requests, 1), call.notes.cost)
        usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        return {"text": reply.text, "usage": usage, "complete": reply.complete}

    async def metric(self, payload: JsonObject) -> JsonObject:
        """Grade outputs by the checks of their case, or by the assertions of the artifact."""
        inputs = cast("JsonObject", payload.get("inputs") or {})
        case = self._cases.get(_key(inputs, self._module.program))
        if case is None:
            raise Invalid("The optimiser asked to score inputs that are not among its cases.")
        call = await self._call(inputs)
        output = make_output(cast("JsonObject", payload.get("outputs") or {}), self._module.returns)
        value, feedback = await self._search.bench.grade(call, case, output)
        self._search.bench.meter.count(call.notes.usage.requests, call.notes.cost)
        return {"score": value or 0.0, "feedback": feedback}

    async def tool(self, payload: JsonObject) -> Any:  # noqa: ARG002
        """Refuse: a candidate that nobody has accepted touches nothing."""
        raise Refused("Tools do not run while a module is optimised.")

    async def code(self, payload: JsonObject) -> JsonObject:  # noqa: ARG002
        """Refuse: a candidate that nobody has accepted touches nothing."""
        raise Refused("Code does not run while a module is optimised.")

    async def _call(self, inputs: JsonObject) -> Call:
        return await self._search.bench.call(self._search.skill, self._search.artifact, inputs)
