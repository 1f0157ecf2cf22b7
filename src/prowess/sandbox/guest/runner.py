"""The program in the sandbox: runs one task and reports the outcome.

It is run once when the component is built; an instance starts with everything below already loaded.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import gc
import importlib
import time
from typing import Any

import wit_world  # pyright: ignore[reportMissingImports]

from . import allowed
from .bridge import from_json, to_json
from .task import run_task

World: Any = wit_world
"""The bindings that are generated from the WIT; they exist only while the component is built."""
SKILLKIT = importlib.import_module(".skillkit", __package__)
"""What authors import as `prowess.skillkit`; it is copied here while the component is built."""

SHORT: dict[str, Any] = {
    "source": "def each(item):\n    return item\neach(a)\n",
    "shown": "",
    "marks": {},
    "inputs": {"a": 1},
    "variables": ["a"],
    "modules": ["prowess"],
    "functions": ["nothing"],
    "entry": "",
    "env": {},
    "file": "<script>",
}
LONG: dict[str, Any] = {
    **SHORT,
    "source": "def execute(args, ctx):\n    return [f'{item}!' for item in args['a'] if item]\n",
    "inputs": {"a": [1, 2]},
    "functions": ["nothing"] * 12,
    "entry": "execute",
}
REHEARSALS = 20
"""After so many rounds CPython has specialized the bytecode of a run; further rounds change nothing."""


class WitWorld(World.WitWorld):
    """The exports of the component."""

    def prepare(self) -> None:
        """Touch the memory that every run touches: the first write to a page costs a fault, which no run should pay."""
        self.run(to_json(SHORT))

    def run(self, task: str) -> str:
        """Run a task to its end."""
        return run_task(from_json(task), World.call, SKILLKIT)


def nobody(name: str, payload: str) -> str:
    """Refuse calls while the component is built, when there is no host."""
    raise OSError(f"No host is available for {name} with {payload}.")


def rehearse() -> None:
    """Run tasks while the component is built, so that their specialized bytecode becomes part of it."""
    for task in [SHORT, LONG] * REHEARSALS:
        run_task(from_json(to_json(task)), nobody, SKILLKIT)


class Timers:
    """The selector of a loop that has only timers to wait for: there is nothing to read or write."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Wait for the next timer."""
        if timeout is None:
            raise RuntimeError("The event loop waits for an event that can never happen.")
        if timeout > 0:
            time.sleep(timeout)
        return []

    def close(self) -> None:
        """Do nothing."""


class TimerLoop(asyncio.BaseEventLoop):
    """An event loop for coroutines that await each other and `asyncio.sleep`."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = Timers()

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no events from outside."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread that would have to wake the loop."""


def install_timer_loop() -> None:
    """Make `asyncio.run` use such a loop."""
    asyncio.new_event_loop = asyncio.events.new_event_loop = TimerLoop


def fill_gaps() -> list[bytes]:
    """Return objects that fill the gaps in memory, so that the objects of a run lie together and not among all others.

    A run copies each page that it writes to; imports leave gaps on so many pages that it would copy twice as many.
    """
    end = id(bytes(1 << 20))  # larger than any gap, so it is behind all of them
    filled: list[bytes] = []
    # The largest first, to need few: the allocator cuts a larger gap before it takes memory behind the last one.
    for size in (4096, 1024, 256, 64, 2):
        while id(made := bytes(size)) < end:
            filled.append(made)
    return filled


allowed.load()
install_timer_loop()
rehearse()
gc.collect()
FILLED = fill_gaps()
gc.freeze()
