"""The `prowess` command, which imports a subcommand only when it is called.

`--help` must stay fast, so this module imports nothing heavier than click and keeps each command's summary in the
table below.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys

import click

from prowess.interfaces.cli.signals import catch_termination

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("skills", "Show the skills that are in reach."),
    "show": ("skills", "Show one skill, or one file or artifact of it."),
    "skills": ("skills", "List skills, show one, or find those that nobody uses."),
    "match": ("match", "Find the skills worth offering for a message."),
    "search": ("match", "Find skills by words and tags."),
    "enable": ("sessions", "Let a skill into the prompt of a conversation."),
    "disable": ("sessions", "Take a skill out of the prompt again."),
    "prompt": ("prompt", "Print the prompt of a conversation."),
    "sessions": ("sessions", "List conversations, and what is enabled in them."),
    "run": ("run", "Run a skill: ask a model, check what comes out, keep a trace."),
    "load": ("prompt", "Load one text of a skill, as an agent does."),
    "index": ("prompt", "Print the list of skills for a system prompt."),
    "role": ("prompt", "Print the prompt of a role."),
    "why": ("why", "Say why a skill was, or was not, offered and let in."),
    "approvals": ("approvals", "Answer what agents have asked for."),
    "trust": ("trust", "Accept the skills that were found here, or take that back."),
    "policy": ("policy", "Show or change who may do what."),
    "switch": ("switch", "Switch skills on or off for the organization."),
    "env": ("policy", "Let skills read names of the environment."),
    "audit": ("events", "Show what was decided, and prove it."),
    "events": ("events", "Show what happened, and follow what happens."),
    "pages": ("pages", "Look into the markdown pages of the workspace."),
    "traces": ("traces", "Show what was run, and what came of it."),
    "stats": ("stats", "Show what runs cost, how long they take and how often they fail."),
    "metrics": ("stats", "Print metrics for Prometheus."),
    "mcp": ("mcp", "Serve skills to agents over MCP, or set up a client."),
    "prompts": ("registries", "Keep and check the prompts that skills name by id."),
    "rubrics": ("registries", "Keep and check the rubrics that reviews judge by."),
    "decide": ("decide", "Say whether a skill should be a template or a handler."),
    "validate": ("packages", "Check skills and say what to mend."),
    "lint": ("lint", "Find skills that compete for the same messages."),
    "eval": ("eval", "Measure whether skills are found when they should be."),
    "import": ("packages", "Keep skills from a folder, a file or an archive."),
    "export": ("packages", "Write a skill to a folder, in any form."),
    "fork": ("fork", "Copy a skill to the workspace, to change it there."),
    "delete": ("versions", "Remove a skill; it can be brought back."),
    "history": ("versions", "List the versions of a skill."),
    "diff": ("versions", "Show what changed between two versions."),
    "rollback": ("versions", "Make an earlier version current again."),
    "model": ("model", "List the models to ask, or fetch one to this machine."),
    "plugins": ("installation", "Show what installed packages bring."),
    "doctor": ("installation", "Check that everything works here."),
}


def load_command(name: str) -> click.Command:
    """Import the module of a command and return the command."""
    module = importlib.import_module(f"prowess.interfaces.cli.commands.{COMMANDS[name][0]}")
    return getattr(module, f"{name}_command")


class LazyGroup(click.Group):
    """A group that knows the names of its commands and imports each on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the name of every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command, or return None if there is no such command."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Fail with a suggestion if the name is unknown."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(COMMANDS)}."
            ctx.fail(f"There is no command {name!r}.{meant}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--workspace", "-w", metavar="DIR", help="The folder whose skills come first (default: PROWESS_WORKSPACE, or here)."
)
@click.version_option(None, "-V", "--version", package_name="prowess", message="prowess %(version)s")
@click.pass_context
def cli(ctx: click.Context, workspace: str | None) -> None:
    """Prowess, the skill engine for AI agents.

    Start with `prowess list`, or `prowess import PATH` to keep skills you have.
    """
    ctx.obj = workspace


def run() -> None:
    """Run the command line and exit the process. Every error becomes a message on stderr and an exit code."""
    _relax_garbage_collector()
    with catch_termination() as termination:
        try:
            code = cli.main(prog_name="prowess", standalone_mode=False)
        except Exception as error:  # noqa: BLE001
            # Imported here because a command that succeeds does not need the error types.
            from prowess.interfaces.cli.error_output import report_error

            code = report_error(error)
        except KeyboardInterrupt:
            click.echo("Interrupted; what was done so far is kept.", err=True)
            code = 130
    # SIGTERM and SIGHUP end the command as Ctrl-C does, but the exit code must name the signal that came.
    if termination.number and code == 130:
        code = termination.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _relax_garbage_collector() -> None:
    """Collect garbage less often, and not at exit. This saves a quarter of the CPU time of a short command.

    Imports alone create about 300,000 objects that live until the end. With the default threshold of 700 the collector
    walks them hundreds of times, and once more when the interpreter shuts down. A command that uses the database ends
    with 120,000 objects that the collector tracks, so it never runs in a short command.
    """
    gc.set_threshold(250_000, 10, 10)
    atexit.register(gc.freeze)
