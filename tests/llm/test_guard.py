"""A guarded model tries again after what passes, keeps to a time and a pace, and changes nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from prowess.errors import ProwessError, Refused, RunFailed, TimedOut, TryLater, Unavailable
from prowess.llm.model import Message, Reply, Request
from prowess.llm.models import RateLimit
from prowess.llm.scripted import ScriptedModel
from prowess.llm.wrappers import MAX_WAIT_SECONDS, GuardedModel

pytestmark = pytest.mark.anyio

ASKING = Request(messages=(Message(role="user", text="Where?"),))


class Waits:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def ask(request):
    async def once(model) -> str:
        if not request.param:
            return (await model.complete(ASKING)).text
        *pieces, last = [piece async for piece in model.stream(ASKING)]
        assert "".join(pieces) == last.text
        return last.text

    return once


def passing(retry_after: float | None = None) -> TryLater:
    return TryLater("busy", retry_after=retry_after)


async def test_what_passes_is_tried_again_after_waits_that_may_grow(ask, waits):
    inner = ScriptedModel([passing(), passing(), "at last"])

    assert await ask(GuardedModel(inner, attempts=3, sleep=waits.sleep)) == "at last"

    assert len(waits.slept) == 2
    assert 0 <= waits.slept[0] <= 0.5
    assert 0 <= waits.slept[1] <= 1
    inner.finish()


async def test_after_the_last_attempt_the_fault_is_told(ask, waits):
    inner = ScriptedModel([passing(), passing(), passing(), "never asked for"])

    with pytest.raises(Unavailable, match="busy"):
        await ask(GuardedModel(inner, attempts=3, sleep=waits.sleep))

    assert (inner.left, len(waits.slept)) == (1, 2)


async def test_a_try_waits_as_long_as_the_provider_asks(ask, waits):
    inner = ScriptedModel([passing(7), "ok"])

    assert await ask(GuardedModel(inner, sleep=waits.sleep)) == "ok"

    assert waits.slept == [7]


async def test_there_is_no_further_try_where_the_provider_asks_for_too_long(ask, waits):
    inner = ScriptedModel([passing(MAX_WAIT_SECONDS + 1), "never asked for"])

    with pytest.raises(Unavailable):
        await ask(GuardedModel(inner, sleep=waits.sleep))

    assert (inner.left, waits.slept) == (1, [])


@pytest.mark.parametrize("fault", [Unavailable, RunFailed, TimedOut, Refused])
async def test_what_does_not_pass_is_not_tried_again(ask, waits, fault):
    inner = ScriptedModel([fault("no"), "never asked for"])

    with pytest.raises(fault):
        await ask(GuardedModel(inner, sleep=waits.sleep))

    assert (inner.left, waits.slept) == (1, [])


async def collect(model: GuardedModel, seen: list[object]) -> None:
    async for piece in model.stream(ASKING):
        seen.append(piece)  # noqa: PERF401  (what came before an error is kept)


class Breaking:
    """A model whose streams break after some pieces."""

    name, family, structured = "breaking", "breaking", False

    def __init__(self, pieces: int) -> None:
        self.asked = 0
        self.closed = 0
        self._pieces = pieces

    async def complete(self, _: Request) -> Reply:
        raise NotImplementedError

    async def stream(self, _: Request) -> AsyncGenerator[str | Reply]:
        self.asked += 1
        try:
            for number in range(self._pieces):
                yield f"{number}"
            raise TryLater("broke off")
        finally:
            self.closed += 1


async def test_a_stream_is_not_begun_again_after_its_first_piece(waits):
    inner = Breaking(2)
    seen: list[object] = []

    with pytest.raises(Unavailable, match="broke off"):
        await collect(GuardedModel(inner, attempts=3, sleep=waits.sleep), seen)

    assert seen == ["0", "1"]
    assert (inner.asked, inner.closed, waits.slept) == (1, 1, [])


async def test_a_stream_that_breaks_before_its_first_piece_is(waits):
    inner = Breaking(0)

    with pytest.raises(Unavailable, match="broke off"):
        _ = [piece async for piece in GuardedModel(inner, attempts=3, sleep=waits.sleep).stream(ASKING)]

    assert (inner.asked, inner.closed, len(waits.slept)) == (3, 3, 2)


async def test_leaving_a_guarded_stream_closes_the_one_inside():
    inner = Breaking(5)
    stream = GuardedModel(inner).stream(ASKING)

    await anext(stream)
    await stream.aclose()

    assert inner.closed == 1


class Silent:
    """A model that answers nothing, or nothing after its first piece."""

    name, family, structured = "silent", "silent", False

    def __init__(self, *pieces: str) -> None:
        self.cancelled = 0
        self._pieces = pieces

    async def complete(self, _: Request) -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        raise AssertionError

    async def stream(self, _: Request) -> AsyncGenerator[str | Reply]:
        for piece in self._pieces:
            yield piece
        yield await self.complete(ASKING)


async def test_an_answer_that_does_not_come_in_time_is_timed_out_and_not_asked_for_again(ask, waits):
    inner = Silent()

    with pytest.raises(TimedOut, match=r"silent timed out after 0\.01 seconds"):
        await ask(GuardedModel(inner, timeout_seconds=0.01, attempts=3, sleep=waits.sleep))

    assert (inner.cancelled, waits.slept) == (1, [])


async def test_so_is_a_stream_whose_next_piece_does_not_come():
    inner = Silent("one", "two")
    seen: list[object] = []

    with pytest.raises(TimedOut):
        await collect(GuardedModel(inner, timeout_seconds=0.01), seen)

    assert seen == ["one", "two"]
    assert inner.cancelled == 1


async def test_a_stream_may_take_longer_than_the_time_for_one_piece():
    class Slow(Silent):
        async def stream(self, _: Request) -> AsyncGenerator[str | Reply]:
            for number in range(20):
                await asyncio.sleep(0)
                yield f"{number}"
            yield Reply(text="".join(f"{number}" for number in range(20)))

    pieces = [piece async for piece in GuardedModel(Slow(), timeout_seconds=5).stream(ASKING)]

    assert len(pieces) == 21


async def test_cancelling_reaches_the_model_inside(ask):
    inner = Silent()
    task = asyncio.ensure_future(ask(GuardedModel(inner)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert inner.cancelled == 1


async def test_an_answer_of_nothing_at_all_is_an_error():
    class Empty(Silent):
        async def stream(self, _: Request) -> AsyncGenerator[str | Reply]:
            for piece in ():
                yield piece

    with pytest.raises(ProwessError, match="empty answer"):
        _ = [piece async for piece in GuardedModel(Empty()).stream(ASKING)]


async def test_requests_of_one_model_start_evenly(ask, waits):
    inner = ScriptedModel([f"{number}" for number in range(5)])
    model = GuardedModel(inner, pace=RateLimit(120, clock=waits.clock, sleep=waits.sleep))

    for _ in range(5):
        await ask(model)

    assert waits.slept == pytest.approx([0.5] * 4)


async def test_a_further_try_waits_for_its_turn_too(waits):
    inner = ScriptedModel([passing(), "ok"])
    model = GuardedModel(inner, pace=RateLimit(1, clock=waits.clock, sleep=waits.sleep), sleep=waits.sleep)

    await model.complete(ASKING)

    assert waits.now >= 160


async def test_turns_that_are_asked_for_at_once_are_given_one_after_another():
    starts: list[float] = []

    async def noted(seconds: float) -> None:
        starts.append(seconds)

    pace = RateLimit(60, clock=lambda: 0.0, sleep=noted)

    await asyncio.gather(*(pace.turn() for _ in range(4)))

    assert starts == pytest.approx([1, 2, 3])


async def test_who_comes_late_does_not_wait(waits):
    pace = RateLimit(60, clock=waits.clock, sleep=waits.sleep)

    await pace.turn()
    waits.now += 10
    await pace.turn()

    assert waits.slept == []


def test_a_guard_is_named_and_shown_as_the_model_inside():
    inner = ScriptedModel([], name="scripted:inside", family="anthropic", structured=False)
    model = GuardedModel(inner)

    assert (model.name, model.family, model.structured) == ("scripted:inside", "anthropic", False)
    assert "scripted:inside" in repr(model)
