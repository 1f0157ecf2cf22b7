"""How a command reaches the engine: shared options, opening, and a progress bar for what takes longer."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.interfaces.cli.endings import heeding_termination
from prowess.interfaces.cli.printing import can_move

if TYPE_CHECKING:
    from rich.status import Status

    from prowess.build.opening import Prowess
    from prowess.catalog.intake import Progress, Watch
    from prowess.match.matcher import Matcher

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PATIENCE_SECONDS = 1.0


def common_options(function: F) -> F:
    """`--workspace` and `--json`, which every command takes."""
    function = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(function)
    return click.option("--workspace", "-w", metavar="DIR", help="The folder whose skills come first.")(function)


def chosen_workspace(workspace: str | None) -> str | None:
    """The workspace that was named after the command, or else before it."""
    return workspace if workspace is not None else click.get_current_context().find_root().obj


def with_engine(workspace: str | None, work: Callable[[Prowess], Awaitable[T]]) -> T:
    """Open the engine for a workspace, do the work, and close it; SIGTERM ends it as Ctrl-C does."""
    _use_one_thread()
    import asyncio
    import logging

    from prowess.build.opening import Prowess

    # The driver's own complaints about a server come as errors of ours, in words.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    chosen = chosen_workspace(workspace)

    async def session() -> T:
        async with Prowess.open(workspace=chosen) as prowess:
            return await work(prowess)

    with heeding_termination():
        return asyncio.run(session())


def _use_one_thread() -> None:
    """Before numpy is imported: for matrices as small as ours, its threads cost more than they bring."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@contextmanager
def matching(workspace: str | None) -> Generator[Matcher]:
    """A matcher over the skills in reach. It needs no engine, and opens in a fraction of the time."""
    _use_one_thread()
    from prowess.build.matching import open_matcher

    with open_matcher(workspace=chosen_workspace(workspace)) as matcher:
        with patience("Reading skills …"):
            matcher.index()
        yield matcher
        if matcher.away:
            places = "1 place is" if len(matcher.away) == 1 else f"{len(matcher.away)} places are"
            click.echo(f"{places} not served; `prowess doctor` says why.", err=True)


@contextmanager
def patience(words: str) -> Generator[None]:
    """A moving line on a terminal's stderr, shown once the work has taken over a second."""
    if not can_move():
        yield
        return
    from threading import Timer

    shown: list[Status] = []

    def show() -> None:
        from prowess.interfaces.cli.printing import console

        shown.append(console(err=True).status(words))
        shown[0].start()

    timer = Timer(PATIENCE_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()


@contextmanager
def progress(words: str) -> Generator[Watch]:
    """A bar on a terminal's stderr, shown once the work has taken over a second."""
    from prowess.catalog.intake import ignore

    if not can_move():
        yield ignore
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from prowess.interfaces.cli.printing import console

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Bar(*columns, console=console(err=True), transient=True)
    task = bar.add_task(words, total=None)
    began = time.monotonic()
    shown = False

    def watch(step: Progress) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > PATIENCE_SECONDS:
            bar.start()
            shown = True
        bar.update(task, completed=step.done, total=step.total or None)

    try:
        yield watch
    finally:
        bar.stop()
