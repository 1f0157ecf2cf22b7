"""Skills as prompts: `prompts/list` and `prompts/get`. Clients show prompts to people as slash commands.

A skill is a prompt if it has instructions or a prompt template, unless its frontmatter says `user-invocable: false`. Skills
with `disable-model-invocation` are prompts too: they are meant for people only. The packs of roles that come with Prowess
are left out, because nobody starts a role in the middle of a conversation.

A prompt passes the same gate as loading the skill, except that a skill for people only needs no approval: a person has just
chosen it. Its text enters the conversation once, without being enabled.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from prowess.engine.sessions import load_text
from prowess.errors import ApprovalRequired, Invalid, NotFound, ProwessError, Refused
from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.elicitation import read_with_approval
from prowess.interfaces.mcp.protocol import PROMPTS_PER_PAGE, make_cursor, read_cursor
from prowess.interfaces.mcp.request import Context, conversation_of
from prowess.interfaces.mcp.skill_entry import SkillEntry
from prowess.policy.text import clean_text
from prowess.run.request import RunRequest
from prowess.skill.filenames import SIDECAR
from prowess.skill.json_values import json_list, json_object, json_value
from prowess.skill.kinds import Kind, PromptTemplate
from prowess.skill.model import Skill, SkillCard
from prowess.skill.prompt_block import describe_origin, skill_block
from prowess.skill.template import find_variables

FREE_ARGUMENT = "arguments"
"""The argument of a skill that declares none: anything that the person adds."""

_TEXT_KINDS: frozenset[Kind] = frozenset({"instructions", "approach"})
_MAX_ARGUMENTS = 50
_MAX_DESCRIPTION_CHARS = 200
_MAX_QUOTED_CHARS = 10_000
"""Longer arguments are split at spaces only. What splits them as a shell does takes minutes for a megabyte."""
_MAX_FILLED_CHARS = 1_000_000
"""The longest text with arguments. A text can have the same argument in it thousands of times."""
_NAME = re.compile(r"[^\W\d][\w-]*")


async def list_prompts(backend: Backend, context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    """Return a page of the skills that a person can start, by slug."""
    after = read_cursor(params.cursor if params else None)
    if not backend.may_read(context):
        return ListPromptsResult(prompts=[])
    await backend.notices.mark()
    prompts: list[Prompt] = []
    async for entry in backend.entries(context, after):
        if len(prompts) == PROMPTS_PER_PAGE:
            return ListPromptsResult(prompts=prompts, next_cursor=make_cursor(after))
        after = entry.slug
        form = None if entry.hidden else await _read_form(backend, entry)
        if form is not None:
            prompts.append(_make_prompt(entry, form))
    return ListPromptsResult(prompts=prompts)


async def get_prompt(
    backend: Backend, context: Context, params: GetPromptRequestParams
) -> GetPromptResult | InputRequiredResult:
    """Return the text of a skill with the arguments filled in, through the gate."""
    caller = backend.caller_of(context)
    engine = backend.engine.as_actor(caller.actor)
    outline = await engine.skills.outline(params.name) if backend.may_read(context) else None
    skill = await engine.skills.get(params.name) if outline is not None else None
    form = _form_of(skill.card, skill.extra, skill) if skill is not None else None
    if skill is None or form is None:
        raise _unknown_prompt(params.name)
    arguments = params.arguments or {}
    conversation = conversation_of(context, caller)

    async def read() -> list[PromptMessage]:
        if form.template:
            request = RunRequest(
                slug=params.name,
                artifacts=(form.template,),
                inputs=_convert_values(arguments, form.schema),
                session=conversation,
                dry_run=True,
                chosen=True,
            )
            result = await engine.runs.attempt(request)
            if result.error is not None:
                raise result.error
            sent = [message for part in result.parts for step in part.sent for message in step.request.messages]
            # MCP has no system messages in prompts.
            return [_message(message.text, assistant=message.role == "assistant") for message in sent if message.text]
        loaded = await load_text(engine.context, params.name, session=conversation, chosen=True)
        if loaded["error"]:
            raise _load_error(loaded)
        body = fill_arguments(loaded["body"] or "", form.names, arguments)
        origin = describe_origin(skill.scope, skill.provenance)
        block = skill_block(skill.title, body, slug=skill.slug, origin=origin, digest=skill.digest)
        return [_message(block)]

    messages = await read_with_approval(backend, context, params, read)
    if isinstance(messages, InputRequiredResult):
        return messages
    return GetPromptResult(description=clean_text(skill.description, limit=_MAX_DESCRIPTION_CHARS), messages=messages)


def _unknown_prompt(name: str) -> MCPError:
    return MCPError(
        code=INVALID_PARAMS,
        message=f"Unknown prompt {clean_text(name, limit=80)!r}. prompts/list has the prompts that exist.",
    )


def _load_error(loaded: Mapping[str, Any]) -> ProwessError:
    if loaded.get("approval_id"):
        return ApprovalRequired(loaded["error"], approval_id=loaded["approval_id"], hint=loaded.get("hint") or "")
    return Refused(loaded["error"], hint=loaded.get("hint") or "")


def _message(text: str, *, assistant: bool = False) -> PromptMessage:
    return PromptMessage(role="assistant" if assistant else "user", content=TextContent(text=text))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """What a person fills in to start a skill. `template` is the prompt template to render; '' for instructions.

    `names` are the arguments in the order in which instructions number them.
    """

    names: tuple[str, ...]
    schema: Mapping[str, Any]
    template: str = ""
    hint: str = ""


async def _read_form(backend: Backend, entry: SkillEntry) -> PromptForm | None:
    """Return the form of a skill, or None if the skill is not a prompt."""
    card = backend.index.listing.remembered[entry.slug][1]
    if not _may_be_prompt(card):
        return None
    # The frontmatter is known without reading the skill; only a template or a sidecar may declare more.
    if entry.frontmatter is not None and entry.file(SIDECAR) is None and _TEXT_KINDS & set(card.kinds):
        return _form_of(card, entry.frontmatter)
    try:
        skill = await backend.engine.skills.get(entry.slug)
    except (NotFound, Invalid):
        return None
    return _form_of(card, skill.extra, skill)


def _may_be_prompt(card: SkillCard) -> bool:
    return card.scope != "system" and bool({*_TEXT_KINDS, "prompt_template"} & set(card.kinds))


def _form_of(card: SkillCard, fields: Mapping[str, Any], skill: Skill | None = None) -> PromptForm | None:
    if not _may_be_prompt(card) or str(fields.get("user-invocable", True)).lower() == "false":
        return None
    schema = json_object(skill.parameters) if skill else {}
    if not _TEXT_KINDS & set(card.kinds) and skill is not None:
        template = next((artifact for artifact in skill.artifacts if isinstance(artifact, PromptTemplate)), None)
        return _template_form(template, schema) if template else None
    names = _claude_arguments(fields.get("arguments")) or tuple(json_object(schema.get("properties")))
    hint = _argument_hint(fields.get("argument-hint"))
    return PromptForm(names=names[:_MAX_ARGUMENTS] or (FREE_ARGUMENT,), schema=schema, hint=hint)


def _argument_hint(value: object) -> str:
    """Return the hint as its author wrote it. Most write `[issue]` without quotes, which YAML reads as a list."""
    parts = json_list(value)
    return f"[{', '.join(map(str, parts))}]" if parts else str(value or "")


def _template_form(template: PromptTemplate, schema: Mapping[str, Any]) -> PromptForm | None:
    declared = {
        **json_object(schema.get("properties")),
        **json_object(json_object(template.vars_schema).get("properties")),
    }
    try:
        used = sorted(find_variables(template.content, template.syntax)) if not declared else []
    except Invalid:
        return None
    required = [
        *json_list(schema.get("required")),
        *json_list(json_object(template.vars_schema).get("required")),
        *used,
    ]
    return PromptForm(
        names=tuple([*declared, *used][:_MAX_ARGUMENTS]),
        schema={"properties": declared, "required": required},
        template=template.name,
    )


def _make_prompt(entry: SkillEntry, form: PromptForm) -> Prompt:
    properties, required = json_object(form.schema.get("properties")), json_list(form.schema.get("required"))
    arguments = [
        PromptArgument(
            name=name,
            description=_argument_description(name, json_object(properties.get(name)), form),
            required=name in required,
        )
        for name in form.names
    ]
    return Prompt(
        name=entry.slug,
        title=entry.title,
        description=clean_text(entry.description, limit=_MAX_DESCRIPTION_CHARS),
        arguments=arguments,
    )


def _argument_description(name: str, schema: Mapping[str, Any], form: PromptForm) -> str | None:
    text = schema.get("description") or form.hint or ("What to work on." if name == FREE_ARGUMENT else "")
    return clean_text(str(text), limit=_MAX_DESCRIPTION_CHARS) or None


def _claude_arguments(value: object) -> tuple[str, ...]:
    """Return the argument names of Claude's frontmatter: a list, or a text with spaces."""
    names = value.split() if isinstance(value, str) else json_list(value)
    return tuple(str(name) for name in names if _NAME.fullmatch(str(name)))


def fill_arguments(body: str, names: Sequence[str], arguments: Mapping[str, str]) -> str:
    r"""Return instructions with `$ARGUMENTS`, `$ARGUMENTS[0]`, `$0` and `$name` filled in, as Claude Code does.

    A number without an argument stays as it is, and a declared name without one becomes empty. `\$1` stays `$1`. Arguments that the
    text does not mention are added at its end.
    """
    is_free = tuple(names) == (FREE_ARGUMENT,)
    given = [arguments[name] for name in names if name in arguments]
    # Only a text that a person typed as one is split; named arguments come one by one.
    parts = _split_words(" ".join(given)) if is_free else _in_order(names, arguments)
    declared = () if is_free else names
    is_used = False
    room = _MAX_FILLED_CHARS - len(body)

    def fill(found: re.Match[str]) -> str:
        nonlocal is_used, room
        slashes, token, at, number, name = found.groups()
        if len(slashes) == 1:
            return token
        if number := at or number:
            if int(number) >= len(parts):
                return found[0]
            value = parts[int(number)]
        elif name and name not in arguments:
            return slashes
        else:
            value = arguments[name] if name else " ".join(given)
        is_used = True
        room -= len(value)
        if room < 0:
            raise Invalid(
                f"With its arguments, the text is longer than the limit of {_MAX_FILLED_CHARS:,} characters.",
                hint="Pass shorter arguments.",
            )
        return slashes + value

    filled = _placeholder(declared).sub(fill, body)
    if is_used or not arguments:
        return filled
    if is_free:
        return f"{filled}\n\nARGUMENTS: {' '.join(given)}"
    listed = "\n".join(f"- {name}: {value}" for name, value in arguments.items())
    return f"{filled}\n\nARGUMENTS:\n{listed}"


def _placeholder(names: Sequence[str]) -> re.Pattern[str]:
    # The longest name first: `$issue-number` is not `$issue` if both are declared.
    declared = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    named = rf"|({declared})(?!\w)" if declared else "|(?!)()"
    # Backslashes are counted from the first one, and possessively: else a long row of them would be read over and over.
    return re.compile(rf"(?<!\\)(\\*+)(\$(?:ARGUMENTS\[(\d{{1,2}})\]|ARGUMENTS\b|(\d{{1,2}})\b{named}))")


def _split_words(text: str) -> list[str]:
    """Return the words of a text, with those in quotes together as in a shell."""
    if len(text) > _MAX_QUOTED_CHARS:
        return text.split()
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # an apostrophe, as in "don't"


def _in_order(names: Sequence[str], arguments: Mapping[str, str]) -> list[str]:
    """Return the arguments by their position, up to the last one given; '' for those left out before it."""
    last = max((at for at, name in enumerate(names) if name in arguments), default=-1)
    return [arguments.get(name, "") for name in names[: last + 1]]


def _convert_values(texts: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with the types that the schema declares; prompts are given texts only."""
    properties = json_object(schema.get("properties"))
    return {name: _convert(text, json_object(properties.get(name)).get("type")) for name, text in texts.items()}


def _convert(text: str, kind: object) -> Any:
    if kind in (None, "string") or (isinstance(kind, list) and "string" in kind):
        return text
    return json_value(text, text)  # the check of the inputs says what is wrong
