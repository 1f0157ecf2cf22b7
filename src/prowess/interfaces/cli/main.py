"""The `prowess` command, which imports a subcommand only when it is called.

`--help` must stay fast, so this module imports nothing heavier than click and keeps each command's summary in the
table below.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.signals import catch_termination
from prowess.interfaces.cli.width import terminal_width

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Find skills": {
        "list": ("skills", "List the skills available here."),
        "match": ("match", "Find the skills that fit a message."),
        "search": ("match", "Search skills by words and tags."),
        "show": ("skills", "Show one skill, or one of its files."),
        "why": ("why", "Explain why a skill was or was not offered for a message."),
        "registry": ("registry", "Search registries of skills, or run one of your own."),
        "pages": ("pages", "List, search and print the markdown pages of the workspace."),
    },
    "Use skills in a prompt": {
        "enable": ("sessions", "Add a skill to the prompt of a conversation."),
        "disable": ("sessions", "Remove a skill from the prompt of a conversation."),
        "prompt": ("prompt", "Print the prompt of a conversation."),
        "sessions": ("sessions", "List conversations and their enabled skills."),
        "load": ("prompt", "Load the instructions of a skill, as an agent does."),
        "index": ("prompt", "Print the list of skills for a system prompt."),
        "role": ("prompt", "Print the prompt of a role, such as reviewer or qa."),
        "spawn": ("spawn", "Start another agent, such as Claude Code, with a role and your skills."),
    },
    "Talk to an agent": {
        "chat": ("chat", "Talk to an agent that finds, enables and uses your skills."),
        "conversations": ("chat", "List, show, export and delete conversations."),
    },
    "Run skills": {
        "run": ("run", "Run a skill and record a trace."),
        "traces": ("traces", "List, show and export past runs."),
        "jobs": ("jobs", "List, show, cancel and retry durable runs and batches."),
        "worker": ("jobs", "Run durable jobs in the background."),
        "connector": ("connectors", "Configure MCP servers, and call their tools."),
        "model": ("model", "List models, or download one to this machine."),
        "sidecar": ("installation", "Install the DSPy sidecar, and list its templates."),
    },
    "Keep skills": {
        "init": ("init", "Set up a workspace and find the skills your agents already have."),
        "new": ("new", "Create a skill that works, with tests."),
        "compose": ("compose", "Write a skill with a model: draft, feedback, and your approval."),
        "add": ("add", "Install skills from a repository, a URL or a folder for your agents."),
        "update": ("add", "Update installed skills from their sources."),
        "outdated": ("installed", "List installed skills that have an update."),
        "verify": ("installed", "Compare installed skills with the lock files."),
        "remove": ("installed", "Remove installed skills from all agents."),
        "import": ("packages", "Import skills from folders, files or archives."),
        "source": ("source", "Copy skills from repositories and URLs, and keep them in sync."),
        "fork": ("versions", "Copy a skill to the workspace, to change it there."),
        "validate": ("packages", "Check skills and show how to fix problems."),
        "lint": ("lint", "Find skills that compete for the same messages."),
        "eval": ("eval", "Measure how good the answers with a skill are, and whether it matches the right messages."),
        "optimize": ("optimize", "Search for a measurably better version of a skill."),
        "decide": ("decide", "Choose between a prompt template and code for a skill."),
        "history": ("versions", "List the versions of a skill."),
        "diff": ("versions", "Show the changes between two versions."),
        "rollback": ("versions", "Restore an earlier version."),
        "delete": ("versions", "Delete skills. `prowess rollback` restores them."),
        "prompts": ("registries", "Manage the prompts that skills refer to by id."),
        "rubrics": ("registries", "Manage the rubrics that reviews refer to by id."),
    },
    "Share skills": {
        "export": ("export", "Write skills to folders, files or archives."),
        "mcp": ("mcp", "Serve skills to agents over MCP, or configure a client."),
        "serve": ("serve", "Serve the HTTP API and MCP to a team."),
        "sync": ("sync", "Keep your own skills the same on all your devices."),
    },
    "Govern": {
        "trust": ("trust", "Accept skills found in folders, or stop trusting them."),
        "approvals": ("approvals", "Answer the requests of agents."),
        "policy": ("policy", "Show or change the policy of the organization."),
        "switch": ("policy", "Switch skills on or off for the organization."),
        "env": ("policy", "Allow skills to read environment variables."),
        "audit": ("events", "Show who decided what, and verify the log."),
        "org": ("people", "Manage the organizations of a server."),
        "user": ("people", "Manage the users of an organization."),
        "token": ("token", "Create and revoke tokens for HTTP."),
    },
    "Operate": {
        "doctor": ("installation", "Check the installation and every skill folder."),
        "events": ("events", "Show or follow events."),
        "stats": ("stats", "Show cost, duration and failure rate of runs."),
        "skills": ("skills", "Show how often each skill is used, and which are unused."),
        "metrics": ("stats", "Print metrics for Prometheus."),
        "prune": ("database", "Delete records that have passed their retention period."),
        "backup": ("database", "Copy the account's database to a file."),
        "restore": ("database", "Replace the account's database with a backup."),
        "database": ("database", "Show the revision of the database, or migrate it."),
        "plugins": ("installation", "List the installed plugins."),
        "completion": ("installation", "Print a completion script for bash, zsh or fish."),
    },
}

COMMANDS: dict[str, tuple[str, str]] = {name: entry for part in GROUPS.values() for name, entry in part.items()}

ALIASES = {
    "install": "add",
    "upgrade": "update",
    "create": "new",
    "ls": "list",
    "find": "search",
    "info": "show",
    "check": "validate",
    "versions": "history",
    "rm": "delete",
    "uninstall": "remove",
}
"""Names that people try, and the commands that do what they expect."""

_ADVICE = {
    "edit": "Run `prowess show SLUG` to see where the skill is, and edit its files there.",
    "version": "Run `prowess --version`.",
    "approve": "Run `prowess approvals` to see the requests, and `prowess approvals approve ID`.",
    "deny": "Run `prowess approvals` to see the requests, and `prowess approvals deny ID`.",
    "status": "Run `prowess doctor`.",
    "publish": "Run `prowess registry publish SLUG`.",
    "test": "Run `prowess eval triggers SLUG` for its trigger queries, or `prowess eval run SLUG` for its eval cases.",
    "phrases": "Run `prowess eval triggers SLUG`, which suggests trigger phrases.",
    "config": "Run `prowess policy` for the policy. Everything else is set by environment variables, which the options of commands name.",
    "login": "Set PROWESS_TOKEN, or pass `--token-file FILE`, to use a server with `prowess --server URL`.",
}


def load_command(name: str) -> click.Command:
    """Import the module of a command and return the command."""
    module = importlib.import_module(f"prowess.interfaces.cli.commands.{COMMANDS[name][0]}")
    return getattr(module, f"{name}_command")


class LazyGroup(click.Group):
    """A group that knows the names of its commands and imports each on demand."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Click itself would exit with 1 if the reader closes the pipe, as `| head` does."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            from prowess.interfaces.cli.error_output import discard_stdout

            discard_stdout()
            ctx.exit(0)
        except Exception as error:
            from prowess.interfaces.cli.server import mention_ignored_server

            mention_ignored_server(ctx, error)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the name of every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command by its name or alias, or return None if it does not exist."""
        name = ALIASES.get(cmd_name, cmd_name)
        return load_command(name) if name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table, without importing any of them."""
        # One width for all sections, so that the summaries are aligned.
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write examples."""
        from prowess.interfaces.cli.options import write_examples

        write_examples(formatter, EXAMPLES)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command from the table, without importing any of them."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)
        ]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. `help COMMAND` shows its help; an unknown name fails with a suggestion."""
        if args[0] == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        name = ALIASES.get(args[0], args[0])
        word = args[1] if name in ("skill", "skills") and args[1:] else "-"
        if not word.startswith("-"):
            # Other programs have `skills list`; here, `skills` takes no words.
            meant = ALIASES.get(word, word)
            known = f"Unknown command '{name} {word}'. Run `prowess {meant}`."
            ctx.fail(known if meant in COMMANDS else _describe_unknown(word))
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(_describe_unknown(name))
        return super().resolve_command(ctx, [name, *args[1:]])


def _describe_unknown(name: str) -> str:
    """Return the message for an unknown command, with the command that was probably meant."""
    if name in _ADVICE:
        return f"Unknown command {name!r}. {_ADVICE[name]}"
    from prowess.suggestions import near_names

    near = [ALIASES.get(one, one) for one in near_names(name, (*COMMANDS, *ALIASES), count=2)]
    meant = f"Did you mean {' or '.join(repr(one) for one in dict.fromkeys(near))}?" if near else ""
    return f"Unknown command {name[:40]!r}. {meant or 'Run `prowess help` for the list.'}"


EXAMPLES = (
    "prowess init",
    'prowess match "turn these commits into release notes"',
    "prowess new my-skill",
    "prowess mcp --install claude-code --write",
)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--workspace", "-w", metavar="DIR", help="Workspace folder (default: PROWESS_WORKSPACE, or the current folder)."
)
@click.option(
    "--server",
    envvar="PROWESS_SERVER",
    default="",
    metavar="URL",
    help="Use the skills of this server, not those of this machine.",
)
@click.option("--token-file", metavar="FILE", help="File with the token for the server (default: PROWESS_TOKEN).")
@click.version_option(None, "-V", "--version", package_name="prowess", message="prowess %(version)s")
@click.pass_context
def cli(ctx: click.Context, workspace: str | None, server: str, token_file: str | None) -> None:
    """Prowess, the skill engine for AI agents.

    Start with `prowess init`. `prowess help COMMAND` explains a command.
    """
    ctx.obj = workspace
    if server.strip():
        from pathlib import Path

        from prowess.interfaces.cli.server import choose_server

        choose_server(ctx, server.strip(), Path(token_file) if token_file else None)
    elif token_file:
        ctx.fail("--token-file is the token for a server. Give the URL of the server with --server.")


def run() -> None:
    """Run the command line and exit the process. Every error becomes a message on stderr and an exit code."""
    _relax_garbage_collector()
    _open_closed_streams()
    _replace_unencodable()
    with catch_termination() as termination:
        try:
            code = cli.main(prog_name="prowess", standalone_mode=False, **_terminal_settings())
        except Exception as error:  # noqa: BLE001
            # Imported here because a command that succeeds does not need the error types.
            from prowess.interfaces.cli.error_output import report_error

            code = report_error(error)
        except KeyboardInterrupt:
            click.echo("Interrupted. Everything saved so far is kept.", err=True)
            code = 130
    # SIGTERM and SIGHUP end the command as Ctrl-C does, but the exit code must name the signal that came.
    if termination.number and code == 130:
        code = termination.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _terminal_settings() -> dict[str, Any]:
    """Return click's settings for NO_COLOR, TERM=dumb and narrow terminals, none of which it honours itself."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = terminal_width()
    return {"color": False if plain else None, "terminal_width": max(width, 20) if width < _CLICK_MIN_WIDTH else None}


_CLICK_MIN_WIDTH = 52
"""Click formats help for at least this width, whatever the terminal has."""


def _open_closed_streams() -> None:
    """Replace standard streams that the caller has closed (`>&-`), for which Python has None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  (open until the end)


def _replace_unencodable() -> None:
    """Print a question mark for each character that the encoding of the terminal lacks, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _relax_garbage_collector() -> None:
    """Collect garbage less often, and not at exit. This saves a quarter of the CPU time of a short command.

    Imports alone create about 300,000 objects that live until the end. With the default threshold of 700 the collector
    walks them hundreds of times, and once more when the interpreter shuts down. A command that uses the database ends
    with 120,000 objects that the collector tracks, so it never runs in a short command.
    """
    gc.set_threshold(250_000, 10, 10)
    atexit.register(gc.freeze)
