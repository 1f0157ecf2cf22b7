"""Hand blocking work to a thread. This is the only module that calls `asyncio.to_thread`.

asyncio is imported where it is used: importing it takes a tenth of a short command, which does without; see `run_blocking`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from prowess.shares import OF_CALLER, OF_ORGANIZATION, OF_USER, groups_of, share_of

if TYPE_CHECKING:
    import asyncio

SMALL_CHARS = 100_000
"""Parsing or searching a text up to this size takes about a millisecond, less than a thread costs the other tasks."""

QUICK_THREADS = 1
"""How many threads do quick work at a time. With two, a server under load needs a fifth more CPU for the same requests."""
QUICK_SECONDS = 0.25
"""Work that takes longer than this is not quick."""
_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""How many threads asyncio has."""
PARTY_THREADS = share_of(_THREADS, OF_CALLER)
"""How many threads one party has at a time, if its user and its organization have no others."""

P = ParamSpec("P")
T = TypeVar("T")


class KeyedSemaphore:
    """A semaphore for each key and event loop, with `each` permits. The key '' has no limit."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._semaphores: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Semaphore] = {}
        self._waiting: dict[tuple[asyncio.AbstractEventLoop, str], int] = {}

    @asynccontextmanager
    async def permit(self, party: str) -> AsyncGenerator[None]:
        """Hold a permit of a key."""
        if not party:
            yield
            return
        import asyncio

        # An asyncio semaphore belongs to one event loop, and a client serves several.
        key = (asyncio.get_running_loop(), party)
        semaphore = self._semaphores.setdefault(key, asyncio.Semaphore(self._each))
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            async with semaphore:
                yield
        finally:
            self._waiting[key] -= 1
            # The last user removes the entry: keys are run ids and host names, so the dictionaries would grow without limit.
            if not self._waiting[key]:
                del self._semaphores[key], self._waiting[key]


class PartyShares:
    """Lets no party hold more than its share of a whole, so that nobody waits behind everything that another one wants."""

    def __init__(self, total: int) -> None:
        shares = (OF_CALLER, OF_USER, OF_ORGANIZATION)
        self._permits = {share: KeyedSemaphore(share_of(total, share)) for share in shares}

    @asynccontextmanager
    async def permit(self, party: str) -> AsyncGenerator[None]:
        """Hold one of what a party may have. The party '' has no limit."""
        async with AsyncExitStack() as stack:
            # The own share first: who waits for it must not take up that of the organization.
            for group, share in reversed(groups_of(party)):
                await stack.enter_async_context(self._permits[share].permit(group))
            yield


_party: ContextVar[str] = ContextVar("party", default="")
_shares = PartyShares(_THREADS)


@contextmanager
def share_threads(party: str) -> Generator[None]:
    """Let what is done inside the block take no more than the share of one party: others find free threads."""
    token = _party.set(party)
    try:
        yield
    finally:
        _party.reset(token)


@contextmanager
def share_as_tenant(party: str) -> Generator[None]:
    """Do the same for a party of an organization, unless the caller of this has named one already."""
    with share_threads(_party.get() or _of_organization(party)):
        yield


def tenant() -> str:
    """Return the party that works now, or '' if it belongs to no organization: then nobody else waits for what it takes."""
    return _of_organization(_party.get())


def _of_organization(party: str) -> str:
    return "" if party.startswith("\x00") else party


async def _in_share(run: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work within the share of its party, which holds until the work is done, also if nobody waits for it any more.

    A thread cannot be cancelled. If a caller that hangs up gave its share back at once, it could occupy all threads.
    """
    party = _party.get()
    if not party:
        return await run()
    import asyncio

    begun = False

    async def hold() -> T:
        nonlocal begun
        async with _shares.permit(party):
            begun = True
            return await run()

    task = asyncio.ensure_future(hold())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if begun:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # or asyncio logs it as lost
        else:
            task.cancel()
        raise


def is_interruption(error: BaseException) -> bool:
    """Return True for an error that ends this task, or a generator, from outside.

    Code of a plugin may raise the same errors by itself, by mistake or not. Then they are failures like all others.
    """
    from asyncio import CancelledError, current_task

    if not isinstance(error, (CancelledError, KeyboardInterrupt)):
        return isinstance(error, GeneratorExit)
    try:
        task = current_task()
    except RuntimeError:  # no event loop: Ctrl-C
        return True
    return task is None or task.cancelling() > 0


class _Mode(threading.local):
    blocking = False


_mode = _Mode()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work that waits for nothing but `offload` in this thread, without an event loop."""
    _mode.blocking = True
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    finally:
        _mode.blocking = False
        work.close()
    raise RuntimeError("This work waits for something, so it needs an event loop.")


async def offload(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread and return its result. Inside `run_blocking`, it runs in the same thread."""
    if _mode.blocking:
        return work(*args, **kwargs)
    import asyncio

    return await _in_share(lambda: asyncio.to_thread(work, *args, **kwargs))


async def offload_quick(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work that usually takes a few milliseconds of CPU in a thread, one after another, and return its result.

    Python runs one thread at a time. With many at work, the event loop waits for its turn behind each of them, so that a
    server under load answers fewer requests the more threads it has. Work that takes longer than usual no longer counts,
    so that it holds up nobody. Work that waits, such as for another machine, belongs into `offload`.
    """
    if _mode.blocking:
        return work(*args, **kwargs)
    import asyncio

    loop = asyncio.get_running_loop()
    lane = _lanes.get(loop)
    if lane is None:
        _forget_closed_loops()
        lane = _lanes[loop] = asyncio.Semaphore(QUICK_THREADS)

    async def run() -> T:
        await lane.acquire()
        leave = _Once(lane.release)
        late = loop.call_later(QUICK_SECONDS, leave)
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            late.cancel()
            leave()

    # The share comes first: who waits for it must not be in the way of others.
    return await _in_share(run)


def _forget_closed_loops() -> None:
    """Drop the lanes of closed event loops. A semaphore that was waited for refers to its loop, which keeps both alive."""
    # `keyrefs` is one step, so that a loop in another thread may add its own in the meantime.
    for reference in _lanes.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _lanes.pop(loop, None)


class _Once:
    """Calls a function the first time that it is called."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


async def offload_if_large(size: int, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work on a text of `size` characters, in a thread if the text is large."""
    return work(*args, **kwargs) if size <= SMALL_CHARS else await offload(work, *args, **kwargs)


async def offload_to_completion(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread; if the caller is cancelled, wait until the work is done before leaving.

    A thread cannot be cancelled, so without this, work such as recording a cost would continue after the caller has returned.
    """
    return await _complete(lambda: work(*args, **kwargs), lambda: None)


async def offload_cancellable(
    work: Callable[[], T], *, on_cancel: Callable[[], None] = lambda: None, at_imports: bool = False
) -> T:
    """Run work in a thread that calls `check_cancelled` between its steps. If the caller is cancelled, it ends at the next one.

    What the work has kept by then stays. `on_cancel` is called as soon as the caller is cancelled. It can end what a step waits for.
    With `at_imports`, each import of a module is such a step in a process that called `stop_imports`.
    """
    cancelled = threading.Event()

    def run() -> T:
        # Only here: each thread has a copy of the context.
        _cancelled.set(cancelled)
        _at_imports.set(at_imports)
        return work()

    def cancel() -> None:
        cancelled.set()
        on_cancel()

    return await _complete(run, cancel)


def check_cancelled() -> None:
    """Raise `CancelledError` if the caller of the `offload_cancellable` around this was cancelled."""
    if is_cancelled():
        from asyncio import CancelledError

        raise CancelledError


def is_cancelled() -> bool:
    """Return True if the caller of the `offload_cancellable` around this was cancelled."""
    cancelled = _cancelled.get()
    return cancelled is not None and cancelled.is_set()


_cancelled: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)
_at_imports: ContextVar[bool] = ContextVar("at_imports", default=False)


class _ImportWatch:
    """Looks for no module, but is asked first."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002  (as Python calls it)
        if _at_imports.get():
            check_cancelled()


_watch = _ImportWatch()


def stop_imports() -> None:
    """Let cancelled work end at an import. The library of models takes seconds, which a person who stops a command would wait.

    A module that was stopped is imported anew when it is needed. Not for a server, where nobody waits for that.
    """
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


async def _complete(work: Callable[[], T], on_cancel: Callable[[], None]) -> T:
    """Run work in a thread. If the caller is cancelled, call `on_cancel`, and wait until the work has ended."""
    if _mode.blocking:
        return work()
    import asyncio

    task = asyncio.ensure_future(offload(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        on_cancel()
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it as lost
        raise
