"""Ask the person in front of the client for an approval (elicitation), where the operator allows that for this client.

Nothing in the protocol shows that a person answers a form: an agent can declare that it shows forms, and answer them
itself. So only the operator can say that a client's answers are a person's, and everyone else's requests stay open.

In the older protocol the server asks while the call waits. In the newer one the call ends with the question, and the
client calls again with the answer, perhaps to another process. That process builds the question again and accepts the
answer only if it is the same question about the same approval; the sealed request state identifies both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponseRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from prowess.errors import ApprovalDenied, ApprovalRequired, ProwessError
from prowess.interfaces.auth.caller import Caller, agent_name
from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.protocol import protocol_error
from prowess.interfaces.mcp.request import Context
from prowess.policy.actor import Actor
from prowess.policy.consent import FORM_LIMIT, consent_text

T = TypeVar("T")

Answered = Literal["approved", "denied", "open", "too-long"]

APPROVAL_KEY = "approval"
APPROVAL_NOTE = "answered in the MCP client"
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Allow this, for exactly these files."}
    },
    "required": ["approve"],
}


async def request_approval(
    backend: Backend, context: Context, params: InputResponseRequestParams, approval_id: str
) -> Answered | InputRequiredResult:
    """Ask the person in front of the client to approve or deny, and record the answer.

    Return "open" if nobody can be asked or nobody answered, "too-long" if the question is too long for a form, and an
    `InputRequiredResult` if the client must call again with the answer. `params` are the parameters of the request,
    including an answer to an earlier question.
    """
    caller = backend.caller_of(context)
    person = answering_person(context, caller)
    if person is None or not can_ask(context):
        return "open"
    try:
        approval = await backend.engine.as_actor(person).approvals.get(approval_id)
    except ProwessError:
        return "open"
    request = ElicitRequestFormParams(message=consent_text(approval), requested_schema=ANSWER_SCHEMA)
    if len(request.message) > FORM_LIMIT:
        return "too-long"
    form = _Form(backend=backend, person=person, approval_id=approval.id, shown=request.message)
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return await _ask_while_waiting(context, form)
    # If the skill changed since the question was shown, the states differ and the person is asked again.
    state = _question_state(approval.id, request.message)
    answer = (params.input_responses or {}).get(APPROVAL_KEY)
    if params.request_state == state and isinstance(answer, ElicitResult):
        return await form.record(answer)
    return InputRequiredResult(input_requests={APPROVAL_KEY: ElicitRequest(params=request)}, request_state=state)


async def _ask_while_waiting(context: Context, form: _Form) -> Answered:
    try:
        answer = await context.session.elicit_form(form.shown, ANSWER_SCHEMA, context.request_id)
    except MCPError:
        return "open"
    return await form.record(answer)


async def read_with_approval(
    backend: Backend,
    context: Context,
    params: InputResponseRequestParams,
    read: Callable[[], Awaitable[T]],
    *,
    uri: str = "",
) -> T | InputRequiredResult:
    """Read something through the gate. If that needs an approval and the client can ask its user, ask and read again.

    Raise `MCPError` if it stays refused; `uri` is named in the error.
    """
    try:
        return await read()
    except ApprovalRequired as refused:
        verdict = await request_approval(backend, context, params, refused.approval_id)
        if isinstance(verdict, InputRequiredResult):
            return verdict
        if verdict == "too-long":
            refused.hint = too_long_hint(refused.approval_id)
        if verdict in ("open", "too-long"):
            raise protocol_error(refused, uri) from refused
        if verdict == "denied":
            raise protocol_error(ApprovalDenied("A person denied this."), uri) from refused
    except ProwessError as error:
        raise protocol_error(error, uri) from error
    try:
        return await read()
    except ProwessError as error:
        raise protocol_error(error, uri) from error


def too_long_hint(approval_id: str) -> str:
    """Return what an agent can do about a request that no form can show in full."""
    return (
        f"The request is too long for a form. Tell the user that request {approval_id[:8]} is waiting for approval "
        "at a terminal. Continue with something else until then."
    )


def answering_person(context: Context, caller: Caller) -> Actor | None:
    """Return the person whose answers a client may send: None unless the operator has named this client."""
    client = context.session.client_params
    allowed = {agent_name(name, "") for name in caller.approvals_by}
    is_named = client is not None and agent_name(client.client_info.name, "") in allowed - {""}
    person = caller.person if is_named else None
    return person if person is not None and "approvals.resolve" in person.permissions else None


def can_ask(context: Context) -> bool:
    """Return True if the client can show a form to a person, and the server can send it one."""
    capabilities = context.session.client_capabilities
    forms = capabilities.elicitation if capabilities is not None else None
    # An empty capability means forms, as in the first version of the protocol; `url` alone means no forms.
    if forms is None or (forms.form is None and forms.url is not None):
        return False
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS or context.session.can_send_request


def _question_state(approval_id: str, message: str) -> str:
    return json.dumps({APPROVAL_KEY: approval_id, "question": hashlib.sha256(message.encode()).hexdigest()})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """One question in a form: who answers it, and the text that the client was given to show."""

    backend: Backend
    person: Actor
    approval_id: str
    shown: str

    async def record(self, answer: ElicitResult) -> Answered:
        """Store the answer, and return what it comes to."""
        if answer.action == "cancel":
            return "open"
        approved = answer.action == "accept" and (answer.content or {}).get("approve") is True
        proof = f"form in {self.person.channel.removeprefix('mcp:')}, allowed by the operator"
        try:
            await self.backend.engine.as_actor(self.person).approvals.resolve(
                self.approval_id, approved=approved, note=APPROVAL_NOTE, proof=proof, shown=self.shown
            )
        except ProwessError:
            # Someone else answered first, or the request expired. "approved" only makes the caller try again, and the
            # gate then decides by what is recorded.
            return "approved"
        return "approved" if approved else "denied"
