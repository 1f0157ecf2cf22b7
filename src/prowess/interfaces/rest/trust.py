"""Routes of trust: skills that were found and that nobody has accepted, and the acceptances of exact contents."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from prowess.engine.trust import PreviewedSkill, TrustOutcome, TrustPreview
from prowess.errors import NotFound
from prowess.interfaces.rest.approvals import ReviewedFileShape
from prowess.interfaces.rest.request import Approver, Body, Page, PageShape, Reader, Shape, paginate, respond, shape_of
from prowess.policy.consent import describe_finding, list_findings
from prowess.skill.text.hidden import show_hidden
from prowess.view import files_json

router = APIRouter(prefix="/trust", tags=["trust"])

Address = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][^/\\]*$", max_length=250, description="A slug, `scope:slug`, or a digest.")
]
_PROOF = "accepted over HTTP by a person; what the client showed is {}"


class AcceptanceShape(Shape):
    """One content of a skill that someone accepted, wrote or imported."""

    id: str
    slug: str
    digest: str
    how: str
    actor: str
    channel: str
    proof: str
    created_at: str


@shape_of(PreviewedSkill, without=("location", "files", "uses"))
class FoundSkillShape(Shape):
    """A skill that nobody has accepted. `card` says everything about it, and `card_sha256` identifies that text."""

    card: str
    card_sha256: str


class FoundSkillDetailShape(FoundSkillShape):
    """Such a skill with its files and what changed since it was accepted; `content` is null if it changed just now."""

    content: list[ReviewedFileShape] | None
    diff: str


class AcceptedContent(Body):
    """A skill as it was shown: its digest, and the `card_sha256` of the text that the person saw."""

    slug: Annotated[str, Field(max_length=250, pattern=r"^[A-Za-z0-9][^/\\]*$")]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    shown: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""


class AcceptBody(Body):
    """The contents to accept."""

    skills: Annotated[list[AcceptedContent], Field(min_length=1, max_length=200)]


@shape_of(TrustOutcome)
class OutcomeShape(Shape):
    """The accepted slugs, and those that were not accepted because their content is not the one that was shown."""


class RevokedShape(Shape):
    """How many acceptances were revoked."""

    revoked: int


@router.get("", response_model=PageShape[AcceptanceShape])
async def list_accepted(engine: Reader, page: Page) -> Response:
    """Return the contents of skills that are accepted for the caller, newest first."""
    listed = await engine.trust.list()
    return respond(paginate(listed.skills, page, lambda one: f"{one.created_at} {one.id}", newest_first=True))


@router.get("/found", response_model=PageShape[FoundSkillShape])
async def list_found(engine: Approver, page: Page) -> Response:
    """Return the skills that nobody has accepted, as a person sees them. Only a person can do this."""
    found = (await engine.trust.preview()).skills
    return respond(paginate(found, page, lambda one: f"{one.slug} {one.scope}", show=_summary))


@router.get("/found/{slug}", response_model=FoundSkillDetailShape)
async def get_found(slug: Address, engine: Approver) -> Response:
    """Return one such skill with its files and what changed since it was accepted. Only a person can do this."""
    skill = await _find(engine, slug)
    package, diff = await engine.trust.package(skill), await engine.trust.diff(skill)
    content = None if package is None else files_json(package)
    return respond({**_summary(skill), "content": content, "diff": show_hidden(diff)})


@router.post("", response_model=OutcomeShape)
async def accept(body: AcceptBody, engine: Approver) -> Response:
    """Accept exactly these contents. Only a person can do this. Content that has changed since it was shown is left out."""
    accepted: list[str] = []
    changed: list[str] = []
    for content in body.skills:
        preview = await engine.trust.preview(content.slug)
        same = tuple(skill for skill in preview.skills if skill.digest == content.digest)
        cards = {skill.slug: _card(skill) for skill in same if _sha256(_card(skill)) == content.shown}
        if not same or (content.shown and not cards):
            changed.append(content.slug)
            continue
        outcome = await engine.trust.accept(
            replace(preview, skills=same), proof=_PROOF.format("known" if cards else "not known"), shown=cards
        )
        accepted += outcome.accepted
        changed += outcome.changed
    return respond({"accepted": accepted, "changed": changed})


@router.delete("/{target}", response_model=RevokedShape)
async def revoke(target: Address, engine: Approver) -> Response:
    """Revoke the acceptances of a slug or a digest. A skill that is enabled is removed from the prompt at the next turn."""
    return respond({"revoked": await engine.trust.revoke(target)})


async def _find(engine: Approver, slug: str) -> PreviewedSkill:
    preview: TrustPreview = await engine.trust.preview(slug)
    if not preview.skills:
        raise NotFound(
            f"{slug[:80]!r} has nothing left to accept.", hint="List the found skills to see which can be accepted."
        )
    return preview.skills[0]


def _summary(skill: PreviewedSkill) -> dict[str, Any]:
    # The location is a path on the server.
    fields = {name: value for name, value in asdict(skill).items() if name not in ("location", "files")}
    card = _card(skill)
    return {**fields, "card": card, "card_sha256": _sha256(card)}


def _card(skill: PreviewedSkill) -> str:
    """Return everything that a person needs to know before accepting a skill, one fact per line, most severe first."""
    facts = [f"Skill: {skill.slug} ({skill.scope}), {skill.files} files"]
    facts += [f"Requests: {request}" for request in skill.requests]
    facts += [f"Finding: {describe_finding(row)}" for row in list_findings({"findings": list(skill.findings)})]
    facts += [f"Replaces: a trusted skill of the same name in the {scope} scope" for scope in skill.hides]
    facts += [f"Changed: accepted before with other content (sha256 {skill.accepted})"] if skill.accepted else []
    facts += [f"Written by: {skill.written_by}"] if skill.written_by else []
    facts += [f"Title: {skill.title}", f"Description: {skill.description}", f"Content: sha256 {skill.digest}"]
    # Each fact is a single line, so that a text of the skill cannot fake another one.
    return "\n".join(show_hidden(" ".join(fact.split())) for fact in facts)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
