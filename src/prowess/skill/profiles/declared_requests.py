"""Requests and commands that a skill declares and that could not be sent or run as they are declared."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Invalid, Problem
from prowess.skill.declared_command import declared_command
from prowess.skill.declared_request import declared_request
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import CliCommand, HttpCall
from prowess.skill.needs import needs_of

CODE = "request-invalid"
COMMAND = "command-invalid"


def unsendable_requests(reading: Reading) -> Iterator[Problem]:
    """A warning for each request that cannot be read, and for each name of the environment that one uses undeclared."""
    skill = reading.skill
    for artifact in skill.artifacts if skill else ():
        if not isinstance(artifact, HttpCall) or skill is None:
            continue
        try:
            request = declared_request(artifact)
        except Invalid as fault:
            yield _problem(artifact, fault.message, fault.hint)
            continue
        for name in request.secrets:
            if name not in needs_of(skill).env:
                yield _problem(
                    artifact,
                    f"The request uses {name!r} of the environment, which is not declared.",
                    f"Add env: [{name}].",
                )


def unusable_commands(reading: Reading) -> Iterator[Problem]:
    """A warning for each command that cannot be read."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        if not isinstance(artifact, CliCommand):
            continue
        try:
            declared_command(artifact)
        except Invalid as fault:
            yield _problem(artifact, fault.message, fault.hint, code=COMMAND)


def _problem(artifact: HttpCall | CliCommand, message: str, hint: str, code: str = CODE) -> Problem:
    return Problem(code=code, severity="warning", message=message, hint=hint, field=artifact.path or artifact.name)
