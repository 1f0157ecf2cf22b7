"""Requests that a skill declares and that could not be sent as they are declared."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Invalid, Problem
from prowess.skill.declared_request import declared_request
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import HttpCall
from prowess.skill.needs import needs_of

CODE = "request-invalid"


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


def _problem(artifact: HttpCall, message: str, hint: str) -> Problem:
    return Problem(code=CODE, severity="warning", message=message, hint=hint, field=artifact.path or artifact.name)
