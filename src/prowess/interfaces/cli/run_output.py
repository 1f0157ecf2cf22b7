"""Show a run: progress and text while it runs, then the output, its cost and its assertions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import click

from prowess.interfaces.cli.error_output import discard_stdout
from prowess.interfaces.cli.output import can_animate, clean, console, one_line
from prowess.skill.json_values import json_list

if TYPE_CHECKING:
    from rich.status import Status

    from prowess.run.call import Output, SentRequest, Verdict
    from prowess.run.request import Step
    from prowess.run.result import RunPart, RunResult


class DeferredWarnings(logging.Handler):
    """Holds back warnings logged between `begin` and `end`, from any thread, until `show` prints them on stderr.

    A warning printed at once would land in the middle of streamed output or of the spinner.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._waiting: list[str] = []

    def begin(self) -> None:
        """Start holding back warnings."""
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Store one record for `show`."""
        self._waiting.append(self.format(record))

    def show(self) -> None:
        """Print the warnings held back so far."""
        # Swapped before printing, because other threads may log in the meantime.
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            click.echo(clean(text), err=True)

    def end(self) -> None:
        """Stop holding back warnings, and print the remaining ones."""
        logging.getLogger().removeHandler(self)
        self.show()


_MAX_RECEIPT_CHARS = 400


def format_requests(receipt: Mapping[str, Any]) -> str:
    """Return the declared permissions of a skill on one line, or '' if it declares none."""
    declared: Mapping[str, object] = receipt.get("declared", {})
    requests = [f"{name} {_join(value)}" for name, value in declared.items()]
    return one_line(f"Requests {'; '.join(requests)}.", _MAX_RECEIPT_CHARS) if requests else ""


def format_touched(receipt: Mapping[str, Any]) -> list[str]:
    """Return up to two lines: the resources a run used, and those it was refused.

    A result maps names to counts; a trace stores a list of names with counts. Values of any other shape are skipped.
    """
    lines: list[str] = []
    for key in ("touched", "refused"):
        groups = [
            f"{sort} {', '.join(_with_count(*pair) for pair in _counts(names))}"
            for sort, names in _receipt_items(receipt, key)
        ]
        if groups:
            lines.append(one_line(f"{key}: {'; '.join(groups)}", _MAX_RECEIPT_CHARS))
    return lines


def _receipt_items(receipt: Mapping[str, Any], what: str) -> list[tuple[str, object]]:
    sorts: object = receipt.get(what)
    return list(cast("Mapping[str, object]", sorts).items()) if isinstance(sorts, Mapping) else []


def _counts(names: object) -> list[tuple[str, object]]:
    if isinstance(names, Mapping):
        return list(cast("Mapping[str, object]", names).items())
    found = [cast("Mapping[str, object]", row) for row in json_list(names) if isinstance(row, Mapping)]
    return [(str(row.get("name", "")), row.get("times")) for row in found]


def _join(value: object) -> str:
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def _with_count(name: str, times: object) -> str:
    """Return the name, with the count if it is above 1. In a trace the redactor may have replaced the count."""
    return f"{name} ({times} times)" if isinstance(times, int) and times > 1 else name


LOG_STATE = "LOG"
"""The state of a step that carries one log line of a function."""
MAX_LOG_CHARS = 500
MAX_PRINTED_CHARS = 4_000
"""How much of a function's printed text is shown; the trace has all of it."""


class RunScreen:
    """Shows a run in progress: output on stdout, streamed as the model writes it, and everything else on stderr.

    With `named`, each part gets a heading with its name. With `quiet`, only warnings are shown.
    """

    def __init__(self, *, named: bool, quiet: bool = False) -> None:
        self._named = named
        self.quiet = quiet
        self._streaming = ""
        self._status: Status | None = None
        self._warnings = DeferredWarnings()
        self._failed: RunPart | None = None
        self.lost: OSError | None = None
        """The error that closed stdout, such as a reader that went away. The run continues without output."""

    def __enter__(self) -> Self:
        self._warnings.begin()
        if not self.quiet and can_animate():
            self._status = console(err=True).status("Running …")
            self._status.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._pause()
        if self._streaming:
            self._write(lambda: click.echo(""))
        self._warnings.end()

    def watch(self, step: Step) -> None:
        """Show one step of progress: streamed text, a log line, or a new state of the spinner."""
        if not self.quiet:
            self._write(lambda: self._watch(step))

    def note(self, words: str) -> None:
        """Announce setup work that may take a while."""
        message = f"{one_line(words, 120).removesuffix('.')} …"
        if self._status is not None:
            self._status.update(message)
        elif not self.quiet:
            click.echo(message, err=True)

    def add(self, lines: Sequence[str]) -> None:
        """Print further lines on stderr, after the last part."""
        if lines:
            self._pause()
        for line in lines:
            click.secho(f"  {line}", dim=True, err=True)

    def part(self, part: RunPart) -> None:
        """Show the output of a finished part, with its assertions, cost and duration."""
        if not self.quiet:
            self._write(lambda: self._part(part))

    def _write(self, show: Callable[[], None]) -> None:
        """Call `show`. After the first error on stdout, show nothing any more and keep the error in `lost`."""
        try:
            if self.lost is None:
                show()
        except OSError as error:
            self.lost = error
            discard_stdout()

    def _watch(self, step: Step) -> None:
        self._print_failure()
        if step.text:
            if not self._streaming:
                self._pause()
                self._head(step.artifact)
                self._streaming = step.artifact
            click.echo(clean(step.text), nl=False)
        elif step.state == LOG_STATE:
            self._log(str(step.detail.get("message", "")))
        elif self._status is not None:
            self._status.update(f"{one_line(step.artifact, 60)}: {one_line(step.state, 40)} …")

    def _log(self, message: str) -> None:
        """Print one log line of a function."""
        self._pause()
        click.secho(f"  log: {one_line(message, MAX_LOG_CHARS)}", dim=True, err=True)
        if self._status is not None:
            self._status.start()

    def _part(self, part: RunPart) -> None:
        self._print_failure()
        self._pause()
        if self._streaming:
            # The output was already printed while it was streamed; only its last line end may be missing.
            click.echo("", nl=part.output is None or not part.output.text.endswith("\n"))
        elif part.output is not None:
            self._head(part.artifact)
            _print_output(part.output)
        self._streaming = ""
        _print_captured("printed", part.printed)
        if part.error is not None:
            _print_captured("answer", str(part.result.get("rawResponse", "")))
        _print_facts(part, named=self._named)
        self._failed = part if part.error is not None else None
        self._warnings.show()
        if self._status is not None:
            self._status.start()

    def _print_failure(self) -> None:
        """Print why the last part failed, once it is clear that the run continues.

        The error that ends a run is not printed here, because the command reports it at the end.
        """
        failed, self._failed = self._failed, None
        if failed is not None and failed.error is not None:
            self._pause()
            click.secho(f"  {one_line(failed.error.message, 300)}", dim=True, err=True)
            if self._status is not None:
                self._status.start()

    def _head(self, artifact: str) -> None:
        if self._named:
            click.secho(f"── {one_line(artifact, 80)}", bold=True, err=True)

    def _pause(self) -> None:
        if self._status is not None:
            self._status.stop()


def _print_output(output: Output) -> None:
    if output.data is not None:
        click.echo(clean(json.dumps(output.data, ensure_ascii=False, indent=2)))
    else:
        click.echo(clean(output.text).rstrip("\n"))


def _print_captured(label: str, text: str) -> None:
    """Print on stderr text that is not part of the output: what code printed, or an answer that failed. Cut to its end."""
    text = clean(text).strip("\n")
    if not text:
        return
    if len(text) > MAX_PRINTED_CHARS:
        click.secho(f"  {label}: last {MAX_PRINTED_CHARS:,} of {len(text):,} characters", dim=True, err=True)
    for line in text[-MAX_PRINTED_CHARS:].split("\n"):
        click.secho(f"  {label}: {line}", dim=True, err=True)


def _print_facts(part: RunPart, *, named: bool) -> None:
    for verdict in part.verdicts:
        click.echo(_format_verdict(verdict), err=True)
    facts = [one_line(part.artifact, 60)] if named else []
    if part.fallback_of:
        facts.append(f"fallback of {one_line(part.fallback_of, 60)}")
    if part.model:
        facts.append(one_line(part.model, 80))
    if part.usage.requests:
        facts.append(f"{part.usage.input_tokens:,} tokens in, {part.usage.output_tokens:,} out")
        facts.append("cost unknown" if part.cost is None else f"${part.cost:.6f}")
    result = part.result
    if result.get("attempts") == 2:
        facts.append("second attempt")
    if result.get("truncated"):
        facts.append("cut off at the token limit")
    facts.append(f"{part.duration_ms / 1000:.1f} s" if part.duration_ms >= 100 else f"{part.duration_ms} ms")
    if part.status != "ok":
        facts.insert(0, part.status.replace("_", " "))
    facts.append(f"trace {part.trace}" if part.traced else "trace may be lost")
    click.secho(" · ".join(facts), dim=True, err=True)
    for line in format_touched(part.receipt):
        click.secho(f"  {line}", dim=True, err=True)
    if part.resumable:
        click.secho(f"  Resume from the last checkpoint with --resume {part.trace[:8]}", dim=True, err=True)


def _format_verdict(verdict: Verdict) -> str:
    mark = click.style("✓", fg="green") if verdict.passed else click.style("✗", fg="red")
    soft = "" if verdict.passed or verdict.severity == "hard" else " (soft)"
    why = "" if verdict.passed else f": {one_line(verdict.explanation, 300)}"
    return f"{mark} {one_line(verdict.description, 120)}{soft}{why}"


def print_plan(result: RunResult) -> None:
    """Print exactly what a run would send, without the characters that are unsafe on a terminal."""
    for part in result.parts:
        click.secho(f"── {one_line(part.artifact, 80)} ({part.kind})", bold=True, err=True)
        for sent in part.sent:
            _print_sent(sent)
        if requests := format_requests(part.receipt):
            click.echo(requests, err=True)
        if part.plan:
            click.echo(clean(part.plan))
        if not part.sent and part.output is not None:
            click.echo("Nothing to send. Output:", err=True)
            _print_output(part.output)
    if result.waiting:
        names = ", ".join(one_line(name, 80) for name in result.waiting)
        click.echo(f"Not shown, because they depend on the answer: {names}.", err=True)


def _print_sent(sent: SentRequest) -> None:
    request = sent.request
    click.secho(f"To {one_line(sent.model, 120)} ({sent.purpose}):", err=True)
    for message in request.messages:
        click.secho(f"[{message.role}]", dim=True)
        click.echo(clean(message.text))
    for name in ("temperature", "max_tokens"):
        if getattr(request, name) is not None:
            click.secho(f"[{name}] {getattr(request, name)}", dim=True)
    if request.schema is not None:
        click.secho("[schema]", dim=True)
        click.echo(clean(json.dumps(request.schema, ensure_ascii=False, indent=2)))
