"""Routes of memory: the facts that a person had remembered, which enter the prompts of their later turns."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from prowess.agent.conversation import RememberedFact
from prowess.agent.memory import MAX_FACT_CHARS
from prowess.interfaces.rest.request import Body, Page, PageShape, Reader, Runner, Shape, paginate, respond, shape_of

router = APIRouter(prefix="/memory", tags=["memory"])


@shape_of(RememberedFact)
class FactShape(Shape):
    """A fact that is remembered for the caller."""


class FactBody(Body):
    """A fact, best as one short sentence."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)]


@router.get("", response_model=PageShape[FactShape])
async def list_facts(engine: Reader, page: Page) -> Response:
    """Return the remembered facts of the caller, newest first."""
    facts = await engine.agent.memories()
    return respond(paginate(facts, page, lambda fact: f"{fact.created_at} {fact.id}", newest_first=True))


@router.post("", status_code=201, response_model=FactShape)
async def remember_fact(body: FactBody, engine: Runner) -> Response:
    """Remember a fact for the caller's later conversations. Only a person can."""
    return respond(await engine.agent.remember(body.text), 201)


@router.delete("/{id}", response_model=FactShape)
async def forget_fact(id: Annotated[str, Path(min_length=1, max_length=200)], engine: Runner) -> Response:
    """Forget a fact, and return it. Only a person can."""
    return respond(await engine.agent.forget(id))
