"""An embedder behind HTTP: any server that answers `/embeddings` as OpenAI's does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.vectors.embedder import quantised, sound
from prowess.match.vectors.exchange import LARGEST_ANSWER, Address, Answer, Interrupted, post

BATCH = 128
LONGEST_CHARACTERS = 8_000
"""Of a longer text, only the beginning is sent: servers refuse what is longer than their model reads."""

ATTEMPTS = 4
_FIRST_PAUSE = 0.5
_HINTS = {
    401: "Check the API key.",
    403: "Check the API key, and what it may use.",
    404: "Check the base URL, which often ends in /v1, and the name of the model.",
    429: "The server asks for fewer requests: wait, or raise the limit there.",
}
_MALFORMED = "Is the base URL that of an OpenAI-compatible server, and the model one for embeddings?"


class EndpointEmbedder:
    """Asks a server, 128 texts at a time. The API key shows up in no message, representation or log.

    `deadline` is the seconds that one such request may take in all, repeats included: a busy server (429), a failing one
    (5xx) and a broken connection are tried again after a pause, as long as there is time. Redirects are not followed,
    since they would carry the key to another place. Raises `Unavailable` when there is no good answer. A text of nothing
    but space is not sent; its row is zeros.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        deadline: float = 30.0,
        rest: float = 15.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address = Address.parse(base_url, api_key)
        self._model = model
        self._deadline = deadline
        self._sleep = sleep
        self._rest = rest
        self._failure: Unavailable | None = None
        self._away_until = 0.0
        self._known: int | None = None
        self._learning = Lock()

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self._address.url!r}, {self._model!r})"

    @property
    def name(self) -> str:
        """Server and model; it is not asked, so that an index can be used while the server is away."""
        return f"endpoint:{self._address.url}:{self._model}"

    @property
    def dimensions(self) -> int:
        """How many numbers a row has; the server is asked the first time."""
        with self._learning:
            known = self._known or self._asked(["A text to see how long a vector is."]).shape[1]
            self._known = known
            return known

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """One row a text; zeros for one without a word."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.int8)
        filled = [row for row, text in enumerate(texts) if text.strip()]
        for start in range(0, len(filled), BATCH):
            batch = filled[start : start + BATCH]
            vectors = self._asked([sound(texts[row][:LONGEST_CHARACTERS]) for row in batch])
            if vectors.shape[1] != self.dimensions:
                what = f"gives {vectors.shape[1]} numbers a text, and gave {self.dimensions} before"
                raise self._unavailable(what, "Has the model been replaced? Start again to take the new one.")
            rows[batch] = quantised(vectors)
        return rows

    def _asked(self, texts: list[str]) -> NDArray[np.float64]:
        body = json.dumps({"model": self._model, "input": texts}).encode()
        # Somebody is waiting for the vector of a single message; for an index it is worth to try again.
        attempts = ATTEMPTS if len(texts) > 1 else 1
        answer = self._good_answer(body, time.monotonic() + self._deadline, attempts)
        try:
            return _vectors(answer.body, len(texts))
        except _Malformed as error:
            raise self._unavailable(str(error), _MALFORMED) from None

    def _good_answer(self, body: bytes, deadline: float, attempts: int) -> Answer:
        """The first answer with status 200; a failure that may pass is tried again while there is time.

        When nothing helped, the server is left alone for a while: who asks next is refused at once.
        """
        if self._failure is not None and time.monotonic() < self._away_until:
            raise self._failure
        attempt = 1
        while True:
            pause = _FIRST_PAUSE * 2 ** (attempt - 1)
            try:
                answer = post(self._address, body, deadline)
            except Interrupted as error:
                failure = self._unavailable(str(error), "Is it running, and reachable from here?")
            else:
                if answer.status == 200:
                    return answer
                failure = self._refusal(answer)
                if answer.status != 429 and answer.status < 500:
                    raise failure
                pause = max(pause, answer.retry_after)
            if attempt == attempts or time.monotonic() + pause >= deadline:
                self._failure, self._away_until = failure, time.monotonic() + self._rest
                raise failure
            self._sleep(pause)
            attempt += 1

    def _refusal(self, answer: Answer) -> Unavailable:
        if 300 <= answer.status < 400:
            return self._unavailable("redirects to another address", "Give the address at which it answers itself.")
        hint = _HINTS.get(answer.status, "Look into the log of the server.")
        return self._unavailable(f"answers with status {answer.status}", hint)

    def _unavailable(self, what: str, hint: str) -> Unavailable:
        return Unavailable(f"the embedding server {self._address.url} {what}", hint=hint)


class _Malformed(Exception):
    """What is wrong with an answer, told of the server."""


def _vectors(body: bytes, count: int) -> NDArray[np.float64]:
    """The vectors of an answer in the order of the texts; `_Malformed` if it is not just that."""
    if len(body) > LARGEST_ANSWER:
        raise _Malformed("answers with far more than was asked for")
    try:
        answer: Any = json.loads(body)
        entries: Any = answer["data"]
        found: dict[Any, Any] = {entry["index"]: entry["embedding"] for entry in entries}
    except (ValueError, RecursionError, TypeError, LookupError) as error:
        raise _Malformed("answers with something else than embeddings") from error
    if len(entries) != count or set(found) != set(range(count)):
        raise _Malformed(f"answers {count} texts with {len(entries)} embeddings, or numbers them wrongly")
    return _matrix([found[index] for index in range(count)])


def _matrix(embeddings: list[Any]) -> NDArray[np.float64]:
    if (
        {type(some) for some in embeddings} != {list}
        or len({len(some) for some in embeddings}) != 1
        or not embeddings[0]
    ):
        raise _Malformed("gives embeddings of different lengths, or none")
    if not all(type(value) in (int, float) for some in embeddings for value in some):
        raise _Malformed("gives an embedding with something else than numbers")
    try:
        matrix = np.array(embeddings, dtype=np.float64)
    except OverflowError as error:
        raise _Malformed("gives an embedding with a number beyond all bounds") from error
    if not np.isfinite(matrix).all():
        raise _Malformed("gives an embedding with NaN or an infinite number")
    return matrix
