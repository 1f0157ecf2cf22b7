"""Ask the person in front of the client for an approval (elicitation).

In the older protocol the server asks while the call waits. In the newer one the call ends with the question, and the
client calls again with the answer, perhaps to another process. That process builds the question again and accepts the
answer only if it is the same question about the same approval; the sealed request state identifies both.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponseRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from prowess.errors import ProwessError
from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.request import Context
from prowess.policy.actor import Actor
from prowess.skill.text.hidden import show_hidden

if TYPE_CHECKING:
    from prowess.storage.approvals import ApprovalRow

Answered = Literal["approved", "denied", "open"]

APPROVAL_KEY = "approval"
APPROVAL_NOTE = "answered in the MCP client"
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Allow this, for exactly these files."}
    },
    "required": ["approve"],
}
_MAX_LINE_CHARS = 300
_MAX_PATHS = 10


async def request_approval(
    backend: Backend, context: Context, params: InputResponseRequestParams, approval_id: str
) -> Answered | InputRequiredResult:
    """Ask the person in front of the client to approve or deny, and record the answer.

    Return "open" if nobody can be asked or nobody answered, and an `InputRequiredResult` if the client must call again
    with the answer. `params` are the parameters of the request, including an answer to an earlier question.
    """
    person = backend.caller_of(context).person
    if person is None or "skills.approve" not in person.permissions or not can_ask(context):
        return "open"
    try:
        approval = await backend.engine.as_actor(person).approvals.get(approval_id)
    except ProwessError:
        return "open"
    request = ElicitRequestFormParams(message=build_question(approval), requested_schema=ANSWER_SCHEMA)
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return await _ask_while_waiting(backend, context, person, approval.id, request.message)
    state = _question_state(approval.id, request.message)
    answer = (params.input_responses or {}).get(APPROVAL_KEY)
    # If the skill changed since the question was shown, the states differ and the person is asked again.
    if params.request_state == state and isinstance(answer, ElicitResult):
        return await _record_answer(backend, person, approval.id, answer)
    return InputRequiredResult(input_requests={APPROVAL_KEY: ElicitRequest(params=request)}, request_state=state)


async def _ask_while_waiting(
    backend: Backend, context: Context, person: Actor, approval_id: str, message: str
) -> Answered:
    try:
        answer = await context.session.elicit_form(message, ANSWER_SCHEMA, context.request_id)
    except MCPError:
        return "open"
    return await _record_answer(backend, person, approval_id, answer)


def can_ask(context: Context) -> bool:
    """Return True if the client can show a form to a person, and the server can send it one."""
    capabilities = context.session.client_capabilities
    able = capabilities.elicitation if capabilities is not None else None
    # An empty capability means forms, as in the first version of the protocol; `url` alone means no forms.
    if able is None or (able.form is None and able.url is not None):
        return False
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS or context.session.can_send_request


def build_question(approval: ApprovalRow) -> str:
    """Return the text that the person reads: requester, action, origin, permissions and changes.

    The text must be the same on every call, because the request state contains its hash.
    """
    card = approval.detail
    asks = card.get("requests") or ()
    files = card.get("files") or ()
    lines = [
        f"{approval.requester} asks for your approval to {approval.action} the skill {approval.slug}.",
        _card_line("Title", card.get("title")),
        _card_line("Description", card.get("description")),
        _card_line("Reason given", approval.reason),
        _card_line("Origin", card.get("origin") or card.get("source_type")),
        _card_line("Size", f"{card['chars']} characters" if card.get("chars") else ""),
        _card_line("Files", str(len(files)) if files else ""),
        _card_line("It asks for", "; ".join(str(item) for item in asks)),
        _card_line("Content", f"sha256 {approval.digest[:12]}"),
        *_changes_since_approval(card.get("previous")),
    ]
    return "\n".join(line for line in lines if line)


def _changes_since_approval(previous: Any) -> list[str]:
    """Return lines about the version approved before and the files that differ; none if there was no such version."""
    if not isinstance(previous, dict):
        return []
    before = cast("dict[str, Any]", previous)
    lines = [
        _card_line("Changed", f"you approved it before with other content, sha256 {str(before.get('digest'))[:12]}")
    ]
    for kind in ("changed", "added", "removed"):
        paths = [str(path) for path in before.get(kind) or ()]
        more = f" and {len(paths) - _MAX_PATHS} more" if len(paths) > _MAX_PATHS else ""
        lines.append(_card_line(f"Files {kind}", "; ".join(paths[:_MAX_PATHS]) + more))
    return lines


def _card_line(label: str, text: Any) -> str:
    """Return one line of the card, or '' if the text is empty.

    The text is untrusted: line breaks are removed so that it cannot fake other lines, and hidden characters are shown.
    """
    flat = show_hidden(" ".join(str(text or "").split()))[:_MAX_LINE_CHARS]
    return f"{label}: {flat}" if flat else ""


def _question_state(approval_id: str, message: str) -> str:
    return json.dumps({APPROVAL_KEY: approval_id, "question": hashlib.sha256(message.encode()).hexdigest()})


async def _record_answer(backend: Backend, person: Actor, approval_id: str, answer: ElicitResult) -> Answered:
    if answer.action == "cancel":
        return "open"
    approved = answer.action == "accept" and (answer.content or {}).get("approve") is True
    try:
        await backend.engine.as_actor(person).approvals.resolve(approval_id, approved=approved, note=APPROVAL_NOTE)
    except ProwessError:
        # Someone else answered first, or the request expired. "approved" only makes the caller try again, and the gate
        # then decides by what is recorded.
        return "approved"
    return "approved" if approved else "denied"
