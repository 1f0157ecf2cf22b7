"""Regular expressions read text of strangers: none may take more than a moment, whatever the text repeats."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, NoReturn

import pytest

FRAGMENTS = (
    *" \n\ta-*`<[({\"'\\/.0=:|#%&$@!_,;+~>?é中",
    " \n",
    "  a\n",
    "  a: b\n",
    "- a\n",
    "a ",
    "a.",
    "a/",
    "a-",
    "a:",
    "../",
    "**",
    "{{",
    "<!--",
    "[a](",
    "| a ",
    "\r\n",
    "Aa",
)
LENGTH = 1_200
CPU_SECONDS = 3.0
"""What is linear takes microseconds, what is quadratic a few milliseconds; what is worse never ends."""


@pytest.mark.long
def test_no_pattern_takes_long_on_a_text_that_repeats() -> None:
    # In a process of its own: a pattern that runs away can be stopped only by ending it.
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    assert int(done.stdout.split()[-1]) > 300


def _collect() -> dict[tuple[str | bytes, int], str]:
    """Import all of Prowess, and return the patterns that its modules have, with their places."""
    import prowess
    from prowess import patterns

    found: dict[tuple[str | bytes, int], str] = {}
    later: list[tuple[Any, int, str]] = []
    compile_pattern, compile_later = re.compile, patterns.lazy_pattern

    def record(pattern: Any, flags: int = 0) -> Any:
        if isinstance(pattern, str | bytes) and (place := _find_caller()):
            found[pattern, int(flags)] = place
        return compile_pattern(pattern, flags)

    def record_later(pattern: Any, flags: int = 0) -> Any:
        later.append((pattern, int(flags), _find_caller()))
        return compile_later(pattern, flags)

    re.compile, patterns.lazy_pattern = record, record_later
    for module in pkgutil.walk_packages(prowess.__path__, "prowess."):
        if module.name.rpartition(".")[2] in {"__main__", "env", "zygote", "worker_program", "runner"}:
            continue  # programs, which begin their work when they are imported
        with suppress(ImportError, prowess.ProwessError):  # it needs a package that is not installed
            importlib.import_module(module.name)
    re.compile = compile_pattern
    for pattern, flags, place in later:
        found[pattern if isinstance(pattern, str) else pattern(), flags] = place
    return found


def _find_caller() -> str:
    """Return the module and line of Prowess that asked for a pattern, or ''."""
    frame = inspect.currentframe()
    caller = frame and frame.f_back and frame.f_back.f_back
    assert caller is not None
    name = str(caller.f_globals.get("__name__"))
    return f"{name}:{caller.f_lineno}" if name.startswith("prowess") else ""


class _TooLong(Exception):
    pass


def _give_up(*_: object) -> NoReturn:
    raise _TooLong


def _try_all() -> None:
    signal.signal(signal.SIGVTALRM, _give_up)
    patterns, failed = _collect(), 0
    for (pattern, flags), place in patterns.items():
        compiled: Any = re.compile(pattern, flags)
        source = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
        # A text that begins as the pattern does gets further into it.
        beginnings = ["", "---\nname: x\nmetadata:\n", *re.findall(r"[A-Za-z<\-`\[{%#]{2,12}", source)[:3]]
        for beginning, fragment in itertools.product(beginnings, FRAGMENTS):
            repeats = LENGTH // (len(fragment) + 1)
            text = beginning + fragment * repeats + "\0"
            signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
            try:
                compiled.search(text.encode() if isinstance(pattern, bytes) else text)
                compiled.fullmatch(text.encode() if isinstance(pattern, bytes) else text)
            except _TooLong:
                failed += 1
                sys.stdout.write(f"{place} {source!r} takes too long on {beginning!r} + {fragment!r} * {repeats}\n")
                break
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    sys.stdout.write(f"{len(patterns)}\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    _try_all()
