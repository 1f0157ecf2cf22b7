"""Text kinds: a run returns what the author wrote, and executes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prowess.errors import Invalid
from prowess.run.call import Call, Output
from prowess.run.handler import Handler
from prowess.skill.kinds import Kind
from prowess.skill.model import Skill
from prowess.skill.text.hidden import show_hidden
from prowess.skill.text.reader import decode_text

ReadFile = Callable[[Skill, str], Awaitable[bytes]]
"""Reads one file of a skill by its path."""

TEXT_KINDS: tuple[Kind, ...] = ("description", "instructions", "approach", "example")
READ_KINDS: tuple[Kind, ...] = ("reference", "asset")


class TextHandler:
    """Returns the content of an artifact."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind

    async def run(self, call: Call) -> Output:
        """Return the content unchanged."""
        return Output(kind=self.kind, text=call.artifact.content)


class FileHandler:
    """Returns the text of the file that an artifact stands for."""

    def __init__(self, kind: Kind, read_file: ReadFile) -> None:
        self.kind: Kind = kind
        self._read_file = read_file

    async def run(self, call: Call) -> Output:
        """Return the text of the file, with hidden characters written out.

        Raise `NotFound` if it does not exist, `Invalid` if it is not text.
        """
        artifact = call.artifact
        if not artifact.path:
            return Output(kind=self.kind, text=artifact.content)
        text, problems = decode_text(await self._read_file(call.skill, artifact.path))
        if any(problem.code == "nul-character" for problem in problems):
            raise Invalid(
                f"{artifact.path!r} of {call.skill.slug!r} is a binary file.",
                hint=f"Run a text artifact instead: `prowess show {call.skill.slug}` lists them.",
            )
        # Not all of it was searched when the skill was read: a file may be binary there, and Windows-1252 here.
        return Output(kind=self.kind, text=show_hidden(text))


def text_handlers(read_file: ReadFile) -> tuple[Handler, ...]:
    """Return one handler for each text kind."""
    return (*(TextHandler(kind) for kind in TEXT_KINDS), *(FileHandler(kind, read_file) for kind in READ_KINDS))
