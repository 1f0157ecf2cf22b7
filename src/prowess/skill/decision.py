"""Decide whether a skill should be a template for a model or code with a handler.

A template only states the goal; one shared, tested flow does the work: render, ask, check, retry. A handler is custom code.
Templates are preferred wherever they are enough. The questions below are asked in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prowess.skill.form_info import form_info
from prowess.skill.forms.descriptor import is_registered
from prowess.skill.kinds import (
    Artifact,
    CliCommand,
    CodeTemplate,
    Function,
    HttpCall,
    JsonGeneration,
    PromptTemplate,
    Review,
)
from prowess.skill.model import Skill

Recommended = Literal["LLM_JSON_GENERATION", "LLM_REVIEW", "handler", "prompt_template"]
MAX_TEXT_CHARS = 4_000
"""The number of characters of a description that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of the rule: what to use if the answer is yes, the reason, and words that suggest a yes."""

    name: str
    asks: str
    way: Recommended
    why: str
    words: tuple[str, ...] = ()


QUESTIONS: tuple[Question, ...] = (
    Question(
        name="acts",
        asks="Does it act: send a request, run a command, write files or data?",
        way="handler",
        why="A template only asks a model and checks the answer. Actions need code, which requires approval.",
        words=(
            *("api", "call", "calls", "command", "commit", "create file", "database", "delete", "deploy", "download"),
            *("email", "execute", "fetch", "http", "install", "migrate", "post", "publish", "query", "run", "save"),
            *("send", "shell", "store", "sync", "upload", "write file", "writes files"),
        ),
    ),
    Question(
        name="computes",
        asks="Does the answer follow from the input by a rule: arithmetic, lookup, conversion, parsing?",
        way="handler",
        why="Code returns the same answer every time, instantly and at no cost. A model would guess.",
        words=(
            *("add up", "calculate", "compute", "convert", "count", "deduplicate", "diff", "encode", "filter"),
            *("format", "hash", "look up", "lookup", "merge", "parse", "sort", "sum", "total"),
        ),
    ),
    Question(
        name="loops",
        asks="Does it take several steps that depend on each other, or several models or tools?",
        way="handler",
        why="A template makes one request, plus one retry if the answer is invalid. Branching steps need code.",
        words=(
            *("and then", "each of", "iterate", "loop", "multi-step", "orchestrate", "pipeline"),
            *("several steps", "until"),
        ),
    ),
    Question(
        name="judges",
        asks="Does it judge something by criteria that can be written down?",
        way="LLM_REVIEW",
        why="A rubric says what passes and what fails. If that cannot be determined, the result is "
        "indeterminate, never a pass.",
        words=(
            *("accept", "assess", "audit", "check", "criteria", "evaluate", "grade", "judge", "quality", "review"),
            *("rubric", "score", "verify", "whether"),
        ),
    ),
    Question(
        name="generates",
        asks="Does one prompt, filled in with the input, give data that a schema can check?",
        way="LLM_JSON_GENERATION",
        why="It only needs a registered prompt and an output_schema. An invalid answer is retried "
        "once, with its errors.",
        words=(
            *("brainstorm", "classify", "describe", "draft", "extract", "generate", "json", "label", "list", "outline"),
            *("plan", "propose", "rewrite", "structured", "suggest", "summarise", "summarize", "tag"),
            *("translate", "turn"),
        ),
    ),
    Question(
        name="writes",
        asks="Does it return free text that no schema describes?",
        way="prompt_template",
        why="A prompt template with assertions returns text; nothing needs parsing.",
        words=("answer", "essay", "explain", "letter", "message", "poem", "reply", "story", "text", "write"),
    ),
)
"""Asked in this order; the first yes decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A question that a text may answer with yes, and the words that suggest it."""

    question: Question
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The choice of a skill (template, handler, both or neither), the reason, and the rule's objections."""

    uses: Literal["template", "handler", "both", "neither"]
    parts: tuple[str, ...]
    """Its templates and handlers, each as `kind NAME`."""
    why: str
    against: tuple[str, ...] = ()


def find_hints(text: str) -> list[Hint]:
    """Return the questions that a description may answer with yes, in order. This only matches keywords."""
    flat = " ".join(re.findall(r"[a-z0-9-]+", text[:MAX_TEXT_CHARS].lower()))
    found: list[Hint] = []
    for question in QUESTIONS:
        words = tuple(word for word in question.words if f" {word} " in f" {flat} " or f" {word}s " in f" {flat} ")
        if words:
            found.append(Hint(question=question, words=words))
    return found


def judge_decision(skill: Skill) -> Decision:
    """Return what a skill uses, and the rule's objections."""
    templates = [
        artifact
        for artifact in skill.artifacts
        if isinstance(artifact, JsonGeneration) or _is_template(artifact, skill)
    ]
    handlers = [one for one in skill.artifacts if isinstance(one, CodeTemplate | Function | HttpCall | CliCommand)]
    parts = tuple(f"{one.kind} {one.name}" for one in (*templates, *handlers))
    hints = find_hints(f"{skill.title} {skill.description}")
    if templates and handlers:
        why = "The skill declares a template type, which runs, and an implementation, which runs only when it is named."
        return Decision(uses="both", parts=parts, why=why, against=_objections_to_template(hints))
    if templates:
        why = "The skill declares a template type, so the shared flow runs it."
        return Decision(uses="template", parts=parts, why=why, against=_objections_to_template(hints))
    if handlers:
        why = "The skill has no template type and names an implementation."
        return Decision(uses="handler", parts=parts, why=why, against=_objections_to_handler(handlers, hints))
    if not form_info(skill.form).is_descriptor:
        return Decision(uses="neither", parts=(), why="The skill is text that an agent reads.")
    why = "The skill declares neither a template type nor an implementation."
    return Decision(
        uses="neither",
        parts=parts,
        why=why,
        against=("Nothing in this skill runs. Add template_type or implementation.",),
    )


def _is_template(artifact: Artifact, skill: Skill) -> bool:
    """Return True for a prompt or a review that the skill runs, False for one that is only stored with its descriptor."""
    if form_info(skill.form).is_descriptor:
        return isinstance(artifact, Review) and not is_registered(artifact)
    return isinstance(artifact, PromptTemplate | Review)


def _objections_to_template(hints: Sequence[Hint]) -> tuple[str, ...]:
    first = hints[0] if hints else None
    if first is None or first.question.way != "handler" or any(hint.question.way != "handler" for hint in hints):
        return ()
    return (f"{first.question.asks} The description says {_quote_words(first.words)}. {first.question.why}",)


def _objections_to_handler(handlers: Sequence[Artifact], hints: Sequence[Hint]) -> tuple[str, ...]:
    first = hints[0] if hints else None
    acts = any(isinstance(handler, HttpCall | CliCommand) for handler in handlers)
    if acts or first is None or first.question.way == "handler":
        return ()
    suggestion = f"The description says {_quote_words(first.words)}, so {first.question.way} may be enough."
    return (f"{first.question.asks} {suggestion} {first.question.why}",)


def _quote_words(words: Sequence[str]) -> str:
    return ", ".join(repr(word) for word in words[:5])
