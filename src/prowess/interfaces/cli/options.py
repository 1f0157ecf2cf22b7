"""Command classes, option types and arguments that the commands share."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from click.core import ParameterSource

from prowess.errors import Invalid, NotFound, ProwessError
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.output import clean
from prowess.interfaces.cli.server import chosen_server

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.open import Prowess

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write the examples of a command, each on its own line that is never wrapped."""
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class Command(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples."""
        write_examples(formatter, self.examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. An option of the program itself fails with the place where it belongs."""
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _PROGRAM_OPTIONS:
                raise
            example = f"prowess {error.option_name} … {' '.join(ctx.command_path.split()[1:])} …"
            raise click.UsageError(f"{error.option_name} belongs before the command: `{example}`.", ctx) from None
        except click.MissingParameter as error:
            from prowess.interfaces.cli.usage_messages import find_listing

            listing = find_listing(error.param, ctx)
            if not listing:
                raise
            raise click.UsageError(f"{error.format_message()} `{listing}` lists them.", ctx) from None
        except click.BadParameter as error:
            from prowess.interfaces.cli.usage_messages import plain_words

            message = plain_words(error.message)
            if message == error.message:
                raise
            raise click.BadParameter(message, error.ctx, error.param, error.param_hint) from None
        self._reject_empty_paths(ctx)
        return rest

    def _reject_empty_paths(self, ctx: click.Context) -> None:
        """Fail for an empty path, such as a variable of a script without a value. It would be the current folder."""
        for param in self.params:
            name = param.name or ""
            value = ctx.params.get(name)
            is_empty = value == "" or (isinstance(value, tuple) and "" in value)
            is_path = any(word in param.make_metavar(ctx) for word in _PATH_WORDS)
            if is_empty and is_path and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.BadParameter("It is empty.", ctx, param)


_PROGRAM_OPTIONS = ("--server", "--token-file")
_PATH_WORDS = ("DIR", "FILE", "LOCATION", "PATH", "TARGET")


class CommandGroup(click.Group):
    """A group whose help has examples, and a summary of every subcommand that is not cut off."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)
        self.runs = ""
        """The subcommand that runs if none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. An option of the subcommand that runs by default need not have its name before it."""
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            known = self.commands[self.runs].params if self.runs else ()
            if not any(error.option_name in option.opts for option in known):
                raise
            return super().parse_args(ctx, [self.runs, *args])

    def subcommand(self, name: str, *examples: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
        """Return a decorator that makes a subcommand with these examples."""
        return self.command(name, cls=Command, examples=examples, **attributes)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand. An unknown one fails with those that exist."""
        word = args[0]
        if word not in self.commands and not word.startswith("-") and not ctx.resilient_parsing:
            from prowess.suggestions import did_you_mean

            meant = did_you_mean(word, list(self.commands), count=1)
            ctx.fail(f"No such command {word[:40]!r}. {meant or 'Use one of: ' + ', '.join(self.commands) + '.'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the first sentence of every subcommand's help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_SUMMARY_CHARS)) for name, one in self.commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples."""
        write_examples(formatter, self.examples)


_SUMMARY_CHARS = 1_000
"""Longer than any summary, so that click does not cut one off."""


def command(name: str, *examples: str, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command with these examples."""
    return click.command(name, cls=Command, examples=examples, **attributes)


def group(
    name: str, *examples: str, cls: type[CommandGroup] = CommandGroup, default: str = "", **attributes: Any
) -> Callable[[Callable[..., Any]], CommandGroup]:
    """Return a decorator that makes a group of subcommands with these examples.

    With `default`, the group has the common options too, and runs that subcommand if none is named.
    """
    if not default:
        return click.group(name, cls=cls, examples=examples, **attributes)

    def decorate(function: Callable[..., Any]) -> CommandGroup:
        # Click lists options from the last to the first one added: those of the group before the common ones.
        own: list[click.Parameter] = vars(function).pop("__click_params__", [])

        @common_options
        @wraps(function)
        def run_default(cli: Cli, **_: Any) -> None:
            if not delegate_to_subcommand(cli):
                ctx = click.get_current_context()
                ctx.invoke(created.commands[default], **ctx.params)

        vars(run_default)["__click_params__"] += own
        created = click.group(name, cls=cls, examples=examples, invoke_without_command=True, **attributes)(run_default)
        created.runs = default
        return created

    return decorate


def delegate_to_subcommand(cli: Cli) -> bool:
    """Return True if a subcommand follows, and make the options given before it the defaults of that subcommand."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        return False
    values = {"workspace": cli.workspace, "as_json": cli.as_json or None}
    ctx.default_map = {ctx.invoked_subcommand: {name: value for name, value in values.items() if value is not None}}
    return True


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_HasId)


def find_by_prefix(rows: Iterable[R], prefix: str, noun: str) -> R | None:
    """Return the row whose id starts with these four or more characters, or None.

    Raise `Invalid` if several ids start so. `noun` says what the rows are, for this error.
    """
    found = [row for row in rows if row.id.startswith(prefix.lower())] if len(prefix) >= _MIN_ID_CHARS else []
    if len(found) > 1:
        raise Invalid(f"{len(found)} {noun} begin with {prefix[:40]!r}.", hint="Give more characters of the id.")
    return found[0] if found else None


_MIN_ID_CHARS = 4


class DefaultGroup(CommandGroup):
    """A group with a default subcommand: an argument that is not a subcommand is the first argument of the default."""

    default = ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand and its arguments."""
        known = args[0] in self.commands
        return super().resolve_command(ctx, args if known else [self.default, *args])


_PERIOD = re.compile(r"([0-9]{1,6})([dhw])", re.ASCII)
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_MAX_DAYS = 36_500


class Period(click.ParamType[float]):
    """A length of time such as 30d, 12h or 2w, in days."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the period in days. Fail if it is malformed, zero or longer than a century."""
        if isinstance(value, float):
            return value
        found = _PERIOD.fullmatch(str(value).strip().lower())
        days = int(found[1]) * _DAYS[found[2]] if found else 0.0
        if not 0 < days <= _MAX_DAYS:
            self.fail(
                f"Invalid period {str(value)[:40]!r}. Use a number and a unit, for example 30d, 12h or 2w.", param, ctx
            )
        return days


host_option = click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on (default: 127.0.0.1)."
)
allow_host_option = click.option(
    "--allow-host", "names", multiple=True, metavar="NAME", help="Additional host name to accept (repeatable)."
)
trust_proxy_option = click.option(
    "--trust-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Proxy whose X-Forwarded-For names the client (repeatable).",
)


def port_option(port: int) -> Callable[[F], F]:
    """Return a decorator that adds `--port`."""
    words = f"Port to listen on (default: {port})."
    return click.option("--port", type=click.IntRange(0, 65535), default=port, metavar="N", help=words)


def limit_option(noun: str, *, default: int = 50, most: int = 10_000) -> Callable[[F], F]:
    """Return a decorator that adds `--limit`, the maximum number of something in the plural."""
    size = click.IntRange(1, most)
    words = f"Maximum number of {noun}."
    return click.option("--limit", type=size, default=default, metavar="N", show_default=True, help=words)


MAX_MESSAGE_CHARS = 1_000_000
MAX_RESULTS = 1_000_000


class Limit(click.IntRange):
    """The maximum number of results, at least 1. The matcher returns at most 1,000."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, reduced to `MAX_RESULTS` if it is larger."""
        return min(super().convert(value, param, ctx), MAX_RESULTS)


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Fail for NaN, which click's range check lets through, and for infinity."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class Fraction(Number):
    """A share between 0 and 1."""

    def __init__(self) -> None:
        super().__init__(min=0, max=1)


def read_message(words: Sequence[str]) -> str:
    """Return the message given as arguments, or read it from stdin for `-` or if input is piped in.

    Long messages are cut to `MAX_MESSAGE_CHARS`. Raise click's `UsageError` if there is no message, or a blank one.
    """
    text = " ".join(words)[:MAX_MESSAGE_CHARS] if words and tuple(words) != ("-",) else _read_stdin(words)
    if not text.strip():
        raise click.UsageError("Missing message. Give one as an argument or on stdin.")
    return text


def _read_stdin(words: Sequence[str]) -> str:
    """Return the message on stdin; '' if there is a terminal instead, and it was not asked for with `-`."""
    if not words and sys.stdin.isatty():
        return ""
    data = sys.stdin.buffer.read(4 * MAX_MESSAGE_CHARS + 1)
    text = data.decode("utf-8", "replace")
    if len(text) > MAX_MESSAGE_CHARS:
        click.echo(f"The message is too long: only its first {MAX_MESSAGE_CHARS:,} characters are used.", err=True)
    return text[:MAX_MESSAGE_CHARS]


_NO_SKILLS = """No skills here yet. Next steps:
  prowess init            set up this folder and find the skills your agents have
  prowess new my-skill    create a skill
  prowess import PATH     import skills from a folder, a file or an archive
Skills in .agents/skills, .claude/skills and the folders of other agents are
found automatically."""
_NO_SERVER_SKILLS = """No skills on this server yet. To add some:
  {prowess} import PATH
  {prowess} source add OWNER/REPO"""


def print_no_results(matcher: Matcher, words: str) -> None:
    """Print `words` if there are skills but none matches, or how to add skills if there are none at all."""
    click.echo(words if matcher.search(limit=1) else describe_no_skills())


def describe_no_skills() -> str:
    """Return what to do where there are no skills: on this machine, or on the server that the command runs against."""
    server = chosen_server()
    if server is None:
        return _NO_SKILLS
    prowess = f"prowess --server {server.url}" if server.named else "prowess"
    return _NO_SERVER_SKILLS.format(prowess=clean(prowess))


async def choose_skills(
    prowess: Prowess, slugs: Sequence[str], *, every: bool, tags: Sequence[str], writable: bool = False
) -> list[str]:
    """Return the slugs that were given, or those of all skills, or of all skills with the tags.

    With `writable`, skills that come with Prowess or a plugin are left out. Raise click's `UsageError` unless exactly one of
    the three is given, and `NotFound` if no skill has the tags.
    """
    if bool(slugs) + every + bool(tags) != 1:
        raise click.UsageError("Give one or more SLUGs, or --all, or --tag TAG.")
    if slugs:
        return list(dict.fromkeys(slugs))
    from prowess.engine.places import PACKS

    found = [
        card.slug
        for card in await prowess.skills.cards()
        if card.has_tags(tags) and not (card.scope == "system" and (writable or (PACKS / card.slug).is_dir()))
    ]
    if not found:
        condition = f" with the tag {' and '.join(tags)}" if tags else ""
        raise NotFound(f"No skills{condition} here.", hint="`prowess list` shows the skills and their scopes.")
    return found


Failure = tuple[str, "ProwessError"]
"""A slug, and why the command failed for it."""


async def for_each(slugs: Sequence[str], work: Callable[[str], Awaitable[T]]) -> tuple[list[T], list[Failure]]:
    """Await `work` for each slug. Return the results and the failures; with a single slug, raise its error."""
    done: list[T] = []
    failed: list[Failure] = []
    for slug in slugs:
        try:
            done.append(await work(slug))
        except ProwessError as error:
            if len(slugs) == 1:
                raise
            failed.append((slug, error))
    return done, failed


def report_failures(failed: Sequence[Failure]) -> None:
    """Print each failure on stderr. If there are any, end the command with the exit code of the first."""
    from prowess.interfaces.cli.error_output import exit_code

    for slug, error in failed:
        click.echo(f"{click.style('✗', fg='red')} {clean(slug)}: {clean(error.message)} {clean(error.hint)}", err=True)
    if failed:
        raise click.exceptions.Exit(exit_code(failed[0][1]))
