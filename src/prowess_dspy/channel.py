"""Lines in and out, and the calls that a request makes while it runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any, Literal

import orjson

from prowess_dspy.errors import CallFailed, InvalidMessage, Stopped

MAX_LINE = 32 << 20
CallKind = Literal["llm", "tool", "metric", "code"]
JsonObject = dict[str, Any]


def encode(value: Any, *, sort: bool = False) -> bytes:
    """Return a value as JSON. Objects that JSON does not have become text."""
    options = orjson.OPT_NON_STR_KEYS | (orjson.OPT_SORT_KEYS if sort else 0)
    try:
        return orjson.dumps(value, default=str, option=options)
    except TypeError:  # for example an integer of more than 64 bits
        return json.dumps(value, default=str, sort_keys=sort, separators=(",", ":")).encode()


class Channel:
    """Reads and writes messages. Any thread may write; one thread reads."""

    def __init__(self, reader: int, writer: int) -> None:
        self._input = os.fdopen(reader, "rb", buffering=1 << 16)
        self._writer = writer
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}

    def messages(self) -> Iterator[JsonObject | InvalidMessage]:
        """Yield messages until the input ends. A line that is not a message is yielded as the error to answer with."""
        while line := self._input.readline(MAX_LINE):
            if not line.endswith(b"\n"):
                if len(line) < MAX_LINE:
                    return  # the parent ended in the middle of a line
                self._skip_line()
                yield InvalidMessage(f"The line is longer than {MAX_LINE} bytes.")
                continue
            if line.isspace():
                continue
            try:
                message = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                yield InvalidMessage(f"The line is not JSON: {error}")
                continue
            yield message if isinstance(message, dict) else InvalidMessage("The line is not a JSON object.")

    def _skip_line(self) -> None:
        while (rest := self._input.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass

    def send(self, message: JsonObject) -> None:
        """Write a message. Does nothing if the parent no longer reads: the end of our input follows."""
        line = memoryview(encode(message) + b"\n")
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._writer, line) :]
            except OSError:
                return

    def expect(self) -> tuple[int, Future[Any]]:
        """Return the number of a new call, and the future that its answer will complete."""
        number, future = next(self._numbers), Future[Any]()
        self._waiting[number] = future
        return number, future

    def forget(self, number: int) -> None:
        """Ignore the answer to a call from now on."""
        self._waiting.pop(number, None)

    def receive(self, message: JsonObject) -> None:
        """Complete the call that a message answers. Ignores an answer that nothing waits for."""
        number = message.get("reply")
        future = self._waiting.pop(number, None) if isinstance(number, int) else None
        if future is None:
            return
        error = message.get("error")
        # A request that is stopped completes its futures too, from another thread.
        with contextlib.suppress(InvalidStateError):
            if error is None:
                future.set_result(message.get("value"))
            elif isinstance(error, dict):
                future.set_exception(CallFailed(str(error.get("type", "Error")), str(error.get("message", ""))))
            else:
                future.set_exception(CallFailed("Error", str(error)))


class Session:
    """One request while it runs: the calls that it makes, what it has used, and whether it must stop."""

    def __init__(self, channel: Channel, request_id: int | str) -> None:
        self.id = request_id
        self.usage = {"llm_calls": 0, "metric_calls": 0, "input_tokens": 0, "output_tokens": 0}
        self.limits: dict[str, int] = {}
        self.last_error: CallFailed | None = None
        self._channel = channel
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] = set()
        self._stopped: str | None = None
        self._failures: Counter[CallKind] = Counter()

    def call(self, kind: CallKind, payload: JsonObject) -> Any:
        """Ask the parent and return its answer.

        Raises `CallFailed` if the answer is an error, and `Stopped` if the request was stopped or is over its limit.
        """
        # Sent under the lock, so that no call of another thread follows the result of a request that was stopped.
        with self._lock:
            self._check(kind)
            number, future = self._channel.expect()
            self._pending.add(future)
            self._channel.send({"call": number, "for": self.id, "kind": kind, "payload": payload})
        try:
            answer = future.result()
        except CallFailed as error:
            self._count_failure(kind, error)
            raise
        finally:
            self._channel.forget(number)
            with self._lock:
                self._pending.discard(future)
        self._failures[kind] = 0
        return answer

    def _count_failure(self, kind: CallKind, error: CallFailed) -> None:
        with self._lock:
            self.last_error = error
            self._failures[kind] += 1
            if self._failures[kind] >= self.limits.get("failures", self._failures[kind] + 1):
                self._stopped = self._stopped or "failed"

    def reject_answer(self, error: CallFailed) -> None:
        """Raise an error about an answer. A request with a limit of failures makes no more calls: it could not continue."""
        with self._lock:
            self.last_error = error
            if "failures" in self.limits:
                self._stopped = self._stopped or "failed"
        raise error

    def _check(self, kind: CallKind) -> None:
        if self._stopped:
            raise Stopped(self._stopped)
        counter = f"{kind}_calls"
        if counter in self.usage:
            if self.usage[counter] >= self.limits.get(counter, self.usage[counter] + 1):
                self._stopped = "limit"  # for the other threads of the request as well
                raise Stopped("limit")
            self.usage[counter] += 1

    def count(self, kind: CallKind) -> None:
        """Count a call that is answered here. Raises `Stopped` as `call` does."""
        with self._lock:
            self._check(kind)

    def count_tokens(self, usage: Any) -> None:
        """Add the tokens that the answer to a model call reports."""
        if not isinstance(usage, dict):
            return
        with self._lock:
            for name in ("input_tokens", "output_tokens"):
                if isinstance(amount := usage.get(name), int):
                    self.usage[name] += amount

    def progress(self, **fields: Any) -> None:
        """Report progress, unless the request was stopped."""
        with self._lock:
            if not self._stopped:
                self._channel.send({"id": self.id, "event": "progress", **fields})

    def stop(self, reason: str) -> None:
        """Make every call, those that wait now and those to come, raise `Stopped`."""
        with self._lock:
            self._stopped = self._stopped or reason
            pending, self._pending = self._pending, set()
        for future in pending:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(Stopped(reason))

    @property
    def stopped(self) -> str | None:
        """Return why the request must stop, or None."""
        return self._stopped
