"""json_generation: ask a model for JSON that satisfies a schema, with one retry that carries the errors."""

from __future__ import annotations

import json

from prowess.errors import Invalid
from prowess.handlers.results import GenerationResult, Stopwatch
from prowess.llm.model import Request
from prowess.prompts.prompt import Prompt, choose_variant, prompt_from_artifact
from prowess.prompts.registry import SKILL_ORIGIN, Registry, check_used
from prowess.prompts.renderer import Renderer
from prowess.run.answers import correct_request, note_reply, output_error, read_answer
from prowess.run.call import Call, Output
from prowess.run.model_client import ModelClient
from prowess.run.preamble import build_request
from prowess.run.schema_checks import check_inputs
from prowess.skill.kinds import JsonGeneration, JsonObject, Kind, PromptTemplate
from prowess.skill.schema import Schema, compile_schema
from prowess.threads import offload

_HINT = "Describe the expected output in the prompt, relax the schema, or use a stronger model with `--model`."
_TOLD = 3


class JsonGenerationHandler:
    """Renders a prompt of the registry, asks a model, and checks the answer against the output schema.

    The states are VALIDATING, GENERATING, VALIDATING_OUT and COMPLETED. After an invalid answer they are RETRYING,
    GENERATING, VALIDATING_OUT once more, then COMPLETED or FAILED. A failed generation raises `OutputInvalid` with its
    whole result.
    """

    kind: Kind = "json_generation"

    def __init__(self, models: ModelClient, renderer: Renderer, registry: Registry) -> None:
        self._models = models
        self._renderer = renderer
        self._registry = registry

    async def run(self, call: Call) -> Output:
        """Return JSON that satisfies the output schema, or raise `OutputInvalid`."""
        artifact = call.artifact
        if not isinstance(artifact, JsonGeneration):
            raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a generation.")
        watch = Stopwatch("prompt_render", "llm_call", "validation")
        call.enter("VALIDATING")
        model = await self._models.model_for(call, named=artifact.model or "")
        prompt = _for_family(call, await self._prompt(call, artifact), model.family)
        output_schema = _output_schema(call, artifact, prompt)
        # Compiled before anything is asked: an unusable schema must not cost money.
        schema = compile_schema(output_schema)
        with watch.measure("validation"):
            values = check_inputs(call.inputs, call.skill.parameters, prompt.vars_schema)
        with watch.measure("prompt_render"):
            rendered = await self._renderer.render(prompt.template, values, syntax=prompt.syntax)
        call.notes.rendered = rendered
        request = build_request(
            call,
            model,
            rendered,
            schema=output_schema,
            temperature=artifact.temperature,
            max_tokens=artifact.max_tokens,
        )
        return _output(call, await self._generate(call, artifact, request, schema, watch))

    async def _prompt(self, call: Call, artifact: JsonGeneration) -> Prompt:
        prompt = await offload(
            self._registry.prompt,
            artifact.prompt_id,
            artifact.prompt_version,
            skill=call.skill,
            organization=call.actor.organization,
        )
        check_used(prompt, call.run.uses)
        call.notes.detail["prompt"] = prompt.label
        return prompt

    async def _generate(
        self, call: Call, artifact: JsonGeneration, request: Request, schema: Schema, watch: Stopwatch
    ) -> GenerationResult:
        """Ask, and once more if the answer is invalid and the artifact allows a retry."""
        most = 2 if artifact.retry_on_validation_failure else 1
        attempt = 1
        while True:
            call.enter("GENERATING", attempt=attempt)
            with watch.measure("llm_call"):
                reply = await self._models.ask(call, request, named=artifact.model or "")
            note_reply(call, reply)
            call.enter("VALIDATING_OUT", attempt=attempt)
            with watch.measure("validation"):
                data, errors = await read_answer(reply.text, schema)
            if not errors or attempt == most:
                return GenerationResult(
                    data=data,
                    validation_errors=errors,
                    raw_response=reply.text,
                    attempts=attempt,
                    timings_ms=watch.timings_ms(),
                )
            call.enter("RETRYING", errors=[str(error) for error in errors[:_TOLD]])
            request = correct_request(request, reply.text, errors)
            attempt += 1


def _for_family(call: Call, prompt: Prompt, family: str) -> Prompt:
    """Return the variant for a family of models, if the prompt is the skill's own and has several."""
    # Only artifacts of skills have variants; a prompt on a shelf is one template.
    if prompt.origin != f"{SKILL_ORIGIN}{call.skill.slug}":
        return prompt
    templates = [artifact for artifact in call.skill.artifacts if isinstance(artifact, PromptTemplate)]
    variants = [template for template in templates if prompt_from_artifact(template).label == prompt.label]
    chosen = choose_variant(variants, family)
    return prompt_from_artifact(chosen, prompt.origin) if isinstance(chosen, PromptTemplate) else prompt


def _output_schema(call: Call, artifact: JsonGeneration, prompt: Prompt) -> JsonObject:
    """Return the output schema: the artifact's own, else the prompt's, else the skill's."""
    for schema in (artifact.output_schema, prompt.output_schema, call.skill.output_schema):
        if schema is not None:
            return schema
    raise Invalid(
        f"The generation {artifact.name!r} has no output schema.",
        hint="Add `output_schema` to the artifact, its prompt or the skill.",
    )


def _output(call: Call, result: GenerationResult) -> Output:
    """Return the output of a generation, or raise `OutputInvalid`; note the result in both cases."""
    call.notes.detail["timings_ms"] = dict(result.timings_ms)
    if result.success:
        call.enter("COMPLETED", attempts=result.attempts)
        text = json.dumps(result.data, ensure_ascii=False, indent=2)
        return Output(kind="json_generation", text=text, data=result.data, result=result.as_json())
    call.enter("FAILED", attempts=result.attempts, errors=len(result.validation_errors))
    error = output_error(call, result.validation_errors, attempts=result.attempts, hint=_HINT)
    error.result = call.notes.detail["result"] = result.as_json()
    raise error
