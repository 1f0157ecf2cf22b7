"""Show conversations: a turn as it happens, and stored ones with what was decided and what they cost.

The answer of a turn goes to stdout and everything else to stderr. Texts of models, skills and tools are cleaned before they
are printed, and all but the answer take one line each.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import click

from prowess.agent.updates import (
    ApprovalNeeded,
    Decided,
    HelperUpdated,
    SkillsChanged,
    TextWritten,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Update,
)
from prowess.interfaces.cli.output import (
    can_animate,
    clean,
    console,
    format_cost,
    one_line,
    print_json_line,
    print_table,
)
from prowess.interfaces.cli.run_output import DeferredWarnings
from prowess.match.recommendation import format_score
from prowess.skill.json_values import json_value

if TYPE_CHECKING:
    from rich.status import Status

    from prowess.agent.conversation import Conversation, ConversationMessage


_MAX_LINE_CHARS = 200
_MIN_CHARS = 20
_MAX_OUTCOME_CHARS = 120
_MAX_REASON_CHARS = 160
_MAX_ERROR_CHARS = 400
_NAMED = 3
_TEXT_FIELDS = ("output", "result", "text", "content", "body", "message", "description")
"""Fields of a tool's answer whose text says most about it, in this order."""


def format_pill(state: Mapping[str, Any]) -> str:
    """Return how much of the prompt budget is in use, as `Skills (2,134 / 16,000)`."""
    return f"Skills ({int(state['budget_used_chars']):,} / {int(state['budget_max_chars']):,})"


def format_decision(decision: Mapping[str, Any]) -> str:
    """Return a decision about a message on one line: what to do, with which skill, and why."""
    artifacts = ", ".join(str(name) for name in decision.get("artifacts") or ())
    parts = [
        str(decision.get("action", "")),
        str(decision.get("skill") or ""),
        f"with {artifacts}" if artifacts else "",
    ]
    reason = one_line(str(decision.get("reason") or ""), _MAX_REASON_CHARS)
    return one_line(" ".join(part for part in parts if part)) + (f" ({reason.rstrip('.')})" if reason else "")


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a tool call on one line, as `search_skills(query="slow queries")`."""
    text = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    # The arguments are cut and not the whole, so that none of them can look like the outcome behind the bracket.
    name = one_line(name, 60)
    return f"{name}({one_line(text, max(_line_width() // 2 - len(name), _MIN_CHARS))})"


def _line_width() -> int:
    """Return how long a line about a tool call may be."""
    return min(shutil.get_terminal_size().columns, _MAX_LINE_CHARS) if sys.stderr.isatty() else _MAX_LINE_CHARS


def format_outcome(call: str, data: Mapping[str, Any], *, ok: bool) -> str:
    """Return a line about a tool call that ended: a mark, the call, and what came of it."""
    # `load_skill` answers that there is no such skill without failing, so that the model can continue.
    mark = click.style("✓", fg="green") if ok and not data.get("error") else click.style("✗", fg="red")
    shown = one_line(summarize_answer(data), max(_line_width() - len(call) - 6, _MIN_CHARS))
    return f"{mark} {call}" + click.style(f" → {shown}" if shown else "", dim=True)


def summarize_answer(data: Mapping[str, Any]) -> str:
    """Return what a tool answered, on one line: its error, how many items it found, its status or its text."""
    error = data.get("error")
    if error:
        message = cast("Mapping[str, Any]", error).get("message") if isinstance(error, Mapping) else error
        return one_line(str(message), _MAX_OUTCOME_CHARS)
    if isinstance(status := data.get("status"), str):
        return one_line(status.replace("_", " "), _MAX_OUTCOME_CHARS)
    for name, value in data.items():
        if isinstance(value, list):
            return _summarize_list(name, cast("list[object]", value))
    text = next((value for name in _TEXT_FIELDS if isinstance(value := data.get(name), str) and value.strip()), None)
    return one_line(text if text is not None else json.dumps(data, ensure_ascii=False), _MAX_OUTCOME_CHARS)


def _summarize_list(name: str, items: list[object]) -> str:
    rows = [cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping)]
    names = [next((str(row[key]) for key in ("skill", "slug", "name", "id") if row.get(key)), "") for row in rows]
    known = [name for name in names if name]
    noun = name.replace("_", " ").removesuffix("s") if len(items) == 1 else name.replace("_", " ")
    more = ", …" if len(known) > _NAMED else ""
    text = f": {', '.join(known[:_NAMED])}{more}" if known else ""
    return one_line(f"{len(items)} {noun}{text}", _MAX_OUTCOME_CHARS)


def format_end(ended: TurnEnded, pill: str) -> str:
    """Return the line after a turn: model, steps, tokens, cost and budget."""
    facts = [one_line(ended.model, 80)] if ended.model else []
    facts.append(f"{ended.steps} step{'s' * (ended.steps != 1)}")
    facts.append(f"{ended.input_tokens:,} tokens in, {ended.output_tokens:,} out")
    facts.append("cost unknown" if ended.cost_usd is None else format_cost(ended.cost_usd))
    return " · ".join([*facts, *([pill] if pill else [])])


class JsonScreen:
    """Prints the updates of one turn as lines of JSON. The first line has the id of the conversation."""

    def __init__(self, conversation: str) -> None:
        self._conversation = conversation
        self.pill = ""
        self.ended: TurnEnded | None = None

    def __enter__(self) -> Self:
        print_json_line({"kind": "conversation", "id": self._conversation})
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, update: Update) -> None:
        """Print one update."""
        if isinstance(update, TurnEnded):
            self.ended = update
        print_json_line(update)


class ChatScreen:
    """Shows the updates of one turn as they come. `pill` is the budget before it."""

    def __init__(self, pill: str = "") -> None:
        self.pill = pill
        self.ended: TurnEnded | None = None
        """How the turn ended; None if it was interrupted."""
        self._calls: dict[str, str] = {}
        self._helper_texts: dict[str, str] = {}
        """What helpers have written since their last call, by role."""
        self._wrote = False
        self._in_line = False
        self._noted = False
        self._status: Status | None = None
        self._warnings = DeferredWarnings()

    def __enter__(self) -> Self:
        self._warnings.begin()
        if can_animate():
            self._status = console(err=True).status("Thinking …")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pause()
        self._end_line()
        self._warnings.end()

    def show(self, update: Update) -> None:
        """Show one update."""
        match update:
            case TextWritten():
                self._write(update.text)
            case ToolStarted():
                self._calls[update.id] = format_call(update.name, update.arguments)
                self._wait(f"{one_line(update.name, 60)} …")
            case ToolEnded():
                self._show_outcome(update)
            case Decided():
                self._note(f"◆ {format_decision(update.decision)}")
            case SkillsChanged():
                self.pill = format_pill(update.state)
                names = one_line(", ".join(str(skill["slug"]) for skill in update.state["enabled_skills"]), 120)
                self._note(f"  {self.pill}  {names}".rstrip())
            case ApprovalNeeded():
                about = self._calls.pop(update.id, "") or f"{update.approval['action']} {update.approval['slug']}"
                self._note(f"? {one_line(about)} needs an approval", color="yellow")
            case HelperUpdated():
                self._show_helper(update.role, update.update)
            case TurnEnded():
                self._end(update)

    def _write(self, text: str) -> None:
        shown = clean(text)
        if not shown:
            return
        self._pause()
        if not self._in_line and self._noted:
            # Sets the answer apart from the lines about how it came to be.
            click.echo("", err=True)
            self._noted = False
        click.echo(shown, nl=False)
        self._wrote = True
        self._in_line = not shown.endswith("\n")

    def _show_helper(self, role: str, update: Mapping[str, Any]) -> None:
        """Show what an agent that was given a task does, marked with its role. Its text is no part of the answer."""
        if update["kind"] == "text":
            self._helper_texts[role] = self._helper_texts.get(role, "") + update["text"]
            return
        self._show_helper_texts(role)
        key, name = f"{role}:{update['id']}", update["name"]
        if update["kind"] == "tool_started":
            self._calls[key] = format_call(name, update["arguments"])
            self._wait(one_line(f"{role}: {name} …", 80))
        else:
            call = self._calls.pop(key, format_call(name, {}))
            outcome = format_outcome(call, update["data"], ok=update["ok"])
            self._print_line(f"  {one_line(role, 40)} {outcome}")

    def _show_helper_texts(self, *roles: str) -> None:
        for role in roles:
            if text := one_line(self._helper_texts.pop(role, ""), _line_width()):
                self._note(f"  {one_line(role, 40)}: {text}")

    def _show_outcome(self, update: ToolEnded) -> None:
        self._show_helper_texts(*self._helper_texts)
        call = self._calls.pop(update.id, format_call(update.name, {}))
        self._print_line(format_outcome(call, update.data, ok=update.ok))

    def _print_line(self, line: str) -> None:
        self._pause()
        self._end_line()
        self._noted = True
        click.echo(line, err=True)
        self._wait("Thinking …")

    def _end(self, ended: TurnEnded) -> None:
        self.ended = ended
        self._pause()
        self._end_line()
        if ended.text and not self._wrote:
            click.echo(clean(ended.text).rstrip("\n"))
        error = ended.error or {}
        if error:
            words = f"{error.get('message', '')} {error.get('hint') or ''}"
            label = click.style(f"{ended.state.capitalize()}: ", fg="red", bold=True)
            click.echo(f"{label}{one_line(words, _MAX_ERROR_CHARS)}", err=True)
        click.secho(f"\n{format_end(ended, self.pill)}", dim=True, err=True)

    def _note(self, line: str, *, color: str | None = None) -> None:
        self._pause()
        self._end_line()
        self._noted = True
        click.secho(line, fg=color, dim=color is None, err=True)
        self._wait("Thinking …")

    def _end_line(self) -> None:
        if self._in_line:
            click.echo("")
            self._in_line = False

    def _wait(self, words: str) -> None:
        if self._status is not None:
            self._status.update(words)
            self._status.start()

    def _pause(self) -> None:
        if self._status is not None:
            self._status.stop()


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
    value = json_value(text)
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
