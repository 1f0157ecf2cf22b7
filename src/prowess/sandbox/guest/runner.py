"""The program in the sandbox: runs one task and says what came of it.

It is run once when the component is built; an instance starts with everything below already loaded.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

import wit_world  # pyright: ignore[reportMissingImports]

from . import allowed, timers
from .bridge import from_json, to_json
from .task import run_task

World: Any = wit_world
"""What the component is told by its WIT; there is such a module only while it is built."""
SKILLKIT = importlib.import_module(".skillkit", __package__)
"""What authors import, which lies here only while the component is built."""

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
"""How often it takes until the interpreter has seen what it can learn."""


class WitWorld(World.WitWorld):
    """What the component offers."""

    def prepare(self) -> None:
        """Touch what every run touches, which is memory that no later run has to touch for the first time."""
        self.run(to_json(SHORT))

    def run(self, task: str) -> str:
        """Run a task to its end."""
        return run_task(from_json(task), World.call, SKILLKIT)


def nobody(name: str, payload: str) -> str:
    """Answers while the component is built, when there is no host."""
    raise OSError(f"There is nobody to answer {name} with {payload}.")


def rehearse() -> None:
    """Let the interpreter learn what every run does, while the component is built."""
    for task in [SHORT, LONG] * REHEARSALS:
        run_task(from_json(to_json(task)), nobody, SKILLKIT)


allowed.load()
timers.install()
rehearse()
gc.collect()
gc.freeze()
