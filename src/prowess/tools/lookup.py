"""Tools that search, list and read skills. They change nothing."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import Field

from prowess.catalog.store import Fault
from prowess.match.recommendation import Recommendation
from prowess.skill.model import SkillCard
from prowess.tools.skill_tools import read_tool_status
from prowess.tools.tool import ToolContext

PAGE_SIZE = 50


async def search_skills(
    context: ToolContext,
    query: Annotated[str, Field(description="What you need help with, in a few words.")] = "",
    tags: Annotated[list[str], Field(description="Only skills that have all of these tags.")] = [],  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=50, description="How many to return.")] = 10,
) -> dict[str, Any]:
    """Find skills: written know-how for one kind of task.

    Call this when a task needs knowledge or a procedure that you do not have. The best come first, each with why it was
    found; `decision` is "offer" for a good fit, "maybe" for a possible one and "no" for a poor one. Then call
    enable_skill to work with one for the rest of the conversation, or load_skill to read it once.
    """
    found = await context.engine.skills.search(query, limit=limit, tags=tags)
    data: dict[str, Any] = {"skills": [_describe_match(item, scored=bool(query.strip())) for item in found]}
    if not found:
        data["hint"] = "Nothing was found. Try other words, or list_skills to see everything."
    return data


async def list_skills(
    context: ToolContext,
    tags: Annotated[list[str], Field(description="Only skills that have all of these tags.")] = [],  # noqa: B006
    scope: Annotated[str, Field(description="Only skills of this scope, such as workspace, user or system.")] = "",
    cursor: Annotated[str, Field(description="next_cursor of the page before.")] = "",
) -> dict[str, Any]:
    """List the skills there are, by name, a page at a time.

    Prefer search_skills when you know what you need; there may be thousands.
    """
    wanted = {tag.casefold() for tag in tags}
    cards = [
        card
        for card in await context.engine.skills.cards()
        if (not scope or card.scope == scope) and wanted <= {tag.casefold() for tag in card.tags}
    ]
    # The cursor is a slug, not a position, so skills that come or go between two pages do no harm.
    after = [card for card in cards if card.slug > cursor]
    data: dict[str, Any] = {"skills": [_describe_card(card) for card in after[:PAGE_SIZE]], "total": len(cards)}
    if len(after) > PAGE_SIZE:
        data["next_cursor"] = after[PAGE_SIZE - 1].slug
    return data


async def load_skill(
    context: ToolContext,
    name: Annotated[str, Field(description="The skill's slug, as search_skills or list_skills gave it.")],
    reference: Annotated[str | None, Field(description="Load this reference instead of the instructions.")] = None,
    script: Annotated[str | None, Field(description="Load the text of this script instead.")] = None,
) -> dict[str, Any]:
    """Read a skill: its instructions, or one of its references or scripts, by exact name.

    Load the instructions first; they say when a reference is worth reading. A script is only shown, not run. `error`
    says why nothing was loaded.
    """
    return await context.engine.load(name, reference=reference, script=script, session=context.conversation)


async def read_skill_resource(
    context: ToolContext,
    skill_name: Annotated[str, Field(description="The skill's slug.")],
    resource_name: Annotated[
        str, Field(description="The exact path of the file in the skill, such as assets/logo.svg.")
    ],
) -> dict[str, Any]:
    """Read one file of a skill by its exact path. Text comes as `text`, anything else as base64 in `data`."""
    content = await context.engine.skills.resource(skill_name, resource_name, session=context.conversation)
    data: dict[str, Any] = {"skill": skill_name, "path": resource_name, "size": len(content)}
    try:
        return {**data, "text": content.decode()}
    except UnicodeDecodeError:
        return {**data, "data": base64.b64encode(content).decode()}


async def skill_list(
    context: ToolContext,
    status: Annotated[Literal["", "active", "error"], Field(description="Only skills of this status.")] = "",
    cursor: Annotated[str, Field(description="next_cursor of the page before.")] = "",
) -> dict[str, Any]:
    """List all skills by id with their status, a page at a time: active, or error with what is wrong.

    A skill that you can call as a tool has the name of that `tool`; `no_tool` says why another that is for calling is none.
    """
    cards, faults = await context.engine.skills.look()
    disabled = (await context.engine.policy.get()).disabled_skills
    skills = [_describe_status(card, disabled) for card in cards] + [_describe_fault(fault) for fault in faults]
    keyed = _sort_by_key([skill for skill in skills if status in ("", skill["status"])])
    after = [(key, skill) for key, skill in keyed if key > cursor]
    page = [skill for _, skill in after[:PAGE_SIZE]]
    standing = await read_tool_status(context, {skill["id"] for skill in page if skill["status"] == "active"})
    listed = [{**skill, **standing.get(skill["id"], {})} if skill["status"] == "active" else skill for skill in page]
    data: dict[str, Any] = {"skills": listed, "total": len(keyed)}
    if len(after) > PAGE_SIZE:
        data["next_cursor"] = after[PAGE_SIZE - 1][0]
    return data


async def skill_reload(context: ToolContext) -> dict[str, Any]:
    """Look at all skill folders again. Call it after skill files were changed by hand; all other changes are seen at once."""
    cards, faults = await context.engine.skills.reload()
    data: dict[str, Any] = {"active": len(cards), "errors": len(faults)}
    if faults:
        data["hint"] = "skill_list says what is wrong with the others."
    return data


def _describe_status(card: SkillCard, disabled: Collection[str] | None) -> dict[str, Any]:
    """Describe a skill with its status. If the list of disabled skills is unreadable (None), all count as disabled."""
    data = {"id": card.slug, "name": card.title, "status": "active", "trust": card.trust}
    if disabled is not None and card.slug not in disabled:
        return data
    return {**data, "status": "error", "error": "An administrator has disabled this skill."}


def _describe_fault(fault: Fault) -> dict[str, Any]:
    first = fault.problems[0] if fault.problems else None
    where = f" (line {first.line})" if first and first.line else ""
    data = f"{first.message.removesuffix('.')}{where}." if first else "It cannot be read."
    return {"id": fault.slug or fault.location, "status": "error", "error": data}


def _sort_by_key(skills: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the skills with a unique key each, sorted by it: the id, and a number if several share the id."""
    seen: Counter[str] = Counter()
    keyed: list[tuple[str, dict[str, Any]]] = []
    for skill in skills:
        # Broken skills may share an id. The cursor is a key, so with equal keys a page break could skip some.
        number = seen[skill["id"]]
        seen[skill["id"]] += 1
        keyed.append((f"{skill['id']} {number:06}" if number else skill["id"], skill))
    return sorted(keyed, key=lambda pair: pair[0])


def _describe_match(item: Recommendation, *, scored: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "slug": item.slug,
        "name": item.title,
        "description": item.description,
        "tags": list(item.tags),
        "scope": item.scope,
        "version": item.version,
        "chars": item.chars,
        "trust": item.trust,
    }
    return {**data, "score": item.score, "decision": item.decision, "why": item.why} if scored else data


def _describe_card(card: SkillCard) -> dict[str, Any]:
    return {
        "slug": card.slug,
        "name": card.title,
        "description": card.description,
        "tags": list(card.tags),
        "scope": card.scope,
        "version": card.version,
        "kinds": list(card.kinds),
        "trust": card.trust,
        **({"hides": [hidden.scope for hidden in card.hides]} if card.hides else {}),
    }
