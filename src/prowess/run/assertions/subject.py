"""An output as assertions look at it."""

from __future__ import annotations

import asyncio
import json
from functools import cached_property
from typing import Any

from prowess.errors import OutputInvalid
from prowess.run.beside import beside
from prowess.run.call import Output
from prowess.run.extraction import extract_json
from prowess.run.judged import Judged


class Subject:
    """What the assertions of one artifact judge: an output's words and its data, each found once however many ask."""

    def __init__(self, output: Output) -> None:
        self.given = output.data
        """The data that the output came as; None for a text."""
        self._output = output
        self._lock = asyncio.Lock()
        self._found: tuple[Any, OutputInvalid | None] | None = None

    @cached_property
    def text(self) -> str:
        """The output as text: its words, or its data as JSON where it has no words."""
        if self._output.text or self.given is None:
            return self._output.text
        return json.dumps(self.given, ensure_ascii=False)

    @cached_property
    def judged(self) -> Judged:
        """The output as a model judges it."""
        return Judged(text=self.text)

    async def data(self) -> Any:
        """What the output says as data: its own, or the JSON in its text; `OutputInvalid` where there is none."""
        if self.given is not None:
            return self.given
        async with self._lock:
            if self._found is None:
                self._found = await beside(len(self.text), _found, self.text)
        value, fault = self._found
        if fault is not None:
            raise OutputInvalid(fault.message, hint=fault.hint)
        return value


def _found(text: str) -> tuple[Any, OutputInvalid | None]:
    try:
        return extract_json(text), None
    except OutputInvalid as fault:
        return None, fault
