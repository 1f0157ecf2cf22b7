"""An embedder behind HTTP: any server with an OpenAI-compatible `/embeddings` endpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from threading import Lock
from typing import Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Invalid, Unavailable
from prowess.match.vectors.embedder import quantize, remove_surrogates
from prowess.net.client import send_to_server
from prowess.net.connection import ExchangeFailed
from prowess.net.target import DEFAULT_PORTS, Target

LARGEST_ANSWER = 64 * 1024**2


class RequestInterrupted(Exception):
    """There is no complete answer: no connection, a broken one, or a timeout. A retry may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The URL for requests, and the API key, which is never shown."""

    url: str
    target: Target
    key: str = field(repr=False)

    @classmethod
    def parse(cls, base_url: str, key: str) -> Self:
        """Return the address of `/embeddings` below a base URL, or raise `Invalid`."""
        url = base_url.rstrip("/")
        parts, port = _split_url(url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise Invalid("the URL of an embedding server must start with http:// or https://", hint=_URL_HINT)
        if parts.username is not None or parts.query or parts.fragment:
            raise Invalid("the URL of an embedding server must not have a user, query or fragment", hint=_URL_HINT)
        # A line break in the key would start another header.
        if not (key.isascii() and key.isprintable()) or key != key.strip():
            raise Invalid("the API key has invalid characters", hint="Check for a line break that was copied with it.")
        if key and parts.scheme == "http" and not _is_loopback(host):
            raise Invalid(
                "the API key would be sent over http, where others can read it", hint="Use https, or remove the key."
            )
        scheme: Literal["https", "http"] = "https" if parts.scheme == "https" else "http"
        target = Target(scheme=scheme, host=host, port=port or DEFAULT_PORTS[scheme], path=f"{parts.path}/embeddings")
        return cls(url=url, target=target, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """The server's answer. `retry_after` is in seconds; the body is read only if the status is 200."""

    status: int
    body: bytes = b""
    retry_after: float = 0.0


def post_json(address: ServerAddress, body: bytes, deadline: float) -> ServerAnswer:
    """Send JSON and return the answer, before `deadline` on the monotonic clock.

    Raise `RequestInterrupted` for a failure that may pass, `_MalformedAnswer` for an answer that is no use.
    """
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if address.key:
        headers["Authorization"] = f"Bearer {address.key}"
    try:
        response = send_to_server(
            address.target, method="POST", headers=headers, body=body, answer_bytes=LARGEST_ANSWER, deadline=deadline
        )
    except ExchangeFailed as failure:
        raise _to_error(failure) from failure
    asked = response.fields.get("retry-after", "")
    # The header may also hold a date, which is ignored: the usual pause applies.
    pause = float(asked) if response.status != 200 and asked.isdecimal() and len(asked) < 6 else 0.0
    return ServerAnswer(status=response.status, body=response.body, retry_after=pause)


def _to_error(failure: ExchangeFailed) -> RequestInterrupted | _MalformedAnswer:
    match failure.kind:
        case "size":
            return _MalformedAnswer("sends an answer that is far larger than expected")
        case "encoding":
            return _MalformedAnswer("sends something other than embeddings")
        case "timeout":
            return RequestInterrupted("does not answer in time")
        case "certificate" | "tls":
            reason = getattr(failure.__cause__, "reason", failure.detail)
            return RequestInterrupted(f"cannot be trusted or reached over TLS ({reason})")
        case "protocol":
            return RequestInterrupted(failure.detail)
        case "network":
            return RequestInterrupted(f"cannot be reached, or drops the connection ({failure.detail})")


def _split_url(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid("the URL of the embedding server is invalid", hint=_URL_HINT) from error
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise Invalid("the URL of the embedding server has invalid characters", hint=_URL_HINT)
    return parts, port


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


_URL_HINT = "It looks like https://api.example.com/v1."


BATCH_SIZE = 128
LONGEST_CHARACTERS = 8_000
"""Only the beginning of a longer text is sent: servers reject texts longer than their model reads."""

ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.5
_HINTS = {
    401: "Check the API key.",
    403: "Check the API key and its permissions.",
    404: "Check the base URL, which often ends in /v1, and the name of the model.",
    429: "The server asks for fewer requests: wait, or raise the limit there.",
}
_MALFORMED_HINT = (
    "Check that the base URL is that of an OpenAI-compatible server, and that the model is for embeddings."
)


class EndpointEmbedder:
    """Sends texts to a server, 128 at a time. The API key appears in no message, representation or log.

    `deadline` is the time in seconds for such a request including retries: 429, 5xx and broken connections are retried
    after a pause, as long as there is time. Redirects are not followed, because they would carry the key elsewhere. Raises
    `Unavailable` if there is no good answer. A blank text is not sent; its row is zeros.
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
        """Server and model, without asking the server, so that an index can be used while it is down."""
        return f"endpoint:{self._address.url}:{self._model}"

    @property
    def dimensions(self) -> int:
        """The length of a row; the first use asks the server."""
        with self._learning:
            known = self._known or self._asked(["A text to see how long a vector is."]).shape[1]
            self._known = known
            return known

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per text; zeros for a text without words."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.int8)
        filled = [row for row, text in enumerate(texts) if text.strip()]
        for start in range(0, len(filled), BATCH_SIZE):
            batch = filled[start : start + BATCH_SIZE]
            vectors = self._asked([remove_surrogates(texts[row][:LONGEST_CHARACTERS]) for row in batch])
            if vectors.shape[1] != self.dimensions:
                what = f"returns {vectors.shape[1]} numbers per text, but returned {self.dimensions} before"
                raise self._unavailable(what, "The model may have been replaced. Restart Prowess to use the new one.")
            rows[batch] = quantize(vectors)
        return rows

    def _asked(self, texts: list[str]) -> NDArray[np.float64]:
        body = json.dumps({"model": self._model, "input": texts}).encode()
        # A person waits for the vector of a single message, so that is not retried; building an index can wait.
        attempts = ATTEMPTS if len(texts) > 1 else 1
        try:
            answer = self._good_answer(body, time.monotonic() + self._deadline, attempts)
            return _parse_vectors(answer.body, len(texts))
        except _MalformedAnswer as error:
            raise self._unavailable(str(error), _MALFORMED_HINT) from None

    def _good_answer(self, body: bytes, deadline: float, attempts: int) -> ServerAnswer:
        """Return the first answer with status 200, retrying transient failures while there is time.

        After a final failure, requests fail at once for a while, without asking the server.
        """
        if self._failure is not None and time.monotonic() < self._away_until:
            raise self._failure
        attempt = 1
        while True:
            pause = _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)
            try:
                answer = post_json(self._address, body, deadline)
            except RequestInterrupted as error:
                failure = self._unavailable(str(error), "Check that it is running and reachable from here.")
            else:
                if answer.status == 200:
                    return answer
                failure = self._refusal(answer)
                # The server refuses this request; sending it again would not help.
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
            return self._unavailable("redirects to another address", "Use the address that it redirects to.")
        hint = _HINTS.get(answer.status, "Check the log of the server.")
        return self._unavailable(f"answers with status {answer.status}", hint)

    def _unavailable(self, what: str, hint: str) -> Unavailable:
        return Unavailable(f"the embedding server {self._address.url} {what}", hint=hint)


class _MalformedAnswer(Exception):
    """A problem with an answer, phrased as a predicate about the server."""


def _parse_vectors(body: bytes, count: int) -> NDArray[np.float64]:
    """Return the vectors of an answer in the order of the texts, or raise `_MalformedAnswer`."""
    try:
        answer: Any = json.loads(body)
        entries: Any = answer["data"]
        found: dict[Any, Any] = {entry["index"]: entry["embedding"] for entry in entries}
    except (ValueError, RecursionError, TypeError, LookupError) as error:
        raise _MalformedAnswer("sends something other than embeddings") from error
    if len(entries) != count or set(found) != set(range(count)):
        raise _MalformedAnswer(f"answers {count} texts with {len(entries)} embeddings, or with wrong index numbers")
    return _parse_matrix([found[index] for index in range(count)])


def _parse_matrix(embeddings: list[Any]) -> NDArray[np.float64]:
    if (
        {type(some) for some in embeddings} != {list}
        or len({len(some) for some in embeddings}) != 1
        or not embeddings[0]
    ):
        raise _MalformedAnswer("returns embeddings of different lengths, or none")
    # Not `isinstance`, for which true and false are integers.
    if not all(type(value) in (int, float) for some in embeddings for value in some):
        raise _MalformedAnswer("returns an embedding that contains something other than numbers")
    try:
        matrix = np.array(embeddings, dtype=np.float64)
    except OverflowError as error:
        raise _MalformedAnswer("returns an embedding with a number that is out of range") from error
    if not np.isfinite(matrix).all():
        raise _MalformedAnswer("returns an embedding with NaN or infinity")
    return matrix
