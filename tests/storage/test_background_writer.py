"""Writing in the background: what is taken first is written first, also where a second thread prepares what is next."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from prowess.storage.background_writer import IDLE_POLL_SECONDS, SECOND_THREAD_ITEMS, BackgroundWriter

BATCH = 2 * SECOND_THREAD_ITEMS
WAIT = 30.0


class Numbers:
    """A backlog of numbers, all of which must be written at once."""

    def __init__(self) -> None:
        self._queue: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, numbers: Sequence[int]) -> None:
        self._queue.extend(numbers)

    def wait(self) -> float | None:
        return 0 if self._queue else None

    def take(self, *, everything: bool) -> list[int]:  # noqa: ARG002
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]

    def clear(self) -> None:
        self._queue.clear()


class Disk:
    """Takes what is written, and holds the first batch up until the second is prepared, as a slow disk would."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.overlapped = False
        self._prepared = 0
        self._second = threading.Event()

    def prepare(self, batch: Sequence[int]) -> list[int]:
        self._prepared += 1
        if self._prepared == 2:
            self._second.set()
        return list(batch)

    def write(self, batch: list[int]) -> None:
        if not self.written:
            self.overlapped = self._second.wait(WAIT)
        self.written += batch


class Shelf:
    """Takes what is written, and tells."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self._more = threading.Semaphore(0)

    def write(self, batch: list[int]) -> None:
        self.written += batch
        self._more.release()

    def wait(self) -> bool:
        return self._more.acquire(timeout=WAIT)


def writer_to(disk: Disk, backlog: Numbers) -> BackgroundWriter[int, list[int]]:
    return BackgroundWriter[int, list[int]](backlog, prepare=disk.prepare, write=disk.write, name="test-numbers")


def add(writer: BackgroundWriter[int, list[int]], backlog: Numbers, numbers: Sequence[int]) -> None:
    with writer.lock:
        backlog.add(numbers)
        writer.wake()


def test_in_a_crowd_the_next_batch_is_prepared_while_one_is_written_and_the_order_stays() -> None:
    backlog, disk = Numbers(), Disk()
    writer = writer_to(disk, backlog)
    add(writer, backlog, range(20 * BATCH))
    assert writer.flush(WAIT)
    assert disk.overlapped
    assert disk.written == list(range(20 * BATCH))
    writer.close()


def test_a_flush_waits_for_what_the_second_thread_has_taken() -> None:
    backlog, disk = Numbers(), Disk()
    writer = writer_to(disk, backlog)
    add(writer, backlog, range(2 * BATCH))
    assert writer.flush(WAIT)
    assert disk.written == list(range(2 * BATCH))
    writer.close()


def test_closing_writes_what_is_left_in_order() -> None:
    backlog, disk = Numbers(), Disk()
    writer = writer_to(disk, backlog)
    add(writer, backlog, range(5 * BATCH))
    writer.close()
    assert disk.written == list(range(5 * BATCH))


def test_what_may_wait_is_written_whether_the_thread_dozes_or_sleeps() -> None:
    backlog, shelf = Numbers(), Shelf()
    writer = BackgroundWriter[int, list[int]](backlog, prepare=list, write=shelf.write, name="test-numbers")
    for number in range(50):
        with writer.lock:
            backlog.add([number])
            writer.wake(within=IDLE_POLL_SECONDS)
        assert shelf.wait()
    assert shelf.written == list(range(50))
    writer.close()
