"""`prowess prompt`, `index`, `role` and `load`: text that goes into a model's prompt."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from prowess.errors import ApprovalRequired, Invalid, NotFound, ProwessError, Refused
from prowess.interfaces.cli.approval_card import ask_for_approval, ask_person
from prowess.interfaces.cli.commands.sessions import DEFAULT_SESSION, find_session, session_option
from prowess.interfaces.cli.engine import Cli, common_options, user_environment
from prowess.interfaces.cli.options import command, describe_no_skills, read_message
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json
from prowess.suggestions import did_you_mean
from prowess.view import session_json

AGENTS = ("claude-code", "codex", "gemini-cli")
"""Agents of other makers that can be started with the prompt of a role."""

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.session.role_prompt import RolePrompt


@command("prompt", "prowess prompt", 'prowess prompt --session review --policies "Answer in English."')
@click.option("--policies", default="", metavar="TEXT", help="Policies, placed first.")
@click.option("--memory", default="", metavar="TEXT", help="Recalled facts.")
@click.option("--graph-context", default="", metavar="TEXT", help="Context from a graph.")
@click.option("--into", metavar="FILE", help="Prompt file whose blocks are replaced ('-' for stdin).")
@session_option
@common_options
def prompt_command(policies: str, memory: str, graph_context: str, into: str | None, session: str, cli: Cli) -> None:
    """Print the prompt of a conversation: policies, memory, graph context, then the enabled skills.

    A skill whose files changed since it was enabled is included with its current content if the policy allows it. Otherwise it is
    disabled, and a message on stderr says so.
    """
    text = _read_prompt(into) if into else ""
    parts = {"policies": policies, "memory": memory, "graph_context": graph_context}

    def assemble() -> tuple[str, dict[str, Any] | None, list[str]]:
        return cli.call(lambda prowess: _assemble_prompt(prowess, session, text, parts), quick=True)

    prompt, state, left = assemble()
    if left and not cli.as_json and _let_in_again(left, session, cli):
        prompt, state, _ = assemble()
        back = {skill["slug"] for skill in state["enabled_skills"]} if state else set[str]()
        left = [slug for slug in left if slug not in back]
    if cli.as_json:
        print_json({"prompt": prompt, "session": state})
    elif prompt:
        shown = clean(prompt) if sys.stdout.isatty() else prompt
        click.echo(shown, nl=not shown.endswith("\n"))
    if state is None or not state["enabled_skills"]:
        option = "" if session == DEFAULT_SESSION else f" --session {shlex.quote(clean(session))}"
        click.echo(
            f"No skills are enabled in {clean(session)!r}. Run `prowess enable SLUG{option}` to add one.", err=True
        )
    for slug in left:
        click.echo(
            f"{clean(slug)} was removed from the prompt: it was deleted, or is no longer allowed. `prowess audit` shows why.",
            err=True,
        )


async def _assemble_prompt(
    prowess: Prowess, name: str, text: str, parts: dict[str, Any]
) -> tuple[str, dict[str, Any] | None, list[str]]:
    """Return the prompt, the session as JSON (None if there is none), and the skills that had to leave it.

    Side effect: a skill that the policy no longer allows is disabled in the session.
    """
    from prowess.session.prompt import assemble_blocks, join_blocks, replace_blocks

    before = await find_session(prowess, name)
    if before is None:
        blocks = assemble_blocks(**parts)
        return replace_blocks(text, blocks) if text else join_blocks(blocks), None, []
    prompt = await prowess.prompt(before, into=text, **parts)
    after = await prowess.sessions.get(before)
    return prompt, session_json(after), [skill.slug for skill in before.enabled if not after.has(skill.slug)]


def _let_in_again(left: list[str], session: str, cli: Cli) -> bool:
    """Ask the person at the terminal about skills that changed and left the prompt. Return True if one is back."""
    from prowess.interfaces.cli.person import at_terminal

    if not at_terminal():
        return False
    waiting = cli.call(lambda prowess: prowess.approvals.list())
    back = False
    for slug in left:
        request = next((row for row in waiting if row.slug == slug and row.action == "enable"), None)
        if request is not None and ask_person(request.id, cli, "Add exactly these bytes to the prompt?"):
            cli.call(lambda prowess, slug=slug: prowess.enable(slug, session=session))
            back = True
    return back


def _read_prompt(path: str) -> str:
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    try:
        return data.decode("utf-8-sig").removesuffix("\n")  # `prowess prompt` added this line end when printing
    except UnicodeDecodeError as error:
        raise Invalid(f"{escape_path(path)} is not UTF-8 text.", hint="Convert it to UTF-8 first.") from error


@command("index", "prowess index", 'prowess index "review this pull request" --budget 4000')
@click.argument("words", nargs=-1, metavar="[MESSAGE]")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    metavar="N",
    help="Maximum characters (default: 2 % of the window, or 8,000).",
)
@click.option("--session", "-s", default="", metavar="NAME", help="Use the context window of this conversation.")
@common_options
def index_command(words: tuple[str, ...], budget: int | None, session: str, cli: Cli) -> None:
    """Print the list of available skills for a system prompt, within a budget.

    With a MESSAGE ('-' for stdin), the skills that fit it best keep their descriptions.
    """
    message = read_message(words) if words else ""
    plan = cli.call(lambda prowess: prowess.index(message, session=session, budget=budget), quick=True)
    if cli.as_json:
        entries = [{"slug": entry.slug, "form": entry.form} for entry in plan.entries]
        print_json({"text": plan.text, "chars": plan.chars, "omitted": plan.omitted, "entries": entries})
    elif plan.text:
        click.echo(clean(plan.text) if sys.stdout.isatty() else plan.text)
    elif plan.omitted:
        click.echo(
            f"The budget is too small to list any of the {plan.omitted} skills. Use a larger --budget.", err=True
        )
    else:
        click.echo(describe_no_skills(), err=True)


@command(
    "role",
    "prowess role reviewer",
    "prowess role my-role --templates . --value team=Core",
    'prowess role qa --for claude-code -- claude -p "Test the login page"',
)
@click.argument("name")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--for", "agent", type=click.Choice(AGENTS), help="Start this agent with the prompt of the role.")
@click.option(
    "--templates",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with your own packs (DIR/skills/ROLE) and older templates (DIR/roles/ROLE).",
)
@click.option(
    "--value",
    "values",
    multiple=True,
    metavar="NAME=TEXT",
    help="Value for a template: NAME=TEXT, NAME:=JSON or NAME=@FILE (repeatable).",
)
@common_options
def role_command(
    name: str, program: tuple[str, ...], agent: str | None, templates: Path | None, values: tuple[str, ...], cli: Cli
) -> None:
    """Print the prompt of a role: the index of skills, then the role's pack.

    Without a pack, prints the older template of the role, or one sentence. `prowess list --scope system` lists the built-in
    packs. `--for` starts another agent, such as Claude Code, with this prompt; COMMAND is its command line, by default
    only its program.
    """
    from prowess.interfaces.cli.run_attempt import read_inputs

    if program and agent is None:
        raise click.UsageError(f"To start an agent, say which one: --for {AGENTS[0]}.")
    template_values = read_inputs(values)

    async def work(prowess: Prowess) -> tuple[RolePrompt, str]:
        found = await prowess.roles.prompt(name, templates=templates, values=template_values)
        cards = await prowess.skills.cards() if found.source == "stub" else []
        return found, did_you_mean(name, [card.slug for card in cards if card.scope == "system"], count=1)

    prompt, meant = cli.call(work)
    if prompt.source == "stub" and not cli.as_json:
        hint = meant or "`prowess list --scope system` lists the built-in packs."
        click.echo(f"No pack or template for this role. {hint}", err=True)
    if agent is not None and not cli.as_json:
        _start_agent(agent, prompt.text, program)
    if cli.as_json:
        print_json(prompt)
    else:
        click.echo(clean(prompt.text) if sys.stdout.isatty() else prompt.text)
        if prompt.note:
            click.echo(clean(prompt.note), err=True)


def _start_agent(agent: str, prompt: str, command: Sequence[str]) -> NoReturn:
    """Replace this process by the agent. Raise `NotFound` if its program is not installed.

    Claude Code appends the prompt to its own, Codex takes it as developer instructions, and Gemini CLI reads it from a
    file instead of its own.
    """
    import shutil
    import tempfile

    from prowess.agent.spawn import find_agent, toml_string

    row = find_agent(agent)
    program, *rest = command or [row.program]
    path = shutil.which(program)
    if path is None:
        raise NotFound(f"The program {program!r} is not installed, or not on PATH.", hint=f"Install it: {row.install}")
    environment = user_environment()
    options: list[str] = []
    if agent == "claude-code":
        options = ["--append-system-prompt", prompt]
    elif agent == "codex":
        options = ["-c", f"developer_instructions={toml_string(prompt)}"]
    else:
        # Only this user can read the file. It stays: the agent reads it after this process is gone.
        descriptor, environment["GEMINI_SYSTEM_MD"] = tempfile.mkstemp(prefix="prowess-role-", suffix=".md")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(prompt)
    os.execve(path, [program, *options, *rest], environment)  # noqa: S606  (no shell is wanted)


@command("load", "prowess load my-skill", "prowess load my-skill --reference guide.md")
@click.argument("name", metavar="SLUG")
@click.option("--reference", metavar="F", help="Load this reference file instead of the instructions.")
@click.option("--script", metavar="F", help="Load the text of this script instead of the instructions.")
@common_options
def load_command(name: str, reference: str | None, script: str | None, cli: Cli) -> None:
    """Load the instructions of a skill, or a reference, a script or both, as the tool `load_skill` does.

    Unlike `prowess show`, this checks the policy and records an event.
    """
    from prowess.interfaces.cli.error_output import exit_code

    async def work(prowess: Prowess) -> tuple[dict[str, Any], ProwessError | None]:
        answer = await prowess.load(name, reference=reference, script=script)
        error = await _error_of_answer(prowess, answer, reference, script)
        if isinstance(error, ApprovalRequired) and not cli.as_json:
            raise error
        return answer, error

    answer, error = ask_for_approval(
        cli,
        lambda: cli.call(work, quick=True),
        question="Load exactly these bytes?",
        refusal="Not loaded: you denied the request.",
    )
    if cli.as_json:
        print_json(answer)
        if error is not None:
            raise click.exceptions.Exit(exit_code(error))
        return
    if error is not None:
        raise error
    if answer.get("note"):
        click.echo(clean(answer["note"]), err=True)
    for key in ("body", "reference_content", "script_content"):
        if answer[key] is not None:
            shown = clean(answer[key]) if sys.stdout.isatty() else answer[key]
            click.echo(shown, nl=not shown.endswith("\n"))
    _print_other_files(answer["available_references"], answer["available_scripts"])


async def _error_of_answer(
    prowess: Prowess, answer: dict[str, Any], reference: str | None, script: str | None
) -> ProwessError | None:
    """Return the error that an answer of `load` reports as text, or None if it reports none.

    The answer has no error code, so the skill is looked up again to choose the exit code.
    """
    if answer["error"] is None:
        return None
    if answer.get("approval_id"):
        return ApprovalRequired(answer["error"], approval_id=answer["approval_id"], hint=answer.get("hint") or "")
    parts = {(name, kind) for name, kind in ((reference, "reference"), (script, "script")) if name is not None}
    try:
        # The answer lists no files where nothing of the skill may be shown, and none from a server.
        skill = await prowess.skills.get(answer["name"])
        is_there = parts <= {(artifact.name, artifact.kind) for artifact in skill.artifacts}
        kind: type[ProwessError] = Refused if is_there else NotFound
    except ProwessError as error:
        kind = type(error)
    return kind(answer["error"], hint=answer.get("hint") or "")


def _print_other_files(references: list[str], scripts: list[str]) -> None:
    for kind, names in (("reference", references), ("script", scripts)):
        if names and sys.stdout.isatty():
            click.echo(f"Load another file with --{kind}: {one_line(', '.join(names))}", err=True)
