"""Regular expressions read text of strangers: none may take more than a moment, whatever the text repeats."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import thread_time
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
SHORT, LONG = 4_000, 60_000
SUSPECT_SECONDS, CPU_SECONDS = 0.001, 0.5
"""A short text tells which patterns to suspect: the fastest quadratic one takes 4 ms, a linear one less than 0.5 ms, and one that is
suspected by mistake costs nothing but time. The long text decides: linear is a few milliseconds, quadratic a second or more."""
METHODS = ("search", "match", "fullmatch", "sub", "subn", "finditer", "findall", "split")
ANCHORED = {"match", "fullmatch"}
LIMITED = {
    "prowess.agent.repeats": 400,
    "prowess.scan.places": 400,
    "prowess.scan.prose": 1_500,
    "prowess.match.trigger_phrases": 1_000,
    "prowess.prompts.renderer": 200,
}
"""Modules that cut their texts to so many characters before."""
MATCHED = {"prowess.scan.javascript_calls": {"fullmatch"}, "prowess.skill.json_frontmatter": {"match"}}
"""Modules with tables of patterns, and how they use them."""
SOURCE = Path(__file__).parents[1] / "src" / "prowess"


@pytest.mark.long
def test_no_pattern_takes_long_on_a_text_that_repeats() -> None:
    # In a process of its own: a pattern that runs away can be stopped only by ending it.
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False, timeout=1_800)
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    assert int(done.stdout.split()[-1]) > 300


def _collect() -> dict[tuple[str | bytes, int], str]:
    """Import all of Prowess, and return the patterns that its modules have, with their modules and lines."""
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


@functools.cache
def _read_source() -> dict[Path, str]:
    """Return the text of each file of Prowess."""
    return {path: path.read_text() for path in SOURCE.rglob("*.py")}


def _find_methods(place: str) -> set[str]:
    """Return how the pattern at a place is used: a search tries every position of a text, a match only the first one."""
    module, _, line = place.rpartition(":")
    path = SOURCE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    texts = _read_source()
    text = texts[path]
    above = text.split("\n")[: int(line)]
    named = next((found for one in reversed(above) if (found := re.match(r"(\w+)(?:: [^=]*)? = ", one))), None)
    if named is None or module in MATCHED:
        return MATCHED.get(module, set(METHODS))
    found = {
        method
        for one in ([text] if named[1].startswith("_") else texts.values())
        if named[1] in one
        for method in re.findall(rf"\b{named[1]}(?:\[[^]]*\])?\.({'|'.join(METHODS)})\b", one)
    }
    return found or set(METHODS)


def _find_inline() -> Iterator[tuple[str, int, str, set[str]]]:
    """Yield the patterns that stand in a call of `re`, with flags, place and method."""
    for path, text in _read_source().items():
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            pattern, method = node.args[0], node.func.attr
            is_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and method in METHODS
            if is_re and isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
                flags = next((ast.unparse(one.value) for one in node.keywords if one.arg == "flags"), "0")
                module = ".".join(("prowess", *path.relative_to(SOURCE).with_suffix("").parts))
                place = f"{module}:{node.lineno}"
                yield pattern.value, int(eval(flags, {"re": re})), place, {method}


class _TooLong(BaseException):
    pass


def _give_up(*_: object) -> NoReturn:
    raise _TooLong


def _takes_long(run: Callable[[Any], object], text: str | bytes) -> bool:
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        run(text)
    except _TooLong:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return False


def _make_text(beginning: str, fragment: str, length: int, *, encode: bool) -> str | bytes:
    text = beginning + fragment * (length // len(fragment)) + "\0"
    return text.encode() if encode else text


def _find_slow_text(pattern: str | bytes, flags: int, methods: set[str], most: int) -> str:
    """Return a text on which a pattern takes long, in words, or ''."""
    compiled, is_bytes = re.compile(pattern, flags), isinstance(pattern, bytes)
    runs: list[Callable[[Any], object]] = [compiled.fullmatch] if "fullmatch" in methods else []
    runs += [compiled.match] if "match" in methods else []
    runs += [compiled.search] if methods - ANCHORED else []
    source = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    # A text that begins as the pattern does gets further into it.
    beginnings = ["", "---\nname: x\nmetadata:\n", *re.findall(r"[A-Za-z<\-`\[{%#]{2,12}", source)[:3]]
    for run, beginning, fragment in itertools.product(runs, beginnings, FRAGMENTS):
        short = _make_text(beginning, fragment, min(SHORT, most), encode=is_bytes)
        began = thread_time()
        is_long = _takes_long(run, short)
        if is_long or thread_time() - began > SUSPECT_SECONDS:
            text = _make_text(beginning, fragment, min(LONG, most), encode=is_bytes)
            if is_long or _takes_long(run, text):
                return f"{run.__name__} {beginning!r} + {fragment!r} * n"
    return ""


def _try_all() -> None:
    signal.signal(signal.SIGVTALRM, _give_up)
    # A quadratic pattern of the fastest kind is seen, and the same one without the repeated starts is not.
    assert _find_slow_text(r" +x", 0, {"search"}, LONG)
    assert not _find_slow_text(r" +x", 0, {"match"}, LONG)
    patterns = [(*key, place, _find_methods(place)) for key, place in _collect().items()] + list(_find_inline())
    failed = 0
    for pattern, flags, place, methods in patterns:
        most = LIMITED.get(place.rpartition(":")[0], LONG)
        if slow := _find_slow_text(pattern, flags, methods, most):
            failed += 1
            sys.stdout.write(f"{place} {pattern!r} takes too long: {slow}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(patterns)}\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    _try_all()
