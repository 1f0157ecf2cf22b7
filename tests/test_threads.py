"""Quick work shares few threads, and work that turns out to be slow holds up nobody."""

from __future__ import annotations

import asyncio
import gc
import threading
from weakref import ref

import pytest

from prowess import threads
from prowess.threads import (
    PARTY_THREADS,
    QUICK_THREADS,
    offload,
    offload_quick,
    offload_to_completion,
    run_blocking,
    share_threads,
)

pytestmark = pytest.mark.anyio


async def test_quick_work_is_done_by_few_threads_at_a_time():
    lock, running, most = threading.Lock(), 0, 0
    gate, entered = threading.Event(), threading.Semaphore(0)

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        entered.release()
        gate.wait(5)
        with lock:
            running -= 1
        return number

    tasks = [asyncio.create_task(offload_quick(work, number)) for number in range(10)]
    for _ in range(QUICK_THREADS):
        assert await offload(entered.acquire, timeout=5)
    gate.set()

    assert await asyncio.gather(*tasks) == list(range(10))
    assert most == QUICK_THREADS


async def test_slow_work_does_not_hold_up_quick_work(monkeypatch):
    monkeypatch.setattr(threads, "QUICK_SECONDS", 0.0)
    gate = threading.Event()
    slow = [asyncio.create_task(offload_quick(gate.wait, 30)) for _ in range(QUICK_THREADS)]

    assert await offload_quick(lambda: "done") == "done"

    gate.set()
    assert await asyncio.gather(*slow) == [True] * QUICK_THREADS


async def test_an_error_and_a_cancelled_caller_leave_room_for_the_next():
    def fail() -> None:
        raise ValueError("no")

    for _ in range(2 * QUICK_THREADS):
        with pytest.raises(ValueError, match="no"):
            await offload_quick(fail)
    gate = threading.Event()
    waiting = [asyncio.create_task(offload_quick(gate.wait, 30)) for _ in range(3 * QUICK_THREADS)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    gate.set()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert await offload_quick(lambda: "done") == "done"


@pytest.mark.parametrize("way", [offload, offload_quick])
async def test_a_party_that_hangs_up_keeps_no_more_threads_busy_than_its_share(way):
    gate, entered = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        entered.release()
        gate.wait(60)

    async def ask() -> list[asyncio.Task[None]]:
        with share_threads("ann"):
            return [asyncio.create_task(way(work)) for _ in range(2 * PARTY_THREADS)]

    try:
        asked = await ask()
        for _ in range(PARTY_THREADS):
            await asyncio.to_thread(entered.acquire)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        again = await ask()
        async with asyncio.timeout(10):
            # As many as the threads that are left, so that all of them must be free.
            await asyncio.gather(*[offload(str) for _ in range(PARTY_THREADS)])
        assert not entered.acquire(blocking=False)
    finally:
        gate.set()
    async with asyncio.timeout(10):
        await asyncio.gather(*again)


def test_blocking_work_runs_in_this_thread_without_an_event_loop():
    async def work() -> list[int]:
        return [await way(threading.get_ident) for way in (offload, offload, offload_quick, offload_to_completion)]

    assert run_blocking(work()) == [threading.get_ident()] * 4


def test_an_error_of_blocking_work_reaches_its_caller():
    async def work() -> None:
        await offload(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        run_blocking(work())


def test_work_that_waits_for_something_else_needs_an_event_loop():
    closed = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(RuntimeError, match="event loop"):
        run_blocking(work())
    assert closed == [True]


def test_a_closed_event_loop_is_forgotten():
    async def work() -> ref[asyncio.AbstractEventLoop]:
        # More than there are threads, so that some have to wait.
        await asyncio.gather(*(offload_quick(int) for _ in range(3 * QUICK_THREADS)))
        return ref(asyncio.get_running_loop())

    old = asyncio.run(work())
    asyncio.run(work())
    gc.collect()
    assert old() is None
