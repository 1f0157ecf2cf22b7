"""Limits: each is told apart, and none can be caught."""

from __future__ import annotations

import pytest

from prowess.sandbox.wasm.inside.engine import GuestClock

SWALLOW = """
def greedy():
    while True:
        try:
            {what}
        except BaseException:
            pass
greedy()
"""


async def echo(value: object = None) -> object:
    return value


async def long() -> str:
    return "x" * 900


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("code", "limits", "ended"),
    [
        ("while True: pass", {"fuel": 10**8}, "fuel"),
        (SWALLOW.format(what="pass"), {"fuel": 10**8}, "fuel"),
        ("9 ** 9 ** 9", {"fuel": 10**9}, "fuel"),
        ("import re\nre.match('(a+)+$', 'a' * 64 + 'b')", {"fuel": 10**9}, "fuel"),
        ("while True: pass", {"seconds": 0.2}, "time"),
        (SWALLOW.format(what="x = 1"), {"seconds": 0.2}, "time"),
        ("import time\ntime.sleep(600)", {"seconds": 0.2}, "time"),
        (SWALLOW.format(what="__import__('time').sleep(600)"), {"seconds": 0.2}, "time"),
        ("import asyncio\nasyncio.run(asyncio.sleep(600))", {"seconds": 0.2}, "time"),
        ("'a' * (1 << 30)", {}, "memory"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", {"memory_bytes": 64 << 20}, "memory"),
        ("x = []\nwhile True: x.append(object())", {"memory_bytes": 48 << 20}, "memory"),
        (SWALLOW.format(what="'a' * (1 << 30)"), {"seconds": 0.5}, "time"),
        ("print('x' * 2_000)", {"output_chars": 1_000}, "output"),
        ("while True: print('x' * 99)", {"output_chars": 10_000}, "output"),
        (SWALLOW.format(what="print('x' * 99)"), {"output_chars": 10_000}, "output"),
        ("print('x' * (64 << 20))", {}, "output"),
        ("import prowess\nprowess.submit('x' * 2_000)", {"result_bytes": 1_000}, "result"),
        ("import prowess\nx = 1\nfor _ in range(200): x = [x]\nprowess.submit(x)", {}, "result"),
        ("import prowess\nprowess.submit(10 ** 4_200 * 10 ** 4_200)", {}, "raised"),
        ("import prowess\nwhile True: prowess.echo(1)", {"calls": 10}, "calls"),
        ("import prowess\n" + SWALLOW.format(what="prowess.echo(1)"), {"calls": 10}, "calls"),
        ("import prowess\nwhile True: prowess.echo('x' * 900)", {"traffic_bytes": 10_000}, "calls"),
        ("import prowess\nwhile True: prowess.long()", {"traffic_bytes": 10_000}, "calls"),
        ("import prowess\nprowess.echo([1] * 150_000)", {"call_bytes": 1 << 20}, "raised"),
        ("import prowess\nprowess.submit([1] * 150_000)", {}, "result"),
        ("import prowess\nprowess.echo('x' * 2_000)", {"call_bytes": 1_000}, "raised"),
        ("import prowess\nprowess.echo('x' * (32 << 20))", {}, "raised"),
        ("import prowess\nprowess.echo('é' * 300)", {"answer_bytes": 500}, "raised"),
        ("def f(): return f()\nf()", {}, "raised"),
        ("import sys\nsys.setrecursionlimit(10**8)\ndef f(): return f()\nf()", {}, "stack"),
        ("x = []\nfor _ in range(100_000): x = [x]\nprint(repr(x))", {}, "stack"),
        ("import json\njson.loads('[' * 100_000)", {}, "stack"),
        ("import os\nos.abort()", {}, "crashed"),
    ],
)
def test_a_limit_ends_the_script_and_is_told(run, code, limits, ended):
    # On a loaded machine, only those that are about time may run out of it.
    assert run(code, functions={"echo": echo, "long": long}, **{"seconds": 120.0, **limits}).ended == ended


def test_the_run_after_a_limit_is_as_any_other(run):
    run("import json, prowess\njson.dumps = prowess.submit = None\nwhile True: pass", fuel=10**8)
    assert run("import json, prowess\nprowess.submit(json.dumps([1]))").result == "[1]"


def test_what_is_printed_up_to_the_limit_is_kept(run):
    ran = run("for i in range(10_000): print(i)", output_chars=2_000)
    assert ran.ended == "output"
    assert len(ran.stdout) == 2_000
    assert ran.stdout.startswith("0\n1\n2\n")


def test_waiting_for_the_host_is_not_the_scripts_time():
    moment = 100.0
    clock = GuestClock(10.0, now=lambda: moment)
    moment += 6
    clock.pause()
    moment += 1_000
    clock.go_on()
    moment += 3
    assert not clock.over()
    moment += 1
    assert clock.over()
    assert clock.reason == "time"


@pytest.mark.parametrize(("levels", "ended"), [(64, "done"), (65, "result")])
def test_a_result_may_nest_so_deep_and_no_deeper(run, levels, ended):
    code = "import prowess\nx = 1\nfor _ in range({{ levels }}): x = [x]\nprowess.submit(x)"
    assert run(code, {"levels": levels}).ended == ended


def test_calls_are_counted(run):
    ran = run("import prowess\nfor i in range(7): prowess.echo(i)", functions={"echo": echo})
    assert (ran.ended, ran.calls) == ("done", 7)
