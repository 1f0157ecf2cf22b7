"""Routes of approvals: list, show with everything that a person needs to decide, answer and revoke."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.errors import Conflict
from prowess.interfaces.rest.request import Approver, Body, Page, PageShape, Reader, Shape, paginate, respond, shape_of
from prowess.policy.consent import consent_text
from prowess.storage.approvals import ApprovalRow, ApprovalState
from prowess.view import approval_json

router = APIRouter(prefix="/approvals", tags=["approvals"])

ApprovalId = Annotated[str, Path(max_length=200)]
_STATES: tuple[ApprovalState, ...] = ("pending", "approved", "denied", "expired", "revoked")
_SHOWN = "answered over HTTP by a person who was shown the request"
_NOT_SHOWN = "answered over HTTP with a person's token; the client did not say what it showed"


@shape_of(ApprovalRow)
class ApprovalShape(Shape):
    """A request about the exact content of a skill, and its outcome. `detail` is the card that a person sees."""


class ReviewedFileShape(Shape):
    """A file of the skill. `text` has hidden characters as escapes; it is null if the file is not text."""

    path: str
    size: int
    sha256: str
    text: str | None


class ApprovalDetailShape(ApprovalShape):
    """A request with everything that a person needs to decide, nothing left out.

    `card` has all facts as text, most severe first, and `card_sha256` identifies it. `files` is null if the files are no
    longer in the catalog, and for an agent, which may not see them.
    """

    card: str
    card_sha256: str
    requests: list[str]
    findings: list[dict[str, Any]]
    files: list[ReviewedFileShape] | None
    diff: str


class AnswerBody(Body):
    """The answer. `shown` is the `card_sha256` of the request as the person saw it; the audit then has the text."""

    approved: StrictBool
    note: Annotated[str, Field(max_length=4_000)] = ""
    shown: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""


class RevokeBody(Body):
    """Why the request or the approval is withdrawn."""

    note: Annotated[str, Field(max_length=4_000)] = ""


@router.get("", response_model=PageShape[ApprovalShape])
async def list_approvals(
    engine: Reader,
    page: Page,
    state: Annotated[
        Literal["pending", "approved", "denied", "expired", "revoked", "all"], Query(description="Only in this state.")
    ] = "pending",
) -> Response:
    """Return the approvals that the caller may see, newest first, at most 1,000."""
    rows = await engine.approvals.list(_STATES if state == "all" else (state,))
    return respond(paginate(rows, page, lambda row: f"{row.created_at} {row.id}", newest_first=True))


@router.get("/{id}", response_model=ApprovalDetailShape)
async def get_approval(id: ApprovalId, engine: Reader) -> Response:
    """Return one approval: what the skill asks for, findings, its files and what changed since it was approved before."""
    row = await engine.approvals.get(id)
    package, diff = None, ""
    if engine.actor.is_person:
        package, diff = await engine.approvals.package(id), await engine.approvals.diff(id)
    return respond(approval_json(row, card=consent_text(row), package=package, diff=diff))


@router.post("/{id}", response_model=ApprovalShape)
async def answer_approval(id: ApprovalId, body: AnswerBody, engine: Approver) -> Response:
    """Approve or deny a request. Only a person can do this, and only once: answers 409 if it was answered before."""
    shown = ""
    if body.shown:
        row = await engine.approvals.get(id)
        shown = consent_text(row)
        if row.state == "pending" and hashlib.sha256(shown.encode()).hexdigest() != body.shown:
            raise Conflict("The request has changed since it was shown.", hint="Show it again, then answer.")
    answered = await engine.approvals.resolve(
        id, approved=body.approved, note=body.note, proof=_SHOWN if shown else _NOT_SHOWN, shown=shown
    )
    return respond(answered)


@router.post("/{id}/revoke", response_model=ApprovalShape)
async def revoke_approval(id: ApprovalId, body: RevokeBody, engine: Approver) -> Response:
    """Withdraw a pending or approved request. A skill that it admitted is removed from the prompt at the next turn."""
    return respond(await engine.approvals.revoke(id, note=body.note))
