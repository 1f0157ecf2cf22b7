"""`prowess prompt`: the system blocks of a conversation, ready to be sent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.opening import common_options, with_engine
from prowess.interfaces.cli.sessions import as_object, session_named, session_option

if TYPE_CHECKING:
    from prowess.build.opening import Prowess


@click.command("prompt")
@click.option("--policies", default="", metavar="TEXT", help="Standing policies, which come first.")
@click.option("--memory", default="", metavar="TEXT", help="Recalled facts.")
@click.option("--graph-context", default="", metavar="TEXT", help="Context from a graph.")
@click.option("--into", metavar="FILE", help="A prompt whose older blocks are replaced ('-' for standard input).")
@session_option
@common_options
def command(
    policies: str,
    memory: str,
    graph_context: str,
    into: str | None,
    session: str,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Print the prompt of a conversation: policies, memory, graph context, then the enabled skills.

    A skill whose files changed since it was enabled is there as it is now, if the policy lets it in again; else it leaves
    the conversation, and standard error says so.
    """
    from prowess.interfaces.cli.printing import clean, print_json

    text = _read(into) if into else ""
    parts = {"policies": policies, "memory": memory, "graph_context": graph_context}
    prompt, state, left = with_engine(workspace, lambda prowess: _assembled(prowess, session, text, parts))
    if as_json:
        print_json({"prompt": prompt, "session": state})
    elif prompt:
        shown = clean(prompt) if sys.stdout.isatty() else prompt
        click.echo(shown, nl=not shown.endswith("\n"))
    if state is None or not state["enabled_skills"]:
        click.echo(f"Nothing is enabled in {clean(session)!r}: `prowess enable SLUG` lets a skill in.", err=True)
    for slug in left:
        click.echo(f"{clean(slug)} may not be used any more, and left the prompt; `prowess audit` says why.", err=True)


async def _assembled(
    prowess: Prowess, name: str, text: str, parts: dict[str, Any]
) -> tuple[str, dict[str, Any] | None, list[str]]:
    """The prompt, the session if there is one, and the skills that have just left it."""
    from prowess.session.render import assemble, inject, joined

    held = await session_named(prowess, name)
    if held is None:
        blocks = assemble(**parts)
        return inject(text, blocks) if text else joined(blocks), None, []
    prompt = await prowess.prompt(held, into=text, **parts)
    after = await prowess.get_session(held)
    return prompt, as_object(after), [skill.slug for skill in held.enabled if not after.has(skill.slug)]


def _read(path: str) -> str:
    from prowess.errors import Invalid
    from prowess.interfaces.cli.printing import shown_path

    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    try:
        return data.decode("utf-8-sig").removesuffix("\n")  # the line end that printing gave it
    except UnicodeDecodeError as error:
        raise Invalid(f"{shown_path(path)} is not UTF-8 text.", hint="Give the prompt as UTF-8.") from error
