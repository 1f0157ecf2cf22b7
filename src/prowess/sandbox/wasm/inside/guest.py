"""Interpreters, each in its own WebAssembly instance: made, prepared, and used for one script."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wasmtime import Engine, Store, WasmtimeError
from wasmtime.component import Component, Func, Linker, LinkerInstance, Record, ResourceAny, ResourceHost, ResourceType

from prowess.sandbox.wasm.inside.bindings import (
    add_bytes,
    add_call,
    add_nothing,
    call_plain,
    call_text,
    epoch_callback,
    fuel_left,
    set_epoch_deadline,
    set_limits,
    watch,
)
from prowess.sandbox.wasm.inside.engine import GuestClock, StopGuest, Ticker

PRINT = "print"
"""The name of the call that hands over printed text."""
TICKS = 2
"""After how many ticks a guest is checked again."""
MAX_TABLES = (100_000, 100, 20, 10)
"""The most elements of tables, instances, tables, and memories of a guest."""
PREPARING_SECONDS, PREPARING_FUEL, PREPARING_BYTES = 60.0, 10**10, 256 << 20

Ask = Callable[[str, str], str]
"""Calls the host with the name of a function and its arguments as JSON, and returns JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLimits:
    """Limits of one script."""

    fuel: int
    seconds: float
    memory_bytes: int
    output_chars: int
    call_bytes: int
    result_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestOutcome:
    """How a run ended, in one word, and what the guest reported."""

    word: str
    stdout: str = ""
    fuel: int = 0
    detail: str = ""
    report: str = ""


class GuestFactory:
    """Makes guests of one component."""

    def __init__(self, engine: Engine, component: Component) -> None:
        self.engine = engine
        self._component = component
        self.ticker = Ticker(engine)
        self._here = threading.local()  # one linker serves all threads, so its functions must find their guest
        self._watch = epoch_callback(self._over, TICKS)
        self._linker = Linker(engine)
        add_wasi(self._linker, self.current)
        with self._linker.root() as root:
            add_call(root, "call", self._called, self._fits, self._too_large)
        # CPython imports all of WASI, of which it calls little. A call of the rest ends the guest.
        self._linker.define_unknown_imports_as_traps(component)
        self._exports = [component.get_export_index(name) or name for name in ("prepare", "run")]

    def current(self) -> Guest:
        """Return the guest that this thread runs."""
        return self._here.guest

    def make(self) -> Guest:
        """Return an unused guest, ready to run."""
        store = Store(self.engine)
        set_limits(store, memory_bytes=PREPARING_BYTES, tables=MAX_TABLES, fuel=PREPARING_FUEL)
        watch(store, self._watch)
        guest = Guest(self, store)
        with self.running(guest):
            instance = self._linker.instantiate(store, self._component)
            prepare, run = (instance.get_func(store, index) for index in self._exports)
            if prepare is None or run is None:
                raise WasmtimeError("This is not a component for scripts.")
            call_plain(prepare, store)
            guest.function = run
        return guest

    def running(self, guest: Guest) -> _RunningGuest:
        """Return a context in which this thread runs the guest."""
        return _RunningGuest(self._here, guest, self.ticker)

    def _fits(self, name: int, payload: int) -> bool:
        return self.current().fits(name, payload)

    def _over(self) -> bool:
        return self.current().clock.over()

    def _called(self, name: str, payload: str) -> str:
        return self.current().called(name, payload)

    def _too_large(self, name: str, _: str) -> str:
        return self.current().too_large(name)


class _RunningGuest:
    def __init__(self, here: threading.local, guest: Guest, ticker: Ticker) -> None:
        self._here, self._guest, self._ticker = here, guest, ticker

    def __enter__(self) -> None:
        self._here.guest = self._guest
        # One tick from now: the deadline counts from the current epoch, which may have moved far since the guest was made.
        set_epoch_deadline(self._guest.store, 1)
        self._ticker.__enter__()

    def __exit__(self, *_: object) -> None:
        self._ticker.__exit__()
        self._here.guest = None


class Guest:
    """One interpreter, for one script."""

    def __init__(self, factory: GuestFactory, store: Store) -> None:
        self._factory = factory
        self.store = store
        self.function: Func | None = None
        self.clock = GuestClock(PREPARING_SECONDS)
        self.timers: dict[int, int] = {}
        self._ask: Ask = _refuse_call
        self._limits: GuestLimits | None = None
        self._printed: list[str] = []
        self._chars = 0

    def run(self, task: str, limits: GuestLimits, ask: Ask, clock: GuestClock) -> GuestOutcome:
        """Run a script and return the outcome. A guest runs only once."""
        self._ask, self._limits, self.clock = ask, limits, clock
        # The guest was made ahead, before its script and the limits of that were known.
        set_limits(self.store, memory_bytes=limits.memory_bytes, tables=MAX_TABLES, fuel=limits.fuel)
        word, report, detail = "done", "", ""
        try:
            with self._factory.running(self):
                clock.go_on()
                report = self._call(task)
        except WasmtimeError as error:
            # If we stopped the guest, the engine only knows that a host function failed.
            word, detail = _stop_reason(str(error)) if not clock.reason else (clock.reason, "")
        if len(report) > limits.result_bytes:
            word, report, detail = "result", "", f"it has {len(report):,} bytes"
        return GuestOutcome(
            word=word, stdout="".join(self._printed), fuel=limits.fuel - self._fuel_left(), detail=detail, report=report
        )

    def close(self) -> None:
        """Release its memory."""
        self.store.close()

    def fits(self, name: int, payload: int) -> bool:
        """Return True if a call of that size, in bytes, is accepted."""
        limits = self._limits
        # Up to four bytes for a character. This only keeps huge texts from being copied; the exact limits are checked later.
        return limits is None or (name <= 1_000 and payload <= max(limits.call_bytes, 4 * limits.output_chars))

    def too_large(self, name: str) -> str:
        """Return the answer to a call that is too large."""
        if name == PRINT:
            raise self.clock.stop("output")
        message = f"The arguments of {name[:60]}() exceed the limit of {self._limits.call_bytes if self._limits else 0:,} bytes."
        return json.dumps({"error": {"message": message, "code": "too-large"}})

    def called(self, name: str, payload: str) -> str:
        """Return the answer to a call."""
        self.clock.check()
        if name == PRINT:
            return self._print(payload)
        if self._limits and len(payload) > self._limits.call_bytes:
            return self.too_large(name)
        self.clock.pause()
        try:
            return self._ask(name, payload)
        finally:
            self.clock.go_on()
            self.clock.check()

    def _call(self, task: str) -> str:
        if self.function is None:
            raise WasmtimeError("This guest was not initialized.")
        return call_text(self.function, self.store, task)

    def _print(self, text: str) -> str:
        room = (self._limits.output_chars if self._limits else 0) - self._chars
        self._printed.append(text[:room])
        self._chars += len(text)
        if len(text) > room:
            raise self.clock.stop("output")
        return ""

    def _fuel_left(self) -> int:
        try:
            # After an interruption by the clock this is out of date; it is exact after a regular end and when all fuel
            # is used.
            return fuel_left(self.store)
        except WasmtimeError:
            return 0


def _refuse_call(name: str, _: str) -> str:
    raise StopGuest(name)


def _stop_reason(message: str) -> tuple[str, str]:
    """Return why the engine ended a guest, in one word, and the import that it tried to use."""
    # Recognized by the message, which is stable because the version of wasmtime is pinned.
    if "all fuel consumed" in message:
        return "fuel", ""
    if "call stack exhausted" in message:
        return "stack", ""
    for line in message.splitlines():
        if "unknown import" in line:
            return "forbidden", line.partition("`")[2].partition("`")[0][:100]
    return "crashed", message.strip().splitlines()[-1].strip()[:200] if message.strip() else ""


# The interfaces that componentize-py builds into the interpreter. The name of an import includes the version.
VERSION = "0.2.9"
MAX_TIMERS = 1_000
MAX_RANDOM_BYTES = 65_536
_POLLABLE = 1


class WaitingGuest(Protocol):
    """A guest, as WASI sees it."""

    clock: GuestClock
    timers: dict[int, int]
    """The moments that it waits for, by resource number."""


def add_wasi(linker: Linker, current: Callable[[], WaitingGuest]) -> None:
    """Define the functions; `current` returns the calling guest."""
    with linker.root() as root:
        _add_poll(root, current)
        _add_clocks(root, current)
        with root.add_instance(f"wasi:random/random@{VERSION}") as random:
            # Bounded, since the guest chooses the size and the memory is the worker's.
            add_bytes(random, "get-random-bytes", lambda size: os.urandom(min(size, MAX_RANDOM_BYTES)))
            random.add_func("get-random-u64", _wrap_errors(_random_u64))
        with root.add_instance(f"wasi:cli/environment@{VERSION}") as environment:
            add_nothing(environment, "get-environment")
            add_nothing(environment, "get-arguments")
        with root.add_instance(f"wasi:filesystem/preopens@{VERSION}") as preopens:
            add_nothing(preopens, "get-directories")


def _random_u64(_: Store) -> int:
    return int.from_bytes(os.urandom(8), "little")


def _wrap_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn every exception into an error of the engine.

    The bindings keep an exception that crosses them in a global, where another thread could raise it.
    """

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except WasmtimeError:
            raise
        except BaseException:  # noqa: BLE001
            raise WasmtimeError("stopped") from None

    return call


def _add_poll(root: LinkerInstance, current: Callable[[], WaitingGuest]) -> None:
    # Sleeping is implemented here, on the guest's clock: epochs cannot interrupt a call of the host, and with the WASI
    # of wasmtime `time.sleep(20)` ignored a limit of one second.
    def moment(store: Store, pollable: ResourceAny) -> int:
        return current().timers.get(pollable.to_host(store).rep, 0)

    def poll(store: Store, pollables: list[ResourceAny]) -> list[int]:
        moments = [moment(store, pollable) for pollable in pollables]
        first = min(moments)
        current().clock.sleep_until(first)
        return [index for index, one in enumerate(moments) if one <= first]

    def block(store: Store, pollable: ResourceAny) -> None:
        current().clock.sleep_until(moment(store, pollable))

    def ready(store: Store, pollable: ResourceAny) -> bool:
        return moment(store, pollable) <= time.monotonic_ns()

    def drop(_: Store, number: int) -> None:
        current().timers.pop(number, None)

    with root.add_instance(f"wasi:io/poll@{VERSION}") as instance:
        instance.add_resource("pollable", ResourceType.host(_POLLABLE), _wrap_errors(drop))
        instance.add_func("poll", _wrap_errors(poll))
        instance.add_func("[method]pollable.block", _wrap_errors(block))
        instance.add_func("[method]pollable.ready", _wrap_errors(ready))


def _add_clocks(root: LinkerInstance, current: Callable[[], WaitingGuest]) -> None:
    def timer(moment: int) -> ResourceHost:
        guest = current()
        # Each timer takes memory of the worker, which all scripts share.
        if len(guest.timers) >= MAX_TIMERS:
            raise guest.clock.stop("forbidden")
        number = max(guest.timers, default=0) + 1
        guest.timers[number] = moment
        return ResourceHost.own(number, _POLLABLE)

    def wall(_: Store) -> Record:
        now = Record()
        now.seconds, now.nanoseconds = divmod(time.time_ns(), 10**9)  # type: ignore[attr-defined]
        return now

    def now(_: Store) -> int:
        return time.monotonic_ns()

    def resolution(_: Store) -> int:
        return 1

    def at(_: Store, moment: int) -> ResourceHost:
        return timer(moment)

    def after(_: Store, length: int) -> ResourceHost:
        return timer(time.monotonic_ns() + length)

    with root.add_instance(f"wasi:clocks/monotonic-clock@{VERSION}") as monotonic:
        monotonic.add_func("now", _wrap_errors(now))
        monotonic.add_func("resolution", _wrap_errors(resolution))
        monotonic.add_func("subscribe-instant", _wrap_errors(at))
        monotonic.add_func("subscribe-duration", _wrap_errors(after))
    with root.add_instance(f"wasi:clocks/wall-clock@{VERSION}") as clock:
        clock.add_func("now", _wrap_errors(wall))
