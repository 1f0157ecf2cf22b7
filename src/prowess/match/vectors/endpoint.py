"""An embedder behind HTTP: any server with an OpenAI-compatible `/embeddings` endpoint."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from threading import Lock, Timer
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Invalid, Unavailable
from prowess.match.vectors.embedder import quantize, remove_surrogates
from prowess.net.connection import CancellableConnection

LARGEST_ANSWER = 64 * 1024**2
_CHUNK = 65_536


class RequestInterrupted(Exception):
    """There is no whole answer: no connection, a broken one, or none in time. It may work the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where to send requests, and the key that opens the door there, which is never shown."""

    url: str
    host: str
    port: int
    path: str
    tls: bool
    key: str = field(repr=False)

    @classmethod
    def parse(cls, base_url: str, key: str) -> Self:
        """The address of `/embeddings` below a base URL; `Invalid` where that or the key cannot be right."""
        url = base_url.rstrip("/")
        parts, port = _split_url(url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise Invalid("the address of an embedding server is a URL with http or https", hint=_URL_HINT)
        if parts.username is not None or parts.query or parts.fragment:
            raise Invalid("the address of an embedding server has no user, query or fragment", hint=_URL_HINT)
        if not (key.isascii() and key.isprintable()) or key != key.strip():
            raise Invalid("the API key has characters that no key has", hint="Was a line feed copied with it?")
        if key and parts.scheme == "http" and not _is_loopback(host):
            raise Invalid("an API key is not sent over http, where others can read it", hint="Use https, or no key.")
        tls = parts.scheme == "https"
        return cls(
            url=url, host=host, port=port or (443 if tls else 80), path=f"{parts.path}/embeddings", tls=tls, key=key
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """What came back. `retry_after` is what the server asks for, in seconds.

    The body is read only where the status is 200. A body larger than `LARGEST_ANSWER` is not read to its end.
    """

    status: int
    body: bytes = b""
    retry_after: float = 0.0


def post_json(address: ServerAddress, body: bytes, deadline: float) -> ServerAnswer:
    """Send JSON and take the answer, both before `deadline` on the monotonic clock; `RequestInterrupted` otherwise."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
    headers["Host"] = urlsplit(address.url).netloc
    if address.key:
        headers["Authorization"] = f"Bearer {address.key}"
    line = CancellableConnection()
    trust = _tls_context() if address.tls else None
    try:
        plain = _connect(address, deadline)
        with _cut_at(deadline, line), line.over(plain, trust, address.host) as connection:
            connection.request("POST", address.path, body, headers)
            with connection.getresponse() as response:
                answer = _read_answer(response)
    except (OSError, HTTPException, UnicodeError) as error:
        raise RequestInterrupted(_describe_failure(error, is_cut=line.is_cut)) from error
    if line.is_cut:
        raise RequestInterrupted("does not answer in time")
    return answer


def _read_answer(response: HTTPResponse) -> ServerAnswer:
    if response.status != 200:
        asked = response.getheader("Retry-After", "")
        return ServerAnswer(
            status=response.status, retry_after=float(asked) if asked.isdecimal() and len(asked) < 6 else 0.0
        )
    body = bytearray()
    while len(body) <= LARGEST_ANSWER and (chunk := response.read1(_CHUNK)):
        body += chunk
    if response.length and len(body) <= LARGEST_ANSWER:
        raise HTTPException("breaks off in the middle of its answer")
    return ServerAnswer(status=200, body=bytes(body))


def _connect(address: ServerAddress, deadline: float) -> socket.socket:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return socket.create_connection((address.host, address.port), timeout=left)


@contextmanager
def _cut_at(deadline: float, line: CancellableConnection) -> Generator[None]:
    """Ends what is being waited for at the deadline: a slow trickle does not extend it."""
    timer = Timer(max(0.0, deadline - time.monotonic()), line.cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _describe_failure(error: Exception, *, is_cut: bool) -> str:
    if is_cut or isinstance(error, TimeoutError):
        return "does not answer in time"
    if isinstance(error, ssl.SSLError):
        return f"cannot be trusted or spoken to over TLS ({error.reason})"
    if type(error) is HTTPException:
        return str(error)
    return f"cannot be reached or breaks off ({type(error).__name__})"


def _split_url(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid("the address of an embedding server is not a URL", hint=_URL_HINT) from error
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise Invalid("the address of an embedding server has characters that no URL has", hint=_URL_HINT)
    return parts, port


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


_URL_HINT = "It looks like https://api.example.com/v1."


BATCH_SIZE = 128
LONGEST_CHARACTERS = 8_000
"""Of a longer text, only the beginning is sent: servers refuse what is longer than their model reads."""

ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.5
_HINTS = {
    401: "Check the API key.",
    403: "Check the API key, and what it may use.",
    404: "Check the base URL, which often ends in /v1, and the name of the model.",
    429: "The server asks for fewer requests: wait, or raise the limit there.",
}
_MALFORMED_HINT = "Is the base URL that of an OpenAI-compatible server, and the model one for embeddings?"


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
        self._address = ServerAddress.parse(base_url, api_key)
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
        for start in range(0, len(filled), BATCH_SIZE):
            batch = filled[start : start + BATCH_SIZE]
            vectors = self._asked([remove_surrogates(texts[row][:LONGEST_CHARACTERS]) for row in batch])
            if vectors.shape[1] != self.dimensions:
                what = f"gives {vectors.shape[1]} numbers a text, and gave {self.dimensions} before"
                raise self._unavailable(what, "Has the model been replaced? Start again to take the new one.")
            rows[batch] = quantize(vectors)
        return rows

    def _asked(self, texts: list[str]) -> NDArray[np.float64]:
        body = json.dumps({"model": self._model, "input": texts}).encode()
        # Somebody is waiting for the vector of a single message; for an index it is worth to try again.
        attempts = ATTEMPTS if len(texts) > 1 else 1
        answer = self._good_answer(body, time.monotonic() + self._deadline, attempts)
        try:
            return _parse_vectors(answer.body, len(texts))
        except _MalformedAnswer as error:
            raise self._unavailable(str(error), _MALFORMED_HINT) from None

    def _good_answer(self, body: bytes, deadline: float, attempts: int) -> ServerAnswer:
        """The first answer with status 200; a failure that may pass is tried again while there is time.

        When nothing helped, the server is left alone for a while: who asks next is refused at once.
        """
        if self._failure is not None and time.monotonic() < self._away_until:
            raise self._failure
        attempt = 1
        while True:
            pause = _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)
            try:
                answer = post_json(self._address, body, deadline)
            except RequestInterrupted as error:
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

    def _refusal(self, answer: ServerAnswer) -> Unavailable:
        if 300 <= answer.status < 400:
            return self._unavailable("redirects to another address", "Give the address at which it answers itself.")
        hint = _HINTS.get(answer.status, "Look into the log of the server.")
        return self._unavailable(f"answers with status {answer.status}", hint)

    def _unavailable(self, what: str, hint: str) -> Unavailable:
        return Unavailable(f"the embedding server {self._address.url} {what}", hint=hint)


class _MalformedAnswer(Exception):
    """What is wrong with an answer, told of the server."""


def _parse_vectors(body: bytes, count: int) -> NDArray[np.float64]:
    """The vectors of an answer in the order of the texts; `_MalformedAnswer` if it is not just that."""
    if len(body) > LARGEST_ANSWER:
        raise _MalformedAnswer("answers with far more than was asked for")
    try:
        answer: Any = json.loads(body)
        entries: Any = answer["data"]
        found: dict[Any, Any] = {entry["index"]: entry["embedding"] for entry in entries}
    except (ValueError, RecursionError, TypeError, LookupError) as error:
        raise _MalformedAnswer("answers with something else than embeddings") from error
    if len(entries) != count or set(found) != set(range(count)):
        raise _MalformedAnswer(f"answers {count} texts with {len(entries)} embeddings, or numbers them wrongly")
    return _parse_matrix([found[index] for index in range(count)])


def _parse_matrix(embeddings: list[Any]) -> NDArray[np.float64]:
    if (
        {type(some) for some in embeddings} != {list}
        or len({len(some) for some in embeddings}) != 1
        or not embeddings[0]
    ):
        raise _MalformedAnswer("gives embeddings of different lengths, or none")
    if not all(type(value) in (int, float) for some in embeddings for value in some):
        raise _MalformedAnswer("gives an embedding with something else than numbers")
    try:
        matrix = np.array(embeddings, dtype=np.float64)
    except OverflowError as error:
        raise _MalformedAnswer("gives an embedding with a number beyond all bounds") from error
    if not np.isfinite(matrix).all():
        raise _MalformedAnswer("gives an embedding with NaN or an infinite number")
    return matrix
