"""Calls and answers that are large are read and written beside the event loop; what is said is the same."""

from __future__ import annotations

import inspect
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.sandbox.messages import OFFLOAD_SIZE, encode_answer, is_large

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


class Noticing(inspect.Signature):
    """A signature that knows in which thread arguments were bound to it."""

    __slots__ = ("threads",)

    def bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        self.threads.append(threading.current_thread())
        return super().bind(*args, **kwargs)


class Noticed(dict[str, Any]):
    """An answer that knows in which thread it was written."""

    thread: threading.Thread | None = None

    def items(self) -> Any:
        self.thread = threading.current_thread()
        return super().items()


@pytest.mark.parametrize(("size", "beside"), [(10, False), (2 * OFFLOAD_SIZE, True)])
def test_large_arguments_are_read_beside_the_event_loop(run, size, beside):
    async def length(text: str) -> int:
        return len(text)

    signature = Noticing(inspect.signature(length).parameters.values())
    signature.threads = []
    length.__signature__ = signature
    code = "import prowess\nprowess.submit(prowess.length('x' * {{ size }}))"
    assert run(code, {"size": size}, {"length": length}).result == size
    assert [thread is not threading.main_thread() for thread in signature.threads] == [beside]


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "é\n" * OFFLOAD_SIZE},
        {"many": [1] * (OFFLOAD_SIZE + 1)},
        {str(number): [number] for number in range(OFFLOAD_SIZE)},
    ],
)
def test_large_answers_are_written_beside_the_event_loop(run, answer):
    noticed = Noticed(answer)

    async def given_back() -> Any:
        return noticed

    code = "import prowess\nanswer = prowess.given_back()\nprowess.submit([len(answer), list(answer.values())[-1]])"
    assert run(code, functions={"given_back": given_back}).result == [len(answer), list(answer.values())[-1]]
    assert noticed.thread not in {None, threading.main_thread()}


def test_what_is_large_is_found_out_without_going_through_all_of_it():
    class Endless(list[int]):
        def __len__(self) -> int:
            return OFFLOAD_SIZE + 1

        def __iter__(self) -> Any:
            raise AssertionError("nobody looks at what is in it")

    assert is_large({"a": Endless()})
    assert not is_large({"a": ["x" * 100, {"b": None}]})


@given(JSON)
def test_an_answer_says_what_was_given(value):
    import asyncio

    assert json.loads(asyncio.run(encode_answer(value))) == {"value": value}
