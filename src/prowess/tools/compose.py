"""The tool that drafts a skill with a model. A person approves what it wrote; the agent never sees the text before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from prowess.errors import Invalid
from prowess.tools.tool import ToolContext

if TYPE_CHECKING:
    from prowess.authoring.compose.composition import Composition


async def compose_skill(
    context: ToolContext,
    request: Annotated[str, Field(description="To start: what the skill should do.")] = "",
    composition: Annotated[str, Field(description="To go on: from an earlier answer.")] = "",
    feedback: Annotated[str, Field(description="What to change.")] = "",
    skill: Annotated[str, Field(description="To start: change this skill.")] = "",
    propose: Annotated[bool, Field(description="Ask the user to approve and save it.")] = False,
) -> dict[str, Any]:
    """Have a model draft a skill with tests.

    Offer this when the user keeps asking for the same. Start with request, then give composition and feedback, then
    composition and propose. Only the user sees and approves it.
    """
    # Imported here because it imports the database, which offering the tool does not need.
    from prowess.authoring.compose.composer import Composer

    composer = Composer(context.engine.as_actor(await context.acting()).context)
    if bool(request.strip()) == bool(composition.strip()):
        raise Invalid("Give either request or composition.", hint="Call compose_skill with request to start.")
    if request.strip():
        if feedback or propose:
            raise Invalid("There is no draft yet.", hint="Call compose_skill with request alone first.")
        made = await composer.start(request, skill=skill, fallback_model=context.fallback_model)
        return _describe(made)
    if feedback and propose:
        raise Invalid("Give either feedback or propose.", hint="Call compose_skill with feedback first, then propose.")
    if feedback:
        return _describe(await composer.refine(composition, feedback, fallback_model=context.fallback_model))
    if propose:
        saved = await composer.propose(composition)
        told = {"composition": composition, "state": "saved", "skill": saved.slug, "digest": saved.digest}
        return {**told, "hint": f"The user approved it. It is the skill {saved.slug} now."}
    return _describe(await composer.show(composition))


def _describe(made: Composition) -> dict[str, Any]:
    """Describe a composition, and say what to call next."""
    if made.state != "open":
        hint = "This composition has ended. Call compose_skill with request to start another one."
    elif made.round is None:
        hint = "There is no draft yet. Call compose_skill with composition and feedback to try again."
    elif made.round.checks.ok:
        hint = (
            f"Tell the user to look at the draft with `prowess compose show {made.id[:8]}`. If they want changes, call "
            "compose_skill with composition and feedback; if they like it, with composition and propose."
        )
    else:
        hint = "The draft has errors and cannot be saved. Call compose_skill with composition and feedback to fix it."
    told = made.as_agent_json()
    return {"composition": told.pop("id"), **told, "hint": hint}
