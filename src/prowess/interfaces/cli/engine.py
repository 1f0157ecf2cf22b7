"""Open the engine or the matcher for a command, and show progress."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import wraps
from threading import Timer
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from prowess.errors import Unavailable
from prowess.interfaces.cli.output import can_animate, clean, console, print_json, print_table
from prowess.interfaces.cli.server import chosen_server, open_client, open_server_matcher
from prowess.interfaces.cli.signals import run_async, run_quick
from prowess.view import to_json

if TYPE_CHECKING:
    import asyncio

    from rich.status import Status

    from prowess.match.matcher import Matcher
    from prowess.match.recommendation import Recommendation
    from prowess.open import Prowess
    from prowess.settings import Settings


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PROGRESS_DELAY_SECONDS = 1.0


_WORKSPACE = click.option("--workspace", "-w", metavar="DIR", help="Workspace folder (default: the current folder).")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Cli:
    """The options that commands share, and what commands do by them: call the engine, and print its answer."""

    def __init__(self, workspace: str | None = None, *, as_json: bool = False) -> None:
        # `--workspace` after the command, or else before it.
        self.workspace: str | None = workspace if workspace is not None else click.get_current_context().find_root().obj
        self.as_json = as_json

    def call(
        self,
        work: Callable[[Prowess], Awaitable[T]],
        *,
        channel: str = "cli",
        settings: Settings | None = None,
        quick: bool = False,
    ) -> T:
        """Open the engine, await `work` with it, close it, and return the result.

        With `--server`, `work` gets a client of the server instead, which has the same shape. `channel` is recorded with
        everything that the person does. `settings` replace those of the environment. `quick` is for work that only reads
        or writes files and databases: it needs no event loop, which takes a tenth of a short command.

        SIGTERM and SIGHUP cancel the work as Ctrl-C does.
        """
        opening = _prepare_opening(self.workspace, channel, settings, quick=quick)

        async def session() -> T:
            async with opening() as prowess:
                return await work(prowess)

        return run_quick(session) if quick and chosen_server() is None else run_async(session)

    def print(self, value: object, text: str | Callable[[], object]) -> None:
        """Print a value as JSON with `--json`. Otherwise print the text, or call the function, which prints it."""
        if self.as_json:
            print_json(value)
        elif callable(text):
            text()
        else:
            click.echo(text)

    def print_table(
        self,
        values: Sequence[T],
        head: Sequence[str],
        cells: Callable[[T], Sequence[str]],
        *,
        empty: str,
        flexible: int | None = None,
        optional: Sequence[str] = (),
        view: Callable[[T], object] = to_json,
    ) -> bool:
        """Print values as JSON (their `view`) with `--json`, otherwise as a table with one row of `cells` for each.

        Without values, print `empty`. Return True if a table was printed, which notes may follow.
        """
        if self.as_json:
            print_json([view(value) for value in values])
        elif not values:
            click.echo(empty)
        else:
            print_table(head, [cells(value) for value in values], flexible=flexible, optional=optional)
            return True
        return False


def common_options(function: F) -> F:
    """Add `--workspace` and `--json`. The function gets both as its parameter `cli`."""
    return _WORKSPACE(_JSON(_with_cli(function)))


def workspace_option(function: F) -> F:
    """Add `--workspace`, for a command that prints no JSON. The function gets a parameter `cli`."""
    return _WORKSPACE(_with_cli(function))


def json_option(function: F) -> F:
    """Add `--json`, for a command that uses no workspace. The function gets a parameter `cli`."""
    return _JSON(_with_cli(function))


def _with_cli(function: F) -> F:
    @wraps(function)
    def call(*args: Any, workspace: str | None = None, as_json: bool = False, **options: Any) -> Any:
        return function(*args, cli=Cli(workspace, as_json=as_json), **options)

    return cast("F", call)


class OpenEngine:
    """An engine, or a client of a server, that stays open between pieces of work, so that a person can be asked there.

    Nothing asynchronous runs in between.
    """

    def __init__(self, prowess: Prowess, runner: asyncio.Runner) -> None:
        self._prowess = prowess
        self._runner = runner

    def run(self, work: Callable[[Prowess], Awaitable[T]]) -> T:
        """Await work with the engine and return its result.

        Ctrl-C cancels the work and raises `KeyboardInterrupt` once it has cleaned up; a second Ctrl-C raises it at once.
        """
        return run_async(lambda: work(self._prowess), runner=self._runner)


@contextmanager
def open_engine(cli: Cli) -> Generator[OpenEngine]:
    """Yield an engine that stays open for several pieces of work; with `--server`, a client of the server."""
    import asyncio

    opening = _prepare_opening(cli.workspace, "cli", None)
    with asyncio.Runner() as runner:
        entered = opening()
        prowess = run_async(entered.__aenter__, runner=runner)
        try:
            yield OpenEngine(prowess, runner)
        except BaseException as error:
            failure = error
            run_async(lambda: entered.__aexit__(type(failure), failure, failure.__traceback__), runner=runner)
            raise
        run_async(lambda: entered.__aexit__(None, None, None), runner=runner)


def _prepare_opening(
    workspace: str | None, channel: str, settings: Settings | None, *, quick: bool = False
) -> Callable[[], AbstractAsyncContextManager[Prowess]]:
    """Return a function that opens the engine, or a client of the server that the command runs against."""
    if (server := chosen_server()) is not None:
        return lambda: open_client(server)
    _set_up_libraries()
    from prowess.open import Prowess
    from prowess.settings import read_settings

    chosen = settings or read_settings(workspace=workspace)
    if chosen.database_url or not quick:
        _set_up_logging()
    return lambda: Prowess.open(settings=chosen, channel=channel)


def _set_up_logging() -> None:
    """Keep terminal escapes out of the log, and what libraries log about problems that are raised as errors, too."""
    import logging

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return clean(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Formatter())
    # The driver of PostgreSQL, and the client of MCP, which logs each malformed message of a server with a traceback.
    for name in ("psycopg", "mcp.client", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


_LIBRARY_SETTINGS = {
    # The matrices are small, so starting threads costs more than they save.
    "OPENBLAS_NUM_THREADS": "1",
    # Looking for plugins of pydantic reads the metadata of every installed package, up to a tenth of a short command.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}
_added: set[str] = set()
# With these, an agent could answer its own requests.
_OF_PERSON = frozenset({"PROWESS_APPROVER_TOKEN", "PROWESS_SECRET_KEY", "PROWESS_TOKEN"})


def _set_up_libraries() -> None:
    """Set what the libraries read from the environment, unless the user did. Call it before they are imported."""
    ours = {name: value for name, value in _LIBRARY_SETTINGS.items() if name not in os.environ}
    os.environ.update(ours)
    _added.update(ours)


def user_environment() -> dict[str, str]:
    """Return the environment for an agent of the user: without the settings of this process, and what only a person has."""
    return {name: value for name, value in os.environ.items() if name not in _added | _OF_PERSON}


@contextmanager
def open_matcher(cli: Cli, *, complete: bool = False) -> Generator[Matcher]:
    """Yield a matcher over the available skills. It opens much faster than the engine, which it does not need.

    With `complete`, the vectors of all skills are computed first, so that figures do not depend on the time of the call.
    If a source of skills could not be read, print a warning on stderr at the end.
    """
    if (server := chosen_server()) is not None:
        with open_server_matcher(server) as matcher:
            yield matcher
        return
    _set_up_libraries()
    from prowess.engine.matcher import open_matcher

    with open_matcher(workspace=cli.workspace, patient=True) as matcher:
        with spinner("Reading skills …"):
            matcher.index()
            if complete:
                with suppress(Unavailable):  # the matcher has warned, and works without
                    matcher.prepare()
        yield matcher
        if matcher.away:
            places = "1 skill folder" if len(matcher.away) == 1 else f"{len(matcher.away)} skill folders"
            click.echo(f"Could not read {places}. `prowess doctor` shows why.", err=True)


def mark_trust(results: Sequence[Recommendation], cli: Cli) -> list[Recommendation]:
    """Return results with how far each skill is trusted. The engine is opened only if the records alone do not say."""
    if chosen_server() is not None:
        return list(results)  # the server has marked them
    from prowess.engine.matcher import mark_trust
    from prowess.settings import read_settings

    marked = mark_trust(results, read_settings(workspace=cli.workspace))
    if all(result.trust for result in marked):
        return marked
    return cli.call(lambda prowess: prowess.skills.marked(results), quick=True)


@contextmanager
def spinner(words: str) -> Generator[None]:
    """Show a spinner on stderr if the work takes longer than a second and stderr is a terminal."""
    if not can_animate():
        yield
        return

    shown: list[Status] = []

    def show() -> None:
        shown.append(console(err=True).status(words))
        shown[0].start()

    timer = Timer(PROGRESS_DELAY_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        # The timer may be starting the spinner right now; after the join it has started or never will.
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()


@contextmanager
def progress_bar(words: str) -> Generator[Callable[[int, int], None]]:
    """Yield a function that updates a progress bar on stderr, shown if the work takes longer than a second.

    It takes how much is done, and how much there is to do (0 if that is not known). Without a terminal, it does nothing.
    """
    if not can_animate():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console(err=True), transient=True)
    task = bar.add_task(words, total=None)
    began = time.monotonic()
    shown = False

    def update(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > PROGRESS_DELAY_SECONDS:
            bar.start()
            shown = True
        bar.update(task, completed=done, total=total or None)

    try:
        yield update
    finally:
        bar.stop()
