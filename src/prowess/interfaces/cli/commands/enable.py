"""`prowess enable`: let a skill's text into the prompt of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.consent import with_consent
from prowess.interfaces.cli.opening import common_options, with_engine
from prowess.interfaces.cli.sessions import as_object, session_named, session_option, used

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.session.session import Session


@click.command("enable")
@click.argument("slug")
@click.option("--reason", default="", help="Why; whoever is asked to approve reads it.")
@session_option
@common_options
def command(slug: str, reason: str, session: str, workspace: str | None, as_json: bool) -> None:
    """Let a skill into the prompt of a conversation, within its budget and under the policy.

    `prowess prompt` then prints it; `prowess disable` takes it out again. Where the policy has a person asked, a terminal
    asks at once.
    """
    from prowess.interfaces.cli.printing import clean, print_json

    async def work(prowess: Prowess) -> tuple[Session, bool]:
        known = await session_named(prowess, session)
        if known is None:
            await prowess.skill(slug)  # a wrong slug begins no conversation
        before = await prowess.session(known.conversation if known else session)
        after = await prowess.enable(before, slug, reason=reason)
        return after, after.enabled != before.enabled

    held, is_new = with_consent(
        lambda: with_engine(workspace, work),
        workspace=workspace,
        question="Let exactly these bytes into the prompt?",
        as_json=as_json,
        refusal="You said no, so it was not enabled.",
    )
    if as_json:
        print_json(as_object(held))
    else:
        done = f"Enabled {clean(slug)}." if is_new else f"{clean(slug)} is enabled already."
        click.echo(f"{done} {used(held)}")
