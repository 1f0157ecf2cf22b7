"""cli_command: run a program confined and without a shell, with arguments from templates; what it prints is the output.

A value fills one argument or a part of one. It can neither become two arguments nor an option.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from prowess.errors import Invalid, Refused, RunFailed
from prowess.handlers.command_runner import CommandRunner
from prowess.policy.grants import Grants
from prowess.run.call import Call, Output
from prowess.run.schema_checks import check_inputs, check_output
from prowess.skill.declarations import (
    ArgumentTemplate,
    CommandSettings,
    Slot,
    TextPieces,
    find_slots,
    parse_command,
    parse_slots,
)
from prowess.skill.json_values import parse_json
from prowess.skill.kinds import CliCommand, Kind

_OTHER = re.compile(r"\{\{|\{%")
_HINT = "A command supports only {{ name }} placeholders. Compute other values before it runs."


def fill_arguments(templates: Sequence[ArgumentTemplate], values: Mapping[str, Any]) -> list[str]:
    """Return the arguments. Refuse a value that would be read as an option, unless an argument `--` precedes it."""
    filled: list[str] = []
    only_values = False
    for template in templates:
        # A list of templates is an optional group, such as an option with its value: it is left out as a whole.
        if not isinstance(template, str) and any(slot.value(values) is None for slot in find_slots(list(template))):
            continue
        for one in (template,) if isinstance(template, str) else template:
            filled.append(_argument(one, values, only_values=only_values))
            # The template decides, not the filled text: an input `--` must not lift the check for those after it.
            only_values = only_values or one == "--"
    return filled


def fill_text(template: str, values: Mapping[str, Any]) -> str:
    """Return a text with its values in place; raise `Invalid` for an input without a value."""
    pieces = _pieces(template)
    return "".join(piece if isinstance(piece, str) else _written(values, piece) for piece in pieces)


def _pieces(template: str) -> TextPieces:
    try:
        pieces = parse_slots(template)
    except Invalid:
        # Other braces are reported below, with a hint for commands.
        pieces = (template,)
    if any(isinstance(piece, str) and _OTHER.search(piece) for piece in pieces):
        raise Invalid(f"Unsupported template {template[:80]!r} in a command.", hint=_HINT)
    return pieces


def _argument(template: str, values: Mapping[str, Any], *, only_values: bool) -> str:
    text = fill_text(template, values)
    # Only a value that starts the argument can turn it into an option: in `--name={{ name }}` the author wrote the option.
    if text.startswith("-") and isinstance(_pieces(template)[0], Slot) and not only_values:
        raise Invalid(
            f"The value for {template[:80]!r} starts with '-', so the program would read it as an option.",
            hint="Write it as `--name={{ name }}`, or put the argument `--` before it.",
        )
    return text


def _written(values: Mapping[str, Any], slot: Slot) -> str:
    value = slot.value(values)
    if value is None:
        raise Invalid(
            f"Missing input {'.'.join(slot.path)[:80]!r} for the command.",
            hint="Pass it with `-i NAME=VALUE`, or add a default to the schema.",
        )
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class CliCommandHandler:
    """Runs the program that `handler` names. The words after it and `args` are templates of its arguments.

    Raise `Refused` unless an administrator allows the program. The output is what it prints, as text, lines or JSON,
    checked against the skill's output schema.
    """

    kind: Kind = "cli_command"

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands

    async def run(self, call: Call) -> Output:
        """Run the program and return what it prints."""
        artifact = call.artifact
        if not isinstance(artifact, CliCommand):
            raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a command.")
        (program, *words), settings = parse_command(artifact)
        values = check_inputs(call.inputs, call.skill.parameters)
        argv = (program, *fill_arguments((*words, *settings.args), values))
        call.plan(shlex.join(argv))
        stdin = fill_text(settings.stdin, values)
        grants = await self._commands.granted(call)
        _check_allowed(call, program, grants)
        finished = await self._commands.run(
            call,
            grants,
            argv,
            files=await self._commands.files_of(call),
            called=f"The command {program!r}",
            stdin=stdin,
            seconds=settings.timeout_seconds,
            success=settings.success_codes,
            # The administrator allowed this program, not others that the skill's files could make it start.
            executable=False,
        )
        output = _output(program, settings, finished.stdout)
        check_output(call, output.value)
        return Output(kind=self.kind, text=output.text, data=output.data, result=finished.facts)


def _check_allowed(call: Call, program: str, grants: Grants) -> None:
    receipt = call.notes.receipt
    if program in grants.binaries:
        receipt.touch("binaries", program)
        return
    receipt.refuse("binaries", program)
    message = f"The program {program!r} is not allowed."
    # A denial stands alone in an approval; here its first sentence is the message.
    hint = grants.denied.get(program, "").removeprefix(f"{message} ")
    raise Refused(
        message,
        hint=hint or f"An administrator can allow it: `prowess policy set allowed_binaries '[\"{program}\"]'`.",
    )


def _output(program: str, settings: CommandSettings, stdout: str) -> Output:
    if settings.output == "json":
        data = _json(program, stdout)
        return Output(kind="cli_command", text=stdout, data=data)
    if settings.output == "lines":
        # Not `splitlines`, which also splits at form feeds and other separators inside a line.
        lines = [line.removesuffix("\r") for line in stdout.split("\n")]
        return Output(kind="cli_command", text=stdout, data=lines[:-1] if not lines[-1] else lines)
    return Output(kind="cli_command", text=stdout)


def _json(program: str, stdout: str) -> Any:
    try:
        return parse_json(stdout)
    except (ValueError, RecursionError):
        raise RunFailed(
            f"The output of the command {program!r} is not JSON: {stdout.strip()[:80]!r}.",
            hint="Make it print JSON, or set `output: text`.",
        ) from None
