"""cli_command: a program with arguments from a template, run confined and without a shell; what it prints is the output."""

from __future__ import annotations

import json
import shlex
from typing import Any

from prowess.errors import Invalid, Refused, RunFailed
from prowess.handlers.arguments import arguments, filled_text
from prowess.handlers.command_runs import CommandRuns
from prowess.handlers.promised import check_promised
from prowess.run.call import Call, Output
from prowess.run.grants import Grants
from prowess.run.inputs import checked_inputs
from prowess.skill.declared_command import CommandSettings, declared_command
from prowess.skill.kinds import CliCommand, Kind


class CliCommandHandler:
    """Runs the program that `handler` names, with the words after it and `args` as templates of its arguments.

    A program runs only where an administrator allows it; to name it is to declare it. `Refused` says what to do otherwise.
    The output is its text, its lines, or the JSON that it prints, held to the output schema of the skill.
    """

    kind: Kind = "cli_command"

    def __init__(self, commands: CommandRuns) -> None:
        self._commands = commands

    async def run(self, call: Call) -> Output:
        """Run it."""
        artifact = call.artifact
        if not isinstance(artifact, CliCommand):
            raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a command.")
        (program, *words), settings = declared_command(artifact)
        values = checked_inputs(call.inputs, call.skill.parameters)
        argv = (program, *arguments((*words, *settings.args), values))
        call.about_to(shlex.join(argv))
        stdin = filled_text(settings.stdin, values)
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
            executable=False,
        )
        output = _output(program, settings, finished.stdout)
        check_promised(call, output.value)
        return Output(kind=self.kind, text=output.text, data=output.data, result=finished.facts)


def _check_allowed(call: Call, program: str, grants: Grants) -> None:
    receipt = call.notes.receipt
    if program in grants.binaries:
        receipt.touch("binaries", program)
        return
    receipt.refuse("binaries", program)
    raise Refused(
        f"The program {program!r} is not allowed here.",
        hint=grants.denied.get(program) or "An administrator adds it to allowed_binaries of the organization.",
    )


def _output(program: str, settings: CommandSettings, stdout: str) -> Output:
    if settings.output == "json":
        data = _json(program, stdout)
        return Output(kind="cli_command", text=stdout, data=data)
    if settings.output == "lines":
        lines = [line.removesuffix("\r") for line in stdout.split("\n")]
        return Output(kind="cli_command", text=stdout, data=lines[:-1] if not lines[-1] else lines)
    return Output(kind="cli_command", text=stdout)


def _json(program: str, stdout: str) -> Any:
    try:
        return json.loads(stdout, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise RunFailed(
            f"The command {program!r} printed no JSON: {stdout.strip()[:80]!r}.",
            hint="Have it print JSON, or say `output: text`.",
        ) from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON.")
