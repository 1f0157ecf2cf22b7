"""What a skill says before it asks: its approaches for the system prompt, its examples as turns that came before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prowess.llm.model import Message, Model, Request
from prowess.run.call import Call
from prowess.run.examples import example_turns
from prowess.session.neutral import neutralised, one_line
from prowess.skill.kinds import Artifact, JsonObject, Kind
from prowess.skill.model import Skill
from prowess.templates.variants import choose_variant

EXAMPLE_CHARS = 4_000
"""How many characters of examples a request has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """What comes before the request itself. `omitted` is how many examples had no room."""

    system: str = ""
    turns: tuple[Message, ...] = ()
    omitted: int = 0

    def messages(self, text: str) -> tuple[Message, ...]:
        """The whole conversation up to what is asked now."""
        system = (Message(role="system", text=self.system),) if self.system else ()
        return (*system, *self.turns, Message(role="user", text=text))


def preamble(skill: Skill, family: str, *, example_chars: int = EXAMPLE_CHARS) -> Preamble:
    """What the skill's approaches and examples give for models of that family, each in the variant for it, by ordinal.

    Examples are taken in order as long as they fit into `example_chars`; one that does not fit is left out whole and the next
    is tried. An example that cannot be read as turns is shown in the system prompt. Text of the skill cannot open or close
    a block of ours.
    """
    system = [neutralised(one.content.strip()) for one in _of_kind(skill, "approach", family)]
    turns: list[Message] = []
    room, omitted = example_chars, 0
    for example in _of_kind(skill, "example", family):
        read = example_turns(example.content)
        size = sum(len(turn.text) for turn in read) if read else len(example.content)
        if size > room:
            omitted += 1
            continue
        room -= size
        turns += read
        if not read:
            system.append(_shown(example))
    return Preamble(system="\n\n".join(filter(None, system)), turns=tuple(turns), omitted=omitted)


def request_of(
    call: Call,
    model: Model,
    text: str,
    *,
    schema: JsonObject | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Request:
    """What is asked in a call, after what its skill says before it asks. How many examples had no room is noted."""
    before = preamble(call.skill, model.family)
    if before.omitted:
        call.notes.detail["examples_omitted"] = before.omitted
    return Request(messages=before.messages(text), schema=schema, temperature=temperature, max_tokens=max_tokens)


def _of_kind(skill: Skill, kind: Kind, family: str) -> Iterator[Artifact]:
    """The artifacts of that kind with something in them, one variant of each name, in ordinal order."""
    by_name: dict[str, list[Artifact]] = {}
    for artifact in skill.artifacts:
        if artifact.kind == kind:
            by_name.setdefault(artifact.name, []).append(artifact)
    chosen = [choose_variant(candidates, family) for candidates in by_name.values()]
    return (one for one in sorted(chosen, key=lambda one: one.ordinal) if one.content.strip())


def _shown(example: Artifact) -> str:
    return neutralised(f"Example ({one_line(example.name)}):\n{example.content.strip()}")
