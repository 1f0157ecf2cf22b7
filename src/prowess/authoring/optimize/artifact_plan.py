"""Optimize an artifact: measure it on its cases, let a method search, and test the result on the held-out ones."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.splits import held_out_cases, optimizer_cases
from prowess.authoring.optimize.bench import Bench, Score, mean_score
from prowess.authoring.optimize.change import Change, build_candidate
from prowess.authoring.optimize.proposal import OptimizationRequest
from prowess.authoring.optimize.rewrite import rewrite_prompt
from prowess.authoring.optimize.search import SHARES, PairedScores, Search, check_enough
from prowess.engine.context import Context
from prowess.errors import Invalid, Refused
from prowess.handlers.dspy_module import input_names, make_output, read_model_request, read_program, returned_field
from prowess.run.call import Call
from prowess.run.selection import to_input_name
from prowess.sidecar.protocol import OptimizeRequest, OptimizerName, Program
from prowess.skill.dspy_state import read_state
from prowess.skill.json_values import json_list, json_object
from prowess.skill.kinds import DspyModule, JsonObject, PromptTemplate
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.template import find_variables


class ArtifactPlan:
    """Optimizes the text of a prompt, or a module of DSPy."""

    def __init__(
        self,
        context: Context,
        request: OptimizationRequest,
        skill: Skill,
        package: Package,
        cases: Sequence[EvalCase],
        bench: Bench,
        *,
        on_best: Callable[[Change, float], None],
        on_step: Callable[[], None],
    ) -> None:
        self._context = context
        self._request = request
        self._bench = bench
        self.held_out = held_out_cases(cases, SHARES)
        visible = optimizer_cases(cases, SHARES)
        check_enough(visible, request.artifact)
        self._search = Search(
            skill=skill,
            package=package,
            artifact=request.artifact,
            limits=context.resources.limits,
            data=visible,
            bench=bench,
            base=0.0,
            on_best=on_best,
            on_step=on_step,
        )

    @property
    def best(self) -> tuple[Change, float] | None:
        """The best candidate so far."""
        return self._search.best

    def restore(self, change: Change, score: float) -> None:
        """Set the best candidate to one that was found before an interruption."""
        self._search.best = (change, score)

    async def measure_base(self) -> float:
        """Return the score on the validation cases; keep back what the test will take, and note the failures in training."""
        search, meter = self._search, self._bench.meter
        calls, cost = meter.calls, meter.cost or 0.0
        search.base = mean_score(await self._measure(search.data.validation))
        if search.best is not None:  # only the test is left, which what was kept back is for
            return search.base
        runs = len(search.data.validation)
        meter.keep_back(
            2 * len(self.held_out.cases) * self._request.repeats,
            calls_per_run=(meter.calls - calls) / runs,
            cost_per_run=((meter.cost or 0.0) - cost) / runs,
        )
        return search.base

    async def search(self) -> None:
        """Search by the method of the request."""
        search, method = self._search, self._request.method
        if method == "rewrite":
            tried = await self._measure(search.data.train)
            failed = [score for score in tried if score.value is not None and score.value < 1.0]
            search.failures = sorted(failed, key=lambda score: score.value or 0.0)
            await rewrite_prompt(search)
            return
        module = plan_module(search.skill, search.artifact, self._request.template)
        await optimize_module(search, module, method, self._context)

    async def test(self, change: Change) -> PairedScores:
        """Run base and candidate side by side, so that a model that changes in the meantime changes for both."""
        search, cases, repeats = self._search, self.held_out.cases, self._request.repeats
        candidate, _ = build_candidate(search.skill, search.package, change, search.limits)
        measure, step = self._bench.measure, search.on_step
        before, after = await asyncio.gather(
            measure(search.skill, search.artifact, cases, repeats=repeats, on_score=step),
            measure(candidate, change.artifact, cases, repeats=repeats, on_score=step),
        )
        mean_score(before)
        mean_score(after)
        return _pair(before, after)

    async def _measure(self, cases: Sequence[EvalCase]) -> list[Score]:
        search = self._search
        return await self._bench.measure(search.skill, search.artifact, cases, on_score=search.on_step)


def _pair(before: Sequence[Score], after: Sequence[Score]) -> PairedScores:
    """Return the pairs of which both could be judged."""
    pairs = [
        (old.value, new.value, old.case.id)
        for old, new in zip(before, after, strict=True)
        if old.value is not None and new.value is not None
    ]
    return PairedScores(
        base=tuple(old for old, _, _ in pairs),
        candidate=tuple(new for _, new, _ in pairs),
        clusters=tuple(name for _, _, name in pairs),
    )


SUFFIX = "-optimized"
"""The end of the name of a module that was made around a prompt."""
OUTPUT = "output"
"""The output of a prompt without a schema."""

_TAG_START = re.compile(r"\{[%#]")
_VALUE = re.compile(r"\{\{\{?\s*+(?:[&=]\s*+)?([A-Za-z_]\w*+)[^{}]*+\}?\}\}")
_SCHEMA_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_LIST_TYPES = {"integer": "list[int]", "number": "list[float]", "boolean": "list[bool]", "object": "list[dict]"}
"""The types of lists of anything but text, as signatures name them, by the type of their items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The module to optimize: its name, its content, and the prompt that it is made around ('' for one that exists)."""

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
    """Return the module that is optimized for an artifact: itself, or a new one around a prompt."""
    found = skill.find_artifact(artifact)
    if isinstance(found, DspyModule):
        program, _ = read_program(found)
        return Module(name=found.name, content=found.content, program=program, returns=returned_field(found))
    if not isinstance(found, PromptTemplate):
        raise Invalid(f"{artifact!r} is a {found.kind}, which cannot be optimized.")
    user = next((one.name for one in skill.artifacts if one is not found and _uses_output(one.content, found)), "")
    if user:
        raise Invalid(
            f"{user!r} uses the output of {found.name!r} by its name, which a wrapping module would change.",
            hint="Optimize the text of the prompt instead: `--method rewrite`.",
        )
    signature = make_signature(found)
    data: JsonObject = {"template_id": template_id, "signature": signature}
    if found.output_schema is None:
        data["returns"] = OUTPUT
    content = json.dumps(data, ensure_ascii=False, indent=2)
    program = Program(template_id=template_id, signature=signature)
    name = f"{found.name}{SUFFIX}"
    return Module(
        name=name, content=content, program=program, returns=str(data.get("returns", "")), fallback=found.name
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
    """Return the text of a template with the names of its variables instead of their values, without its logic."""
    text = _VALUE.sub(r"`\1`", template)
    lines: list[str] = []
    at, unclosed = 0, set[str]()
    # By hand: a pattern takes time with the square of the length if no tag is closed.
    for tag in _TAG_START.finditer(text):
        mark = tag[0][1]
        if tag.start() < at or mark in unclosed:
            continue
        end = text.find(mark + "}", tag.end())
        if end < 0:
            unclosed.add(mark)
            continue
        lines.append(text[at : tag.start()])
        at = end + 2
    return "".join([*lines, text[at:]]).strip()


def _field(name: str, schema: Any) -> JsonObject:
    field = json_object(schema)
    declared: JsonObject = {"name": name}
    if kind := _type_name(field):
        declared["type"] = kind
    if isinstance(field.get("description"), str):
        declared["description"] = field["description"]
    values = json_list(field.get("enum"))
    # An enum of a signature has texts only.
    if values and all(isinstance(value, str) and value for value in values):
        declared["enum"] = values
    return declared


def _type_name(schema: JsonObject) -> str:
    """Return the type of a schema as signatures name it; '' if it has none, or several besides `null`."""
    written = schema.get("type")
    kinds = [kind for kind in json_list(written) or [written] if kind != "null"]
    if len(kinds) != 1 or kinds[0] not in _SCHEMA_TYPES:
        return ""
    item = _type_name(json_object(schema.get("items"))) if kinds[0] == "array" else ""
    return _LIST_TYPES.get(item, kinds[0])


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
    """Let an optimizer of DSPy search for a better state. The best that it reports is kept even if it is stopped."""
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

    def on_progress(progress: JsonObject) -> None:
        state, score = progress.get("best_state"), progress.get("best_score")
        if isinstance(state, dict) and isinstance(score, float | int):
            _offer(search, module, cast("JsonObject", state), float(score))
        search.on_step()

    sidecar = context.resources.sidecar().for_organization(context.actor.organization)
    work = asyncio.create_task(sidecar.optimize(request, answers, on_progress))
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
    """Answers an optimizer: requests go to the model of the optimization, outputs are graded as every measurement is."""

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
            raise Refused(f"The search must end: {meter.spent}.")
        call = await self._call({})
        try:
            reply = await self._models.ask(call, read_model_request(payload))
        finally:
            # A request that failed counts as well: otherwise a model that always fails would be asked forever.
            meter.count(max(call.notes.usage.requests, 1), call.notes.cost)
        usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        return {"text": reply.text, "usage": usage, "complete": reply.complete}

    async def metric(self, payload: JsonObject) -> JsonObject:
        """Grade outputs by the checks of their case, or by the assertions of the artifact."""
        inputs = json_object(payload.get("inputs"))
        case = self._cases.get(_key(inputs, self._module.program))
        if case is None:
            raise Invalid("The optimizer asked to score inputs that are not among its cases.")
        call = await self._call(inputs)
        output = make_output(json_object(payload.get("outputs")), self._module.returns)
        value, feedback = await self._search.bench.grade(call, case, output)
        self._search.bench.meter.count(call.notes.usage.requests, call.notes.cost)
        return {"score": value or 0.0, "feedback": feedback}

    async def tool(self, payload: JsonObject) -> Any:  # noqa: ARG002
        """Refuse: a candidate that nobody has accepted touches nothing."""
        raise Refused("Tools do not run while a module is optimized.")

    async def code(self, payload: JsonObject) -> JsonObject:  # noqa: ARG002
        """Refuse: a candidate that nobody has accepted touches nothing."""
        raise Refused("Code does not run while a module is optimized.")

    async def _call(self, inputs: JsonObject) -> Call:
        return await self._search.bench.call(self._search.skill, self._search.artifact, inputs)
