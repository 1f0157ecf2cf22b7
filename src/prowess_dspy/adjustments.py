"""Two changes to DSPy, whose version is pinned exactly."""

from __future__ import annotations

import functools
from typing import Any

from dspy.adapters import utils
from dspy.utils.parallelizer import ParallelExecutor
from pydantic import TypeAdapter


def adjust_dspy() -> None:
    """Keep type adapters between values, and never run a row a second time because it takes long."""
    # DSPy makes a TypeAdapter for every value that it shows to a model, which is 40 % of an execution.
    utils.TypeAdapter = functools.lru_cache(maxsize=512)(TypeAdapter)

    # After two minutes DSPy starts the last rows of a batch again. The first calls continue, so that they are paid twice; and a
    # model on the user's machine may well take two minutes.
    initialize = ParallelExecutor.__init__

    def initialize_without_repeats(self: ParallelExecutor, *arguments: Any, **named: Any) -> None:
        initialize(self, *arguments, **named)
        self.timeout = 0

    ParallelExecutor.__init__ = initialize_without_repeats
