"""The command that a `cli_command` declares: read once, every fault of it told."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from prowess.errors import Invalid
from prowess.skill.kinds import CliCommand, Value
from prowess.skill.slots import tight

MOST_SECONDS = 3_600.0
Template = str | tuple[str, ...]
"""One argument; or several that are left out together where one of their inputs has no value."""


def split_line(line: str) -> tuple[str, ...]:
    """The words of a command line as quotes make them; nothing else in it has a meaning."""
    try:
        return tuple(shlex.split(tight(line)))
    except ValueError as error:
        raise Invalid(f"The command line cannot be read: {error}.", hint="Close its quotes.") from None


def _split(value: Any) -> Any:
    return split_line(value) if isinstance(value, str) else value


class CommandSettings(Value):
    """What the metadata of a command says about it; other metadata is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    args: Annotated[tuple[Template, ...], BeforeValidator(_split)] = ()
    stdin: str = ""
    output: Literal["text", "json", "lines"] = "text"
    timeout_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 30.0
    success_codes: tuple[int, ...] = (0,)


def declared_command(artifact: CliCommand) -> tuple[tuple[str, ...], CommandSettings]:
    """The program with the arguments that stand with it, and the settings; `Invalid` says what of it cannot be read."""
    try:
        settings = CommandSettings.model_validate(artifact.metadata)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, fault['loc'][:2]))}: {fault['msg']}" for fault in faults[:3])
        raise Invalid(f"The command {artifact.name!r} cannot be read: {told}.", hint="Correct the manifest.") from None
    words = split_line(artifact.handler)
    if not words or not words[0] or "{" in words[0] or "/" in words[0] or words[0].startswith("-"):
        raise Invalid(
            f"{artifact.handler[:80]!r} does not begin with the name of a program.",
            hint="Write its bare name, which no input can change, and its arguments after it or in `args`.",
        )
    return words, settings
