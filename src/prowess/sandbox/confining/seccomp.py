"""System calls by number and arguments: all are refused but those that are listed."""

from __future__ import annotations

import ctypes
import functools
import struct

from prowess.sandbox.confining.kernel import libc, machine
from prowess.sandbox.confining.syscalls import (
    ABSENT,
    NEWEST,
    UNSUPPORTED,
    Calls,
    Test,
    becoming,
    computing,
    numbers,
    starting,
)

_SET_SECCOMP, _FILTER = 22, 2
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OTHER_NUMBERS = 0x40000000
"""Where x86_64 has a second set of calls."""
_LOAD, _AND, _EQUAL, _ABOVE, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NOT_PERMITTED, _NOT_THERE, _NOT_SUPPORTED = 0x00050001, 0x00050026, 0x0005005F
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


def keep_only(program: bytes) -> bool:
    """Let a filter judge every call from now on; whether it does. The process can gain no privileges."""
    if not program:
        return False
    kept = ctypes.create_string_buffer(program)
    told = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(kept)))
    done = libc().prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), told, ctypes.c_ulong(0), ctypes.c_ulong(0))
    return done == 0


@functools.cache
def filter_for(*, may_start: bool = False, may_become: bool = False, attributes: bool = False) -> bytes:
    """The filter for this machine; nothing where its calls are not known."""
    calls = starting(attributes=attributes) if may_start else becoming() if may_become else computing()
    return filter_of(calls, machine()) if machine() else b""


def filter_of(calls: Calls, known: str) -> bytes:
    """The filter, as the kernel takes it. Calls of another architecture end the process."""
    steps = [_step(_LOAD, _ARCHITECTURE_AT), _step(_EQUAL, _ARCHITECTURES[known], 1, 0), _step(_RETURN, _KILL)]
    steps += [_step(_LOAD, _NUMBER_AT), _step(_AT_LEAST, _OTHER_NUMBERS, 0, 1), _step(_RETURN, _KILL)]
    of_name = numbers(known)
    for name, tests in calls.items():
        if name in of_name:
            allowed = _allowed(tests)
            steps += [_step(_EQUAL, of_name[name], 0, len(allowed)), *allowed]
    for names, answer in ((ABSENT, _NOT_THERE), (UNSUPPORTED, _NOT_SUPPORTED)):
        for number in (of_name[name] for name in names.split() if name in of_name):
            steps += [_step(_EQUAL, number, 0, 1), _step(_RETURN, answer)]
    steps += [_step(_ABOVE, NEWEST, 0, 1), _step(_RETURN, _NOT_THERE)]
    return b"".join([*steps, _step(_RETURN, _NOT_PERMITTED)])


def _allowed(tests: tuple[Test, ...]) -> list[bytes]:
    """What allows one call where all tests hold, and refuses it otherwise."""
    steps: list[bytes] = []
    for test in tests:
        steps += [_step(_LOAD, _ARGUMENTS_AT + 8 * test.argument), _step(_AND, test.mask)]
        count = len(test.values)
        steps += [_step(_EQUAL, value, count - place, 0) for place, value in enumerate(test.values)]
        steps.append(_step(_RETURN, _NOT_PERMITTED))
    return [*steps, _step(_RETURN, _ALLOW)]


def _step(code: int, operand: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_so, if_not, operand)
