"""Tools that search, list and read skills. They change nothing."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from prowess.catalog.store import Fault
from prowess.errors import NotFound
from prowess.match.recommendation import Recommendation
from prowess.policy.text import clean_text
from prowess.skill.model import SkillCard
from prowess.skill.text.hidden import show_hidden
from prowess.tools.live import READ_AGAIN, hosted_skills
from prowess.tools.skill_tools import read_tool_status
from prowess.tools.tool import SkillName, ToolAnswer, ToolContext

PAGE_SIZE = 50
_NAMED_TAGS = 30
"""How many tags are named if none of those that were given fits."""

_Tags = Annotated[list[str], Field(description="Only skills with these tags. Usually left out.")]


async def search_skills(
    context: ToolContext,
    query: Annotated[str, Field(description="What you want to do, in a few words.")] = "",
    tags: _Tags = [],  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=50, description="How many to return.")] = 10,
) -> dict[str, Any]:
    """Find skills. A skill is a set of written instructions for one kind of task.

    Call this first when a task may need steps or knowledge that you do not have. The best skill comes first; `decision`
    is "offer" (good), "maybe" or "no" (poor). Then call enable_skill with the `skill` that you chose.
    """
    found, note = await context.engine.skills.search(query, limit=limit, tags=tags), ""
    if tags and not found:
        # Models invent tags. An empty answer would make them give up, although the skill exists.
        found = await context.engine.skills.search(query, limit=limit)
        note = f"{_describe_tags(tags, await context.engine.skills.cards())} These results are without tags. "
    data: dict[str, Any] = {"skills": [_describe_match(item, scored=bool(query.strip())) for item in found]}
    return {**data, "hint": note + _next_call(context, found, scored=bool(query.strip()))}


async def list_skills(
    context: ToolContext,
    tags: _Tags = [],  # noqa: B006
    scope: Annotated[str, Field(description="For example workspace, user or system.")] = "",
    status: Literal["", "active", "error"] = "",
    cursor: Annotated[str, Field(description="next_cursor of the previous page.")] = "",
) -> dict[str, Any]:
    """List all skills by name, 50 per page. To find one for a task, call search_skills instead.

    `error` says what is wrong with a skill; `tool` is the tool that calls it.
    """
    cards, faults = await context.engine.skills.look()
    skills = [
        _describe_card(card)
        for card in cards
        if card.enabled and (not scope or card.scope == scope) and card.has_tags(tags)
    ]
    # The scope and tags of a skill that cannot be read are unknown, so a filter leaves it out.
    skills += [] if scope or tags else [_describe_fault(fault) for fault in faults]
    keyed = _sort_by_key([skill for skill in skills if status in ("", skill["status"])])
    # The cursor is a key, not a position, so skills that come or go between two pages do no harm.
    after = [(key, skill) for key, skill in keyed if key > cursor]
    page = [skill for _, skill in after[:PAGE_SIZE]]
    tools = await read_tool_status(context, {skill["skill"] for skill in page if skill["status"] == "active"})
    listed = [{**skill, **tools.get(skill["skill"], {})} if skill["status"] == "active" else skill for skill in page]
    data: dict[str, Any] = {"skills": listed, "total": len(keyed)}
    if tags and not keyed:
        data["hint"] = f"{_describe_tags(tags, cards)} Call list_skills without tags."
    if len(after) > PAGE_SIZE:
        data["next_cursor"] = after[PAGE_SIZE - 1][0]
    return data


async def load_skill(
    context: ToolContext,
    skill: SkillName,
    reference: Annotated[
        str | None, Field(description="Read this one of its available_references, or another document by its path.")
    ] = None,
    script: Annotated[
        str | None, Field(description="Read this one of its available_scripts, or another by its path.")
    ] = None,
) -> dict[str, Any]:
    """Read a skill once, without enabling it: its instructions, or one of its references or scripts.

    Read the instructions first; they say which reference you need. A script is only shown, not run.
    """
    return await context.engine.load(skill, reference=reference, script=script, session=context.conversation)


async def read_skill_resource(
    context: ToolContext,
    skill: SkillName,
    path: Annotated[
        str,
        Field(
            min_length=1,
            description="For example assets/logo.svg.",
            validation_alias=AliasChoices("path", "resource_name", "resource", "file"),
        ),
    ],
) -> dict[str, Any]:
    """Read one file of a skill. Text is returned as `text`, other files as base64 in `data`."""
    try:
        content = await context.engine.skills.resource(skill, path, session=context.conversation)
    except NotFound:
        # After the catalog, so that no connector's skill can take the place of a local one.
        if (text := await _read_hosted(context, skill, path)) is None:
            raise
        return {"skill": skill, "path": path, "text": text}
    data: dict[str, Any] = {"skill": skill, "path": path, "size": len(content)}
    try:
        # Control characters are allowed in scripts, and a file with a NUL is not searched for hidden text.
        return {**data, "text": show_hidden(content.decode())}
    except UnicodeDecodeError:
        return {**data, "data": base64.b64encode(content).decode()}


async def _read_hosted(context: ToolContext, skill: str, path: str) -> str | None:
    """Return a file of a connector's skill that is enabled in this conversation; None if it is not such a skill."""
    session = await context.find_session()
    enabled = session.get(skill) if session else None
    if session is None or enabled is None or enabled.source_type == "catalog":
        return None
    return await hosted_skills(context.engine.as_actor(await context.acting())).read_file(skill, path, session=session)


async def skill_reload(context: ToolContext) -> dict[str, Any]:
    """Read all skill folders again. Needed only after skill files were edited manually."""
    cards, faults = await context.engine.skills.reload()
    data: dict[str, Any] = {"active": len(cards), "errors": len(faults)}
    if faults:
        data["hint"] = 'Call list_skills with {"status": "error"} to see what is wrong.'
    return data


def _next_call(context: ToolContext, found: Sequence[Recommendation], *, scored: bool) -> str:
    """Say what to call next, with the arguments: small models copy it."""
    if not found:
        return "No matching skill. Call search_skills with other words, or list_skills to see all skills."
    if not scored:  # the first of a list by name is no better than the others
        return "Choose one that fits the task, or call search_skills with a `query` to find it."
    best = found[0]
    if best.decision == "no":
        return "No skill fits well. Call search_skills with other words, or work without a skill."
    tool = "run_skill" if not best.chars else "enable_skill" if context.conversation else "load_skill"
    return f"Next, call {tool} with {json.dumps({'skill': best.slug})}."


def _describe_tags(tags: Sequence[str], cards: Sequence[SkillCard]) -> str:
    """Say that no skill has the tags, and which tags there are, the most frequent first."""
    counts = Counter(tag for card in cards for tag in card.tags)
    named = ", ".join(tag for tag, _ in counts.most_common(_NAMED_TAGS))
    missing = ", ".join(clean_text(tag, limit=40) for tag in tags[:5])
    return f"No matching skill has the tags {missing}. Existing tags: {named or 'none'}."


def _describe_fault(fault: Fault) -> dict[str, Any]:
    first = fault.problems[0] if fault.problems else None
    where = f" (line {first.line})" if first and first.line else ""
    data = f"{first.message.removesuffix('.')}{where}." if first else "It cannot be read."
    return {"skill": fault.slug or fault.location, "status": "error", "error": data}


def _sort_by_key(skills: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the skills with a unique key each, sorted by it: the slug, and a number if several share the slug."""
    seen: Counter[str] = Counter()
    keyed: list[tuple[str, dict[str, Any]]] = []
    for skill in skills:
        # Broken skills may share a slug. The cursor is a key, so with equal keys a page break could skip some.
        slug: str = skill["skill"]
        number = seen[slug]
        seen[slug] += 1
        keyed.append((f"{slug} {number:06}" if number else slug, skill))
    return sorted(keyed, key=lambda pair: pair[0])


def _describe_match(item: Recommendation, *, scored: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "skill": item.slug,
        "title": item.title,
        "description": item.description,
        "tags": list(item.tags),
        "scope": item.scope,
        "version": item.version,
        "chars": item.chars,
        "trust": item.trust,
    }
    return {**data, "score": item.score, "decision": item.decision, "why": item.why} if scored else data


def _describe_card(card: SkillCard) -> dict[str, Any]:
    """Describe a skill with its status."""
    return {
        "skill": card.slug,
        "title": card.title,
        "description": card.description,
        "tags": list(card.tags),
        "scope": card.scope,
        "version": card.version,
        "kinds": list(card.kinds),
        "trust": card.trust,
        **({"hides": [hidden.scope for hidden in card.hides]} if card.hides else {}),
        "status": "active",
    }


async def correct_name(
    context: ToolContext, name: str, answer: ToolAnswer, call: Callable[[str], Awaitable[ToolAnswer]]
) -> ToolAnswer:
    """Call again if a call failed because it named a skill by its id, its title or in another spelling.

    If no skill is meant, the answer says how to find one, or how to read one that was fetched for the conversation.
    """
    if await context.engine.skills.outline(name) is not None:
        return answer
    address = await context.engine.skills.locate(name)
    if address != name:
        return await call(address)
    plain = _plain_name(name)
    cards = await context.engine.skills.cards()
    slugs = {card.slug for card in cards if plain in (_plain_name(card.slug), _plain_name(card.title))}
    # An address with a scope is exact.
    if len(slugs) == 1 and slugs != {name} and ":" not in name:
        return await call(slugs.pop())
    session = await context.find_session()
    held = session.get(name) if session else None
    then = "Call search_skills to find the name of the skill."
    if held is not None and held.source_type == "registry":
        then = f"{held.slug} was fetched for this conversation. {READ_AGAIN}"
    hint = str(answer.data.get("hint") or "")
    # A name that is meant is of use; a command of the shell, or a list of all skills, is not.
    usable_hint = "" if "`prowess " in hint or "list_skills" in hint else hint
    return replace(answer, data={**answer.data, "hint": f"{usable_hint} {then}".lstrip()})


def _plain_name(name: str) -> str:
    """Return a name as it can be compared: in lower case, with hyphens, without quotes and the prefix of tools."""
    words = re.split(r"[\W_]+", name.casefold().strip().removeprefix("skill_"))
    return "-".join(word for word in words if word)
