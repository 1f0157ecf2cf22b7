"""prompt_template: render a template, send it to a model, return the answer."""

from __future__ import annotations

import json

from prowess.prompts.prompt import choose_own_variant
from prowess.prompts.renderer import Renderer
from prowess.run.answers import note_reply, output_error, read_answer
from prowess.run.call import Call, Output
from prowess.run.model_client import ModelClient
from prowess.run.preamble import build_request
from prowess.run.schema_checks import check_inputs
from prowess.skill.kinds import Kind, PromptTemplate
from prowess.skill.schema import Schema, compile_schema

_HINT = "Describe the expected output in the template, or use json_generation, which retries with the errors."


class PromptTemplateHandler:
    """Renders the variant for the model in use and sends it, after the skill's approaches and examples.

    The answer is streamed if someone watches. With an output schema, the output is data that satisfies it; raise
    `OutputInvalid` if the answer does not.
    """

    kind: Kind = "prompt_template"

    def __init__(self, models: ModelClient, renderer: Renderer) -> None:
        self._models = models
        self._renderer = renderer

    async def run(self, call: Call) -> Output:
        """Render the template, send it and return the answer."""
        model = await self._models.model_for(call)
        template = choose_own_variant(call.skill, call.artifact, PromptTemplate, model.family)
        call.notes.artifact = template
        schema = None if template.output_schema is None else compile_schema(template.output_schema)
        values = check_inputs(call.inputs, call.skill.parameters, template.vars_schema)
        rendered = await self._renderer.render(template.content, values, syntax=template.syntax)
        call.notes.rendered = rendered
        request = build_request(call, model, rendered, schema=template.output_schema)
        reply = await self._models.ask(call, request, stream=True)
        answer = note_reply(call, reply)
        if schema is not None:
            return await _data(call, answer, schema)
        return Output(kind=self.kind, text=answer, result={} if reply.complete else {"truncated": True})


async def _data(call: Call, answer: str, schema: Schema) -> Output:
    value, errors = await read_answer(answer, schema)
    if errors:
        raise output_error(call, errors, hint=_HINT)
    return Output(kind="prompt_template", text=json.dumps(value, ensure_ascii=False, indent=2), data=value)
