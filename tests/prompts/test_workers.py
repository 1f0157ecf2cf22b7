"""The processes that render: what they are given, when they end, and that nobody notices."""

from __future__ import annotations

import ast
import asyncio
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import prowess.prompts
from prowess.child import frames
from prowess.errors import TimedOut, Unavailable
from prowess.prompts.renderer import WorkerRenderer
from prowess.prompts.worker import RenderLimits, RenderWorker

PROGRAM = Path(prowess.prompts.__file__).with_name("worker_program.py")

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc to look into")


def children() -> set[int]:
    """The processes that this one has started."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


def until_gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether a process ends in that time."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


@pytest.fixture
def worker():
    """What is done with one worker, in a loop of its own."""

    def done(use, limits=None):
        async def used():
            started = await RenderWorker.start(limits or RenderLimits())
            try:
                return await use(started)
            finally:
                started.end()

        return asyncio.run(used())

    return done


@needs_proc
def test_a_worker_has_no_environment_and_few_rights(worker, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "hunter2")

    async def looked_at(started):
        folder = Path(f"/proc/{started.pid}")
        rows = [line.rsplit(maxsplit=3) for line in (folder / "limits").read_text().splitlines()[1:]]
        return (folder / "environ").read_bytes(), {" ".join(row[0].split()): row[1] for row in rows}

    environment, limits = worker(looked_at)

    assert b"SECRET" not in environment
    assert b"HOME" not in environment
    given = " ".join(f"{name}={most}" for name, most in limits.items())
    for expected in ("address space=268435456", "core file size=0", "file size=0", "open files=16"):
        assert expected in given


def test_the_program_of_a_worker_imports_nothing_of_prowess():
    tree = ast.parse(PROGRAM.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    outside = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert outside == {"minijinja", "combustache"}


def test_the_program_speaks_the_frames_of_every_child():
    assigned = {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in ast.parse(PROGRAM.read_text()).body
        if isinstance(node, ast.Assign)
    }
    assert assigned["(HEADER, ONLY)"] == f"(struct.Struct({frames.HEADER.format!r}), {frames.ONLY})"
    assert assigned["(READY, DONE, FAILED)"] == f"({frames.READY}, {frames.DONE}, {frames.FAILED})"


@needs_proc
def test_a_worker_that_was_killed_while_idle_is_replaced():
    before = children()

    async def killed_in_between(renderer):
        texts = [await renderer.render("{{ n }}", {"n": 1})]
        (pid,) = children() - before
        os.kill(pid, signal.SIGKILL)
        texts.append(await renderer.render("{{ n }}", {"n": 2}))
        await renderer.close()
        return texts

    assert asyncio.run(killed_in_between(WorkerRenderer())) == ["1", "2"]
    assert children() == before


@needs_proc
def test_there_are_no_more_workers_than_allowed_and_none_after_closing():
    before = children()

    async def many(renderer):
        await asyncio.gather(*(renderer.render("{{ n }}", {"n": n}) for n in range(50)))
        running = len(children() - before)
        await renderer.close()
        return running

    assert asyncio.run(many(WorkerRenderer(RenderLimits(workers=2)))) <= 2
    assert children() == before


@needs_proc
def test_a_renderer_that_nobody_has_any_more_takes_its_workers_along():
    before = children()

    async def forgotten():
        await WorkerRenderer().render("x", {})

    asyncio.run(forgotten())

    assert children() == before


def test_a_renderer_serves_one_event_loop_after_another():
    renderer = WorkerRenderer(RenderLimits(workers=1))

    texts = [asyncio.run(renderer.render("{{ n }}", {"n": n})) for n in range(3)]

    asyncio.run(renderer.close())
    assert texts == ["0", "1", "2"]


def test_renderings_go_on_while_another_one_takes_all_its_time():
    async def beside(renderer):
        slow = asyncio.create_task(renderer.render("{{ [1] * 10**8 }}", {}))
        quick = [await renderer.render("{{ n }}", {"n": n}) for n in range(20)]
        with pytest.raises(TimedOut):
            await slow
        after = await renderer.render("after", {})
        await renderer.close()
        return [*quick, after]

    assert asyncio.run(beside(WorkerRenderer(RenderLimits(workers=2)))) == [*map(str, range(20)), "after"]


@needs_proc
def test_a_rendering_that_is_cancelled_ends_its_worker():
    before = children()

    async def cancelled(renderer):
        slow = asyncio.create_task(renderer.render("{{ [1] * 10**8 }}", {}))
        while not children() - before:  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        text = await renderer.render("after", {})
        await renderer.close()
        return text

    assert asyncio.run(cancelled(WorkerRenderer(RenderLimits(workers=1)))) == "after"
    assert children() == before


def test_a_worker_that_does_not_get_ready_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    with pytest.raises(Unavailable) as caught:
        asyncio.run(WorkerRenderer().render("x", {}))

    assert caught.value.hint


PARENT = """
import asyncio, os, sys
from contextlib import suppress
from pathlib import Path
from prowess.prompts.renderer import WorkerRenderer

def children():
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += (task / "children").read_text().split()
    return found

async def main():
    renderer = WorkerRenderer()
    await renderer.render("x", {})
    print(*children(), flush=True)
    if sys.argv[1] == "busy":
        await renderer.render("{{ [1] * 10**8 }}", {})
    sys.stdin.read()

asyncio.run(main())
"""


@needs_proc
@pytest.mark.parametrize("at", ["idle", "busy"])
def test_a_worker_ends_when_its_parent_is_killed(at):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, at], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        pid = int(parent.stdout.readline())
        parent.kill()

    assert until_gone(pid)


FORKED = """
import asyncio, os
from prowess.prompts.renderer import WorkerRenderer

renderer = WorkerRenderer()
first = asyncio.run(renderer.render("before", {}))
child = os.fork()
if not child:
    text = asyncio.run(renderer.render("in the child", {}))
    asyncio.run(renderer.close())
    raise SystemExit(0 if text == "in the child" else 1)
_, status = os.waitpid(child, 0)
print(first, os.waitstatus_to_exitcode(status), asyncio.run(renderer.render("after", {})))
"""


def test_a_forked_process_has_workers_of_its_own():
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", FORKED]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.stdout == "before 0 after\n", ran.stderr
    assert ran.stderr == ""
