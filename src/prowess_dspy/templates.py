"""The programs that can be named by `template_id`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dspy

from prowess_dspy.channel import JsonObject, Session
from prowess_dspy.engine import CodeRunner, Metric, remote_tool
from prowess_dspy.errors import InvalidOptions, InvalidSignature, UnknownTemplate
from prowess_dspy.options import Option, check_options
from prowess_dspy.signatures import Signature, infer_signature
from prowess_dspy.state import State

MAX_TOOLS = 64
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
CRITERIA = "A reviewer scores the outputs between 0 (useless) and 1 (nothing to improve)."

Build = Callable[[Session, Signature, dict[str, Any]], dspy.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A program without its signature and options."""

    description: str
    build: Build
    options: dict[str, Option] = field(default_factory=dict[str, Option])
    bound: bool = False
    """True if the program makes calls of its own, so that it belongs to one request."""
    tools: bool = False
    """True if the options have a list of tools."""
    signature: str = "question -> answer"
    """The signature where a request has none."""
    answers: str = "predict"
    """The predictor that produces the outputs."""
    own_fields: frozenset[str] = frozenset()
    """Fields that the template adds to those of the signature."""

    def program(self, session: Session, signature: Signature, options: Any) -> dspy.Module:
        """Return a program. Raises `InvalidSignature` and `InvalidOptions`."""
        if taken := self.own_fields & set(signature.fields):
            raise InvalidSignature(f"This template has a field {', '.join(sorted(taken))} of its own. Rename yours.")
        options = dict(options) if isinstance(options, dict) else options
        tools = options.pop("tools", None) if self.tools and isinstance(options, dict) else None
        values = check_options(self.options, options)
        if self.tools:
            values["tools"] = _tools(session, tools)
        return self.build(session, signature, values)

    def infer(self, state: State, inputs: set[str]) -> Signature:
        """Return the signature that a state was made for, as far as it tells."""
        saved = state.predictors.get(self.answers)
        if saved is None:
            raise InvalidSignature(f"The state does not have the predictor {self.answers}. Give a signature.")
        return infer_signature(saved.fields, self.own_fields, inputs)


def _tools(session: Session, specifications: Any) -> list[dspy.Tool]:
    if specifications is None:
        return []
    if not isinstance(specifications, list) or len(specifications) > MAX_TOOLS:
        raise InvalidOptions(f"The option tools is not a list of at most {MAX_TOOLS} tools.")
    tools = [_tool(session, specification) for specification in specifications]
    if len({tool.name for tool in tools}) != len(tools):
        raise InvalidOptions("Two tools have the same name.")
    return tools


def _tool(session: Session, specification: Any) -> dspy.Tool:
    if not isinstance(specification, dict) or set(specification) - {"name", "description", "parameters"}:
        raise InvalidOptions("A tool has a name, and may have a description and parameters.")
    name, description = specification.get("name"), specification.get("description") or ""
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name) or name == "finish":
        raise InvalidOptions(f"Invalid tool name {str(name)[:80]!r}.")
    parameters = specification.get("parameters") or {}
    properties = parameters.get("properties", {}) if isinstance(parameters, dict) else None
    if (
        not isinstance(description, str)
        or not isinstance(properties, dict)
        or not all(isinstance(schema, dict) for schema in properties.values())
    ):
        raise InvalidOptions(f"The parameters of the tool {name} are not a JSON Schema with properties.")
    return remote_tool(session, name, description, properties)


def _predict(_session: Session, signature: Signature, _options: JsonObject) -> dspy.Module:
    return dspy.Predict(signature)


def _chain_of_thought(_session: Session, signature: Signature, _options: JsonObject) -> dspy.Module:
    return dspy.ChainOfThought(signature)


def _react(_session: Session, signature: Signature, options: JsonObject) -> dspy.Module:
    return dspy.ReAct(signature, tools=options["tools"], max_iters=options["max_iters"])


def _program_of_thought(session: Session, signature: Signature, options: JsonObject) -> dspy.Module:
    return dspy.ProgramOfThought(
        signature, max_iters=options["max_iters"], interpreter_factory=lambda: CodeRunner(session)
    )


def _best_of_n(session: Session, signature: Signature, options: JsonObject) -> dspy.Module:
    metric = Metric(session, tuple(signature.output_fields), remote=True)

    def reward(inputs: JsonObject, prediction: dspy.Prediction) -> float:
        return metric.score(inputs, {}, prediction)[0]

    return dspy.BestOfN(
        module=dspy.ChainOfThought(signature), N=options["n"], reward_fn=reward, threshold=options["threshold"]
    )


def _refine(session: Session, signature: Signature, options: JsonObject) -> dspy.Module:
    metric = Metric(session, tuple(signature.output_fields), remote=True)

    def reward(inputs: JsonObject, prediction: dspy.Prediction) -> float:
        score, feedback = metric.score(inputs, {}, prediction)
        # DSPy shows the model the source of this function, which says nothing. Show the criteria and the feedback.
        program.reward_fn_code = f"{options['criteria']}\nFeedback on these outputs: {feedback or 'none.'}"
        return score

    program = dspy.Refine(
        module=dspy.ChainOfThought(signature), N=options["n"], reward_fn=reward, threshold=options["threshold"]
    )
    program.reward_fn_code = options["criteria"]
    return program


def _multi_chain(_session: Session, signature: Signature, options: JsonObject) -> dspy.Module:
    return MultiChain(signature, options["n"])


def _extract_then_answer(_session: Session, signature: Signature, _options: JsonObject) -> dspy.Module:
    return ExtractThenAnswer(signature)


def _draft_critique_revise(_session: Session, signature: Signature, _options: JsonObject) -> dspy.Module:
    return DraftCritiqueRevise(signature)


ATTEMPTS = Option(3, "How many attempts are made at most.", least=1, greatest=10)
THRESHOLD = Option(1.0, "The score at which an attempt is accepted at once.", least=0, greatest=1)

TEMPLATES: dict[str, Template] = {
    "predict": Template(description="Asks the model once.", build=_predict, answers="self"),
    "chain_of_thought": Template(
        description="Asks the model once, for its reasoning and then the answer.",
        build=_chain_of_thought,
        own_fields=frozenset({"reasoning"}),
    ),
    "react": Template(
        description="Lets the model call tools until it can answer. The parent runs the tools.",
        build=_react,
        bound=True,
        options={"max_iters": Option(6, "How many tool calls are made at most.", least=1, greatest=50)},
        tools=True,
        answers="extract.predict",
        own_fields=frozenset({"reasoning", "trajectory", "next_thought", "next_tool_name", "next_tool_args"}),
    ),
    "program_of_thought": Template(
        description="Lets the model write a program and answers from its output. The parent's sandbox runs the program.",
        build=_program_of_thought,
        bound=True,
        options={"max_iters": Option(3, "How many programs are tried at most.", least=1, greatest=10)},
        answers="generate_output.predict",
        own_fields=frozenset(
            {"reasoning", "generated_code", "previous_code", "error", "final_generated_code", "code_output"}
        ),
    ),
    "best_of_n": Template(
        description="Makes several attempts with reasoning and returns the one that the parent's metric scores best.",
        build=_best_of_n,
        bound=True,
        options={"n": ATTEMPTS, "threshold": THRESHOLD},
        answers="module.predict",
        own_fields=frozenset({"reasoning"}),
    ),
    "refine": Template(
        description="Makes several attempts with reasoning, each with advice from the score of the one before.",
        build=_refine,
        bound=True,
        options={"n": ATTEMPTS, "threshold": THRESHOLD, "criteria": Option(CRITERIA, "What the score measures.")},
        answers="module.predict",
        own_fields=frozenset({"reasoning", "hint_"}),
    ),
    "multi_chain_comparison": Template(
        description="Makes several attempts with reasoning and answers from a comparison of them.",
        build=_multi_chain,
        options={"n": Option(3, "How many attempts are compared.", least=2, greatest=10)},
        answers="chain.predict",
        own_fields=frozenset({"reasoning", "rationale", *(f"reasoning_attempt_{n}" for n in range(1, 11))}),
    ),
    "extract_then_answer": Template(
        description="Quotes the passages that matter from long inputs, then answers from them.",
        build=_extract_then_answer,
        signature="document, question -> answer",
        answers="answer.predict",
        own_fields=frozenset({"reasoning", "passages"}),
    ),
    "draft_critique_revise": Template(
        description="Drafts an answer, lists its problems, and revises it once if there are any.",
        build=_draft_critique_revise,
        signature="task -> text",
        answers="draft.predict",
        own_fields=frozenset({"reasoning", "draft", "problems"}),
    ),
}


def find_template(template_id: Any) -> Template:
    """Return the template with this id. Raises `UnknownTemplate`."""
    template = TEMPLATES.get(template_id) if isinstance(template_id, str) else None
    if template is None:
        raise UnknownTemplate(f"Unknown template {str(template_id)[:80]!r}. There are {', '.join(TEMPLATES)}.")
    return template


class MultiChain(dspy.Module):
    """Several chains of thought, and a comparison of them that gives the answer."""

    def __init__(self, signature: Signature, chains: int) -> None:
        super().__init__()
        self.chain = dspy.ChainOfThought(signature)
        self.compare = dspy.MultiChainComparison(signature, M=chains)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Answer from several attempts."""
        # At temperature 0 all chains would be the same; each gets an id of its own for models that cache.
        attempts = [
            self.chain(**inputs, config={"temperature": 0.7, "rollout_id": number + 1})
            for number in range(self.compare.M)
        ]
        return self.compare(attempts, **inputs)


class ExtractThenAnswer(dspy.Module):
    """Quotes what matters from long inputs, then answers from the quotes and the inputs."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        inputs, outputs = _names(signature.input_fields), _names(signature.output_fields)
        self.extract = dspy.Predict(
            dspy.Signature(
                dict(signature.input_fields),
                f"Another reader must later produce {outputs} with this task: {signature.instructions}\n"
                f"Quote from {inputs} every passage that matters for it, word for word, without conclusions.",
            ).append("passages", dspy.OutputField(desc="quotes, most important first"), type_=list[str])
        )
        self.answer = dspy.ChainOfThought(
            signature.append("passages", dspy.InputField(desc="quotes that matter for the task"), type_=list[str])
        )

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Answer from passages."""
        passages = self.extract(**inputs).passages
        return dspy.Prediction(**self.answer(**inputs, passages=passages), passages=passages)


class DraftCritiqueRevise(dspy.Module):
    """Drafts an answer, lists its problems, and revises it if there are any."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        outputs = _names(signature.output_fields)
        self.draft = dspy.ChainOfThought(signature)
        self.critique = dspy.Predict(
            dspy.Signature(
                dict(signature.input_fields),
                f"A draft of {outputs} was written for this task: {signature.instructions}\n"
                "List each problem of the draft: errors, omissions, and instructions that it does not follow. "
                "Say where it is and how to fix it. Return an empty list if there are no problems.",
            )
            .append("draft", dspy.InputField(), type_=dict[str, Any])
            .append("problems", dspy.OutputField(desc="one problem each; empty if none"), type_=list[str])
        )
        self.revise = dspy.Predict(
            signature.append("draft", dspy.InputField(desc="the answer to revise"), type_=dict[str, Any]).append(
                "problems", dspy.InputField(desc="the problems to fix, and nothing else"), type_=list[str]
            )
        )
        self.names = tuple(signature.output_fields)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Answer, after one revision at most."""
        first = self.draft(**inputs)
        draft = {name: first[name] for name in self.names}
        problems = self.critique(**inputs, draft=draft).problems
        if not problems:
            return dspy.Prediction(**first, problems=[])
        return dspy.Prediction(**self.revise(**inputs, draft=draft, problems=problems), problems=problems)


def _names(fields: Any) -> str:
    return ", ".join(f"`{name}`" for name in fields)
