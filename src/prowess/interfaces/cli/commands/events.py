"""`prowess events` and `audit`: the event log and the audit log."""

from __future__ import annotations

import textwrap
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import click

from prowess.events import EVENT_NAMES, EVENTS_PRUNED, Event
from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import DefaultGroup, command, delegate_to_subcommand, group, limit_option
from prowess.interfaces.cli.output import clean, one_line, print_json, print_json_line, print_table
from prowess.interfaces.cli.server import require_this_machine
from prowess.storage.driver_errors import reading

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.policy.account import Answer, SkillAccount, SkillBytes
    from prowess.storage.audit_chain import AuditVerdict
    from prowess.storage.ledger import AuditRow


T = TypeVar("T")
ReadAfter = Callable[[int, int], Awaitable[Sequence[T]]]
"""Reads entries of a log. Arguments: read those after this number, and at most this many."""

_WINDOW_GROWTH = 4
_EXPORT_ROWS = 500


async def read_latest(read: ReadAfter[T], limit: int, *, last: int) -> Sequence[T]:
    """Return the last `limit` entries of a log, oldest first. `last` is the number of its newest entry.

    `read` may filter entries out, so the window of numbers grows until there are enough entries or the log starts.
    """
    window = limit
    while True:
        after = max(0, last - window)
        found = await read(after, window)
        if len(found) >= limit or after == 0:
            return found[-limit:]
        window *= _WINDOW_GROWTH


@command("events", "prowess events", "prowess events --follow --name skill_loaded", "prowess events --after 120 --json")
@click.option("--after", type=click.IntRange(min=0), metavar="N", help="Only events after this number, oldest first.")
@click.option(
    "--name", "names", multiple=True, type=click.Choice(EVENT_NAMES), help="Only events with this name (repeatable)."
)
@limit_option("events")
@click.option("--follow", "-f", is_flag=True, help="Print new events until interrupted.")
@common_options
def events_command(after: int | None, names: tuple[str, ...], limit: int, follow: bool, cli: Cli) -> None:
    """Show the latest events, oldest first: skills loaded, enabled and run, approvals requested and answered.

    With --json, prints one JSON object per line. With --follow, prints new events of all processes as they happen. Add
    --after N to print the events after N first, so you miss none.
    """
    if follow:
        try:
            cli.call(lambda prowess: _follow_events(prowess, after, names, cli))
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        return
    found = cli.call(lambda prowess: _read_events(prowess, after, names, limit), quick=True)
    if cli.as_json:
        for event in found:
            print_json_line(event)
    elif found:
        rows = [_event_cells(event) for event in found]
        head = ("no.", "when", "event", "skill", "status", "detail")
        print_table(head, rows, flexible=5, optional=("no.", "detail"))
    else:
        click.echo("No events yet." if not after and not names else "No matching events.")


async def _read_events(prowess: Prowess, after: int | None, names: tuple[str, ...], limit: int) -> Sequence[Event]:
    if after is not None:
        return await prowess.events.list(after=after, limit=limit, names=names)
    last = await prowess.events.last()
    return await read_latest(
        lambda after, limit: prowess.events.list(after=after, limit=limit, names=names), limit, last=last
    )


async def _follow_events(prowess: Prowess, after: int | None, names: tuple[str, ...], cli: Cli) -> None:
    async with aclosing(prowess.events.follow(after=after, names=names)) as events:
        async for event in events:
            _print_event(event, cli)


def _print_event(event: Event, cli: Cli) -> None:
    if cli.as_json:
        print_json_line(event)
    else:
        click.echo("  ".join(cell for cell in _event_cells(event) if cell))


def _event_cells(event: Event) -> tuple[str, ...]:
    with reading(f"The data of the event {event.number}"):
        skill, status, detail = _describe_event(event)
    return (
        str(event.number),
        format_time(event.at),
        event.name,
        one_line(skill, 40),
        one_line(status, 24),
        one_line(detail, 160),
    )


def _describe_event(event: Event) -> tuple[str, str, str]:
    """Return the skill that an event is about, its status, and details."""
    data = event.data
    if event.name == EVENTS_PRUNED:
        return "", "", f"events {data['after'] + 1:,} to {event.number:,} are no longer kept"
    if event.name == "skills_state_changed":
        enabled = [skill["slug"] for skill in data["enabled_skills"]]
        budget = f"{data['budget_used_chars']:,} of {data['budget_max_chars']:,} characters"
        return ", ".join(enabled) or "none", f"{len(enabled)} enabled", budget
    if event.name == "approval_required":
        return data["skill"]["slug"], "pending", f"requested by {data['requester']} ({data['approval_id'][:8]})"
    if event.name == "approval_resolved":
        by = f"by {data['resolver']} " if data["resolver"] else ""
        return data["skill"]["slug"], data["outcome"], f"{by}({data['approval_id'][:8]})"
    part = data.get("reference") or data.get("script") or data.get("artifact") or ""
    status = data.get("status") or data.get("state") or ("failed" if data.get("error") else "ok")
    if event.name == "run_started":
        status = "running"
    return data.get("name") or data.get("skill") or "", status, f"{part} {data.get('error') or ''}".strip()


class _AuditGroup(DefaultGroup):
    default = "skill"


_org_option = click.option(
    "--org", "organization", default="", metavar="ID", help="Organization whose log to show (for operators)."
)


async def _of_organization(prowess: Prowess, organization: str) -> Prowess:
    """Return the engine for one organization. Raise `NotFound` if there is none of this id."""
    if not organization:
        return prowess
    require_this_machine("audit --org", "A server shows the log of the organization that the token belongs to.")
    await prowess.organizations.get(organization)
    return prowess.as_actor(organization=organization)


@group(
    "audit",
    "prowess audit",
    "prowess audit my-skill",
    "prowess audit verify",
    cls=_AuditGroup,
    invoke_without_command=True,
)
@click.option("--after", type=click.IntRange(min=0), metavar="N", help="Only rows after this number, oldest first.")
@limit_option("rows")
@_org_option
@common_options
def audit_command(after: int | None, limit: int, organization: str, cli: Cli) -> None:
    """Show the latest decisions about skills: who decided, on which bytes, and the outcome.

    `prowess audit SLUG` shows who accepted a skill.
    """
    if delegate_to_subcommand(cli):
        return
    rows = cli.call(lambda prowess: _read_audit(prowess, after, limit, organization), quick=True)
    cli.print_table(
        rows,
        ("no.", "when", "actor", "action", "skill", "status", "digest", "reason"),
        lambda row: (
            str(row.number),
            format_time(row.at),
            one_line(row.actor, 24),
            row.action,
            one_line(row.slug, 40),
            one_line(row.outcome, 24),
            row.digest[:12],
            one_line(_audit_reason(row)),
        ),
        flexible=7,
        optional=("digest", "no.", "actor"),
        empty="No later decisions." if after else "No decisions yet.",
    )


async def _read_audit(prowess: Prowess, after: int | None, limit: int, organization: str) -> Sequence[AuditRow]:
    prowess = await _of_organization(prowess, organization)
    if after is not None:
        return await prowess.audit.rows(after=after, limit=limit)
    last = await prowess.audit.last()
    return await read_latest(lambda after, limit: prowess.audit.rows(after=after, limit=limit), limit, last=last)


def _audit_reason(row: AuditRow) -> str:
    detail = row.detail
    if "setting" in detail:
        return f"{detail['setting']}: {detail.get('before')} -> {detail.get('after')}"
    origin = str(detail.get("path") or detail.get("source") or "")
    if row.slug:
        return str(detail.get("why") or detail.get("note") or origin)
    # What the row is about: a user, a token and its user, an organization, or a source, or skills and where they are from.
    about = " of ".join(str(detail[key]) for key in ("name", "user") if detail.get(key))
    about = about or ", ".join(detail.get("names") or ()) or origin
    granted = ", ".join(detail.get("permissions") or detail.get("scopes") or ())
    return str(detail.get("why") or detail.get("note") or ": ".join(part for part in (about, granted) if part))


@audit_command.subcommand("skill", "prowess audit skill my-skill", "prowess audit skill my-skill --json")
@click.argument("slug")
@common_options
def audit_skill(slug: str, cli: Cli) -> None:
    """Show who accepted a skill: when, through which channel, with which proof, and what they were shown.

    Also lists the prompts and runs that use each version of its bytes.
    """
    account = cli.call(lambda prowess: prowess.audit.skill(slug), quick=True)
    cli.print(account, lambda: _print_account(account))


_SHOWN_USES = 5
"""The most prompts and runs that are listed for one digest; `--json` has all."""


def _print_account(account: SkillAccount) -> None:
    """Print an account, the current bytes first."""
    click.secho(one_line(account.slug), bold=True)
    for label, text in (("location", account.location), ("trust", account.trust), ("standing", account.standing)):
        if text:
            click.echo(f"{label.ljust(10)}{one_line(text)}")
    for content in account.contents:
        _print_content(content)
    if not any(content.answers for content in account.contents):
        click.echo("\nNo decisions about this skill yet.")


def _print_content(content: SkillBytes) -> None:
    click.echo("")
    click.secho(f"sha256 {content.digest[:16]}{' (current)' if content.current else ''}", bold=True)
    for answer in content.answers:
        _print_answer(answer)
    for use in content.prompts[:_SHOWN_USES]:
        # Every folder has its own default conversation, which the records tell apart by its path.
        name = use.conversation.replace("default:", "default in ", 1)
        click.echo(f"  in prompt   {one_line(name, 200)}, enabled by {one_line(use.by)}, {format_time(use.at)}")
    for run in content.runs[:_SHOWN_USES]:
        click.echo(
            f"  run         {run.trace_id[:8]}, {one_line(run.artifact, 40)} by {one_line(run.by)}, "
            f"{format_time(run.at)}, {run.status}"
        )
    left = len(content.prompts[_SHOWN_USES:]) + len(content.runs[_SHOWN_USES:])
    if left:
        click.echo(f"  … and {left} more prompts and runs; --json lists all")


def _print_answer(answer: Answer) -> None:
    way = f" through {answer.channel}" if answer.channel else ""
    proof = f" ({answer.proof})" if answer.proof else ""
    click.echo(one_line(f"{answer.how} by {answer.by}, {format_time(answer.at)}{way}{proof}: {answer.state}"))
    if answer.requester:
        channel = f" through {answer.asked_through}" if answer.asked_through else ""
        click.echo(f"  requester   {one_line(f'{answer.requester} to {answer.action}{channel}')}")
    if answer.note:
        click.echo(f"  note        {one_line(answer.note)}")
    if answer.shown_ok is None:
        click.echo("  shown       no text was recorded")
        return
    whole = "the text below" if answer.shown_ok else "WARNING: the stored text differs from the text that was shown"
    click.echo(f"  shown       {whole}")
    click.echo(textwrap.indent(clean(answer.shown), "    | "))


@audit_command.subcommand("export", "prowess audit export > audit.jsonl", "prowess audit export --after 1200")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Only rows after this number.")
@_org_option
@common_options
def export_audit(
    after: int,
    organization: str,
    cli: Cli,
) -> None:
    """Print every row with its hash, oldest first, one JSON object per line. Do this before old rows are pruned."""
    cli.call(lambda prowess: _export_rows(prowess, after, organization))


async def _export_rows(prowess: Prowess, after: int, organization: str) -> None:
    prowess = await _of_organization(prowess, organization)
    while rows := await prowess.audit.rows(after=after, limit=_EXPORT_ROWS):
        for row in rows:
            print_json_line(row)
        after = rows[-1].number


@audit_command.subcommand("verify", "prowess audit verify", "prowess audit verify --head 9c56f0")
@click.option(
    "--head", default="", metavar="HASH", help="Last hash that you stored elsewhere; detects rows removed from the end."
)
@_org_option
@common_options
def verify_audit(head: str, organization: str, cli: Cli) -> None:
    """Verify the hash chain: whether any row was changed, removed, added or moved.

    The chain alone does not show that rows were removed from its end. To detect that as well, store the printed head
    elsewhere and pass it with --head. Each organization has its own log and head.
    """

    async def work(prowess: Prowess) -> AuditVerdict:
        return await (await _of_organization(prowess, organization)).audit.verify(head=head)

    verdict = cli.call(work, quick=True)
    if cli.as_json:
        print_json(verdict)
    elif verdict.ok:
        rows = "1 row" if verdict.rows == 1 else f"{verdict.rows:,} rows"
        click.echo(f"{rows} verified, no changes. Head: {verdict.head}" if verdict.rows else "The audit log is empty.")
        if verdict.pruned:
            click.echo(f"Rows 1 to {verdict.pruned:,} were pruned, as the log records.")
    else:
        place = f" at row {verdict.first_bad}" if verdict.first_bad else ""
        click.echo(f"The audit log was changed{place}: {clean(verdict.problem)}")
    if not verdict.ok:
        raise click.exceptions.Exit(1)
