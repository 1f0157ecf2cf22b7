"""Routes of the audit log: read it, verify it, and read the account of one skill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from prowess.interfaces.rest.request import Admin, Page, PageQuery, PageShape, Shape, make_page, respond, shape_of
from prowess.policy.account import Answer, SkillAccount, SkillBytes
from prowess.storage.audit_chain import AuditVerdict
from prowess.storage.ledger import AuditRow

router = APIRouter(prefix="/audit", tags=["audit"])

_MAX_NUMBER = 10**15
_Text = Annotated[str, Query(max_length=500)]


@shape_of(AuditRow)
class AuditRowShape(Shape):
    """One decision. `hash` covers the row and the hash of the row before."""


class AuditPageShape(PageShape[AuditRowShape]):
    """One page of the audit log. `last` is the number of the newest row."""

    last: int


@shape_of(AuditVerdict)
class AuditVerdictShape(Shape):
    """The result of verifying the chain. If it is not `ok`, `first_bad` is the number at which it breaks."""


@shape_of(Answer)
class AnswerShape(Shape):
    """A person's answer about one content of a skill."""


@shape_of(SkillBytes)
class ContentShape(Shape):
    """One content of a skill: the answers about it, and where it is in a prompt or was run."""

    answers: list[AnswerShape]
    prompts: list[dict[str, Any]]
    runs: list[dict[str, Any]]


@shape_of(SkillAccount)
class AccountShape(Shape):
    """Everything that is recorded about one skill."""

    contents: list[ContentShape]
    decisions: list[AuditRowShape]


@router.get("", response_model=AuditPageShape)
async def read_audit(
    engine: Admin,
    page: Page,
    after: Annotated[int, Query(ge=0, le=_MAX_NUMBER, description="Only rows after this number.")] = 0,
) -> Response:
    """Return the recorded decisions of the organization, oldest first."""
    last, position = await engine.audit.last(), page.after_number(_MAX_NUMBER)
    found = await engine.audit.rows(after=after if position is None else position, limit=page.limit + 1)
    return _respond(found, page, last, last)


@router.get("/newest", response_model=AuditPageShape)
async def find_in_audit(
    engine: Admin,
    page: Page,
    actor: Annotated[str, Query(max_length=500, description="A part of the name of the actor.")] = "",
    action: _Text = "",
    slug: Annotated[str, Query(max_length=500, description="A part of the slug.")] = "",
    outcome: _Text = "",
    since: Annotated[str, Query(max_length=40, description="Only rows since a time, for example 2026-03-01.")] = "",
) -> Response:
    """Return the matching decisions of the organization, newest first. `total` is the number of matches."""
    last = await engine.audit.last()
    found = await engine.audit.find(
        before=page.after_number(_MAX_NUMBER),
        limit=page.limit + 1,
        by=actor,
        action=action,
        slug=slug,
        outcome=outcome,
        since=since,
    )
    total = await engine.audit.count(by=actor, action=action, slug=slug, outcome=outcome, since=since)
    return _respond(found, page, last, total)


def _respond(found: Sequence[AuditRow], page: PageQuery, last: int, total: int) -> Response:
    return respond({**make_page(found, page, lambda row: row.number, total), "last": last})


@router.get("/verify", response_model=AuditVerdictShape)
async def verify_audit(
    engine: Admin,
    head: Annotated[str, Query(max_length=200, description="The `head` of an earlier verdict that you stored.")] = "",
) -> Response:
    """Check that no row was altered, removed or moved; with `head`, also that none is missing at the end."""
    return respond(await engine.audit.verify(head=head))


@router.get("/skills/{slug}", response_model=AccountShape)
async def read_account(slug: Annotated[str, Path(max_length=500)], engine: Admin) -> Response:
    """Return who approved which content of a skill, when, through which channel and what they saw, and where it is used."""
    return respond(await engine.audit.skill(slug))
