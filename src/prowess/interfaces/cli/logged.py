"""Warnings that are logged while something is being printed: held back, so that they do not land in the middle of it."""

from __future__ import annotations

import logging

import click

from prowess.interfaces.cli.printing import clean


class HeldWarnings(logging.Handler):
    """Takes what is logged from `begin` to `end`, from whichever thread, and shows it on stderr when told to."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._waiting: list[str] = []

    def begin(self) -> None:
        """Hold back what is logged from now on."""
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one for later."""
        self._waiting.append(self.format(record))

    def show(self) -> None:
        """Show what has come by now."""
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            click.echo(clean(text), err=True)

    def end(self) -> None:
        """Show the rest, and hold nothing back any more."""
        logging.getLogger().removeHandler(self)
        self.show()
