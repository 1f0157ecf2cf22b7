"""The few WASI functions that the interpreter needs: clocks, sleeping, randomness, and empty lists of everything else.

Any other WASI call ends the guest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from wasmtime import Store, WasmtimeError
from wasmtime.component import Linker, LinkerInstance, Record, ResourceAny, ResourceHost, ResourceType

from prowess.sandbox.wasm.inside.bindings import add_bytes, add_nothing
from prowess.sandbox.wasm.inside.engine import GuestClock

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
        moments = [moment(store, one) for one in pollables]
        first = min(moments)
        current().clock.sleep_until(first)
        return [place for place, one in enumerate(moments) if one <= first]

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
