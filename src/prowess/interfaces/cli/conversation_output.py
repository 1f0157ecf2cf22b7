"""Print stored conversations: what was said, what was decided, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.interfaces.cli.chat_screen import format_call, format_decision, format_outcome
from prowess.interfaces.cli.output import clean, format_cost, one_line, print_table

if TYPE_CHECKING:
    from prowess.agent.conversation import Conversation, ConversationMessage


def print_conversation(conversation: Conversation) -> None:
    """Print what was said, with each tool call and its outcome on one line."""
    click.secho(one_line(conversation.title, 200) or "Conversation", bold=True)
    click.secho(f"{conversation.id} · {conversation.state} · {format_usage(conversation)}", dim=True)
    results = {message.call_id: message for message in conversation.messages if message.role == "tool"}
    for message in conversation.messages:
        if message.role == "user":
            click.echo("")
            for line in clean(message.text).splitlines() or [""]:
                click.secho(f"> {line}", bold=True)
            if decision := _decision_of(message):
                click.secho(f"◆ {format_decision(decision)}", dim=True)
            if error := message.detail.get("error"):
                text = " ".join(filter(None, (error["message"], error["hint"])))
                click.secho(f"! {one_line(text, 1_000)}", fg="red")
        elif message.role == "assistant":
            if message.text.strip():
                click.echo(f"\n{clean(message.text).strip()}")
            for call in message.calls:
                _print_call(call, results.get(str(call.get("id", ""))))


def _print_call(call: Mapping[str, Any], result: ConversationMessage | None) -> None:
    text = format_call(str(call.get("name", "")), call.get("arguments") or {})
    if result is None:
        click.echo(f"? {text}")
        return
    click.echo(format_outcome(text, _read_answer(result.text), ok=result.detail.get("ok") is not False))


def _read_answer(text: str) -> Mapping[str, Any]:
    """Return the answer of a tool, which is stored as the text that the model got."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {"text": text}
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {"text": text}


def format_usage(conversation: Conversation) -> str:
    """Return turns, tokens and cost of a conversation on one line."""
    cost = "cost unknown" if conversation.cost_usd is None else format_cost(conversation.cost_usd)
    turns = f"{conversation.turns} turn{'s' * (conversation.turns != 1)}"
    return f"{turns} · {conversation.input_tokens:,} tokens in, {conversation.output_tokens:,} out · {cost}"


def last_decision(conversation: Conversation) -> Mapping[str, Any] | None:
    """Return what was decided about the last message, with the skills that were considered; None if nothing was."""
    decided = [
        message.detail for message in conversation.messages if message.role == "user" and message.detail.get("decision")
    ]
    return decided[-1] if decided else None


def _decision_of(message: ConversationMessage) -> Mapping[str, Any] | None:
    decision = message.detail.get("decision")
    return cast("Mapping[str, Any]", decision) if isinstance(decision, dict) else None


def print_decision(detail: Mapping[str, Any]) -> None:
    """Print a decision, and the skills that were considered with their scores."""
    from prowess.match.recommendation import format_score

    click.echo(f"Decided: {format_decision(detail['decision'])}")
    for lookup in detail["decision"].get("research") or ():
        click.echo(f"Looked up with {one_line(str(lookup['tool']), 64)}: {one_line(str(lookup['reason']))}")
    considered: list[Mapping[str, Any]] = detail.get("recommendations") or []
    if not considered:
        click.echo("No skill matched the message.")
        return
    rows = [
        (
            one_line(str(row.get("skill") or row.get("slug") or ""), 48),
            format_score(float(row.get("score") or 0)),
            one_line(str(row.get("decision") or row.get("fit") or ""), 12),
            one_line(str(row.get("why") or "")),
        )
        for row in considered
    ]
    # The event of a decision has no reasons for each skill.
    shown = 4 if any(row[3] for row in rows) else 3
    print_table(("skill", "score", "fit", "why")[:shown], [row[:shown] for row in rows], flexible=shown - 1)
