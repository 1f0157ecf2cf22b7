"""dspy_module: run a template of the DSPy sidecar with its saved state; its outputs by field are the output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from prowess.errors import Invalid, ProwessError, RunFailed, Unavailable
from prowess.handlers.host_functions import HostFunctions, HostModule
from prowess.handlers.sandbox_failures import CodeLabel, explain_failure
from prowess.llm.model import Message, Request, Role
from prowess.prompts.prompt import choose_own_variant
from prowess.run.answers import note_reply
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.call import Call, Output
from prowess.run.model_client import ModelClient
from prowess.run.schema_checks import check_inputs
from prowess.sandbox.protocol import DEFAULT_LIMITS, Sandbox
from prowess.sandbox.script import Script
from prowess.sidecar.protocol import Program, Sidecar
from prowess.skill.dspy_state import dspy_version, read_state
from prowess.skill.json_values import json_list, json_object
from prowess.skill.kinds import DspyModule, JsonObject, Kind
from prowess.skill.slug import tool_name

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
# DSPy asks models to call SUBMIT; our sandbox offers the same as `submit`. One line, so that lines of errors are off by one.
_PRELUDE = (
    "from prowess import submit as _submit; "
    "SUBMIT = lambda *values, **fields: _submit(fields or (values[0] if len(values) == 1 else list(values)))\n"
)
_TEXT: JsonObject = {"type": "string"}
_HOST_TOOLS: dict[str, tuple[str, JsonObject]] = {
    "workspace_search": ("Return the pages of the workspace that match the words.", {"query": _TEXT}),
    "get_page": ("Return one page with its text.", {"slug": _TEXT}),
    "get_pages_by_type": ("Return the pages of a type, without their text.", {"type": _TEXT}),
    "get_tags": ("Return every tag, and how many pages have it.", {}),
    "get_references": ("Return the pages that a page links to, and those that link to it.", {"slug": _TEXT}),
    "get_history": ("Return the commits that changed a page.", {"slug": _TEXT}),
}
"""The host functions that a module may name as its tools, with description and parameters."""


class DspyModuleHandler:
    """Runs the variant for the model in use. Model requests, tools, scores and code of the template are answered here.

    Raise `Unavailable` if the sidecar cannot be started or does not load the state, so that the fallback runs; `Invalid` for
    an unknown template, and `SidecarFailed` if the template fails. If a model request failed, raise that error instead.
    """

    kind: Kind = "dspy_module"
    describes_dry_run = True

    def __init__(
        self, sidecar: Sidecar, *, models: ModelClient, host: HostModule, sandbox: Sandbox, assertions: AssertionRunner
    ) -> None:
        self._sidecar = sidecar
        self._models = models
        self._host = host
        self._sandbox = sandbox
        self._assertions = assertions

    async def run(self, call: Call) -> Output:
        """Run the template and return its outputs."""
        model = await self._models.model_for(call)
        module = choose_own_variant(call.skill, call.artifact, DspyModule, model.family)
        call.notes.artifact = module
        inputs = check_inputs(call.inputs, call.skill.parameters)
        program, tools = read_program(module)
        params = _take_inputs(program, inputs, call)
        call.plan(_describe(program, params))
        facts: JsonObject = {"template_id": program.template_id}
        call.notes.detail["dspy"] = facts
        returns, host = returned_field(module), self._host.calls_of(call)
        answers = _Answers(call, self._models, host, self._sandbox, self._assertions, tools=tools, returns=returns)
        sidecar = self._sidecar.for_organization(call.run.actor.organization)
        facts["version"] = await sidecar.version()
        if program.state is not None:
            facts["state_made_with"] = dspy_version(program.state)
        try:
            outputs = await sidecar.execute(program, params, answers)
        except (RunFailed, Invalid):
            # The template only passes on that a model request failed; the error itself says more.
            if answers.failure is not None:
                raise answers.failure from None
            raise
        return make_output(outputs, returns)


def read_program(module: DspyModule) -> tuple[Program, dict[str, JsonObject]]:
    """Return the program of a module, and its tools by name."""
    options = dict(module.settings)
    template, signature = options.pop("template_id", None), options.pop("signature", "")
    options.pop("returns", None)
    if not isinstance(template, str) or not isinstance(signature, (str, dict)):
        raise Invalid(
            f"The content of {module.name!r} must be a JSON object with a template_id and a signature.",
            hint='For example: {"template_id": "chain_of_thought", "signature": "question -> answer"}. '
            "`prowess sidecar templates` lists the templates.",
        )
    tools = {spec["name"]: spec for spec in map(_read_tool, _as_list(options.pop("tools", [])))}
    if tools:
        options["tools"] = [{key: one for key, one in spec.items() if key != "skill"} for spec in tools.values()]
    try:
        state = None if module.state is None else read_state(module.state)
    except ValueError as error:
        raise Unavailable(
            f"The saved state of {module.name!r} cannot be used: {error}.",
            hint="Optimize it again, or remove the state.",
        ) from None
    program = Program(template_id=template, signature=cast("str | JsonObject", signature), options=options, state=state)
    return program, tools


def _read_tool(written: Any) -> JsonObject:
    """Return a tool with name, description and parameters; `skill` is the one that it runs, if it runs one."""
    if isinstance(written, str) and written in _HOST_TOOLS:
        description, properties = _HOST_TOOLS[written]
        return {"name": written, "description": description, "parameters": {"properties": properties}}
    if isinstance(written, str):
        written = {"skill": written, "parameters": {"properties": {"params": {"type": "object"}}}}
    state = json_object(written)
    skill, description = state.get("skill"), state.get("description", "")
    if not isinstance(skill, str) or not skill or not isinstance(description, str):
        raise Invalid(
            "A tool of a dspy_module is the name of a host function or of a skill.",
            hint=f"Host functions: {', '.join(_HOST_TOOLS)}. A skill: its slug, or {{skill, description, parameters}}.",
        )
    return {
        "name": tool_name(skill.rpartition(":")[2]),
        "description": description or f"Run the skill {skill}.",
        "parameters": state.get("parameters", {}),
        "skill": skill,
    }


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Invalid("`tools` of a dspy_module must be a list.")
    return cast("list[Any]", value)


def input_names(signature: str | JsonObject) -> list[str]:
    """Return the names of the inputs of a signature; [] if it has none that can be read."""
    if isinstance(signature, str):
        # Not the commas between brackets, as in `scores: dict[str, float]`.
        sides = re.split(r",(?![^\[]*\])", signature.partition("->")[0]) if "->" in signature else []
        return [name for side in sides if (name := side.partition(":")[0].strip())]
    fields: Any = signature.get("inputs")
    listed = json_list(fields)
    names = [cast("JsonObject", row).get("name") if isinstance(row, dict) else row for row in listed]
    return [name for name in names if isinstance(name, str)]


def _take_inputs(program: Program, inputs: JsonObject, call: Call) -> JsonObject:
    """Return the inputs that the signature names; raise `Invalid` if some are missing."""
    names = input_names(program.signature)
    if not names:  # the saved state says what they are
        return {name: value for name, value in inputs.items() if name not in call.handed_on}
    missing = [name for name in names if name not in inputs]
    if missing:
        raise Invalid(
            f"Missing inputs of {call.artifact.name!r}: {', '.join(missing)}.",
            hint=f"Its signature takes: {', '.join(names)}.",
        )
    return {name: inputs[name] for name in names}


def _describe(program: Program, params: JsonObject) -> str:
    """Return what is sent to the sidecar, for dry runs and traces."""
    sent = {"template_id": program.template_id, "signature": program.signature, **program.options, "params": params}
    return json.dumps(sent, ensure_ascii=False, indent=2)


def returned_field(module: DspyModule) -> str:
    """Return the output field that alone is the output of a module, as for one made around a prompt; '' for all fields."""
    returns = module.settings.get("returns")
    return returns if isinstance(returns, str) else ""


def make_output(outputs: JsonObject, returns: str = "") -> Output:
    """Return the outputs of a template as the output of its artifact: all fields as data, or one of them."""
    value: Any = outputs.get(returns, outputs) if returns else outputs
    if isinstance(value, str):
        return Output(kind="dspy_module", text=value)
    return Output(kind="dspy_module", text=json.dumps(value, ensure_ascii=False, indent=2), data=value)


class _Answers:
    """Answers the calls of one run of a template."""

    def __init__(
        self,
        call: Call,
        models: ModelClient,
        host: HostFunctions,
        sandbox: Sandbox,
        assertions: AssertionRunner,
        *,
        tools: Mapping[str, JsonObject],
        returns: str,
    ) -> None:
        self._call = call
        self._models = models
        self._host = host
        self._sandbox = sandbox
        self._assertions = assertions
        self._tools = tools
        self._returns = returns
        self.failure: ProwessError | None = None
        """The error of the last model request, if it failed."""

    async def llm(self, payload: JsonObject) -> JsonObject:
        """Ask the model of the call."""
        request = read_model_request(payload)
        self.failure = None
        try:
            # A nested run counts each request when it is sent.
            if not self._call.run.is_nested:
                self._call.run.questions.count(1)
            reply = await self._models.ask(self._call, request)
        except ProwessError as error:
            self.failure = error
            raise
        usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        return {"text": note_reply(self._call, reply), "usage": usage, "complete": reply.complete}

    async def tool(self, payload: JsonObject) -> Any:
        """Call a host function, or run a skill, that the module names."""
        tool = self._tools.get(str(payload.get("name")))
        arguments: Any = payload.get("arguments")
        if tool is None or not isinstance(arguments, dict):
            raise Invalid(f"Unknown tool {str(payload.get('name'))[:60]!r}.")
        functions, values = self._host.functions(), cast("JsonObject", arguments)
        if "skill" not in tool:
            return await functions[tool["name"]](**values)
        params: Any = values.get("params") if values.keys() == {"params"} else values
        return await functions["run_skill"](tool["skill"], params)

    async def metric(self, payload: JsonObject) -> JsonObject:
        """Score outputs by the assertions of the artifact: the share that passes."""
        output = make_output(json_object(payload.get("outputs")), self._returns)
        verdicts = await self._assertions.check(self._call, output)
        failed = [
            f"{verdict.description.rstrip('.')}: {verdict.explanation}" for verdict in verdicts if not verdict.passed
        ]
        score = 1.0 if not verdicts else (len(verdicts) - len(failed)) / len(verdicts)
        return {"score": score, "feedback": "\n".join(failed)}

    async def code(self, payload: JsonObject) -> JsonObject:
        """Run code that a model wrote, in the sandbox, without any host function."""
        code = str(payload.get("code", ""))
        script = Script(source=_PRELUDE + code, shown=_PRELUDE + code, inputs=json_object(payload.get("variables")))
        ran = await self._sandbox.run(script, {})
        if ran.ended != "done":
            raise explain_failure(CodeLabel(called="the program"), ran, DEFAULT_LIMITS, {})
        return {"final": ran.result} if ran.submitted else {"output": ran.stdout}


def read_model_request(payload: JsonObject) -> Request:
    """Return the request of a template to its model."""
    messages = map(json_object, json_list(payload.get("messages")))
    temperature, tokens = payload.get("temperature"), payload.get("max_tokens")
    schema = json_object(payload.get("response_format")).get("schema")
    return Request(
        messages=tuple(
            Message(role=_ROLES.get(str(message.get("role")), "user"), text=str(message.get("text", "")))
            for message in messages
        ),
        schema=cast("JsonObject", schema) if isinstance(schema, dict) else None,
        temperature=float(temperature) if isinstance(temperature, (int, float)) else None,
        max_tokens=tokens if isinstance(tokens, int) and tokens > 0 else None,
    )
