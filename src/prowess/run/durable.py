"""Run an artifact of a durable run: its result is stored, and taken from there if the run is started again.

`Checkpoints` store what a script has been told while it runs, so they work inside an artifact. This works between them.
"""

from __future__ import annotations

from dataclasses import replace

from prowess.errors import ProwessError, Refused
from prowess.redaction.redactor import Redactor
from prowess.run.allowance import Allowance
from prowess.run.call import Call, Output
from prowess.run.decoding import decode_part, encode_error, revive_error
from prowess.run.handler import RunArtifact
from prowess.run.request import StepJournal
from prowess.run.result import RunPart
from prowess.skill.kinds import JsonObject

_HINT = "Run the skill without `--durable`."


async def run_durably(run_artifact: RunArtifact, call: Call, journal: StepJournal, redactor: Redactor) -> Output:
    """Return the output of an artifact that has run before, or run it and store what came out.

    Raise its error, also of an artifact that failed before. Raise `Refused` if the result contains a secret: it cannot
    be stored, and a redacted one would be another input for the next artifact.
    """
    run, before = call.run, len(call.run.parts)

    async def work() -> JsonObject:
        try:
            await run_artifact(call)
        except ProwessError as error:
            if len(run.parts) == before or run.parts[-1].error is not error:
                raise  # not the error of an artifact
        new_parts = run.parts[before:]
        record: JsonObject = {"parts": [_encode(part) for part in new_parts]}
        if call.notes.secrets.redact_json(record) != record or redactor.value(record) != record:
            raise Refused(
                f"The result of {call.artifact.name!r} contains a secret, so a durable run may not store it.",
                hint=_HINT,
            )
        return record

    record = await journal(call.artifact.name, work)
    if len(run.parts) == before:
        for stored in record["parts"]:
            part = _decode(stored)
            run.parts.append(part)
            call.request.on_part(part)
    last = run.parts[-1]
    if last.error is not None:
        raise last.error
    return last.output or Output(kind=last.kind)


def check_storable(limits: Allowance, slug: str) -> None:
    """Raise `Refused` if a skill does not allow its inputs and outputs to be stored."""
    if not (limits.log_input and limits.log_output) or limits.withheld:
        raise Refused(
            f"The skill {slug!r} does not allow its inputs and outputs to be stored, which a job has to do.",
            hint="Run it without `--durable` or `--batch`.",
        )


def _encode(part: RunPart) -> JsonObject:
    data = part.as_json()
    return data if part.error is None else {**data, "error": encode_error(part.error)}


def _decode(stored: JsonObject) -> RunPart:
    part = decode_part(stored, revive_error)
    return replace(part, printed="") if part.printed else part  # it was shown when the artifact ran
