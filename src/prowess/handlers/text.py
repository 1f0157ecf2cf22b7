"""The kinds that are text: running one gives what its author wrote. Nothing is executed, a script is not among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prowess.errors import Invalid
from prowess.run.call import Call, Output
from prowess.run.handler import Handler
from prowess.skill.kinds import Kind
from prowess.skill.model import Skill
from prowess.skill.text.reader import decode_text

ReadFile = Callable[[Skill, str], Awaitable[bytes]]
"""Reads one file of a skill by its path."""

TEXT_KINDS: tuple[Kind, ...] = ("description", "instructions", "approach", "example")
READ_KINDS: tuple[Kind, ...] = ("reference", "asset")


class TextHandler:
    """Gives the content of an artifact."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind

    async def run(self, call: Call) -> Output:
        """Its content, as it is written."""
        return Output(kind=self.kind, text=call.artifact.content)


class FileHandler:
    """Gives the text of the file that an artifact stands for."""

    def __init__(self, kind: Kind, read_file: ReadFile) -> None:
        self.kind: Kind = kind
        self._read_file = read_file

    async def run(self, call: Call) -> Output:
        """The text of its file; `NotFound` where there is none, `Invalid` where it is not text."""
        artifact = call.artifact
        if not artifact.path:
            return Output(kind=self.kind, text=artifact.content)
        text, problems = decode_text(await self._read_file(call.skill, artifact.path))
        if any(problem.code == "nul-character" for problem in problems):
            raise Invalid(
                f"{artifact.path!r} of {call.skill.slug!r} is not text.",
                hint="Run an artifact that is text; this one can be read as a file.",
            )
        return Output(kind=self.kind, text=text)


def text_handlers(read_file: ReadFile) -> tuple[Handler, ...]:
    """One handler for each kind that is text."""
    return (
        *(TextHandler(kind) for kind in TEXT_KINDS),
        *(FileHandler(kind, read_file) for kind in READ_KINDS),
    )
