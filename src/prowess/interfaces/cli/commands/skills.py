"""`prowess list`, `show` and `skills`: the available skills, one skill in detail, and how often they are used."""

from __future__ import annotations

import base64
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

import click

from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import Period, command, describe_no_skills
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_table, print_wrapped
from prowess.interfaces.cli.prompt_size import note_too_long, read_prompt_limit
from prowess.interfaces.cli.skill_scores import read_skill_scores, score_json
from prowess.view import to_json, usage_json

if TYPE_CHECKING:
    from prowess.catalog.scans import FindingRow
    from prowess.catalog.store import Fault, SearchDocument
    from prowess.feed.usage import SkillUsage, UsageReport
    from prowess.interfaces.cli.skill_scores import Scores
    from prowess.open import Prowess
    from prowess.skill.model import Skill, SkillCard


SCANNED_AT_ONCE = 40
"""How many skills one `prowess list` scans; more would be felt."""
_REPORTED_AT_ONCE = ("slug-conflict", "store-unavailable")
_CONFLICTS_LISTED = 5
_USAGE_NAMES = 10
SCOPES = ("session", "workspace", "user", "org", "account", "system")


@command("list", "prowess list", "prowess list release notes", "prowess list --tag writing --json")
@click.argument("words", nargs=-1, metavar="[WORDS]...")
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (repeatable).")
@click.option("--scope", type=click.Choice(SCOPES), help="Only skills of this scope.")
@common_options
def list_command(words: tuple[str, ...], tags: tuple[str, ...], scope: str | None, cli: Cli) -> None:
    """List the skills available here, or those that contain all WORDS.

    If several scopes have a skill with the same slug, the nearest one is listed. `--scope system` lists the built-in role
    packs, which `prowess role NAME` prints.
    """

    async def work(prowess: Prowess) -> tuple[list[SkillCard], list[Fault], dict[str, int], int, Scores]:
        cards, faults = await prowess.skills.look()
        dangers = await prowess.skills.dangers(cards, scan=SCANNED_AT_ONCE)
        limit = await read_prompt_limit(prowess, [card.chars for card in cards])
        return cards, faults, dangers, limit, await read_skill_scores(prowess)

    with spinner("Reading skills …"):
        cards, faults, dangers, limit, scores = cli.call(work, quick=True)
    folded = [word.casefold() for word in words]
    chosen = [
        card for card in cards if card.has_tags(tags) and scope in (None, card.scope) and _has_words(card, folded)
    ]
    is_all = scope is None and not tags and not words
    if cli.as_json:
        chosen = [card for card in chosen if not (is_all and is_role_pack(card))]
        rows = [
            {**to_json(card), "dangers": dangers.get(card.digest), "score": score_json(scores, card)} for card in chosen
        ]
        print_json(rows)
    elif is_all:
        _print_all(chosen, dangers, limit, scores, faults)
    else:
        _print_cards(chosen, dangers, limit, scores)
    known = [tag for card in cards for tag in card.tags]
    for tag in dict.fromkeys(tags):
        if not any(card.has_tags([tag]) for card in cards):
            from prowess.interfaces.cli.usage_messages import print_unknown_tag

            print_unknown_tag(tag, known)
    warn_faults(faults)


def _has_words(card: SkillCard, words: Sequence[str]) -> bool:
    """Return True if every word occurs in the slug, title, description or tags."""
    text = " ".join((card.slug, card.title, card.description, *card.tags)).casefold()
    return all(word in text for word in words)


def _print_all(
    cards: list[SkillCard], dangers: dict[str, int], limit: int, scores: Scores, faults: Sequence[Fault]
) -> None:
    """Print the skills that are matched with messages, then the names of the built-in role packs."""
    packs = [card for card in cards if is_role_pack(card)]
    own = [card for card in cards if not is_role_pack(card)]
    if own:
        _print_cards(own, dangers, limit, scores)
    elif any(problem.code == "store-unavailable" for fault in faults for problem in fault.problems):
        click.echo("No skills could be read.")
    else:
        click.echo(describe_no_skills())
    if packs:
        click.echo("")
        print_wrapped(
            f"{len(packs)} built-in role packs: {', '.join(card.slug for card in packs)}. "
            "`prowess role NAME` prints one for an agent with that role; `prowess match` does not search them."
        )


def is_role_pack(card: SkillCard | SearchDocument) -> bool:
    """Return True for a role pack that comes with Prowess."""
    from prowess.engine import places

    return places.is_role_pack(card.scope, card.slug)


def _print_cards(cards: list[SkillCard], dangers: dict[str, int], limit: int, scores: Scores) -> None:
    if not cards:
        click.echo("No matching skill. `prowess list` shows all skills.")
        return
    known = [scores.get((card.slug, card.digest)) for card in cards]
    rows = [
        (
            one_line(card.slug, 48),
            f"{'[DANGER] ' if dangers.get(card.digest) else ''}{one_line(card.description)}",
            *((f"{score.score:.0f}" if score else "",) if any(known) else ()),
            one_line(card.version, 16),
            _format_scope(card),
        )
        for card, score in zip(cards, known, strict=True)
    ]
    head = ("slug", "description", *(("score",) if any(known) else ()), "version", "scope")
    print_table(head, rows, flexible=1, optional=("version", "scope"))
    click.echo(f"\n{len(cards):,} skill{'s' if len(cards) != 1 else ''}. `prowess show SLUG` shows one.")
    found = sum(card.trust == "found" for card in cards)
    if found:
        click.echo(f"{found} not accepted yet (found). `prowess trust` shows what they can do and asks once.")
    synced = sum(card.trust == "synced" for card in cards)
    if synced:
        click.echo(f"{synced} from sources, not accepted yet (synced). `prowess trust SLUG` shows one and asks.")
    _note_dangers(cards, dangers)
    note_too_long([(card.slug, card.chars) for card in cards], limit)


def _note_dangers(cards: list[SkillCard], dangers: dict[str, int]) -> None:
    grave = sum(bool(dangers.get(card.digest)) for card in cards)
    unknown = sum(card.digest not in dangers for card in cards)
    if grave:
        click.echo(f"{grave} with dangerous findings. `prowess show SLUG` lists them.")
    if unknown:
        click.echo(f"{unknown:,} not scanned yet. Each `prowess list` scans {SCANNED_AT_ONCE} more.")


def _format_scope(card: SkillCard) -> str:
    notes = [] if card.enabled else ["off"]
    notes += ["people only"] if card.people_only else []
    notes += [card.trust] if card.trust not in ("", "local") else []
    notes += [f"hides {', '.join(other.scope for other in card.hides)}"] if card.hides else []
    return f"{card.scope} ({'; '.join(notes)})" if notes else card.scope


def warn_faults(faults: Sequence[Fault]) -> None:
    """Say on stderr which skills and folders could not be read, and how many there are besides."""
    # Two skills of one name are reported at once, because the wrong one may be used, and so is a database that cannot be
    # reached, because skills are listed as off without its settings. `doctor` reports everything else.
    grave = [problem for fault in faults for problem in fault.problems if problem.code in _REPORTED_AT_ONCE]
    for problem in grave[:_CONFLICTS_LISTED]:
        hint = "" if problem.code == "slug-conflict" else f" {problem.hint}"
        click.echo(clean(f"{problem.message}{hint}"), err=True)
    count = len(faults) - min(len(grave), _CONFLICTS_LISTED)
    if count:
        things = "1 skill or folder" if count == 1 else f"{count} skills or folders"
        click.echo(f"Could not read {things}. `prowess doctor` shows why.", err=True)


def warn_conflicts(cli: Cli, slugs: Collection[str]) -> None:
    """Say on stderr which of these skills are stored, but not available, because another skill of the scope has the slug."""
    faults = cli.call(lambda prowess: prowess.skills.faults())
    for problem in (problem for fault in faults if fault.slug in slugs for problem in fault.problems):
        if problem.code == "slug-conflict":
            click.echo(clean(problem.message), err=True)


@command("show", "prowess show my-skill", "prowess show my-skill SKILL.md", "prowess show account:my-skill")
@click.argument("slug")
@click.argument("file", required=False)
@click.option("--reference", metavar="F", help="Print this reference file.")
@click.option("--script", metavar="F", help="Print this script.")
@click.option("--artifact", metavar="A", help="Print this artifact (NAME or NAME@VARIANT).")
@common_options
def show_command(
    slug: str, file: str | None, reference: str | None, script: str | None, artifact: str | None, cli: Cli
) -> None:
    """Show one skill, or one of its files or artifacts.

    Use SCOPE:SLUG for a skill that a nearer scope hides.
    """
    names = [name for name in (file, reference, script, artifact) if name]
    if len(names) > 1:
        raise click.UsageError("FILE, --reference, --script and --artifact cannot be combined.")
    if names:
        kind = "file" if file else "reference" if reference else "script" if script else None
        _print_part(slug, names[0], kind, cli)
        return

    async def work(prowess: Prowess) -> tuple[Skill, SkillCard, tuple[FindingRow, ...], Scores]:
        skill = await prowess.skills.get(slug)
        cards = await prowess.skills.cards()
        card = next((card for card in cards if (card.slug, card.scope) == (skill.slug, skill.scope)), skill.card)
        return skill, card, await prowess.skills.findings(slug), await read_skill_scores(prowess)

    with spinner("Reading skills …"):
        skill, card, findings, scores = cli.call(work, quick=True)
    if cli.as_json:
        state = {"trust": card.trust, "enabled": card.enabled, "hides": to_json(card.hides)}
        print_json({**to_json(skill), **state, "findings": list(findings), "score": score_json(scores, skill)})
    else:
        score = scores.get((skill.slug, skill.digest))
        _print_skill(skill, card, findings, score.text if score else "")


def _print_part(slug: str, name: str, kind: Literal["file", "reference", "script"] | None, cli: Cli) -> None:
    async def work(prowess: Prowess) -> tuple[str, bytes]:
        if kind == "file":
            return name, await prowess.skills.read_file(slug, name)
        found, data = await prowess.skills.part(slug, name, kind=kind)
        return found.path or found.name, data

    path, data = cli.call(work)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if cli.as_json:
        content = {"content": text} if text is not None else {"base64": base64.b64encode(data).decode()}
        print_json({"slug": slug, kind or "artifact": name, "path": path, **content})
    elif not sys.stdout.isatty():
        # A pipe or file gets the exact bytes; only a terminal has to be protected from control characters.
        sys.stdout.buffer.write(data)
    else:
        click.echo(clean(data.decode(errors="replace")))


_OTHER_FILES = 20


def _print_skill(skill: Skill, card: SkillCard, findings: Sequence[FindingRow], score: str) -> None:
    from prowess.interfaces.cli.error_output import print_findings

    click.echo(f"{click.style(one_line(skill.title), bold=True)}  {skill.slug} {one_line(skill.version)}")
    print_wrapped(one_line(skill.description))
    facts = {
        "tags": ", ".join(skill.tags),
        "triggers": "; ".join((*skill.trigger_phrases, *skill.intent_patterns)),
        "author": skill.author,
        "license": skill.license,
        "allowed tools": " ".join(skill.allowed_tools),
        **_code_facts(skill),
        "scope": _format_scope(card),
        "form": skill.form,
        "location": escape_path(skill.location),
        "digest": skill.digest,
        "score": score,
    }
    click.echo()
    for name, value in facts.items():
        if value:
            print_wrapped(f"{name}: {one_line(str(value))}")
    if skill.artifacts:
        rows = [
            (
                one_line(f"{part.name}@{part.variant}" if part.variant else part.name),
                part.kind,
                escape_path(part.path or ""),
            )
            for part in skill.artifacts
        ]
        click.echo()
        print_table(("artifact", "kind", "file"), rows)
    if others := skill.other_files:
        more = f" and {len(others) - _OTHER_FILES:,} more" if len(others) > _OTHER_FILES else ""
        print_wrapped(f"\nother files: {one_line(', '.join(others[:_OTHER_FILES]), 2_000)}{more}")
    if any(row["severity"] != "info" for row in findings):
        click.echo("\nfindings")
        print_findings(findings, indent=2)
    if skill.body.strip():
        click.echo()
        click.echo(clean(skill.body).strip())


def _code_facts(skill: Skill) -> dict[str, str]:
    """Return facts about the code of a skill: its tool, its runtimes, and what it requests."""
    from prowess.skill.kinds import Function, kind_info
    from prowess.skill.needs import read_needs
    from prowess.skill.profiles.permissions import describe_needs
    from prowess.skill.slug import tool_name

    needs = read_needs(skill)
    functions = [artifact for artifact in skill.artifacts if isinstance(artifact, Function) and artifact.content]
    runtimes: list[str] = []
    if functions:  # importing the handler is slow, and most skills have no functions
        from prowess.handlers.function import choose_runtime

        runtimes = list(dict.fromkeys(choose_runtime(function, needs) for function in functions))
    return {
        "tool": tool_name(skill.slug) if any(kind_info(kind).is_tool for kind in skill.kinds) else "",
        "runtime": ", ".join(runtimes),
        "requests": "; ".join(describe_needs(needs, skill.kinds)),
    }


@command("skills", "prowess skills", "prowess skills --unused 30d", "prowess skills --usage 7d")
@click.option(
    "--unused", "--dead", type=Period(), metavar="PERIOD", help="Only skills not used for this long, for example 30d."
)
@click.option(
    "--usage",
    type=Period(),
    is_flag=False,
    flag_value="30d",
    metavar="[PERIOD]",
    help="Report on a period (default 30d): the core set, references that are loaded, and what can be retired.",
)
@click.option("--all", "system", is_flag=True, help="Include built-in role packs and skills of plugins.")
@common_options
def skills_command(unused: float | None, usage: float | None, system: bool, cli: Cli) -> None:
    """Show how often each skill was loaded and run, and when it was last used, longest unused first.

    `--unused 30d` lists the skills that were not loaded, enabled or run for 30 days: candidates for removal. `--usage` reports
    which skills and references agents load, and whether they converge on a core set.
    """
    if usage is not None:
        with spinner("Reading events …"):
            report = cli.call(lambda prowess: prowess.skills.usage(days=usage, system=system))
        cli.print(report, lambda: _print_report(report))
        return
    days = unused or 0.0
    with spinner("Reading skills …"):
        found = cli.call(lambda prowess: prowess.skills.unused(days=days, system=system))
    if cli.as_json:
        print_json([usage_json(card.slug, card.title, card.scope, use) for card, use in found])
    elif found:
        _print_usage(found, only_unused=unused is not None)
    else:
        click.echo("All skills were used in this period." if unused else "No skills here yet. Run `prowess init`.")


def _print_usage(found: list[tuple[SkillCard, SkillUsage]], *, only_unused: bool) -> None:
    rows = [
        (
            one_line(card.slug, 48),
            one_line(card.description),
            card.scope,
            f"{use.loads:,}",
            f"{use.runs:,}",
            use.last[:16].replace("T", " ") or "never",
        )
        for card, use in found
    ]
    head = ("slug", "description", "scope", "loads", "runs", "last used")
    print_table(head, rows, flexible=1, optional=("description", "scope"))
    count = f"{len(found)} skill{'s' * (len(found) != 1)}"
    click.echo(f"\n{count} not used in this period." if only_unused else f"\n{count}.")


def _print_report(report: UsageReport) -> None:
    period = f"the last {report.days:g} days"
    if report.loads:
        core = set(report.core)
        files = {slug: sum(one.loads for one in report.files if one.slug == slug) for slug, _ in report.skills}
        rows = [
            (one_line(slug, 48), f"{loads:,}", f"{files[slug]:,}", "yes" if slug in core else "")
            for slug, loads in report.skills
        ]
        print_table(("slug", "loads", "of files", "core set"), rows, flexible=0)
        sessions = (
            "" if report.core_sessions is None else f" {report.core_sessions:.0%} of the sessions used nothing else."
        )
        click.echo(
            f"\nCore set: {len(core)} of {len(rows)} used skills account for 80 % of the {report.loads:,} loads.{sessions}"
        )
    else:
        click.echo(f"No skill was loaded in {period}.")
    for file in report.files:
        times = f"{file.loads:,} time{'s' * (file.loads != 1)}"
        click.echo(f"  {one_line(file.slug, 48)}: {one_line(file.file, 80)} loaded {times}")
    if report.unused_files:
        names = [f"{file.slug}/{file.file}" for file in report.unused_files]
        print_wrapped(f"Never loaded although their skill was ({len(names):,}): {_name_some(names)}")
    if report.unused_skills:
        names = report.unused_skills
        print_wrapped(f"Not used in {period} ({len(names):,}): {_name_some(names)}")
        click.echo("Remove one with `prowess delete SLUG`. Add --json to list all of them.")


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _USAGE_NAMES:,} more" if len(names) > _USAGE_NAMES else ""
    return one_line(", ".join(names[:_USAGE_NAMES]), 400) + more
