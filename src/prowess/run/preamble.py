"""The messages before the prompt of a model request: the skill's approaches as system prompt, its examples as earlier turns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Message, Model, Request, Role
from prowess.prompts.prompt import choose_variant
from prowess.run.call import Call
from prowess.skill.json_values import json_object, json_value
from prowess.skill.kinds import Artifact, JsonObject, Kind
from prowess.skill.limits import KIB, Limits
from prowess.skill.model import Skill
from prowess.skill.text.prompt_tags import to_one_line, to_prompt_text
from prowess.skill.text.yaml import YamlRefused, load

MAX_EXAMPLE_BYTES = 64 * KIB
"""A longer example is not parsed; no budget has room for it."""

_YAML_LIMITS = Limits(frontmatter_bytes=MAX_EXAMPLE_BYTES)
_KEYED = re.compile(r"^(?:- )?(?:input|output|messages):", re.MULTILINE)
_PART = re.compile(
    r"^[ \t]*(?P<mark>#{1,6}[ \t]+[*_]{0,3}|[*_]{2,3})?(?P<role>input|output|user|assistant)(?:[ \t]+\d+)?[*_]{0,3}"
    r"(?P<colon>:[*_]{0,3}(?P<rest>.*))?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_ROLES: dict[str, Role] = {"input": "user", "user": "user", "output": "assistant", "assistant": "assistant"}


@lru_cache(maxsize=256)
def parse_example(content: str) -> tuple[Message, ...]:
    """Return the turns of an example, alternating user and assistant; empty if it cannot be read as turns.

    An example is JSON or YAML, `{input, output}`, a list of such, or `{messages: [{role, content}, …]}`; or markdown in which
    a heading or a line `Input:` or `Output:` starts each part. Our own block markers in it are neutralized.
    """
    try:
        # An example that cannot fit is not parsed: a skill could bring one of any size.
        turns = tuple(_turns(content)) if len(content) <= MAX_EXAMPLE_BYTES else ()
    except RecursionError:
        return ()
    return turns if _alternates(turns) else ()


def _turns(content: str) -> Iterable[Message]:
    value = _value(content)
    return _marked(content) if value is None else _told(value)


def _value(content: str) -> Any:
    """Return the example as data, if it is JSON or YAML."""
    text = content.strip()
    if text[:1] in ("{", "["):
        return json_value(text)
    # Much markdown is valid YAML too, so only a text with one of these keys is parsed as YAML.
    if not _KEYED.search(text):
        return None
    try:
        return load(text, typed=True, limits=_YAML_LIMITS).value
    except YamlRefused:
        return None


def _told(value: Any) -> Iterator[Message]:
    for item in cast("list[Any]", value if isinstance(value, list) else [value]):
        fields = json_object(item)
        messages = fields.get("messages")
        if isinstance(messages, list):
            yield from _messages(cast("list[Any]", messages))
        elif "input" in fields and "output" in fields:
            yield _message("user", fields["input"])
            yield _message("assistant", fields["output"])
        else:
            yield _UNREADABLE


def _messages(messages: list[Any]) -> Iterator[Message]:
    for item in messages:
        fields = json_object(item)
        role = _ROLES.get(str(fields.get("role")))
        yield _message(role, fields["content"]) if role and "content" in fields else _UNREADABLE


_UNREADABLE = Message(role="system")
"""Stands for a part that is not a turn, so that the example is rejected as a whole."""


def _message(role: Role, value: Any) -> Message:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Message(role=role, text=to_prompt_text(text.strip()))


def _marked(content: str) -> Iterator[Message]:
    """Yield the parts of a markdown text."""
    # A bare word such as `output` on its own line is prose; a heading, bold type or a colon makes it a mark.
    marks = [mark for mark in _PART.finditer(content) if mark["mark"] or mark["colon"]]
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(content)
        rest = (mark["rest"] or "").strip()
        yield _message(_ROLES[mark["role"].lower()], f"{rest}\n{content[mark.end() : end]}")


def _alternates(turns: tuple[Message, ...]) -> bool:
    """Return True if user and assistant alternate, the assistant is last, and no turn is empty."""
    roles = ("user", "assistant")
    return (
        bool(turns)
        and len(turns) % 2 == 0
        and all(turn.role == roles[index % 2] and turn.text for index, turn in enumerate(turns))
    )


MAX_EXAMPLE_CHARS = 4_000
"""Characters of examples in a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """The messages before the prompt. `omitted` counts examples that did not fit."""

    system: str = ""
    turns: tuple[Message, ...] = ()
    omitted: int = 0

    def messages(self, text: str) -> tuple[Message, ...]:
        """Return the whole conversation, with the prompt last."""
        system = (Message(role="system", text=self.system),) if self.system else ()
        return (*system, *self.turns, Message(role="user", text=text))


def build_preamble(skill: Skill, family: str, *, example_chars: int = MAX_EXAMPLE_CHARS) -> Preamble:
    """Return the skill's approaches and examples for a family of models, by ordinal.

    Examples are added in order while they fit into `example_chars`; one that does not fit is skipped. An example that is not
    made of turns goes into the system prompt. Our own block markers in the skill's text are neutralized.
    """
    system = [to_prompt_text(one.content.strip()) for one in _of_kind(skill, "approach", family)]
    turns: list[Message] = []
    room, omitted = example_chars, 0
    for example in _of_kind(skill, "example", family):
        read = parse_example(example.content)
        size = sum(len(turn.text) for turn in read) if read else len(example.content)
        # Left out whole, never cut; a later, shorter example may still fit.
        if size > room:
            omitted += 1
            continue
        room -= size
        turns += read
        if not read:
            system.append(_shown(example))
    return Preamble(system="\n\n".join(filter(None, system)), turns=tuple(turns), omitted=omitted)


def build_request(
    call: Call,
    model: Model,
    text: str,
    *,
    schema: JsonObject | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Request:
    """Return the request for a call, with the skill's preamble; note how many examples were omitted."""
    before = build_preamble(call.skill, model.family)
    if before.omitted:
        call.notes.detail["examples_omitted"] = before.omitted
    return Request(messages=before.messages(text), schema=schema, temperature=temperature, max_tokens=max_tokens)


def _of_kind(skill: Skill, kind: Kind, family: str) -> Iterator[Artifact]:
    """Return the non-empty artifacts of a kind, one variant of each name, by ordinal."""
    by_name: dict[str, list[Artifact]] = {}
    for artifact in skill.artifacts:
        if artifact.kind == kind:
            by_name.setdefault(artifact.name, []).append(artifact)
    chosen = [choose_variant(candidates, family) for candidates in by_name.values()]
    return (one for one in sorted(chosen, key=lambda one: one.ordinal) if one.content.strip())


def _shown(example: Artifact) -> str:
    return to_prompt_text(f"Example ({to_one_line(example.name)}):\n{example.content.strip()}")
