"""Read the results of runs back from their JSON: of a server, or of a durable run that was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prowess.errors import ApprovalRequired, BudgetExceeded, ProwessError, RunFailed
from prowess.llm.model import Message, Request, Usage
from prowess.run.call import Output, SentRequest, Verdict
from prowess.run.result import ProducedFile, RunPart, RunResult
from prowess.skill.kinds import JsonObject, Kind, kind_info

MakeError = Callable[[Mapping[str, Any]], ProwessError]
"""Returns the error that an object with `code`, `message` and `hint` stands for."""


def decode_result(value: JsonObject, make_error: MakeError, *, error: ProwessError | None = None) -> RunResult:
    """Return the result of a run from its JSON. `error` is why it failed, if more is known than the JSON says."""
    return RunResult(
        run_id=value["run_id"],
        skill=value["skill"],
        parts=tuple(decode_part(one, make_error, error=error) for one in value["parts"]),
        produced=tuple(ProducedFile(**{name: one[name] for name in _FILE}) for one in value["produced"]),
        waiting=tuple(value.get("waiting", ())),
    )


def decode_part(value: JsonObject, make_error: MakeError, *, error: ProwessError | None = None) -> RunPart:
    """Return one part of a run from its JSON."""
    failed = make_error(value["error"]) if value["error"] else None
    if failed is not None and error is not None and (failed.code, failed.message) == (error.code, error.message):
        failed = error
    model = value["model"] or ""
    tokens = value["input_tokens"] or 0, value["output_tokens"] or 0
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1], requests=int(bool(model and any(tokens))))
    return RunPart(
        **{name: value[name] for name in _PART},
        output=_decode_output(value["kind"], value["output"], value["result"], failed=failed is not None),
        verdicts=tuple(Verdict(**{name: one[name] for name in _VERDICT}) for one in value["verdicts"]),
        error=failed,
        model=model,
        usage=usage,
        cost=value["cost_usd"],
        sent=tuple(_decode_sent(one) for one in value.get("would_send", ())),
        plan=value.get("would_do", ""),
        printed=value.get("printed", ""),
        receipt=value["receipt"] or {},
    )


_PART = (
    *("artifact", "kind", "variant", "status", "trace", "traced", "result"),
    *("fallback_of", "duration_ms", "resumable"),
)
_FILE = ("name", "media_type", "content")
_VERDICT = ("type", "description", "passed", "severity", "explanation")


def _decode_output(kind: Kind, value: Any, result: JsonObject, *, failed: bool) -> Output | None:
    """Return the output of a part. Its JSON has one value: the data, or the text if there is none."""
    gives_data = kind_info(kind).gives == "data"
    if value is None and (failed or not gives_data):
        return None
    if isinstance(value, str) and not gives_data:
        return Output(kind=kind, text=value, result=result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Output(kind=kind, text=text, data=value, result=result)


def _decode_sent(value: JsonObject) -> SentRequest:
    messages = tuple(Message(role=one["role"], text=one["content"]) for one in value["messages"])
    request = Request(
        messages=messages,
        schema=value.get("schema"),
        temperature=value.get("temperature"),
        max_tokens=value.get("max_tokens"),
    )
    return SentRequest(model=value["model"], purpose=value["purpose"], request=request)


def encode_error(error: ProwessError) -> JsonObject:
    """Return an error as JSON that `revive_error` reads."""
    more = {"approval_id": error.approval_id} if isinstance(error, ApprovalRequired) else {}
    return {**error.as_json(), **more}


def revive_error(fields: Mapping[str, Any]) -> ProwessError:
    """Return an error that was stored, by its code. One of an unknown code is a `RunFailed`."""
    message, hint = str(fields.get("message") or ""), str(fields.get("hint") or "")
    kind = {one.code: one for one in _walk(ProwessError)}.get(str(fields.get("code") or ""), RunFailed)
    if issubclass(kind, ApprovalRequired):
        return kind(message, approval_id=str(fields.get("approval_id") or ""), hint=hint)
    if issubclass(kind, BudgetExceeded):
        return kind(message, limit=0, used=0, need=0, hint=hint)
    return kind(message, hint=hint)


def _walk(kind: type[ProwessError]) -> Iterator[type[ProwessError]]:
    for child in kind.__subclasses__():
        yield from _walk(child)
    yield kind
