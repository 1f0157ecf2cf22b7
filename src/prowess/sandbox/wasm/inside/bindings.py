"""Parts of wasmtime that its Python package does not wrap, through its C API. This module is why the package is pinned.

The functions that a guest calls most are bound here without the general conversions of the package, which build the type of a
function for every call and convert lists of bytes one by one.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# ruff: noqa: ANN001, ANN202, BLE001, SLF001

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from wasmtime import Config, Store, WasmtimeError, _bindings, _ffi
from wasmtime.component import Func, LinkerInstance

Called = Callable[[str, str], str]
"""A function that takes two texts and returns a text."""

_EPOCH = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.POINTER(_bindings.wasmtime_context_t),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(_bindings.wasmtime_update_deadline_kind_t),
)
_BYTES = ctypes.POINTER(_bindings.wasm_byte_t)
_FINALIZER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)()
_kept: list[Any] = []
"""Callbacks that C code holds: if one were garbage-collected, the next call would crash the process."""

_library: Any = _ffi.dll
_held = ctypes.PyDLL(_library._name, handle=_library._handle)
"""The same library, for calls that take less than a microsecond. Other calls release the GIL, another thread takes it, and the
thread of a run waits for it about ten times as long as such a call takes."""


def _bind_short(name: str) -> Any:
    """Return a function of the C API that keeps the GIL."""
    function, known = _held[name], getattr(_library, name)
    function.restype, function.argtypes = known.restype, known.argtypes
    return function


_set_limits = _bind_short("wasmtime_store_limiter")
_set_fuel = _bind_short("wasmtime_context_set_fuel")
_get_fuel = _bind_short("wasmtime_context_get_fuel")
_set_epoch_deadline = _bind_short("wasmtime_context_set_epoch_deadline")
_new_bytes = _bind_short("wasm_byte_vec_new")
_delete_value = _bind_short("wasmtime_component_val_delete")


def set_limits(store: Store, *, memory_bytes: int, tables: tuple[int, int, int, int], fuel: int) -> None:
    """Set what a store may use. `tables` are the most elements of tables, instances, tables, and memories."""
    _set_limits(store.ptr(), memory_bytes, *tables)
    _raise_if(_set_fuel(store._context(), fuel))


def fuel_left(store: Store) -> int:
    """Return how much fuel a store has left; 0 if all is used."""
    left = ctypes.c_uint64(0)
    _raise_if(_get_fuel(store._context(), ctypes.byref(left)))
    return left.value


def set_epoch_deadline(store: Store, ticks: int) -> None:
    """Let the epoch callback of a store run after so many ticks."""
    _set_epoch_deadline(store._context(), ticks)


def set_stacks(config: Config, guest_bytes: int) -> None:
    """Set how much of a thread's stack guests may use."""
    # The engine rejects a guest stack that is larger than this other setting, although nothing here is asynchronous.
    _ffi.wasmtime_config_async_stack_size_set(config.ptr(), guest_bytes + (1 << 20))
    config.max_wasm_stack = guest_bytes


def epoch_callback(stop: Callable[[], bool], ticks: int) -> Any:
    """Return a callback for `watch`: at every deadline it asks whether to stop, and sets the next one `ticks` later."""

    def reached(context, data, delta, kind):  # noqa: ARG001
        try:
            if stop():
                return _error()
            delta[0] = ticks
        except BaseException:
            return _error()  # an exception cannot cross C code: ctypes would print it, and the guest would continue
        return 0

    # ctypes frees a callback with its last reference, and the engine keeps only a C pointer to it.
    callback = _EPOCH(reached)
    _kept.append(callback)
    return callback


def watch(store: Store, callback: Any) -> None:
    """Let a callback decide at the deadlines of a store."""
    _bindings.wasmtime_store_epoch_deadline_callback(store.ptr(), callback, None, _FINALIZER)


def add_call(
    instance: LinkerInstance, name: str, called: Called, fits: Callable[[int, int], bool], stopped: Called
) -> None:
    """Define a function that takes two texts and returns a text.

    `fits` gets their lengths first, so that a huge text is never copied; if it returns False, `stopped` is called instead.
    """

    def run(args, results):
        first, second = args[0].of.string, args[1].of.string
        if fits(first.size, second.size):
            answer = called(_text(first), _text(second))
        else:
            # The first text is the name of a function, which only a hostile guest makes long.
            answer = stopped(_text(first)[:200] if first.size < 1_000 else "", "")
        results[0].kind = _ffi.WASMTIME_COMPONENT_STRING
        results[0].of.string = _bytes(answer.encode("utf-8", "replace"))

    _add(instance, name, run)


def call_plain(function: Func, store: Store) -> None:
    """Call a function without arguments and result; `WasmtimeError` if the guest was ended."""
    _raise_if(_ffi.wasmtime_component_func_call(ctypes.byref(function._func), store._context(), None, 0, None, 0))


def call_text(function: Func, store: Store, text: str) -> str:
    """Call a function that takes and returns a text; `WasmtimeError` if the guest was ended."""
    argument, result = _ffi.wasmtime_component_val_t(), _ffi.wasmtime_component_val_t()
    argument.kind = _ffi.WASMTIME_COMPONENT_STRING
    argument.of.string = _bytes(text.encode())
    try:
        error = _ffi.wasmtime_component_func_call(
            ctypes.byref(function._func), store._context(), ctypes.byref(argument), 1, ctypes.byref(result), 1
        )
    finally:
        _delete_value(ctypes.byref(argument))
    _raise_if(error)
    try:
        return _text(result.of.string)
    finally:
        _delete_value(ctypes.byref(result))


def add_nothing(instance: LinkerInstance, name: str) -> None:
    """Define a function that returns an empty list."""

    def run(args, results):  # noqa: ARG001
        results[0].kind = _ffi.WASMTIME_COMPONENT_LIST
        results[0].of.list = _ffi.wasmtime_component_vallist_t()

    _add(instance, name, run)


def add_bytes(instance: LinkerInstance, name: str, make: Callable[[int], bytes]) -> None:
    """Define a function that takes a number and returns that many bytes."""

    def run(args, results):
        data = make(args[0].of.u64)
        values = bytearray(_byte(0) * len(data))
        values[_PLACE :: len(_byte(0))] = data
        list_value = _ffi.wasmtime_component_vallist_t()
        _ffi.wasmtime_component_vallist_new_uninit(list_value, len(data))
        ctypes.memmove(list_value.data, bytes(values), len(values))
        results[0].kind = _ffi.WASMTIME_COMPONENT_LIST
        results[0].of.list = list_value

    _add(instance, name, run)


def _add(instance: LinkerInstance, name: str, run: Callable[[Any, Any], None]) -> None:
    def called(data, context, type, args, size, results, count):  # noqa: ARG001
        try:
            run(args, results)
        except BaseException:
            return _error()
        return 0

    callback = _ffi.wasmtime_component_func_callback_t(called)
    _kept.append(callback)
    encoded = name.encode()
    error = _ffi.wasmtime_component_linker_instance_add_func(
        instance.ptr(), ctypes.create_string_buffer(encoded), len(encoded), callback, None, _FINALIZER
    )
    _raise_if(error)


def _raise_if(error: Any) -> None:
    if error:
        raise WasmtimeError._from_ptr(error)


def _error() -> int | None:
    """Return an error for the engine, which ends the guest; its clock knows the reason."""
    return ctypes.cast(_ffi.wasmtime_error_new(b"stopped"), ctypes.c_void_p).value


def _bytes(data: bytes) -> Any:
    """Return a copy of bytes that the engine owns. `_ffi.bytes_to_capi` makes a ctypes class for every new length."""
    vector = _bindings.wasm_byte_vec_t()
    _new_bytes(ctypes.byref(vector), len(data), ctypes.cast(ctypes.c_char_p(data), _BYTES))
    return vector


def _text(name: Any) -> str:
    return ctypes.string_at(name.data, name.size).decode("utf-8", "replace") if name.size else ""


@cache
def _byte(value: int) -> bytes:
    """Return one byte as a value of the C API."""
    component_value = _ffi.wasmtime_component_val_t()
    ctypes.memset(ctypes.byref(component_value), 0, ctypes.sizeof(component_value))
    component_value.kind = _ffi.WASMTIME_COMPONENT_U8
    component_value.of.u8 = value
    return bytes(component_value)


_PLACE = _byte(255).index(255)
"""The offset of the byte within such a value; found by looking, since it depends on the layout of a C union."""
